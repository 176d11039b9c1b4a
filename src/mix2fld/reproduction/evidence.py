"""What the claims are judged by, and what a judgement is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mix2fld.audit.findings import Stages
from mix2fld.reproduction.cell_records import CellRecord
from mix2fld.reproduction.experiments import SETTINGS
from mix2fld.reproduction.privacy_records import PrivacyRecords
from mix2fld.reproduction.statistics import Spread
from mix2fld.reproduction.step_costs import StepCost

Holds = Literal["yes", "weaker", "no"]
BEST_PAIR = "mix2fld-50-100"
ASYMMETRIC = ("asymmetric-iid", "asymmetric-non-iid")
SYMMETRIC = ("symmetric-iid", "symmetric-non-iid")


@dataclass(frozen=True)
class Part:
    """One statement of a claim."""

    text: str
    paper: str
    ours: str
    holds: Holds


@dataclass(frozen=True)
class Claim:
    """A claim, part by part."""

    name: str
    parts: tuple[Part, ...]
    command: str

    @property
    def verdict(self) -> str:
        """Reproduced, partly or not."""
        found = {part.holds for part in self.parts}
        if found == {"yes"}:
            return "reproduced"
        return "not reproduced" if found == {"no"} else "partly reproduced"


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


def sized(found: Spread, wanted: float) -> Holds:
    """Whether a gain counts, and is at least half as large as the paper's."""
    if not found.above_zero:
        return "no"
    return "yes" if found.mean >= wanted / 2 else "weaker"


def in_how_many(found: Sequence[bool]) -> Holds:
    """Whether something holds in all places, in some, or in none."""
    return "yes" if all(found) else "weaker" if any(found) else "no"
