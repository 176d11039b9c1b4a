"""What protocols are made of: the device half and the server half, and what crosses between them.

An uplink picks the value, a payload carries it. Most uplinks remember nothing. One that sends
updates keeps in the device's state what the update is counted from, and what did not fit so far:
it says which entries of the state it needs (``start``), and how they change when an upload was
delivered and when a download replaces the weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.accounting import Guarantee
from mix2fld.codecs import Nothing, Payload, SeedSamples
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.tasks.losses import Loss, label_loss
from mix2fld.tasks.training import Training
from mix2fld.types import (
    Dimensions,
    Inputs,
    Local,
    Seeds,
    SeedSet,
    ServerState,
    State,
    Tensors,
    Upload,
)

if TYPE_CHECKING:
    from mix2fld.config.settings import Config
    from mix2fld.protocols.seed_screening import Judgement


class Turn(NamedTuple):
    """Whose upload of which round: what both ends know of it, e.g. to draw the same numbers."""

    seed: int
    round_number: int
    device: int
    room: int | None = None
    """Bits that the upload may take, told to the device by the server; None: as configured."""


class Uplink(ABC):
    """What a device sends up."""

    payload: Payload
    kind: str = "model"
    """What features are, where it needs them."""

    @property
    def takes_bit_budget(self) -> bool:
        """Whether an upload can have more or fewer bits, as the server says."""
        return False

    @property
    def labels_seeds(self) -> bool:
        """Whether it needs the outputs of the trained model for the seeds that a device holds."""
        return False

    @property
    def measures_samples(self) -> bool:
        """Whether it needs the features of the device's own samples."""
        return False

    def measures_now(self, state: State) -> bool:
        """Whether it needs them in this round."""
        del state
        return self.measures_samples

    @property
    def needs_trusted_sum(self) -> bool:
        """Whether somebody between device and server must sum uploads, which is only simulated."""
        return False

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """This uplink with what it takes from the config and the model; most take nothing."""
        del config, dims
        return self

    def start(self, weights: Tensors) -> State:
        """The entries that a device's state begins with, beside its weights."""
        del weights
        return {}

    @abstractmethod
    def value(self, state: State, local: Local, turn: Turn) -> Any:
        """What the payload carries; ``state`` is the device's before its local phase."""

    def read(self, value: Any, turn: Turn) -> Any:
        """What the server takes a decoded value for."""
        del turn
        return value

    def delivered(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        """The entries that change if the upload is delivered; ``read()`` is what arrives."""
        del state, local, read
        return {}

    def replaced(self, state: State, weights: Tensors) -> State:
        """The entries that change when a download puts ``weights`` in place of the device's."""
        del state, weights
        return {}

    def forgotten(self, state: State) -> State:
        """The entries that change if the device uploaded before, but lost what it knew of it."""
        del state
        return {}


@dataclass(frozen=True)
class NoUplink(Uplink):
    """Nothing is sent."""

    payload: Nothing = field(default_factory=Nothing)

    def value(self, state: State, local: Local, turn: Turn) -> None:
        """Nothing."""
        del state, local, turn


Arrives = Callable[[int], bool]
"""Whether so many bits can be expected to reach those who listen."""


class Downlink(ABC):
    """What the server sends down."""

    payload: Payload
    same_for_all: ClassVar[bool] = True
    """Whether a value depends on the server alone, not on who listens."""

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """This downlink with what it takes from the config and the model; most take nothing."""
        del config, dims
        return self

    def start(self, dims: Dimensions) -> State:
        """The entries that a device's state begins with, beside its weights."""
        del dims
        return {}

    @abstractmethod
    def value(self, server: ServerState) -> Any:
        """What the payload carries."""

    def value_for(self, server: ServerState, audience: Sequence[int], arrives: Arrives) -> Any:
        """What the payload carries to these listeners; most carry the same to everyone."""
        del audience, arrives
        return self.value(server)

    @abstractmethod
    def received(self, value: Any) -> State:
        """The entries of a device's state that a decoded value replaces."""

    def heard(self, server: ServerState, receivers: Collection[int], value: Any) -> State:
        """The entries of the server's memory that change when these devices received a value."""
        del server, receivers, value
        return {}


@dataclass(frozen=True)
class NoDownlink(Downlink):
    """Nothing is sent."""

    payload: Nothing = field(default_factory=Nothing)

    def value(self, server: ServerState) -> None:
        """Nothing."""
        del server

    def received(self, value: Any) -> State:
        """Nothing changes."""
        del value
        return {}


Inbox = Mapping[int, Upload]


CollectSeeds = Callable[[np.random.Generator, Inputs, NDArray[np.int32], Sizes], Any]


MakeModel = Callable[[Inputs, NDArray[np.int32], Learning], Tensors]


PrepareSeeds = Callable[[Mapping[int, Seeds], Sizes], SeedSet | None]


class StepInfo(NamedTuple):
    """What the server did in its step, beside the new state."""

    steps: int = 0
    """SGD steps, which take their time."""
    judged: "Judgement | None" = None
    """Of uploads that can contradict each other: what was found of them."""


ServerStep = Callable[
    [ServerState, Inbox, SeedSet | None, Learning, int], tuple[ServerState, StepInfo]
]
Promise = Callable[["Config"], Guarantee]
"""What uploads with these settings guarantee about the samples of a device."""


def server_step(words: str, *, trains: bool = False) -> Callable[[ServerStep], ServerStep]:
    """A server's step with a sentence for reports; ``trains`` if it takes the K_s steps."""

    def mark(step: ServerStep) -> ServerStep:
        vars(step).update(words=words, trains=trains)
        return step

    return mark


@dataclass(frozen=True)
class Seeding:
    """Samples that devices upload once: how they are made, carried and prepared for training."""

    collect: CollectSeeds
    prepare: PrepareSeeds
    mixed: bool
    """Whether a seed mixes several samples, or is one."""
    unmixed: bool = False
    """Whether the server trains on samples that it unmixed from the seeds."""

    def payload(self, sizes: Sizes) -> Payload:
        """The seeds on the link, each with the labels that it mixes."""
        return SeedSamples(mix_size=len(sizes.config.seeding.ratios) if self.mixed else 1)


plain = Training()
TRAINING = {
    name: name
    for name in ("learning_rate", "final_learning_rate", "logit_adjustment", "device_model")
}
"""Parameters that every protocol has."""

Parameter = str | Callable[["Protocol", str], "Protocol"]
"""The setting that a parameter is, by its plain name; or how it changes the protocol itself."""


@dataclass(frozen=True)
class Protocol:
    """What each side computes and sends."""

    title: str
    local_loss: Loss
    uplink: Uplink
    seeds: Seeding | None
    server_step: ServerStep
    downlink: Downlink
    training: Training = plain
    """How devices train unless the config says otherwise."""
    first_model: MakeModel | None = None
    """What a device begins with of its own samples, until a download comes; None: untrained."""
    promise: Promise | None = None
    """What its uploads guarantee about the samples of a device; None: nothing."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict, hash=False)
    """What can be said of it on a command line, as in ``murmur:bits=200``, beside ``TRAINING``."""
    colour: str = "#000000"
    line: str | tuple[int, tuple[int, ...]] = "-"
    """Its line in figures, as Matplotlib has it."""

    @property
    def server_trains(self) -> bool:
        """Whether the server's step trains a model."""
        return bool(getattr(self.server_step, "trains", False))

    @property
    def server_words(self) -> str:
        """What the server does, in a sentence."""
        return str(getattr(self.server_step, "words", "The server takes its step."))


def named(*fields: str) -> dict[str, Parameter]:
    """Parameters that are settings of the same name."""
    return {field: field for field in fields}


@server_step("The server does nothing.")
def keep_state(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    """Isolated devices: there is nothing to do."""
    del inbox, seeds, learning, round_number
    return state, StepInfo()


ISOLATED = Protocol(
    "isolated", label_loss, NoUplink(), None, keep_state, NoDownlink(),
    colour="#7f7f7f", line=(0, (1, 1)),
)  # fmt: skip
