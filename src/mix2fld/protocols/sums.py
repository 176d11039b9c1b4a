"""Uploads of which the server needs the sum alone, as a channel that adds makes it.

All devices make the same random choices in a round, so that their codes can be added before they
are decoded. Over a link that carries each upload they work, too.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.codecs import Projection, Signs, flatten_tensors
from mix2fld.protocols.aggregation.aggregate import combine_weights
from mix2fld.protocols.base import ValueGrid
from mix2fld.protocols.parts import Inbox, Line, StepInfo, Stepped, Turn, of_devices, parameter
from mix2fld.protocols.transforms import ErrorFeedback, Transform
from mix2fld.protocols.updates import Updates, as_tensors
from mix2fld.tensors import plus, zeros
from mix2fld.types import ServerState, Update, Upload


@dataclass(frozen=True, kw_only=True)
class SharedChoices(Updates):
    """An update of which devices send as many values, in directions that all share."""

    adds_codes: ClassVar[bool] = True

    def choices(self, turn: Turn) -> np.random.Generator:
        """The same for all devices of a round."""
        return stream(turn.seed, "update", turn.round_number)


@dataclass(frozen=True, kw_only=True)
class Projected(SharedChoices):
    """Analog updates (Amiri and Gunduz, 2020): values that a channel can add.

    What a projection leaves out is due with the next upload.
    """

    title: str = "Projected"
    colour: str = "#332288"
    transforms: tuple[Transform, ...] = (ErrorFeedback(),)
    share: float = parameter(1.0)
    """Of the directions of an update, those that are sent."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(
                f"protocols = projected:share={self.share:g}: must be above 0 and at most 1"
            )

    def make_codec(self, weights: int) -> Projection:
        return Projection(self.share)

    @property
    def same_in_all_rounds(self) -> bool:
        return self.share == 1

    @property
    def values(self) -> int:
        """One for each direction."""
        return Projection(self.share).count(self.dims.num_weights)

    def signal(self, upload: Upload, turn: Turn) -> NDArray[np.float32]:
        """The coordinates."""
        update = flatten_tensors(upload.value.tensors, self.dims)
        return Projection(self.share).compress(update, self.choices(turn), None)

    def from_signal(self, mean: NDArray[np.float32], turn: Turn) -> Update:
        """The mean update in these directions."""
        return self.read(mean, turn)


@dataclass(frozen=True, kw_only=True)
class Vote(SharedChoices):
    """A majority of signs (Bernstein et al., 2018; over the air, Zhu et al., 2021)."""

    downlinks: ClassVar[tuple[str, ...]] = ("weights", "auto", "relay", "coded")
    title: str = "Vote"
    colour: str = "#332288"
    line: Line = ":"
    step_size: float = parameter(0.008)
    """By which the server moves each weight."""

    @property
    def grid(self) -> ValueGrid:
        """A sign is a whole number."""
        return ValueGrid(1.0, 1)

    def __post_init__(self) -> None:
        if not self.step_size > 0:
            raise InputError(f"protocols = vote:step_size={self.step_size:g}: must be above 0")

    def make_codec(self, weights: int) -> Signs:
        return Signs()

    server_words = "The server moves every weight by one step, where most of the signs point."

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """One step, of the same size in every weight; none where votes are equal."""
        if not inbox:
            return server, StepInfo()
        uploads, last = as_tensors(inbox), self.global_model(server)
        mean = combine_weights(uploads, zeros(last), self.learning.config.defence)
        size = np.float32(self.step_size)
        step = tuple(size * np.sign(part).astype(np.float32) for part in mean)
        did = StepInfo(words=f"moved by the majority of {of_devices(inbox)}")
        return replace(server, weights=plus(last, step), updates=server.updates + 1), did
