"""Where and how many runs are run at a time: the options of commands that run many."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mix2fld.base.errors import InputError

if TYPE_CHECKING:
    from mix2fld.sweep.schedule import Place


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
    def place(self, jobs: int) -> "Iterator[Place]":
        """The place for so many jobs, within the block; it is stopped at the end."""
        self._check()
        with ExitStack() as stack:
            place = self._make_place(jobs, stack)
            stack.callback(place.stop)
            yield place

    def _make_place(self, jobs: int, stack: ExitStack) -> "Place":
        if self.cluster is not None:
            from mix2fld.engine.fleets.cluster import connected
            from mix2fld.sweep.ray_place import Cluster

            return Cluster(stack.enter_context(connected(self.cluster, "cluster")), self.cores or 1)
        from mix2fld.native.processor import usable_cores
        from mix2fld.sweep.places import Processes, ThisProcess

        workers = min(jobs, self.workers or max(1, usable_cores() // (self.cores or 1)))
        return ThisProcess() if workers <= 1 else Processes(workers, self.cores)

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


@dataclass(frozen=True)
class Searching:
    """Search for the best settings instead of running a grid."""

    search: Literal["optuna"] | None = None
    """Sample settings from ranges and learn from the results; the same command resumes."""
    range: tuple[str, ...] = ()
    """Ranges to search: FIELD=LOW:HIGH or FIELD=LOW:HIGH:log for each field."""
    objective: tuple[str, ...] = ("accuracy",)
    """What to optimise: accuracy, bits (uplink), seconds; several: their Pareto front."""
    trials: int = 20
    """Number of settings to try; each is one run for every protocol and seed."""
    at_once: int = 1
    """Trials to run side by side; they learn only from earlier ones."""
