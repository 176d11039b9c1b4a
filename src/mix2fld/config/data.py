"""Settings of the data: which dataset, how it is read, and its partition among devices."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mix2fld.config.fields import Count, Positive, PositiveFloat, Section, Spread


class DataConfig(Section):
    """The dataset and its partition among devices."""

    dataset: str = "mnist"
    """mnist, fashion-mnist, cifar10, cifar100, smartwatch, or a .npz, .csv or .parquet file."""
    data_folder: Path | None = None
    """Folder with the dataset's files; nothing is downloaded."""
    features: str = "none"
    """Frozen network that makes vectors of samples: none, efficientnet-lite0, file.onnx, ..."""
    partition: str = "non-iid"
    """non-iid (the paper's: some labels rare on each device), iid, dirichlet, shards, by-source."""
    devices: Positive = 10
    """Number of devices, |D|."""
    samples_per_device: Positive = 500
    """Training samples of each device, |S_d|; by-source: everything its source recorded."""
    samples_spread: Spread = 0
    """Spread of sample counts: sigma of a log-normal factor, median 1, one for each device."""
    rare_labels: Count = 2
    """Partition non-iid: number of rare labels, drawn independently for each device."""
    rare_samples: Count = 2
    """Partition non-iid: samples of each rare label."""
    dirichlet_alpha: PositiveFloat = 0.5
    """Partition dirichlet: concentration, alpha; smaller is more heterogeneous."""
    shards_per_device: Positive = 2
    """Partition shards: label-sorted shards per device."""
    reuse_samples: bool = False
    """Allow devices to share samples if the dataset has too few."""
    test_samples: Count = 0
    """Number of test samples to use, from the start of the test set; 0: all."""
    measured_on: Literal["test", "validation"] = "test"
    """Measure on the test set, or (for tuning) on training samples that no device holds."""
    own_tests: Annotated[float, Field(ge=0, lt=1)] = 0
    """Share of a device's samples held out to test its model on; 0: test rows of its source."""
    standardise: Literal["auto", "always", "never"] = "auto"
    """Scale channels of float samples to mean 0, deviation 1; auto: tables and smartwatch."""
    value_range: tuple[float, float] | None = None
    """Range that n-bit uploads of float samples span; default: that of the training samples."""
    columns: tuple[str, ...] = ()
    """Tables: columns that are the values of a sample; default: all that are nothing else."""
    ignore_columns: tuple[str, ...] = ()
    """Tables: columns that are left out, such as numbers of rows."""
    one_hot_columns: tuple[str, ...] = ()
    """Tables: columns of kinds, each of which becomes a value that is 1 or 0."""
    missing: Literal["refuse", "drop", "median"] = "refuse"
    """Tables: refuse missing values, drop their rows, or fill in the median or commonest kind."""
    target_column: tuple[str, ...] = ()
    """Tables: columns of numbers to predict, in place of a label."""
    target_bins: Annotated[int, Field(ge=2, le=1000)] = 10
    """Numbers as targets: bins of equally many samples, N_L, in which FD averages outputs."""
    horizon: Count = 0
    """Tables: predict the target so many rows ahead, from a window of the past; 0: in each row."""
    window: Positive = 24
    """Tables with a horizon: rows of the past that are a sample, the present one among them."""
    season: Count = 0
    """Tables with a horizon: rows after which a series repeats, for the seasonal prediction."""
    label_column: str = "label"
    """Tables: column of labels, strings or integers."""
    source_column: str | None = None
    """Tables: column that names the source of a row, for partition by-source."""
    split_column: str | None = None
    """Tables: column with train or test in every row; without it, test_fraction is drawn."""
    split: Literal["random", "time", "group", "source"] = "random"
    """Tables: test on random rows, the latest, groups or sources that nobody trains with."""
    time_column: str | None = None
    """Tables: column that orders rows in time, for split = time; no value of a sample."""
    group_column: str | None = None
    """Tables: rows of one group are all trained or all tested with; no value of a sample."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Tables: share of the rows of every label that is held out for testing."""
