"""Measures the sample privacy of Tables II and III."""

from mix2fld.config.settings import DataConfig
from mix2fld.data import load_dataset
from mix2fld.data.cache import cached
from mix2fld_lab.attacks.measure import measure
from mix2fld_lab.reproduction.experiments import MIXING_RATIOS, Scale
from mix2fld_lab.reproduction.paper_values import (
    INFERRED_COLUMNS,
    TABLE_2,
    TABLE_COLUMNS,
    TABLE_SEED_SAMPLES,
)
from mix2fld_lab.reproduction.privacy_records import PrivacyRecords

RATIOS = tuple(sorted({*TABLE_COLUMNS, *INFERRED_COLUMNS, *MIXING_RATIOS}))
ON_REQUEST = ("cifar100",)
"""In no registry: measured when the user has put it into the cache."""


def measure_datasets(scale: Scale) -> PrivacyRecords:
    """Sample privacy on every available dataset of the tables."""
    names = [name for name in TABLE_2 if name not in ON_REQUEST or cached(name)]
    records = {}
    for name in names:
        dataset = load_dataset(DataConfig(dataset=name))
        records[name] = [measure(dataset, RATIOS, TABLE_SEED_SAMPLES, seed) for seed in scale.seeds]
    return records
