"""What can be sent: one file for each kind of payload."""

from mix2fld.link.payloads.codec import FORMAT, Encoded, Payload, PayloadError, Size
from mix2fld.link.payloads.nothing import Nothing
from mix2fld.link.payloads.outputs import Outputs
from mix2fld.link.payloads.rotated_update import RotatedUpdate
from mix2fld.link.payloads.seed_labels import SeedLabels
from mix2fld.link.payloads.seed_samples import SeedSamples
from mix2fld.link.payloads.sparse_update import LargestEntries, SparseTernary
from mix2fld.link.payloads.split_update import SplitUpdate, with_last_layer_apart
from mix2fld.link.payloads.statistics import ClassStatistics, PartOfStatistics, WeightsWithMeans
from mix2fld.link.payloads.update_codec import Restored, UpdateCodec, estimated_norm
from mix2fld.link.payloads.weights import Weights, flatten_tensors, unflatten_tensors
from mix2fld.link.payloads.with_seeds import WithSeeds

__all__ = [
    "FORMAT",
    "ClassStatistics",
    "Encoded",
    "LargestEntries",
    "Nothing",
    "Outputs",
    "PartOfStatistics",
    "Payload",
    "PayloadError",
    "Restored",
    "RotatedUpdate",
    "SeedLabels",
    "SeedSamples",
    "Size",
    "SparseTernary",
    "SplitUpdate",
    "UpdateCodec",
    "Weights",
    "WeightsWithMeans",
    "WithSeeds",
    "estimated_norm",
    "flatten_tensors",
    "unflatten_tensors",
    "with_last_layer_apart",
]
