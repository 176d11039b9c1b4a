"""What a protocol is: a frozen class with its own parameters, its device half and its server half.

A protocol of the table says what is uploaded and downloaded (codecs), what a device sends and
remembers, what the server makes of it, what it promises about samples, and how it is shown. A
parameter that is a setting too gets its value from the config when the protocol is bound to a run.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs import Nothing, Payload, Size, flatten_tensors
from mix2fld.protocols.parts import (
    Arrives,
    Device,
    Inbox,
    Line,
    MakeModel,
    OneTimeUpload,
    Parameters,
    Promise,
    Seeding,
    StatisticsUpload,
    StepInfo,
    Stepped,
    Turn,
)
from mix2fld.tasks.base import Task
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.tasks.losses import Loss, label_loss
from mix2fld.tasks.stepper import Start
from mix2fld.tasks.training import Training
from mix2fld.types import Dimensions, Local, ServerState, State, Tensors, Upload

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

plain = Training()
LateUploads = Literal["mixed", "replaced", ""]
TRAINING = {
    name: name
    for name in ("learning_rate", "final_learning_rate", "logit_adjustment", "device_model")
}
"""Settings that every protocol takes as parameters: how its devices train."""


class ValueGrid(NamedTuple):
    """Even steps that values are rounded to."""

    step: float
    largest: int
    """In steps: the largest absolute value."""


@dataclass(frozen=True, kw_only=True)
class Protocol(Parameters, ABC):
    """What each side computes and sends."""

    title: str = ""
    training: Training = plain
    """How devices train unless the config says otherwise."""
    local_loss: Loss = label_loss
    seeds: Seeding | None = None
    """Samples that devices upload once."""
    statistics: StatisticsUpload | None = None
    """Statistics that devices upload once."""
    first_model: MakeModel | None = None
    """What a device begins with of its own samples, until a download comes; None: untrained."""
    promise: Promise | None = None
    """What its uploads guarantee about the samples of a device; None: nothing."""
    colour: str = "#000000"
    line: Line = "-"
    sums: ClassVar[bool] = False
    """Whether a sum of uploads says what the server needs of them (``from_signal``)."""
    adds_codes: ClassVar[bool] = False
    """Whether codes of devices can be added before they are decoded, as under masks."""
    trusted_sum: bool = False
    """Whether somebody between device and server must sum uploads, which is only simulated."""
    sizes: Sizes | None = field(default=None, compare=False, repr=False)
    """Of the run that it is bound to."""

    late_uploads: ClassVar[LateUploads] = ""
    """Where the server does not wait: a step's model is mixed with the last one, or an upload
    replaces the last one of its device among all; empty: uploads of a round belong together."""
    upload_kind: ClassVar[str | None] = None
    """What is compared between devices: weights, update or outputs; None: nothing."""
    needs_labels: ClassVar[bool] = False
    """Whether it means something only where each sample has a label."""
    needs_groups: ClassVar[bool] = False
    """Whether it averages outputs in groups of samples: labels, or bins of a number."""
    needs_closed_form: ClassVar[bool] = False
    """Whether statistics must determine the last layer of a model."""
    downlinks: ClassVar[tuple[str, ...]] = ("weights",)
    """How the global model can come down; the first is the protocol's own."""
    sends_steps: ClassVar[bool] = False
    """Whether the size of a download depends on how many steps its listeners missed."""
    needs_replay: ClassVar[bool] = False
    """Whether a device cannot upload without the seed samples of all devices."""

    def __init_subclass__(cls, **given: Any) -> None:
        """What a class changes, it describes anew: nothing is taken over that may not hold.

        With a step of its own, whether devices can take it, too; with another upload, what it is
        (``upload_kind``), whether a sum of several has a meaning (``sums``), and how to make many
        (one after the other, unless it says so).
        """
        super().__init_subclass__(**given)
        if not vars(cls).keys().isdisjoint(("upload", "upload_codec")):
            cls.upload_kind = vars(cls).get("upload_kind")
            cls.sums = vars(cls).get("sums", False)
            cls.adds_codes = vars(cls).get("adds_codes", False)
        if "step" in vars(cls) and "downlinks" not in vars(cls):
            others = (each for each in cls.downlinks if each not in ("weights", "relay"))
            cls.downlinks = ("weights", *others)
        for own, together in (("upload", "uploads"), ("read", "reads")):
            if own in vars(cls) and together not in vars(cls):
                setattr(cls, together, getattr(Protocol, together))

    def bound(self, sizes: Sizes) -> Self:
        """This protocol in a run, with the parameters that are settings there."""
        return replace(self.configured(sizes.config), sizes=sizes)

    @property
    def dims(self) -> Dimensions:
        """The sizes of samples and model."""
        return self._bound_to.dims

    @property
    def config(self) -> "Config":
        """The settings of the run."""
        return self._bound_to.config

    @property
    def task(self) -> Task:
        """What is learned."""
        return self._bound_to.task

    @property
    def last_layer(self) -> tuple[int, ...]:
        """The arrays of the layer whose outputs are the logits, as far as they are known."""
        return self._bound_to.last_layer

    @property
    def learning(self) -> Learning:
        """The run's model, and who trains it; a protocol of a plan has none."""
        return self._bound_to.learning

    @property
    def devices(self) -> int:
        """How many devices there are, |D|."""
        return self.config.data.devices

    @property
    def _bound_to(self) -> Sizes:
        if self.sizes is None:
            raise ValueError(f"{self.title}: not bound to a run")
        return self.sizes

    @property
    def same_for_all(self) -> bool:
        """Whether a download depends on the server alone, not on who listens."""
        return True

    @property
    def takes_bit_budget(self) -> bool:
        """Whether an upload can have more or fewer bits, as the server says."""
        return False

    @property
    def server_steps(self) -> int:
        """SGD steps of the server in a step that trains a model; plans count on them."""
        return 0

    @property
    def once(self) -> OneTimeUpload | None:
        """What devices upload once."""
        return self.seeds or self.statistics

    # What crosses the link

    @property
    def upload_codec(self) -> Payload:
        """What carries an upload."""
        return Nothing()

    @property
    def download_codec(self) -> Payload:
        """What carries a download."""
        return Nothing()

    def download_size(self, arrives: Arrives | None = None) -> Size:
        """Bits of a download in advance; with ``arrives``, of the largest that reaches devices."""
        return self.download_codec.size(self.dims)

    # The device half

    def start(self, weights: Tensors) -> State:
        """The entries that a device's state begins with, beside its weights."""
        return {}

    def begin(self, state: State, start: Start) -> Start:
        """Where a device begins its local phase."""
        return start

    def upload(self, device: Device, local: Local) -> Any:
        """What ``upload_codec`` carries."""

    def uploads(self, devices: Sequence[Device], local: Sequence[Local]) -> list[Any]:
        """What it carries of each of several devices."""
        return [self.upload(device, own) for device, own in zip(devices, local, strict=True)]

    def on_acknowledged(self, state: State, local: Local, read: Callable[[], Any]) -> State:
        """The entries that change if the upload is delivered; ``read()`` is what arrives."""
        return {}

    def received(self, value: Any) -> State:
        """The entries of a device's state that a decoded download replaces."""
        return {}

    def taken(self, value: Any, states: Iterable[State]) -> State:
        """The same, where it depends on what devices have: ``states`` of some of them."""
        return self.received(value)

    def has_taken(self, value: Any, state: State) -> bool:
        """Whether a device that received a download has what it leads to."""
        return True

    def on_download(self, state: State, weights: Tensors) -> State:
        """The entries that change when a download puts ``weights`` in place of the device's."""
        return {}

    def on_state_lost(self, state: State) -> State:
        """The entries that change if the device uploaded before, but lost what it knew of it."""
        return {}

    # The server half

    def read(self, value: Any, turn: Turn) -> Any:
        """What the server takes a decoded upload for."""
        return value

    def reads(self, values: Sequence[Any], turns: Sequence[Turn]) -> list[Any]:
        """The same of several uploads."""
        return [self.read(value, turn) for value, turn in zip(values, turns, strict=True)]

    @property
    @abstractmethod
    def server_words(self) -> str:
        """What the server does, in a sentence."""

    @abstractmethod
    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """The server's step: its new state, and what it did."""

    def after_step(
        self, before: ServerState, after: ServerState, inbox: Inbox, round_number: int
    ) -> ServerState:
        """The server with its step as the downlink carries it."""
        return after

    def download(self, server: ServerState) -> Any:
        """What ``download_codec`` carries."""

    def download_to(self, server: ServerState, device: int) -> Any:
        """What it carries to a device that could have heard the multicasts since its last turn."""
        return self.download(server)

    def download_for(self, server: ServerState, audience: Sequence[int], arrives: Arrives) -> Any:
        """What it carries to these listeners; most protocols carry the same to everyone."""
        return self.download(server)

    def beyond_history(
        self, server: ServerState, audience: Sequence[int], value: Any
    ) -> Sequence[int]:
        """Listeners that lack more steps than the server keeps, so that it sends weights."""
        return ()

    def on_receipt(
        self, server: ServerState, receivers: Collection[int], asked: Collection[int], value: Any
    ) -> State:
        """The entries of the server's memory that change when these devices received a value.

        Those that were ``asked`` for an upload have confirmed it; others will be sent it again.
        """
        return {}

    # What an upload says, as numbers

    @property
    def values(self) -> int:
        """How many values an upload takes on a link that adds."""
        return self.dims.num_weights

    def signal(self, upload: Upload, turn: Turn) -> NDArray[np.float32]:
        """The values of an upload that arrived, as a link that adds carries them."""
        return flatten_tensors(self.tensors_in(upload.value, upload.samples), self.dims)

    def from_signal(self, mean: NDArray[np.float32], turn: Turn) -> Any:
        """What the server takes the mean of signals for, where only their sum arrives."""
        raise NotImplementedError(f"{self.title}: a sum of its uploads has no meaning")

    @property
    def grid(self) -> "ValueGrid":
        """The whole numbers that the values of codes are rounded to, where these are added."""
        privacy = self.config.privacy
        largest = (1 << (privacy.sum_bits - 1)) - 1
        return ValueGrid(privacy.sum_range / largest, largest)

    @property
    def same_in_all_rounds(self) -> bool:
        """Whether values of different rounds have the same meaning, so that they can be added."""
        return True

    @property
    def counts(self) -> tuple[int, ...]:
        """How many values the codes have that are added, of each kind of upload."""
        return (self.values,)

    def to_add(self, value: Any) -> tuple[int, NDArray[Any]] | None:
        """The kind of an upload and its values, as they are added; None: nothing is due."""
        return 0, value

    def from_added(self, kind: int, total: NDArray[np.float64], devices: int, turn: Turn) -> Any:
        """What the server takes the values of so many devices for, which were added."""
        return self.from_signal((total / devices).astype(np.float32), turn)

    def tensors_in(self, value: Any, samples: int) -> Tensors:
        """The arrays of an upload that must not be too large; ``samples`` as it claims.

        By default those of a tuple, of named values, and of tuples in them.
        """
        return () if isinstance(value, np.ndarray) else tuple(_arrays_in(value))

    def as_row(self, value: Any, server: ServerState) -> NDArray[np.float64]:
        """What a device learned, as a row of numbers, if ``upload_kind`` names what it is."""
        raise NotImplementedError(f"{self.title}: its uploads are no rows of numbers")

    def last_row(self, server: ServerState) -> NDArray[np.float64]:
        """The last global value, as such a row."""
        raise NotImplementedError(f"{self.title}: its uploads are no rows of numbers")

    def from_row(self, row: NDArray[np.float64], server: ServerState) -> Local:
        """What a device would have learned that uploads this row."""
        raise NotImplementedError(f"{self.title}: its uploads are no rows of numbers")


def parameters_of(protocol: Protocol) -> dict[str, str | None]:
    """The parameters of a protocol, each with the setting that it is; None: it is none."""
    own = {name: path.rpartition(".")[2] or None for name, path in protocol.parameters().items()}
    return {**TRAINING, **own}


def _arrays_in(value: Any) -> list[NDArray[np.float32]]:
    if isinstance(value, np.ndarray):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    if not isinstance(value, tuple | dict):
        return []
    return [array for part in parts for array in _arrays_in(part)]


@dataclass(frozen=True, kw_only=True)
class Isolated(Protocol):
    """Devices train alone: nothing is sent."""

    title: str = "isolated"
    colour: str = "#7f7f7f"
    line: Line = (0, (1, 1))

    late_uploads = "replaced"
    server_words = "The server does nothing."

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        return server, StepInfo()
