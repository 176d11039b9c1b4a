"""Tables II and III: measured, kept, and compared with the paper's."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mix2fld.config import DataConfig
from mix2fld.data import load_dataset
from mix2fld.data.cache import cached
from mix2fld.data.files import write_whole
from mix2fld.errors import InputError
from mix2fld.privacy.measure import measure
from mix2fld.reproduction.experiments import MIXING_RATIOS, Scale
from mix2fld.reproduction.paper import (
    INFERRED_COLUMNS,
    TABLE_2,
    TABLE_COLUMNS,
    TABLE_SEED_SAMPLES,
)

RATIOS = tuple(sorted({*TABLE_COLUMNS, *INFERRED_COLUMNS, *MIXING_RATIOS}))
ON_REQUEST = ("cifar100",)
"""Found in no registry: measured when the user has put it into the cache."""

PrivacyRecords = dict[str, list[dict[str, Any]]]
"""What ``measure`` gave for every seed, by dataset."""


def measure_datasets(scale: Scale) -> PrivacyRecords:
    """Sample privacy on every dataset of the tables that is at hand."""
    names = [name for name in TABLE_2 if name not in ON_REQUEST or cached(name)]
    records = {}
    for name in names:
        dataset = load_dataset(DataConfig(dataset=name))
        records[name] = [measure(dataset, RATIOS, TABLE_SEED_SAMPLES, seed) for seed in scale.seeds]
    return records


def save_privacy(path: Path, scale: Scale, records: PrivacyRecords) -> None:
    """Write them; numbers to six places."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(_rounded(run)) for run in runs) + "\n]"
        for name, runs in records.items()
    ]
    body = ",\n".join(rows)
    write_whole(path, f'{{"scale": "{scale.name}", "datasets": {{\n{body}\n}}}}\n'.encode())


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
