"""Datasets and how their samples are dealt out to devices."""

from mix2fld.data.cache import cache_file, cache_folder, cached
from mix2fld.data.catalogue import DATASETS, DatasetInfo, Place
from mix2fld.data.partition import PARTITIONS, check_labels_covered, label_counts, partition
from mix2fld.data.sources import dataset_sizes, fingerprint, load_dataset

__all__ = [
    "DATASETS",
    "PARTITIONS",
    "DatasetInfo",
    "Place",
    "cache_file",
    "cache_folder",
    "cached",
    "check_labels_covered",
    "dataset_sizes",
    "fingerprint",
    "label_counts",
    "load_dataset",
    "partition",
]
