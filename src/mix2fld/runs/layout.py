"""Which files make a run: the one place that knows their names."""

import re
from pathlib import Path

from mix2fld.base.files import LOCK, PART

DAMAGED = ".damaged"
KEPT = re.compile(r"kept-(\d{6,9})\.safetensors")


class RunFiles:
    """The files in the folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config.toml"
        """The resolved settings, sealed."""
        self.rounds = folder / "rounds.jsonl"
        """A line for each round, each sealed with the one before."""
        self.checkpoint = folder / "checkpoint.safetensors"
        """The state after the last round."""
        self.previous = folder / "checkpoint.previous.safetensors"
        """The state after the round before it, until the run is finished."""
        self.finetuned = folder / "finetuned.safetensors"
        """The model of each device after its steps that follow the last round, if it takes any."""
        self.summary = folder / "summary.json"
        """What the run comes to; a folder that has it holds a finished run."""
        self.failure = folder / "failure.txt"
        """Why the run ended before its last round, in one line; removed when it is resumed."""
        self.identity = folder / "identity"
        """What devices know a deployed run by; a simulated run has none."""
        self.epoch = folder / "epoch"
        """How often the server of a deployed run was started."""
        self.diary = folder / "diary.log"
        """What happened in a deployed run, in words."""
        self.events = folder / "events.jsonl"
        """The same for programs, a JSON object a line."""

    def states(self, number: int) -> Path:
        """States of devices that changed in one round, with ``device_states = disk``."""
        return self.folder / f"states-{number:06d}.safetensors"

    def all_states(self, ending: str = "") -> list[Path]:
        """All such files that exist."""
        return sorted(self.folder.glob(f"states-*.safetensors{ending}"))

    def kept(self, number: int) -> Path:
        """The checkpoint after one round of a deployed run, kept to roll back to."""
        return self.folder / f"kept-{number:06d}.safetensors"

    def kept_rounds(self) -> list[int]:
        """The rounds that have one."""
        names = [file.name for file in self.folder.glob("kept-*.safetensors") if file.is_file()]
        return sorted(int(found[1]) for name in names if (found := KEPT.fullmatch(name)))

    def existing(self, ending: str = "") -> list[Path]:
        """The files of a run that exist, as they are or with an ending; config.toml last."""
        files = (
            self.summary, self.failure, self.finetuned, self.checkpoint, self.previous, self.rounds
        )  # fmt: skip
        config = self.config.with_name(self.config.name + ending)
        several = [*self.all_states(ending), *self.folder.glob(f"kept-*.safetensors{ending}")]
        ended = [*(file.with_name(file.name + ending) for file in files), *several]
        return [file for file in (*ended, config) if file.exists()]

    def hold_others(self) -> bool:
        """Whether the folder holds anything but the files of a simulated run."""
        known = {*self.existing(), *self.existing(PART), *self.existing(DAMAGED)}
        return any(file not in {*known, self.folder / LOCK} for file in self.folder.iterdir())

    def hold_run(self) -> bool:
        """Whether there is any file that only a run has."""
        return any(file != self.config for file in self.existing())
