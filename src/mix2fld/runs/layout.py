"""Which files make a run: the one place that knows their names."""

from dataclasses import dataclass
from pathlib import Path

from mix2fld.base.files import LOCK, PART

DAMAGED = ".damaged"


@dataclass(frozen=True)
class RunFiles:
    """The files in the folder of one run."""

    folder: Path

    @property
    def config(self) -> Path:
        """The resolved settings, sealed."""
        return self.folder / "config.toml"

    @property
    def rounds(self) -> Path:
        """A line for each round, each sealed with the one before."""
        return self.folder / "rounds.jsonl"

    @property
    def checkpoint(self) -> Path:
        """The state after the last round."""
        return self.folder / "checkpoint.safetensors"

    @property
    def previous(self) -> Path:
        """The state after the round before it, until the run is finished."""
        return self.folder / "checkpoint.previous.safetensors"

    @property
    def summary(self) -> Path:
        """What the run comes to; a folder that has it holds a finished run."""
        return self.folder / "summary.json"

    @property
    def failure(self) -> Path:
        """Why the run ended before its last round, in one line; removed when it is resumed."""
        return self.folder / "failure.txt"

    @property
    def identity(self) -> Path:
        """What devices know a deployed run by; a simulated run has none."""
        return self.folder / "identity"

    @property
    def epoch(self) -> Path:
        """How often the server of a deployed run was started."""
        return self.folder / "epoch"

    @property
    def diary(self) -> Path:
        """What happened in a deployed run, in words."""
        return self.folder / "diary.log"

    def existing(self, ending: str = "") -> list[Path]:
        """The files of a run that exist, as they are or with an ending; config.toml last."""
        files = (self.summary, self.failure, self.checkpoint, self.previous, self.rounds)
        ended = (file.with_name(file.name + ending) for file in files)
        last = self.config.with_name(self.config.name + ending)
        found = [file for file in ended if file.exists()] + self.all_states(ending)
        return [*found, last] if last.exists() else found

    def states(self, number: int) -> Path:
        """States of devices that changed in one round, with ``device_states = disk``."""
        return self.folder / f"states-{number:06d}.safetensors"

    def all_states(self, ending: str = "") -> list[Path]:
        """All such files that exist."""
        return sorted(self.folder.glob(f"states-*.safetensors{ending}"))

    def hold_others(self) -> bool:
        """Whether the folder holds anything but the files of a simulated run."""
        known = {*self.existing(), *self.existing(PART), *self.existing(DAMAGED)}
        return any(file not in {*known, self.folder / LOCK} for file in self.folder.iterdir())

    def hold_run(self) -> bool:
        """Whether there is any file that only a run has."""
        return any(file != self.config for file in self.existing())
