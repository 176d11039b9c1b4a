"""The data behind a run, if it is at hand: nothing is fetched in order to show a run."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mix2fld.config import Config, DataConfig
from mix2fld.data import fingerprint, label_counts, load_dataset, partition
from mix2fld.data.cache import read_cache
from mix2fld.data.catalogue import DATASETS
from mix2fld.errors import InputError
from mix2fld.learning.task import Task, make_task
from mix2fld.protocol import PROTOCOLS
from mix2fld.round.wire import upload_bits
from mix2fld.runs.checkpoint import made_with
from mix2fld.runs.reader import LoadedRun
from mix2fld.streams import stream
from mix2fld.types import Dataset


class NotAtHandError(Exception):
    """Why the data of a run cannot be shown, in one sentence."""


def data_of(run: LoadedRun) -> tuple[Dataset, Task]:
    """The dataset of a run and its task, checked against what the run recorded."""
    try:
        data = run.config.data.model_copy(update={"data_folder": None})
        dataset = _load(data, _age(data))
        config = run.config.replace(kernel="xla")
        task = make_task(config, dataset.sample_shape, dataset.num_labels)
    except InputError as error:
        raise NotAtHandError(str(error)) from None
    if not _same_samples(run, dataset) or not _as_recorded(run, task):
        raise NotAtHandError(
            "the run was played with data, a model or a protocol of its own, which its settings do "
            "not name"
        )
    return dataset, task


def parts_of(dataset: Dataset, config: Config) -> list[NDArray[np.int64]]:
    """The samples of each device in a run of one seed."""
    rng = stream(config.seed[0], "partition")
    return partition(dataset.train_labels, config.data, dataset.num_labels, rng)


def label_map(dataset: Dataset, config: Config) -> NDArray[np.int64]:
    """How many samples of each label each device has, [D, N_L]."""
    return label_counts(dataset.train_labels, parts_of(dataset, config), dataset.num_labels)


def _age(config: DataConfig) -> int | None:
    """When a file of the user's was last written; None for a named dataset."""
    path = Path(config.dataset).expanduser()
    return path.stat().st_mtime_ns if path.is_file() else None


@lru_cache(maxsize=4)
def _load(config: DataConfig, age: int | None) -> Dataset:
    del age  # a file that was written again is read again
    info = DATASETS.get(config.dataset)
    if info is not None and read_cache(info) is None:
        raise NotAtHandError(
            f"{info.name} is not in the cache; get it with: mix2fld data get {info.name}"
        )
    return load_dataset(config)


def _same_samples(run: LoadedRun, dataset: Dataset) -> bool:
    checkpoint = run.folder / "checkpoint.safetensors"
    recorded = made_with(checkpoint).get("data") if checkpoint.is_file() else None
    return recorded in (None, _fingerprint(dataset))


@lru_cache(maxsize=4)
def _fingerprint(dataset: Dataset) -> str:
    return fingerprint(dataset)


def _as_recorded(run: LoadedRun, task: Task) -> bool:
    first = run.rounds[0]
    if not first["uploads"]["attempted"]:
        return True
    protocol = PROTOCOLS.get(run.protocol)
    charged = first["bits"]["up"] / first["uploads"]["attempted"]
    return protocol is not None and charged == upload_bits(protocol, task, with_seeds=True)
