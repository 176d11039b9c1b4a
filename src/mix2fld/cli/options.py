"""Options that several commands have: settings, what is printed, where runs are executed."""

import json as json_format
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mix2fld.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from mix2fld.runs.reader import FoundRuns
    from mix2fld.sweep.schedule import RunPlace


@dataclass(frozen=True)
class Configured:
    """Where settings come from, beside their flags; ``starting_config`` reads them."""

    config: Path | None = None
    """TOML file with any of the fields below; flags override it."""
    preset: tuple[str, ...] = ()
    """Named settings: symmetric, literal, ideal, iid, robust; nb-iot and others; phone, sensor."""


@dataclass(frozen=True)
class Output:
    """What the command prints."""

    quiet: bool = False
    """Print only warnings and errors."""
    json: bool = False
    """Print the result as JSON to standard output; progress goes to standard error."""

    def console(self) -> "Console":
        """Return the console for people: standard output, or standard error with ``--json``."""
        from mix2fld.cli.console import PipedConsole

        return PipedConsole(stderr=self.json, quiet=self.quiet, soft_wrap=True, highlight=False)

    def warn(self, message: str) -> None:
        """Print a line to standard error, also with ``--quiet``."""
        from rich.markup import escape

        from mix2fld.cli.console import PipedConsole

        console = PipedConsole(stderr=True, soft_wrap=True, highlight=False)
        unbroken = not console.is_terminal
        console.print(f"[yellow]note[/]: {escape(message)}", soft_wrap=unbroken)

    def print_json(self, result: Any) -> None:
        """Print the result, with ``--json``."""
        if self.json:
            print(json_format.dumps(result, indent=2, default=str))

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show a status line while the block runs, on a terminal."""
        console = self.console()
        if not console.is_terminal or self.quiet:
            yield
            return
        with console.status(what):
            yield

    def read_runs(self, folders: "Sequence[Path]") -> "FoundRuns":
        """Return the runs in these folders, or in the working folder, and tell what is damaged."""
        from mix2fld.runs.reader import require_runs

        with self.working("reading runs"):
            found = require_runs(folders or (Path(),))
        for note in found.notes:
            self.warn(note)
        return found

    def write_report(self, folders: "Sequence[Path]", page: Path) -> None:
        """Write the report of the runs in these folders, and say where it is."""
        from mix2fld.cli.console import bold
        from mix2fld.report.html import write_report
        from mix2fld.runs.reader import require_runs

        with self.working("writing the report"):
            write_report(require_runs(folders), page)
        self.console().print(f"report in {bold(page)}")


@dataclass(frozen=True)
class Running:
    """Where the runs are executed."""

    workers: int | None = None
    """Runs at a time, in processes that share the cores of this machine; default: one per core."""
    cores: int | None = None
    """Cores of each run; default: an equal share of this machine, or one on a cluster."""
    retries: int = 1
    """Retries of a failed run; the others continue."""

    cluster: str | None = None
    """Run on a Ray cluster: auto (this machine's) or HOST:PORT; run folders are copied back."""

    @contextmanager
    def place(self, jobs: int) -> "Iterator[RunPlace]":
        """The place for so many jobs, within the block; it is stopped at the end."""
        self._check()
        with ExitStack() as stack:
            place = self._make_place(jobs, stack)
            stack.callback(place.stop)
            yield place

    def _make_place(self, jobs: int, stack: ExitStack) -> "RunPlace":
        if self.cluster is not None:
            from mix2fld.engine.fleets.cluster import connected
            from mix2fld.sweep.ray_place import Cluster

            return Cluster(stack.enter_context(connected(self.cluster, "cluster")), self.cores or 1)
        from mix2fld.native.processor import usable_cores
        from mix2fld.sweep.places import ThisProcess, WorkerProcesses

        workers = min(jobs, self.workers or max(1, usable_cores() // (self.cores or 1)))
        return ThisProcess() if workers <= 1 else WorkerProcesses(workers, self.cores)

    def _check(self) -> None:
        for name in ("workers", "cores"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} = {value}: must be 1 or more")
        if self.retries < 0:
            raise InputError(field="retries", value=self.retries, hint="must be 0 or more")
        if self.cluster is not None and self.workers is not None:
            raise InputError(
                field="workers",
                value=self.workers,
                hint="applies to this machine only; omit it with --cluster",
            )
