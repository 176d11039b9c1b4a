"""The seeds of a setting: those with which every contender can run."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

from mix2fld.config import Config
from mix2fld.data import device_parts, label_counts, load_dataset
from mix2fld.reproduction.experiments import Scale
from mix2fld.reproduction.frontier.settings import FrontierSetting


def with_usable_seeds(scale: Scale, setting: FrontierSetting) -> Scale:
    """As many seeds, from the same one on, without those that deal a device a single label.

    It would have nothing to mix: protocols with mixed-up seeds refuse such a partition.
    """
    usable = islice(_usable(setting, scale), len(scale.seeds))
    return replace(scale, seeds=tuple(usable))


def _usable(setting: FrontierSetting, scale: Scale) -> Iterator[int]:
    config = Config.of(**setting.changes)
    dataset = load_dataset(config.data)
    for seed in count(min(scale.seeds)):
        parts = device_parts(dataset, config.replace(seed=seed))
        labels = label_counts(dataset.train_labels, parts, dataset.num_labels)
        if (labels > 0).sum(axis=1).min() > 1:
            yield seed
