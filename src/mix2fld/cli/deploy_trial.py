"""What ``mix2fld deploy local`` and ``mix2fld deploy mqtt`` do alike."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mix2fld.base.errors import InputError
from mix2fld.cli.output import Output
from mix2fld.config.grid import Grid

if TYPE_CHECKING:
    from mix2fld.runs.loop import Watcher
    from mix2fld.runs.results import RunResult
    from mix2fld.types import Dataset

    RunAll = Callable[[Grid, Path, Dataset, Watcher], list[RunResult]]


def check_timeout(timeout_s: float) -> None:
    """Raise ``InputError`` unless it is positive."""
    if not timeout_s > 0:
        raise InputError(field="timeout_s", value=f"{timeout_s:g}", hint="must be above 0")


def run_and_show(
    settings: Grid, out: Path, output: Output, run_all: "RunAll", *, logs: str
) -> None:
    """Run all protocols and seeds with real processes, and print the table of ``mix2fld run``."""
    from mix2fld.cli.console import bold
    from mix2fld.cli.progress import RichWatcher
    from mix2fld.data import load_dataset
    from mix2fld.deploy.serving import check_uploads
    from mix2fld.report.tables import results_table
    from mix2fld.runs.simulation import check

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console, started = output.console(), time.perf_counter()
    settings = settings.replace(link="ideal")  # the link is a real one
    dataset = load_dataset(settings.data, console=console)
    check(settings, dataset)
    with RichWatcher(console, settings) as watcher:
        results = run_all(settings, out, dataset, watcher)
    console.print(results_table(results), soft_wrap=False)
    console.print(
        f"runs in {bold(out)}, {logs}; s on air: the time of a round that is not spent computing"
    )
    console.print(f"took {time.perf_counter() - started:.0f} s on this machine")
    output.print_json([result.summary for result in results])
    check_uploads(results)


def trial_folder(out: Path | None, settings: Grid, name: str) -> Path:
    """The folder that the user named, or one under runs/ that begins with ``name``."""
    from mix2fld.cli.run import default_folder

    chosen = default_folder(settings)
    return out or chosen.with_name(f"{name}-{chosen.name}")
