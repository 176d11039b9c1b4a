"""The samples of a client, as a file of its own: its part of the paper's split, or a partition."""

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_state_path

from mix2fld import InputError, dataset_with_partitions
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.settings import config_digest
from mix2fld_lab.trials.trial import write_device_file

if TYPE_CHECKING:
    from flwr_datasets.partitioner import Partitioner


def client_folder(config: Config, partition: int, partitioner: str = "") -> Path:
    """Where a client keeps samples and state; another setting has another folder."""
    root = user_state_path("mix2fld") / "flower-baseline" / config_digest(config)
    return root / re.sub(r"[^\w.=-]+", "-", partitioner) / f"client-{partition}"


def samples_of(config: Config, partition: int, partitioner: str = "") -> Path:
    """The file with the samples of a client, written when it is first asked for."""
    file = client_folder(config, partition, partitioner) / "samples.npz"
    if not file.exists():
        unfinished = file.with_name(f"unfinished-{os.getpid()}.npz")
        dataset = load_dataset(config.data)
        if partitioner:
            dataset = dataset_with_partitions(
                dataset, partitioner_of(partitioner, config.data.devices)
            )
        write_device_file(unfinished, config, dataset, partition)
        unfinished.replace(file)
    return file


def partitioner_of(text: str, clients: int) -> "Partitioner":
    """``DirichletPartitioner partition_by=label alpha=0.3`` as an object of flwr-datasets."""
    from flwr_datasets import partitioner as partitioners

    name, *stated = text.split()
    kind = getattr(partitioners, name, None)
    if not (isinstance(kind, type) and issubclass(kind, partitioners.Partitioner)):
        raise InputError(field="partitioner", value=name, hint="no partitioner of flwr-datasets")
    fields = dict(each.partition("=")[::2] for each in stated)
    try:
        return kind(num_partitions=clients, **{k: _value(v) for k, v in fields.items()})
    except (TypeError, ValueError) as error:
        raise InputError(field="partitioner", value=text, hint=str(error)) from None


def _value(text: str) -> str | float | bool:
    try:
        return json.loads(text)
    except ValueError:
        return text
