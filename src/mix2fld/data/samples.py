"""How a sample is stored, mixed, rounded for an upload, and scaled for a model or for display.

A sample is stored as uint8 from 0 to 255, or as float32 with a recorded range. A model is fed
float32: a stored uint8 divided by 255, a stored float as it is. An upload carries a value as a code
of 1 to 16 bits, evenly spaced over the range, or in 32 bits as the float32 that a model is fed.
Samples that inverse-Mixup generates are such floats and may lie outside the range of real ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.resolution import enlarge, pool
from mix2fld.types import Carried, Dataset, Dimensions, Inputs, SampleFormat

PIXEL_MAX = 255
"""The stored uint8 that a model sees as 1."""
FLOAT_BITS = 32
"""The width of an upload that rounds nothing."""
MOST_CODE_BITS = 16
_TIE_DECIMALS = 9


def mix(samples: Inputs, ratios: tuple[float, ...]) -> NDArray[np.float64]:
    """Eq. 6: sum over i of lambda_i times sample i, for ``samples`` [m, N, ...]."""
    return np.einsum("mn...,n->m...", samples.astype(np.float64), np.asarray(ratios))


def standardise(
    inputs: NDArray[Any], mean: tuple[float, ...], std: tuple[float, ...]
) -> NDArray[np.float32]:
    """Every channel, the last axis, with its mean subtracted and divided by its deviation."""
    return ((inputs.astype(np.float64) - np.array(mean)) / np.array(std)).astype(np.float32)


def channel_statistics(
    inputs: NDArray[Any], names: Sequence[str] = ()
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, the last axis; none may be constant."""
    values = inputs.reshape(-1, inputs.shape[-1]).astype(np.float64)
    mean, std = values.mean(axis=0), values.std(axis=0)
    constant = np.flatnonzero(values.min(axis=0) == values.max(axis=0))
    if len(constant):
        channel = int(constant[0])
        name = names[channel] if names else f"channel {channel}"
        raise InputError(
            f"{name}: is {values[0, channel]:g} in every training sample and cannot be "
            "standardised; leave it out, or set standardise = never"
        )
    return tuple(mean.tolist()), tuple(std.tolist())


def standardised(dataset: Dataset) -> Dataset:
    """The dataset with mean 0 and deviation 1 in every channel of its training samples."""
    if dataset.samples.dtype != "float32" or dataset.mean:
        raise InputError(
            field="standardise",
            value="always",
            hint=f"samples are {dataset.samples}; only float32 samples can be "
            "standardised, and only once",
        )
    mean, std = channel_statistics(dataset.train_inputs)
    return replace(
        dataset,
        train_inputs=standardise(dataset.train_inputs, mean, std),
        test_inputs=standardise(dataset.test_inputs, mean, std),
        value_range=None,
        mean=mean,
        std=std,
    )


def as_measured(inputs: NDArray[Any], samples: SampleFormat) -> Inputs:
    """New samples [n, ...] in the type of those of a run; raises ``InputError`` for other ones.

    Where a frozen network made those, it is applied to samples as they were recorded.
    """
    network = samples.network
    if network is not None and inputs.shape[1:] == network.shape and len(inputs):
        from mix2fld.data.features.compute import features_of

        recorded = as_measured(inputs, SampleFormat(network.shape, network.dtype))
        inputs = features_of(network, recorded)
    if inputs.shape[1:] != samples.shape or not len(inputs):
        raise InputError(
            field="samples",
            hint=f"{list(inputs.shape)}; must be [n, {', '.join(map(str, samples.shape))}]"
            + (f", or {list(network.shape)} each for {network.name}" if network else "")
            + (": add an axis for one sample" if inputs.shape == samples.shape else ""),
        )
    whole = np.issubdtype(inputs.dtype, np.integer)
    if samples.dtype != "float32":
        most = PIXEL_MAX if samples.dtype == "uint8" else np.iinfo(np.int32).max
        if not whole or inputs.min() < 0 or inputs.max() > most:
            raise InputError(
                field="samples",
                hint=f"{inputs.dtype}; must be integers from 0 to {most}, as the model's are",
            )
        return inputs.astype(samples.dtype)
    if not (whole or np.issubdtype(inputs.dtype, np.floating)):
        raise InputError(field="samples", hint=f"{inputs.dtype}; must be numbers")
    finite = np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
    if not finite.all():
        raise InputError(
            field="samples",
            hint=f"sample {int(np.argmin(finite))} has a value that is not finite (NaN or inf)",
        )
    return inputs.astype(np.float64 if samples.mean else np.float32)  # type: ignore[return-value]


def stored_unit(samples: SampleFormat) -> int:
    """The stored value that a model sees as 1."""
    return PIXEL_MAX if samples.dtype == "uint8" else 1


