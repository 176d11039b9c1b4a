"""What the frontier experiment measured, in one small table that is shipped with the package.

``mix2fld reproduce frontier`` makes it from the records of the experiment.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError

FORMAT = 1
Kind = Literal["labels", "sources"]
"""How devices differ: in the labels that they hold, or in who recorded the samples."""


@dataclass(frozen=True)
class MeasuredPoint:
    """A contender in one setting; accuracies as fractions, one for each seed."""

    contender: str
    title: str
    protocol: str
    changes: dict[str, Any]
    """Its settings: what it is, and what its search chose."""
    bits: float
    """Uplink bits of a device in all rounds."""
    devices: list[float]
    server: list[float] | None


@dataclass(frozen=True)
class MeasuredSetting:
    """One setting of the experiment."""

    key: str
    title: str
    dataset: str
    ideal_link: bool
    """Whether every transfer was delivered."""
    kind: Kind
    skew: float
    devices: int
    taking_part: int
    samples: int
    weights: int
    rounds: int
    points: tuple[MeasuredPoint, ...]
    features: str = "none"
    """The frozen network that samples went through."""

    def point(self, contender: str) -> MeasuredPoint | None:
        """The contender of that key, if it was measured here."""
        return next((point for point in self.points if point.contender == contender), None)

    @property
    def has_gains(self) -> bool:
        """Whether anything was measured; not so where the task is one that no experiment had."""
        return any(point.devices for point in self.points)

    @property
    def seeds(self) -> int:
        """Over how many seeds it was measured."""
        return min(len(point.devices) for point in self.points if point.devices)

    @property
    def alone(self) -> MeasuredPoint:
        """Devices that upload nothing, the better of those that train alone."""
        silent = [point for point in self.points if point.bits == 0]
        return max(silent, key=lambda point: float(np.mean(point.devices)))


def label_skew(counts: NDArray[np.integer]) -> float:
    """How much the labels of devices differ: [D, N_L] counts -> mean total variation distance.

    The distance of a device's label frequencies from those of all devices together: 0 where all
    are alike, close to 1 where each device has its own labels.
    """
    rows = counts[counts.sum(axis=1) > 0]
    if not len(rows):
        raise InputError("label counts: no device holds a sample")
    own = rows / rows.sum(axis=1, keepdims=True)
    common = counts.sum(axis=0) / counts.sum()
    return float(np.abs(own - common).sum(axis=1).mean() / 2)


def read_measured(text: str) -> dict[str, MeasuredSetting]:
    """The table from its text."""
    tree = json.loads(text)
    if tree["format"] != FORMAT:
        raise InputError(f"measured settings: format {tree['format']}, this version reads {FORMAT}")
    settings = [
        MeasuredSetting(**{**each, "points": tuple(MeasuredPoint(**one) for one in each["points"])})
        for each in tree["settings"]
    ]
    return {setting.key: setting for setting in settings}


def load_measured() -> dict[str, MeasuredSetting]:
    """The tables that are shipped: of samples as they are, and of features."""
    folder = files("mix2fld.advice")
    names = ("measured.json", "measured_features.json")
    tables = [read_measured((folder / name).read_text(encoding="utf-8")) for name in names]
    return {key: setting for table in tables for key, setting in table.items()}
