"""A dataset: samples of any shape, their labels or targets, and how they are stored. NumPy only."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError

Inputs = NDArray[np.uint8] | NDArray[np.float32] | NDArray[np.int32]
"""Samples as stored: uint8 (fed to a model as x / 255), float32 or int32 (both fed as they are)."""
NOT_GIVEN: Any = None
"""In place of an array; it is then empty, as labels are where targets are numbers."""


@dataclass(frozen=True)
class FrozenNetwork:
    """The network that made vectors of samples: the same one on all devices of a run."""

    name: str
    """As the setting ``features`` names it."""
    digest: str
    """Checksum of its weights or code."""
    shape: tuple[int, ...]
    """Of a sample that it takes."""
    dtype: str


@dataclass(frozen=True)
class SampleFormat:
    """What every sample of a run is: the same on all devices and at the server."""

    shape: tuple[int, ...]
    dtype: str = "uint8"
    """uint8 (0 to 255, fed as x / 255), float32 (fed as stored) or int32 (token ids)."""
    low: float = 0.0
    """The smallest value, as a model is fed it: what code 0 of an n-bit upload stands for."""
    high: float = 1.0
    """The largest one: what the last code stands for."""
    mean: tuple[float, ...] = ()
    """What was subtracted from each channel before samples were stored; empty if nothing was."""
    std: tuple[float, ...] = ()
    """What each channel was divided by then."""
    network: FrozenNetwork | None = None
    """What made the samples, vectors then, of those that are recorded."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "SampleFormat":
        """The format that ``record`` describes, as it is after a way through JSON."""
        fields = {name: _as_tuple(value) for name, value in record.items()}
        if fields.get("network"):
            network = {name: _as_tuple(value) for name, value in fields["network"].items()}
            fields["network"] = FrozenNetwork(**network)
        return cls(**fields)

    def record(self) -> dict[str, Any]:
        """All of it as plain values; the network only if there is one."""
        fields = asdict(self)
        if self.network is None:
            del fields["network"]
        return fields

    @property
    def mixable(self) -> bool:
        """Whether a weighted sum of samples is a sample; one of token ids is not."""
        return self.dtype != "int32"

    def __str__(self) -> str:
        text = f"{self.dtype} {list(self.shape)}"
        if self.dtype == "float32":
            text += f" from {self.low:g} to {self.high:g}"
        return f"{text}, standardised" if self.mean else text


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples with their labels, or with numbers as targets, as stored.

    Samples of any shape are uint8, float32 or int32 (token ids); float64 and other integers are
    converted. ``value_range`` is what an n-bit upload of float32 samples spans, by default the
    range of the training samples. ``mean`` and ``std`` (per channel, the last axis) say how float32
    samples were standardised beforehand. ``rate`` is that of recordings, samples a second, 0 if
    it is not known; ``network`` made the samples, vectors then, of others. ``train_sources`` names
    the source of each training sample, for the partition by-source. Where targets are numbers,
    ``train_targets`` and ``test_targets`` take the place of labels and their number.
    """

    name: str
    train_inputs: Inputs  # [n, ...]
    train_labels: NDArray[np.int32] = NOT_GIVEN  # [n]
    test_inputs: Inputs = NOT_GIVEN  # [m, ...]
    test_labels: NDArray[np.int32] = NOT_GIVEN  # [m]
    num_labels: int = 0
    value_range: tuple[float, float] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    train_sources: NDArray[np.int32] | None = None  # [n]
    label_names: tuple[str, ...] = ()
    source_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()  # of the last axis, such as the columns of a table
    columns: tuple[Any, ...] = ()  # of a table: how each became values of a sample
    test_sources: NDArray[np.int32] | None = None  # [m]
    notes: tuple[str, ...] = ()  # what its users should know
    train_targets: NDArray[np.float32] | None = None  # [n] or [n, T]
    test_targets: NDArray[np.float32] | None = None  # [m] or [m, T]
    rate: int = 0
    network: FrozenNetwork | None = None
    test_baselines: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Simple predictions of the test targets, by name."""
    series: Any = None
    """How a table of series became windows (``data.forecast.SeriesColumns``)."""

    def __post_init__(self) -> None:
        """Refuse arrays that are not what they should be."""
        for name in ("train_labels", "test_labels", "test_inputs"):
            if getattr(self, name) is NOT_GIVEN:
                object.__setattr__(self, name, np.empty(0, np.int32))
        for part in ("train", "test"):
            self._check_part(part)
        train, test = self.train_inputs, self.test_inputs
        if train.dtype != test.dtype:
            raise InputError(
                field="test_inputs", hint=f"{test.dtype}; training samples are {train.dtype}"
            )
        if train.shape[1:] != test.shape[1:]:
            raise InputError(
                field="test_inputs",
                hint=f"{list(test.shape[1:])} each; training samples are {list(train.shape[1:])}",
            )
        if self.train_targets is not None:
            self._check_widths()
        elif self.num_labels < 2:
            raise InputError(field="num_labels", value=self.num_labels, hint="must be 2 or more")
        self._check_range()
        self._check_standardised()
        self._check_sources()
        names, wanted = len(self.feature_names), self.sample_shape[-1:]
        if names and (names,) != wanted:
            raise InputError(
                field="feature_names",
                value=names,
                hint=f"must be one for each of {list(wanted)} on the last axis of a sample",
            )

    def _check_part(self, part: str) -> None:
        inputs = _as_stored(f"{part}_inputs", np.asarray(getattr(self, f"{part}_inputs")))
        object.__setattr__(self, f"{part}_inputs", inputs)
        if self.train_targets is not None or self.test_targets is not None:
            self._check_targets(part, len(inputs))
            return
        labels = np.asarray(getattr(self, f"{part}_labels"))
        if not np.issubdtype(labels.dtype, np.integer) or labels.shape != inputs.shape[:1]:
            raise InputError(
                f"{part}_labels: {labels.dtype}{list(labels.shape)}; must be integers, one for "
                f"each of {len(inputs)} samples"
            )
        if labels.min() < 0 or labels.max() >= self.num_labels:
            raise InputError(
                f"{part}_labels: from {labels.min()} to {labels.max()}; must be from 0 to "
                f"{self.num_labels - 1}, with num_labels = {self.num_labels}"
            )
        object.__setattr__(self, f"{part}_labels", np.ascontiguousarray(labels, np.int32))

    def _check_targets(self, part: str, samples: int) -> None:
        name = f"{part}_targets"
        targets = np.asarray(getattr(self, name))
        if len(getattr(self, f"{part}_labels")):
            raise InputError(field=name, hint="a dataset has labels or targets, not both")
        if targets.ndim not in (1, 2) or len(targets) != samples or targets.dtype.kind not in "fiu":
            raise InputError(
                field=name,
                hint=f"{targets.dtype}{list(targets.shape)}; must be numbers [n] or [n, T], one "
                f"row for each of {samples} samples",
            )
        with np.errstate(over="ignore"):
            targets = np.ascontiguousarray(targets, np.float32)
        if not np.isfinite(targets).all():
            sample = int(np.argmin(np.isfinite(targets).reshape(samples, -1).all(axis=1)))
            raise InputError(field=name, hint=f"that of sample {sample} is not finite (NaN or inf)")
        object.__setattr__(self, name, targets)

    def _check_widths(self) -> None:
        assert self.train_targets is not None
        assert self.test_targets is not None
        train, test = self.train_targets.shape[1:], self.test_targets.shape[1:]
        if train != test:
            raise InputError(
                field="test_targets",
                hint=f"{list(test)} each; training targets are {list(train)}",
            )
        if np.ptp(self.train_targets, axis=0).max() == 0:
            raise InputError(field="train_targets", hint="all are the same; nothing is to learn")

    def _check_range(self) -> None:
        if self.train_inputs.dtype != np.float32:
            if self.value_range is not None:
                raise InputError(
                    field="value_range",
                    value=self.value_range,
                    hint=f"only float32 samples have one; these are {self.train_inputs.dtype}",
                )
            return
        given = self.value_range
        if given is None:
            given = (float(self.train_inputs.min()), float(self.train_inputs.max()))
        values = np.asarray(given, np.float32)
        if values.shape != (2,) or not np.isfinite(values).all() or values[0] >= values[1]:
            raise InputError(
                f"value_range = {given}: must be two numbers, the smaller one first"
                + ("" if self.value_range is not None else "; all training samples are the same")
            )
        object.__setattr__(self, "value_range", (float(values[0]), float(values[1])))

    def _check_standardised(self) -> None:
        if not self.mean and not self.std:
            return
        channels = self.train_inputs.shape[-1] if self.train_inputs.ndim > 1 else 1
        float_samples = self.train_inputs.dtype == np.float32
        if not float_samples or len(self.mean) != channels or len(self.std) != channels:
            raise InputError(
                f"mean and std: {len(self.mean)} and {len(self.std)} numbers for "
                f"{self.train_inputs.dtype} samples of {channels} channels; must be one for each "
                "channel, of float32 samples"
            )
        numbers = (*self.mean, *self.std)
        if not np.isfinite(numbers).all() or min(self.std) <= 0:
            raise InputError("mean and std: must be finite numbers, std above 0")

    def _check_sources(self) -> None:
        if self.train_sources is None:
            return
        sources = np.asarray(self.train_sources)
        if not np.issubdtype(sources.dtype, np.integer) or sources.shape != (
            len(self.train_inputs),
        ):
            raise InputError(
                field="train_sources",
                hint=f"{sources.dtype}{list(sources.shape)}; must be integers, one for "
                f"each of {len(self.train_inputs)} training samples",
            )
        if sources.min() < 0 or sources.max() >= 2**31:
            raise InputError(
                field="train_sources",
                hint=f"from {sources.min()} to {sources.max()}; must be 0 or above, and "
                f"below {2**31}",
            )
        object.__setattr__(self, "train_sources", np.ascontiguousarray(sources, np.int32))

    @property
    def train_values(self) -> NDArray[Any]:
        """Targets of the training samples as stored: integer labels, or numbers."""
        return self.train_labels if self.train_targets is None else self.train_targets

    @property
    def test_values(self) -> NDArray[Any]:
        """Labels or numbers of the test samples."""
        return self.test_labels if self.test_targets is None else self.test_targets

    @property
    def samples(self) -> SampleFormat:
        """How every sample is stored, mixed and fed to a model."""
        low, high = self.value_range or (0.0, 1.0)
        dtype = str(self.train_inputs.dtype)
        return SampleFormat(self.sample_shape, dtype, low, high, self.mean, self.std, self.network)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample, such as height, width and channels of an image."""
        return self.train_inputs.shape[1:]


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_stored(name: str, inputs: NDArray[Any]) -> Inputs:
    """The samples as uint8, float32 or int32; refuses what cannot be one of these."""
    if inputs.ndim < 2 or not inputs.size:
        raise InputError(
            f"{name}: {inputs.dtype}{list(inputs.shape)}; must be samples [n, ...], at least one"
        )
    if np.issubdtype(inputs.dtype, np.floating):
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(inputs, np.float32)
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not finite.all():
            sample = int(np.argmin(finite))
            raise InputError(f"{name}: sample {sample} has a value that is not finite (NaN or inf)")
        return values
    if inputs.dtype == np.uint8:
        return np.ascontiguousarray(inputs)
    if not np.issubdtype(inputs.dtype, np.integer):
        raise InputError(f"{name}: {inputs.dtype}; must be uint8, float32 or int32")
    if inputs.min() < 0 or inputs.max() >= 2**31:
        raise InputError(
            f"{name}: from {inputs.min()} to {inputs.max()}; integers other than uint8 are token "
            f"ids, which must be 0 or above and below {2**31}"
        )
    return np.ascontiguousarray(inputs, np.int32)