def in_units(pixels: Any) -> Any:
    """Pixels, as floats of any array library, where a stored 255 is 1."""
    return pixels / PIXEL_MAX


def as_fed(inputs: NDArray[Any], dtype: type[np.floating[Any]] | None = None) -> NDArray[Any]:
    """A new array, as a model is fed: a stored uint8 of 255 is 1, others are as stored."""
    if inputs.dtype != np.uint8:
        return np.array(inputs, dtype=dtype)
    kind = dtype or np.float32
    fed: NDArray[Any] = in_units(inputs.astype(kind))
    return fed


def clip_to_real(inputs: NDArray[np.float32], samples: SampleFormat) -> NDArray[np.float32]:
    """Generated samples, as a model is fed them, clipped to the range of real ones."""
    return np.clip(inputs, np.float32(samples.low), np.float32(samples.high))


def to_stored_units(inputs: NDArray[Any], samples: SampleFormat) -> NDArray[np.float64]:
    """What a model is fed in the units of storage, in which distances are measured; not rounded."""
    return inputs.astype(np.float64) * stored_unit(samples)


@dataclass(frozen=True)
class Coding:
    """What an upload carries of each value: a code of n bits over the range, or a float32."""

    samples: SampleFormat
    bits: int

    def __post_init__(self) -> None:
        if not (1 <= self.bits <= MOST_CODE_BITS or self.bits == FLOAT_BITS):
            raise InputError(field="seed_bits", value=self.bits, hint="must be from 1 to 16, or 32")

    @property
    def rounds(self) -> bool:
        """Whether values are carried as codes."""
        return self.bits != FLOAT_BITS

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array that holds what is carried."""
        kind = np.float32 if not self.rounds else np.uint8 if self.bits <= 8 else np.uint16
        return np.dtype(kind)

    @property
    def last_code(self) -> int:
        """What stands for the upper end of the range; 0 stands for the lower one."""
        return 2**self.bits - 1

    @property
    def per_unit(self) -> float:
        """How much a carried value grows when that which a model is fed grows by 1."""
        return self.last_code / (self.samples.high - self.samples.low) if self.rounds else 1.0

    @property
    def origin(self) -> float:
        """What a model is fed for a carried 0."""
        return self.samples.low if self.rounds else 0.0

    def carry(self, values: NDArray[np.float64]) -> Carried:
        """Values in the units of storage as an upload carries them, clipped to the range.

        The nearest code; a half goes to the even one. Mixes of whole numbers often end in exactly
        one half, which floating point misses by a few units in the last place: these must not
        decide which way it is rounded.
        """
        unit = stored_unit(self.samples)
        low, high = unit * self.samples.low, unit * self.samples.high
        if not self.rounds:
            return (np.clip(values, low, high) / unit).astype(np.float32)
        codes = (values - low) * (self.last_code / (high - low))
        nearest = np.rint(np.round(codes, _TIE_DECIMALS))
        return np.clip(nearest, 0, self.last_code).astype(self.dtype)

    def as_fed(self, carried: Carried) -> Inputs:
        """What a model can be fed: codes that are the stored values themselves as they are."""
        if not self.rounds or (self.samples.dtype == "uint8" and self.bits == 8):
            return carried  # type: ignore[return-value]
        return (carried.astype(np.float64) / self.per_unit + self.origin).astype(np.float32)

    def in_stored_units(self, carried: Carried) -> NDArray[np.float64]:
        """The values that are carried, exactly, in which distances are measured."""
        unit = stored_unit(self.samples)
        values = carried.astype(np.float64) * (unit / self.per_unit)
        return values + unit * self.origin if self.origin else values


def coding_of(dims: Dimensions) -> Coding:
    """How the seeds of a run are carried."""
    return Coding(dims.samples, dims.seed_bits)


def carry_seeds(values: NDArray[np.float64], dims: Dimensions) -> Carried:
    """Samples or mixes in the units of storage as seeds carry them: pooled, then rounded."""
    return coding_of(dims).carry(pool(values, dims.seed_shape))


def seeds_as_fed(carried: Carried, dims: Dimensions) -> Inputs:
    """Seeds as a model can be fed them: at the size of a sample."""
    if dims.seed_shape == dims.samples.shape:
        return coding_of(dims).as_fed(carried)
    unit = stored_unit(dims.samples)
    return (seeds_in_stored_units(carried, dims) / unit).astype(np.float32)


def seeds_in_stored_units(carried: Carried, dims: Dimensions) -> NDArray[np.float64]:
    """Seeds at the size of a sample, in the units in which distances are measured."""
    return enlarge(coding_of(dims).in_stored_units(carried), dims.samples.shape)
