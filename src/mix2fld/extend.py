"""What custom protocols, codecs, links, tasks and fleets are made of.

``docs/howto/extending.md`` has a skeleton of each; nothing else needs to be imported for them.
"""

from mix2fld.base.errors import InputError
from mix2fld.codecs import (
    Encoded,
    Pair,
    Payload,
    PayloadError,
    Restored,
    Size,
    UpdateCodec,
    Weights,
    flatten_tensors,
    unflatten_tensors,
)
from mix2fld.data import PARTITIONS
from mix2fld.engine.fleet_interface import Fleet
from mix2fld.engine.messages import Message
from mix2fld.engine.one_round import run_round, start_run
from mix2fld.links import LINKS, Direction, Link, Memoryless
from mix2fld.protocols.base import Isolated, Protocol
from mix2fld.protocols.distillation import FD, FLD, Mix2FLD, MixFLD
from mix2fld.protocols.labels import CFD
from mix2fld.protocols.parts import Device, Inbox, StepInfo, Turn, parameter, setting
from mix2fld.protocols.updates import EDEN, STC, Murmur, Sign, TopK, Updates
from mix2fld.protocols.weights import FL, DownloadsWeights, minus, plus, scaled, total, zeros
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.stepper import Start
from mix2fld.tasks.training import Training
from mix2fld.types import Delivery, Dimensions, Local, ServerState, State, Tensors, Update, Upload

Codec = Payload

__all__ = [
    "CFD",
    "EDEN",
    "FD",
    "FL",
    "FLD",
    "LINKS",
    "PARTITIONS",
    "STC",
    "Codec",
    "Delivery",
    "Device",
    "Dimensions",
    "Direction",
    "DownloadsWeights",
    "Encoded",
    "Fleet",
    "Inbox",
    "InputError",
    "Isolated",
    "Link",
    "Local",
    "Loss",
    "Memoryless",
    "Message",
    "Mix2FLD",
    "MixFLD",
    "Murmur",
    "Pair",
    "PayloadError",
    "Protocol",
    "Restored",
    "ServerState",
    "Sign",
    "Size",
    "Start",
    "State",
    "StepInfo",
    "Tensors",
    "TopK",
    "Training",
    "Turn",
    "Update",
    "UpdateCodec",
    "Updates",
    "Upload",
    "Weights",
    "flatten_tensors",
    "make_simulation",
    "minus",
    "parameter",
    "plus",
    "run_round",
    "scaled",
    "setting",
    "start_run",
    "total",
    "unflatten_tensors",
    "zeros",
]


def __dir__() -> list[str]:
    return sorted(__all__)
