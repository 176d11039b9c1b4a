"""The dataset of a run, where it is available: nothing is downloaded to show a run."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import Mix2fldError
from mix2fld.config.settings import Config, DataConfig
from mix2fld.data import device_parts, fingerprint, label_counts, labels_of, load_dataset
from mix2fld.data.cache import read_cache
from mix2fld.data.catalogue import DATASETS
from mix2fld.data.partition import names_of_bins
from mix2fld.report.protocol_view import could_charge
from mix2fld.runs.checkpoint import made_with
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import LoadedRun
from mix2fld.types import Dataset


class UnavailableDataError(Exception):
    """Why the data of a run cannot be shown, in one sentence."""


def data_of(run: LoadedRun) -> Dataset:
    """The dataset of a run, checked against what the run recorded."""
    try:
        data = run.config.data.model_copy(update={"data_folder": None})
        dataset = _load(data, _age(data))
    except Mix2fldError as error:
        raise UnavailableDataError(str(error)) from None
    if not _same_samples(run, dataset) or not _as_recorded(run, dataset):
        raise UnavailableDataError(
            "the run used different data or a custom protocol, which its settings do not name"
        )
    return dataset


def parts_of(dataset: Dataset, config: Config) -> Sequence[NDArray[np.integer]]:
    """The samples of each device in a run of one seed."""
    try:
        return device_parts(dataset, config, every_label=False)
    except Mix2fldError as error:
        raise UnavailableDataError(str(error)) from None


def label_map(dataset: Dataset, config: Config) -> NDArray[np.int64]:
    """The label distribution: samples of each label on each device, [D, N_L]."""
    labels, count = labels_of(dataset, config.data)
    return label_counts(labels, parts_of(dataset, config), count)


def bins_in(dataset: Dataset, config: Config) -> list[str]:
    """What the columns of this map stand for where targets are numbers."""
    return list(names_of_bins(dataset, config.data))


def _age(config: DataConfig) -> int | None:
    """When a dataset file was last written; None for a dataset of the catalogue."""
    path = Path(config.dataset).expanduser()
    return path.stat().st_mtime_ns if path.is_file() else None


@lru_cache(maxsize=4)
def _load(config: DataConfig, age: int | None) -> Dataset:
    del age  # a file that has changed is read again
    info = DATASETS.get(config.dataset)
    if info is not None and read_cache(info) is None:
        raise UnavailableDataError(
            f"{info.name} is not in the cache; download it with: mix2fld data get {info.name}"
        )
    return load_dataset(config)


def _same_samples(run: LoadedRun, dataset: Dataset) -> bool:
    checkpoint = RunFiles(run.folder).checkpoint
    recorded = made_with(checkpoint).get("data") if checkpoint.is_file() else None
    return recorded in (None, _fingerprint(dataset))


@lru_cache(maxsize=4)
def _fingerprint(dataset: Dataset) -> str:
    return fingerprint(dataset)


def _as_recorded(run: LoadedRun, dataset: Dataset) -> bool:
    """Whether an upload of the first round has a size that is possible with this dataset."""
    first = run.rounds[0]
    attempted = first["uploads"]["attempted"]
    return not attempted or could_charge(run.config, dataset, first["bits"]["up"] / attempted)
