"""What can be sent: one file for each kind of payload."""

from mix2fld.link.payloads.codec import FORMAT, Encoded, Payload, PayloadError, Size
from mix2fld.link.payloads.nothing import Nothing
from mix2fld.link.payloads.outputs import Outputs
from mix2fld.link.payloads.seed_samples import SeedSamples
from mix2fld.link.payloads.weights import Weights, flatten_tensors, unflatten_tensors

__all__ = [
    "FORMAT",
    "Encoded",
    "Nothing",
    "Outputs",
    "Payload",
    "PayloadError",
    "SeedSamples",
    "Size",
    "Weights",
    "flatten_tensors",
    "unflatten_tensors",
]
