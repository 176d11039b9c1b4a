"""Where and how many runs are run at a time: the options of commands that run many."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mix2fld.errors import InputError

if TYPE_CHECKING:
    from mix2fld.sweep.schedule import Place


@dataclass(frozen=True)
class Running:
    """Where runs are run."""

    workers: int | None = None
    """Runs at a time on this machine, in processes that share its cores; default: one to a core."""
    cores: int | None = None
    """Cores of each run; by default an equal share of this machine, or one of a cluster."""
    retries: int = 1
    """How often a run that fails is tried again; the others continue."""

    def place(self, jobs: int) -> "Place":
        """The place for so many jobs."""
        from mix2fld.models.processor import usable_cores
        from mix2fld.sweep.places import Processes, ThisProcess

        for name in ("workers", "cores"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} = {value}: must be 1 or more")
        if self.retries < 0:
            raise InputError(f"retries = {self.retries}: must be 0 or more")
        each = self.cores or 1
        workers = self.workers or max(1, usable_cores() // each)
        if min(workers, jobs) <= 1:
            return ThisProcess()
        return Processes(min(workers, jobs), self.cores)
