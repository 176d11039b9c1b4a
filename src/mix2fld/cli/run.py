"""``mix2fld run`` and ``mix2fld resume``."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.options import Configured, Output
from mix2fld.config.grid import Grid
from mix2fld.runs.config_file import dump_config

if TYPE_CHECKING:
    from rich.console import Console

    from mix2fld.runs.results import RunResult
    from mix2fld.runs.simulation import MakeFleet


@dataclass(frozen=True)
class RunCommand(Configured):
    """Compare protocols: one run for each protocol and seed, then a table and a figure.

    A run that already exists in the output folder is resumed.

    Examples:
      mix2fld run --protocols fl8 mix2fld --seed 0 1 2 --report
      mix2fld run --preset symmetric iid --devices 20 --track tensorboard
    """

    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder for the runs; by default one under runs/ named after the settings."""
    trust_code: bool = False
    """Import a custom model that the config file names from the working folder."""
    overwrite: bool = False
    """Replace runs that already exist in the folder."""
    report: bool = False
    """Also write report.html, as mix2fld report does."""
    track: Literal["tensorboard", "mlflow", "wandb"] | None = None
    """Also log every round to this tracker; wandb runs offline unless WANDB_MODE is set."""
    fleet: str = "local"
    """Where devices run: local (this process), ray, or ray:auto and ray:HOST:PORT (a cluster)."""
    hosts: int | None = None
    """Fleet ray: processes that hold the devices; default: one per core of the cluster."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        from mix2fld.base.folders import cache_folder
        from mix2fld.cli.console import bold, print_table
        from mix2fld.protocols.table import single_runs
        from mix2fld.tasks.compilation import CompileClock, keep_compiled_code

        console = self.output.console()
        keep_compiled_code(cache_folder() / "compiled")
        compiling, started = CompileClock(), time.perf_counter()
        out = self.out or default_folder(self.settings)
        try:
            results = self._simulate(console, out)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(out) from None
        from mix2fld.report.tables import results_tables

        figure = draw_results(self.output, results, out / "curves.png")
        for table in results_tables(results):
            print_table(console, table)
        for line in [*guarantees(self.settings), *attackers(self.settings)]:
            console.print(line, markup=False, highlight=False)
        console.print(f"runs in {bold(out)}{figure}")
        if self.report:
            names = [single.run_name for single in single_runs(self.settings)]
            self.output.write_report([out / name for name in names], out / "report.html")
        seconds = time.perf_counter() - started
        console.print(
            f"took {seconds:.0f} s on this machine, {compiling.seconds:.0f} s of it compiling"
        )
        self.output.print_json([result.summary for result in results])

    def _simulate(self, console: "Console", out: Path) -> "list[RunResult]":
        from mix2fld.cli.progress import RichWatcher, Watchers
        from mix2fld.data import load_dataset
        from mix2fld.runs.simulation import check, run
        from mix2fld.runs.trackers import tracked

        with tracked(self.track, out) as tracker:
            dataset = load_dataset(self.settings.data, console=console)
            for problem in check(self.settings, dataset):
                self.output.warn(problem)
            with (
                fleet_of(self.fleet, self.hosts) as fleet,
                RichWatcher(console, self.settings) as watcher,
            ):
                watchers = Watchers([watcher, *([tracker] if tracker else [])])
                return run(
                    self.settings,
                    out,
                    dataset=dataset,
                    fleet=fleet,
                    watcher=watchers,
                    overwrite=self.overwrite,
                )


def draw_results(output: Output, results: "list[RunResult]", figure: Path) -> str:
    """Draw the learning curves, if that can be done, and say where they are."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        output.warn("no learning curves: pip install 'mix2fld[figures]'")
        return ""
    from mix2fld.cli.console import bold
    from mix2fld.report.curve_plot import draw_curves  # slow to import

    draw_curves(results, figure)
    return f", learning curves in {bold(figure)}"


