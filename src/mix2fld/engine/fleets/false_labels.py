"""Attackers that train on false labels: more rows of the training set, which only they draw."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.engine.attacks import ATTACKS, shift_labels
from mix2fld.engine.scenario import attackers_of
from mix2fld.types import Dataset

Rows = NDArray[np.integer]


def add_false_labels(
    dataset: Dataset, parts: Sequence[Rows], config: Config
) -> tuple[Dataset, Mapping[int, Rows]]:
    """The dataset with the samples of attackers once more, falsely labelled, and their rows."""
    attack = ATTACKS.get(config.attack.attack)
    if attack is None or not attack.shifts_labels:
        return dataset, {}
    if dataset.train_targets is not None:
        raise InputError(
            field="attack",
            value=config.attack.attack,
            hint=f"is of labels, and the targets of the dataset {dataset.name} are numbers",
        )
    inputs: list[Any] = [dataset.train_inputs]
    labels = [dataset.train_labels]
    rows, size = {}, len(dataset.train_labels)
    for device in sorted(attackers_of(config)):
        part = parts[device]
        inputs.append(dataset.train_inputs[part])
        labels.append(shift_labels(dataset.train_labels[part], dataset.num_labels))
        rows[device] = np.arange(size, size + len(part))
        size += len(part)
    return replace(
        dataset, train_inputs=np.concatenate(inputs), train_labels=np.concatenate(labels)
    ), rows
