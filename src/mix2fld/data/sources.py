"""Load a dataset: by name, from the first place that has it, or from a custom file."""

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from mix2fld.base.errors import InputError
from mix2fld.base.folders import expand_home
from mix2fld.config.settings import DataConfig
from mix2fld.data.cache import read_cache, write_cache
from mix2fld.data.catalogue import DatasetInfo, FilePlace, dataset_info
from mix2fld.data.download_progress import print_line

TABLE_ENDINGS = (".csv", ".parquet", ".feather", ".arrow")
"""Of files that hold a table, one row for each sample."""

if TYPE_CHECKING:
    from rich.console import Console

    from mix2fld.data.readers import Arrays
    from mix2fld.types import Dataset, SampleFormat


def load_dataset(config: DataConfig, *, console: "Console | None" = None) -> "Dataset":
    """Return the dataset that ``config`` names.

    A named dataset is read from ``config.data_folder`` alone if that is set; otherwise from the
    cache, or from the places of the catalogue. The arrays are the same bytes in every case.
    """
    import numpy as np

    from mix2fld.types import Dataset

    if config.features != "none":
        from mix2fld.data.features.step import with_features

        plain = {"features": "none", "standardise": "never", "value_range": None}
        recorded = load_dataset(config.model_copy(update=plain), console=console)
        return _prepared(with_features(recorded, config.features, console), config)
    if _is_path(config.dataset):
        return _read_file(config)
    info = dataset_info(config.dataset)
    arrays = _named_arrays(info, config.data_folder, console)
    dataset = Dataset(
        info.name,
        arrays.train_inputs,
        arrays.train_labels.astype(np.int32),
        arrays.test_inputs,
        arrays.test_labels.astype(np.int32),
        info.num_labels,
        train_sources=arrays.train_sources.astype(np.int32) if info.source_names else None,
        label_names=info.label_names,
        source_names=info.source_names,
    )
    return _prepared(dataset, config, measured=info.dtype == "float32")


def dataset_sizes(config: DataConfig) -> "tuple[SampleFormat, int]":
    """Return what samples are and the number of labels, without loading a dataset known by name.

    The range of its float samples is known only once they are loaded.
    """
    from mix2fld.types import SampleFormat

    if config.features != "none":
        from mix2fld.data.features.find import feature_format

        recorded, labels = dataset_sizes(config.model_copy(update={"features": "none"}))
        return feature_format(config.features, recorded.shape, recorded.dtype), labels
    if _is_path(config.dataset):
        dataset = load_dataset(config)
        return dataset.samples, dataset.num_labels
    info = dataset_info(config.dataset)
    return SampleFormat(info.sample_shape, info.dtype), info.num_labels


@lru_cache(maxsize=1)
def fingerprint(dataset: "Dataset") -> str:
    """Return a short checksum of all samples and labels, and of what else decides the numbers."""
    import numpy as np

    digest = hashlib.sha256()
    for array in (
        dataset.train_inputs,
        dataset.train_values,
        dataset.test_inputs,
        dataset.test_values,
    ):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)  # not copied
    if dataset.value_range is not None:
        digest.update(f"range {dataset.value_range} {dataset.mean} {dataset.std}".encode())
    if dataset.train_sources is not None:
        digest.update(b"sources" + dataset.train_sources.tobytes())
    return digest.hexdigest()[:16]


def _is_path(dataset: str) -> bool:
    return dataset.endswith((".npz", *TABLE_ENDINGS)) or "/" in dataset or "\\" in dataset


def _read_file(config: DataConfig) -> "Dataset":
    path = expand_home(Path(config.dataset), "dataset")
    if path.suffix in TABLE_ENDINGS:
        from mix2fld.data.tables import read_table_file

        return read_table_file(path, config)
    if path.is_dir():
        from mix2fld.data.hugging_face import read_saved

        return _prepared(read_saved(path, config.label_column, config.source_column), config)
    from mix2fld.data.own_file import read_own_file

    return _prepared(read_own_file(path), config)


def _prepared(dataset: "Dataset", config: DataConfig, measured: bool = False) -> "Dataset":
    """The dataset standardised and with the range as configured; ``measured``: auto does it."""
    from mix2fld.data.samples import standardised

    if config.standardise == "always" or (measured and config.standardise == "auto"):
        dataset = standardised(dataset)
    if config.value_range is not None:
        dataset = replace(dataset, value_range=config.value_range)
    return dataset


def _named_arrays(
    info: DatasetInfo, data_folder: Path | None, console: "Console | None"
) -> "Arrays":
    if data_folder is not None:
        arrays = _from_folder(info, expand_home(data_folder, "data_folder"), console)
        if read_cache(info, console) is None:
            write_cache(info, arrays, console)
        return arrays
    kept = read_cache(info, console)
    if kept is not None:
        return kept
    arrays = _fetch(info, console)
    write_cache(info, arrays, console)
    return arrays


def _from_folder(info: DatasetInfo, folder: Path, console: "Console | None") -> "Arrays":
    from mix2fld.data.place_errors import MissingFileError, PlaceError
    from mix2fld.data.places import read_place

    if not folder.is_dir():
        raise InputError(field="data_folder", value=folder, hint="there is no such folder")
    faults = []
    for place in info.folders:
        try:
            return read_place(replace(place, address=str(folder / place.address)), info, console)
        except MissingFileError:
            continue
        except PlaceError as error:
            faults.append(f"{folder / place.address}: {error}")
    if faults:
        raise InputError(
            field="data_folder",
            value=folder,
            hint=f"holds no usable {info.name}; {'; '.join(faults)}",
        )
    raise InputError(
        field="data_folder",
        value=folder,
        hint=f"does not hold {info.name}; looked for {_looked_for(info)}",
    )


def _looked_for(info: DatasetInfo) -> str:
    from mix2fld.data.readers import LAYOUTS

    wanted: dict[str, list[str]] = {}
    for place in info.folders:
        if place.kind == "folder":
            names = ", ".join(LAYOUTS[place.layout].files(info))
            where = "the folder itself" if place.address == "." else place.address
            wanted.setdefault(names, []).append(where)
        else:
            wanted.setdefault(place.address, []).append("the folder itself")
    return "; or ".join(f"{names} in {' or '.join(where)}" for names, where in wanted.items())


def _fetch(info: DatasetInfo, console: "Console | None") -> "Arrays":
    from mix2fld.data.place_errors import PlaceError
    from mix2fld.data.places import read_place

    faults: list[tuple[FilePlace, str]] = []
    for place in info.places:
        try:
            return read_place(place, info, console)
        except PlaceError as error:
            print_line(console, f"{info.name}: not available from {place} ({error})")
            faults.append((place, str(error)))
    listed = "".join(f"\n  {place}: {reason}" for place, reason in faults)
    raise InputError(
        field="dataset",
        value=f"{info.name!r}",
        hint=f"could not be downloaded; if you have its files, name their "
        f"folder with --data-folder. Tried:{listed}",
    )