@contextmanager
def fleet_of(name: str, hosts: int | None) -> "Iterator[MakeFleet]":
    """Where devices live, within the block."""
    from mix2fld.runs.simulation import in_this_process

    kind, _, address = name.partition(":")
    if kind not in ("local", "ray") or (kind == "local" and address):
        raise InputError(
            field="fleet",
            value=name,
            hint="no such fleet; must be local, ray, ray:auto or ray:HOST:PORT",
        )
    if hosts is not None and (hosts < 1 or kind == "local"):
        raise InputError(field="hosts", value=hosts, hint="must be 1 or more, with --fleet ray")
    if kind == "local":
        yield in_this_process
        return
    from mix2fld.engine.fleets.cluster import connected
    from mix2fld.engine.fleets.hosts import Hosts
    from mix2fld.engine.fleets.ray_fleet import RayFleet

    with connected(address, "fleet", hosts) as ray:
        processes = Hosts(ray, hosts)
        try:
            yield partial(RayFleet, processes)
        finally:
            processes.stop()


def default_folder(grid: Grid) -> Path:
    """Return a folder that depends on the settings, but not on protocols and seeds."""
    settings = dump_config(grid.replace(protocols="fl", seeds=0))
    digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
    name = Path(grid.data.dataset).stem
    return Path("runs") / f"{name}-{grid.data.partition}-{digest}"


def attackers(grid: Grid) -> list[str]:
    """Who attacks with each seed, in words."""
    from mix2fld.engine.scenario import attackers_of

    found = {seed: sorted(attackers_of(grid.at(seed=seed))) for seed in grid.seeds}
    return [
        f"seed {seed}: attackers ({grid.attack.attack}), not measured: devices "
        f"{', '.join(map(str, devices))}"
        for seed, devices in found.items()
        if devices
    ]


def guarantees(grid: Grid) -> list[str]:
    """What each protocol with noise guarantees, in words."""
    from mix2fld.protocols.table import get_protocol, guarantee_of, single_runs

    promised = {one.protocol: guarantee_of(one) for one in single_runs(grid)}
    return [
        f"{get_protocol(name).title}: {promise}" for name, promise in promised.items() if promise
    ]


@dataclass(frozen=True)
class ResumeCommand:
    """Resume all runs in a folder and below it, with the settings stored with them.

    Finished runs are kept. Damaged files are set aside, and their rounds run again.
    """

    folder: tyro.conf.Positional[Path]
    """Folder of a run, of a comparison, or of many of them."""
    trust_code: bool = False
    """Import a custom model that the stored settings name from the working folder."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def run(self) -> None:
        from mix2fld.base.folders import cache_folder
        from mix2fld.cli.console import bold, print_table
        from mix2fld.report.tables import results_tables
        from mix2fld.runs.reader import find_run_folders, holds_run
        from mix2fld.tasks.compilation import keep_compiled_code

        if not self.folder.is_dir():
            raise InputError(field="folder", value=self.folder, hint="there is no such folder")
        runs = [path for path in find_run_folders([self.folder]) if holds_run(path)]
        if not runs:
            raise InputError(
                field="folder",
                value=self.folder,
                hint="holds no runs; must be the --out folder of runs",
            )
        console = self.output.console()
        keep_compiled_code(cache_folder() / "compiled")
        results: dict[Path, list[RunResult]] = {}
        try:
            for path in runs:
                results.setdefault(path.parent, []).append(_resume(path, console))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self.folder) from None
        for folder, compared in results.items():
            for table in results_tables(compared):
                print_table(console, table)
            figure = draw_results(self.output, compared, folder / "curves.png")
            console.print(f"runs in {bold(folder)}{figure}")
        self.output.print_json(
            [result.summary for compared in results.values() for result in compared]
        )


def _resume(path: Path, console: "Console") -> "RunResult":
    from mix2fld.cli.progress import RichWatcher
    from mix2fld.data import load_dataset
    from mix2fld.runs.folder import RunFolder
    from mix2fld.runs.simulation import resume_run

    config = RunFolder(path).config()
    dataset = load_dataset(config.data, console=console)
    with RichWatcher(console, config) as watcher:
        return resume_run(path, dataset, watcher)
