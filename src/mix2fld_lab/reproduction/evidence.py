"""What the claims are judged by, and what a judgement is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mix2fld.base.spread import Spread
from mix2fld_lab.audit.findings import Stages
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.experiments import SETTINGS
from mix2fld_lab.reproduction.privacy_records import PrivacyRecords
from mix2fld_lab.reproduction.statistics import Measure
from mix2fld_lab.reproduction.step_costs import StepCost

Holds = Literal["yes", "weaker", "no", "unknown"]
MEASURES: dict[Measure, str] = {"reference": "the reference device", "mean": "all devices"}
MARKS: dict[Holds, str] = {
    "yes": "holds",
    "weaker": "weaker",
    "no": "does not hold",
    "unknown": "cannot be judged",
}
BEST_PAIR = "mix2fld-50-100"
SMALL_PAIR = "mix2fld-10-20"
ASYMMETRIC = ("asymmetric-iid", "asymmetric-non-iid")
SYMMETRIC = ("symmetric-iid", "symmetric-non-iid")


@dataclass(frozen=True)
class Statement:
    """One statement of a claim."""

    text: str
    paper: str
    ours: str
    holds: Holds
    measure: Measure | None = None
    """By whose accuracy it is judged, where it is judged by both."""


@dataclass(frozen=True)
class Claim:
    """A claim, part by part."""

    name: str
    parts: tuple[Statement, ...]
    command: str

    @property
    def verdict(self) -> str:
        """Reproduced, partly or not, by all parts."""
        return _verdict(self.parts)

    def verdict_by(self, measure: Measure) -> str:
        """The verdict if only this measure counted."""
        return _verdict([part for part in self.parts if part.measure in (None, measure)])

    @property
    def parts_apart(self) -> list[str]:
        """The statements on which the two measures disagree."""
        found: dict[str, set[Holds]] = {}
        for part in self.parts:
            if part.measure is not None:
                found.setdefault(part.text, set()).add(part.holds)
        return [text for text, holds in found.items() if len(holds) > 1]


def _verdict(parts: Sequence[Statement]) -> str:
    found = {part.holds for part in parts}
    if found == {"yes"}:
        return "reproduced"
    if found == {"unknown"}:
        return "cannot be judged"
    return "partly reproduced" if found & {"yes", "weaker"} else "not reproduced"


@dataclass(frozen=True)
class Evidence:
    """All that the claims are judged by."""

    cells: dict[str, CellRecord]
    privacy: PrivacyRecords
    costs: tuple[StepCost, ...]
    attacked: Mapping[str, Stages] = field(default_factory=dict)
    """Stages of privacy audits, by dataset."""

    def at(self, setting: str, name: str) -> CellRecord:
        """A cell of one of the four settings."""
        if name == "isolated":
            return self.cells[f"{SETTINGS[setting].changes['partition']}/isolated"]
        return self.cells[f"{setting}/{name}"]

    def reading(self, name: str, protocol: str) -> CellRecord:
        """A protocol under another reading of the paper: asymmetric channels, non-IID."""
        return self.at(ASYMMETRIC[1], f"why/{name}/{protocol}")

    def distinct(self, names: Sequence[str]) -> list[str]:
        """The settings in which these cells differ from those of every earlier one.

        Where all uploads are delivered in either channel, the runs of both are the same.
        """
        kept: dict[tuple[float, ...], str] = {}
        for setting in SETTINGS:
            cells = [self.at(setting, name) for name in names]
            reached = tuple(
                value
                for cell in cells
                for measure in MEASURES
                for value in cell.values("summary", "accuracy", measure)
            )
            kept.setdefault(reached, setting)
        return list(kept.values())


def sized(found: Spread, wanted: float) -> Holds:
    """Whether a gain counts, and is at least half as large as the paper's."""
    if not found.above_zero:
        return "no"
    return "yes" if found.mean >= wanted / 2 else "weaker"


def in_how_many(found: Sequence[bool]) -> Holds:
    """Whether something holds in all places, in some, or in none."""
    return "yes" if all(found) else "weaker" if any(found) else "no"
