"""The search for training settings, on a validation split that no device and no test sees."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.experiments import Cell, Experiment, Scale
from mix2fld_lab.reproduction.frontier.contenders import (
    CANDIDATES_EACH,
    candidates,
    contenders,
    families,
)
from mix2fld_lab.reproduction.frontier.settings import SETTINGS, FrontierSetting

SEARCH_SEED = 100
"""Not among the seeds that are reported."""
ON_VALIDATION: dict[str, Any] = {"measured_on": "validation", "test_samples": 5000}
TUNED = ("logit_adjustment", "learning_rate", "final_learning_rate", "replay", "device_model")
Choices = Mapping[str, dict[str, Any]]
"""What each family chose."""


def search_name(setting: str) -> str:
    """The experiment in which the contenders of a setting are tuned."""
    return f"frontier-search-{setting}"


def search_scale(scale: Scale) -> Scale:
    """The same work for a single seed."""
    return replace(scale, seeds=(SEARCH_SEED,))


def search_experiment(key: str) -> Experiment:
    """Every candidate of every family, measured on the validation split of one setting."""
    setting = SETTINGS[key]
    cells = [
        Cell(
            f"frontier-search/{key}/{family}/{name}",
            f"{family}, {name}",
            {**setting.changes, **ON_VALIDATION, **changes},
        )
        for family in families(setting)
        for name, changes in candidates(family).items()
    ]
    return Experiment(search_name(key), f"Search: {setting.title}", tuple(cells))


def choose(records: Mapping[str, CellRecord]) -> Choices:
    """The candidate of each family whose devices are most accurate on the validation split."""
    best: dict[str, CellRecord] = {}
    tried: dict[str, int] = {}
    for key, cell in records.items():
        family = key.split("/")[-2]
        tried[family] = tried.get(family, 0) + 1
        if family not in best or _score(cell) > _score(best[family]):
            best[family] = cell
    uneven = [family for family, count in tried.items() if count != CANDIDATES_EACH]
    if uneven:
        raise InputError(
            f"records of the search: {', '.join(uneven)} tried {tried[uneven[0]]} settings"
        )
    return {
        family: {name: cell.changes[name] for name in TUNED if name in cell.changes}
        for family, cell in best.items()
    }


def measured_experiment(setting: FrontierSetting, choices: Choices) -> Experiment:
    """Every contender with what its family chose, on the test set; those that could choose."""
    cells = [
        Cell(
            f"frontier/{setting.key}/{one.key}",
            one.title,
            {
                **setting.changes,
                "protocols": one.protocol,
                **(choices[one.family] if one.family else {}),
                **one.changes,
            },
        )
        for one in contenders(setting)
        if one.family is None or one.family in choices
    ]
    return Experiment(f"frontier-{setting.key}", setting.title, tuple(cells))


def _score(cell: CellRecord) -> float:
    return float(cell.values("summary", "accuracy", "mean").mean())
