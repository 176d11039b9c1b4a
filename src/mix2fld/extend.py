"""What custom protocols, links, tasks and fleets are made of.

Codecs are made of ``mix2fld.codecs``; ``mix2fld.tensors`` adds and scales models.

``docs/howto/extending.md`` has a skeleton of each; nothing else needs to be imported.
"""

from mix2fld.base.errors import InputError
from mix2fld.data import PARTITIONS
from mix2fld.engine.fleet_interface import Fleet
from mix2fld.engine.messages import Message
from mix2fld.engine.one_round import run_round, start_run
from mix2fld.links import LINKS, Direction, Link, Memoryless
from mix2fld.protocols.base import Isolated, Protocol
from mix2fld.protocols.distillation import FD, FLD, Mix2FLD, MixFLD
from mix2fld.protocols.labels import CFD
from mix2fld.protocols.parts import Device, Inbox, StepInfo, Turn, only, parameter, setting
from mix2fld.protocols.seed_intake import take_in_seeds
from mix2fld.protocols.transforms import ClippedNoise, ErrorFeedback, Transform
from mix2fld.protocols.updates import EDEN, STC, Murmur, Sign, TopK, Updates
from mix2fld.protocols.weights import FL, DownloadsWeights
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.losses import Loss
from mix2fld.tasks.stepper import Start
from mix2fld.tasks.training import Training
from mix2fld.types import Delivery, Dimensions, Local, ServerState, State, Update, Upload

__all__ = [
    "CFD",
    "EDEN",
    "FD",
    "FL",
    "FLD",
    "LINKS",
    "PARTITIONS",
    "STC",
    "ClippedNoise",
    "Delivery",
    "Device",
    "Dimensions",
    "Direction",
    "DownloadsWeights",
    "ErrorFeedback",
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
    "Protocol",
    "ServerState",
    "Sign",
    "Start",
    "State",
    "StepInfo",
    "TopK",
    "Training",
    "Transform",
    "Turn",
    "Update",
    "Updates",
    "Upload",
    "make_simulation",
    "only",
    "parameter",
    "run_round",
    "setting",
    "start_run",
    "take_in_seeds",
]


def __dir__() -> list[str]:
    return sorted(__all__)
