"""The records of Tables II and III: written, read, and compared with the paper's."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic
from mix2fld_lab.reproduction.experiments import Scale
from mix2fld_lab.reproduction.paper_values import INFERRED_COLUMNS

PrivacyRecords = dict[str, list[dict[str, Any]]]
"""What ``privacy.measure`` returned for every seed, by dataset."""


def save_privacy(path: Path, scale: Scale, records: PrivacyRecords) -> None:
    """Write them; numbers to six places."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(_rounded(run)) for run in runs) + "\n]"
        for name, runs in records.items()
    ]
    body = ",\n".join(rows)
    write_atomic(path, f'{{"scale": "{scale.name}", "datasets": {{\n{body}\n}}}}\n'.encode())


def load_privacy(path: Path) -> PrivacyRecords:
    """Read what ``save_privacy`` wrote."""
    try:
        datasets: PrivacyRecords = json.loads(path.read_text(encoding="utf-8"))["datasets"]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: not records of sample privacy ({error})") from None
    return datasets


def row(
    runs: Sequence[dict[str, Any]], kind: str, statistic: str, ratios: Sequence[float]
) -> list[float]:
    """One statistic for every ratio, averaged over seeds; nan where a seed has none."""
    return [
        float(np.mean([_number(run["ratios"][f"{ratio:g}"][kind][statistic]) for run in runs]))
        for ratio in ratios
    ]


def above_mixup(runs: Sequence[dict[str, Any]]) -> list[bool]:
    """Whether Mix2up's sample privacy is above Mixup's, at every mixing ratio of the tables."""
    mixup, mix2up = (row(runs, kind, "min", INFERRED_COLUMNS) for kind in ("mixup", "mix2up"))
    return [ours > other for ours, other in zip(mix2up, mixup, strict=True)]


def closest_pair_row(
    runs: Sequence[dict[str, Any]], pool: int, ratios: Sequence[float]
) -> list[float]:
    """Sample privacy of a mix of the two closest samples of a pool, averaged over seeds."""
    distances = [run["closest_pair"][str(pool)] for run in runs]
    return [float(np.mean(np.log(ratio * np.array(distances)))) for ratio in ratios]


def off_by(ours: Sequence[float], papers: Sequence[float]) -> float:
    """Root mean square difference from the paper's row."""
    return float(np.sqrt(np.mean((np.array(ours) - np.array(papers)) ** 2)))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _rounded(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _rounded(value) for name, value in tree.items()}
    return round(tree, 6) if isinstance(tree, float) else tree
