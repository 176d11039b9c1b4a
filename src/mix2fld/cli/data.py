"""``mix2fld data``: list datasets, download them, show their partition."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.config.settings import Config, DataConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mix2fld.types import Dataset

_MOST_NAMES = 20


@dataclass(frozen=True)
class DataList:
    """List the datasets known by name."""

    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        from mix2fld.data.cache import cached
        from mix2fld.data.catalogue import DATASETS

        if self.json:
            _print_catalogue()
            return
        from rich.table import Table

        from mix2fld.cli.console import PipedConsole

        table = Table(title="Datasets")
        for heading in ("name", "sample", "labels", "training", "test", "cached"):
            table.add_column(heading, justify="left" if heading == "name" else "right")
        for info in DATASETS.values():
            shape = " x ".join(map(str, info.sample_shape))
            here = "yes" if cached(info.name) else "no"
            sizes = (f"{info.num_labels}", f"{info.train_count:,}", f"{info.test_count:,}")
            table.add_row(info.name, shape, *sizes, here)
        PipedConsole().print(table)


@dataclass(frozen=True)
class DataGet:
    """Download datasets, verify them and store them in the cache."""

    names: tyro.conf.Positional[tuple[str, ...]]
    """Datasets to download: mnist, fashion-mnist, cifar10, cifar100, smartwatch."""
    data_folder: Path | None = None
    """Folder with the files; nothing is downloaded."""

    def run(self) -> None:
        from mix2fld.cli.console import PipedConsole
        from mix2fld.data.cache import cache_file, cached
        from mix2fld.data.catalogue import DATASETS, dataset_info
        from mix2fld.data.sources import load_dataset

        if not self.names:
            known = ", ".join(sorted(DATASETS))
            raise InputError(field="names", hint=f"must name at least one dataset; known: {known}")
        for name in self.names:
            dataset_info(name)
        faults = []
        for name in self.names:
            config = DataConfig(dataset=name, data_folder=self.data_folder)
            try:
                dataset = load_dataset(config, console=PipedConsole(stderr=True))
            except Mix2fldError as error:
                faults.append(str(error))
                continue
            kept = f"in {cache_file(name)}" if cached(name) else "not cached: not writable"
            train, test = len(dataset.train_inputs), len(dataset.test_inputs)
            PipedConsole(soft_wrap=True, highlight=False).print(
                f"{name}: {train:,} training and {test:,} test samples, {kept}", markup=False
            )
        if faults:
            raise InputError("\n".join(faults))


@dataclass(frozen=True)
class DataShow:
    """Show the label distribution: how many samples of each label each device holds.

    Where targets are numbers: how many of each bin of the target.
    """

    seed: int = 0
    """Seed of the run whose partition is shown."""
    out: Path | None = None
    """Also save it as a figure, a .png file."""
    json: bool = False
    """Print JSON instead of a table."""
    data: tyro.conf.OmitArgPrefixes[DataConfig] = field(default_factory=DataConfig)

    def run(self) -> None:
        from mix2fld.cli.console import PipedConsole
        from mix2fld.data.partition import (
            check_labels_covered,
            device_parts,
            label_counts,
            labels_of,
            names_of_bins,
        )
        from mix2fld.data.sources import load_dataset
        from mix2fld.report.tables import label_table

        if self.seed < 0:
            raise InputError(field="seed", value=self.seed, hint="must be 0 or above")
        if self.out is not None and self.out.suffix != ".png":
            raise InputError(field="out", value=self.out, hint="must end in .png")
        dataset = load_dataset(self.data, console=PipedConsole(stderr=True))
        labels, num_labels = labels_of(dataset, self.data)
        config = Config(seed=self.seed, data=self.data)
        parts = device_parts(dataset, config, every_label=False)
        counts = label_counts(labels, parts, num_labels)
        bins = names_of_bins(dataset, self.data)
        noun = "bin" if bins else "label"
        if self.json:
            _print_counts(dataset, counts, bins)
        else:
            PipedConsole().print(label_table(counts, noun))
        console = PipedConsole(stderr=self.json, soft_wrap=True, highlight=False)
        for line in _described(dataset, parts, bins):
            console.print(line, markup=False)
        try:
            if not bins:
                check_labels_covered(labels, parts, num_labels)
        except Mix2fldError as error:
            console.print(f"A run would fail: {error}", markup=False)
        if self.out is not None:
            from mix2fld.report.maps import draw_label_map

            draw_label_map(counts, self.out, noun)
            console.print(f"saved {self.out}", markup=False)


def _print_catalogue() -> None:
    import json
    import sys

    from mix2fld.data.cache import cache_file, cached
    from mix2fld.data.catalogue import DATASETS

    rows = {
        info.name: {
            "sample_shape": info.sample_shape,
            "dtype": info.dtype,
            "num_labels": info.num_labels,
            "train_count": info.train_count,
            "test_count": info.test_count,
            "cached": cached(info.name),
            "cache_file": str(cache_file(info.name)),
            "places": [str(place) for place in info.places],
        }
        for info in DATASETS.values()
    }
    sys.stdout.write(json.dumps(rows, indent=2) + "\n")


def _print_counts(dataset: "Dataset", counts: "NDArray[np.integer]", bins: "Sequence[str]") -> None:
    from json import dumps

    names = list(bins or dataset.label_names or map(str, range(counts.shape[1])))
    kind = "bins" if bins else "labels"
    print(dumps({"dataset": dataset.name, kind: names, "devices": counts.tolist()}, indent=2))


def _described(
    dataset: "Dataset", parts: "list[NDArray[np.integer]]", bins: "Sequence[str]"
) -> list[str]:
    """What samples are, and the names behind the numbers of labels and devices."""
    samples = dataset.samples
    lines = [f"samples: {samples}; {len(dataset.test_inputs):,} test samples"]
    if samples.mean:
        lines.append(f"mean of each channel: {_listed(samples.mean)}; std: {_listed(samples.std)}")
    if bins:
        listed = ", ".join(f"{number} {name}" for number, name in enumerate(bins))
        lines.append(f"bins of the target: {listed}")
    if dataset.label_names:
        names = [f"{label} {name}" for label, name in enumerate(dataset.label_names)]
        lines.append(f"labels: {', '.join(names[:_MOST_NAMES])}{_more(names)}")
    if dataset.train_sources is not None:
        sources = [set(dataset.train_sources[part].tolist()) for part in parts]
        alone = [sorted(held)[0] for held in sources if len(held) == 1]
        if len(alone) == len(parts):
            known = dict(enumerate(dataset.source_names))
            names = [f"{device} {known.get(one, one)}" for device, one in enumerate(alone)]
            lines.append(f"devices: {', '.join(names[:_MOST_NAMES])}{_more(names)}")
    return lines


def _listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers[:_MOST_NAMES]) + _more(numbers)


def _more(items: "Sequence[object]") -> str:
    return f", ... ({len(items)} in total)" if len(items) > _MOST_NAMES else ""
