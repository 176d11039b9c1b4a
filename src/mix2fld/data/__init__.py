"""Datasets: the catalogue, downloads, the cache, custom files, and partitions among devices.

``load_dataset`` returns a dataset, ``device_parts`` the training samples of each device, and
``measured_samples`` the samples that models are measured on.
"""

from typing import TYPE_CHECKING

from mix2fld.base.lazy import names_of

if TYPE_CHECKING:
    from mix2fld.data.cache import cache_file, cached
    from mix2fld.data.catalogue import DATASETS, DatasetInfo, Place
    from mix2fld.data.measured import measured_samples
    from mix2fld.data.partition import (
        PARTITIONS,
        check_labels_covered,
        device_parts,
        label_counts,
        labels_of,
        sample_counts,
    )
    from mix2fld.data.sources import dataset_sizes, fingerprint, load_dataset
    from mix2fld.data.tables import dataset_from_table

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "DatasetInfo",
    "Place",
    "cache_file",
    "cached",
    "check_labels_covered",
    "dataset_from_table",
    "dataset_sizes",
    "device_parts",
    "fingerprint",
    "label_counts",
    "labels_of",
    "load_dataset",
    "measured_samples",
    "sample_counts",
]

_HOMES = {
    "DATASETS": "catalogue",
    "DatasetInfo": "catalogue",
    "PARTITIONS": "partition",
    "Place": "catalogue",
    "cache_file": "cache",
    "cached": "cache",
    "check_labels_covered": "partition",
    "dataset_from_table": "tables",
    "dataset_sizes": "sources",
    "device_parts": "partition",
    "fingerprint": "sources",
    "label_counts": "partition",
    "labels_of": "partition",
    "load_dataset": "sources",
    "measured_samples": "measured",
    "sample_counts": "partition",
}
__getattr__ = names_of(__name__, _HOMES)
