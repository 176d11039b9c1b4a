"""What can be sent: one file for each kind of payload, and what a custom one is made of."""

from mix2fld.codecs.codec import (
    FORMAT,
    Encoded,
    Floats,
    Nothing,
    Payload,
    PayloadError,
    Restored,
    Size,
    UpdateCodec,
    compress_rows,
    estimated_norm,
    keeps_weights,
    restore_rows,
)
from mix2fld.codecs.entries import Entries
from mix2fld.codecs.global_steps import GlobalSteps
from mix2fld.codecs.named import Named
from mix2fld.codecs.outputs import Outputs
from mix2fld.codecs.rotated_update import RotatedUpdate
from mix2fld.codecs.seed_samples import SeedLabels, SeedSamples, WithSeeds
from mix2fld.codecs.sparse_update import LargestEntries, SparseTernary
from mix2fld.codecs.split_update import SplitUpdate, with_last_layer_apart
from mix2fld.codecs.statistics import ClassMeans, ClassStatistics, PartOfStatistics
from mix2fld.codecs.summable import DirectionSigns, Projection, Signs
from mix2fld.codecs.weights import Weights, flatten_tensors, unflatten_tensors
from mix2fld.codecs.whole_numbers import Addends, WholeNumbers
from mix2fld.codecs.with_bins import WithBins

__all__ = [
    "FORMAT",
    "Addends",
    "ClassMeans",
    "ClassStatistics",
    "DirectionSigns",
    "Encoded",
    "Entries",
    "Floats",
    "GlobalSteps",
    "LargestEntries",
    "Named",
    "Nothing",
    "Outputs",
    "PartOfStatistics",
    "Payload",
    "PayloadError",
    "Projection",
    "Restored",
    "RotatedUpdate",
    "SeedLabels",
    "SeedSamples",
    "Signs",
    "Size",
    "SparseTernary",
    "SplitUpdate",
    "UpdateCodec",
    "Weights",
    "WholeNumbers",
    "WithBins",
    "WithSeeds",
    "compress_rows",
    "estimated_norm",
    "flatten_tensors",
    "keeps_weights",
    "restore_rows",
    "unflatten_tensors",
    "with_last_layer_apart",
]


def __dir__() -> list[str]:
    return sorted(__all__)
