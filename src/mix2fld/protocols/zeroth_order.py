"""Zeroth-order steps: both ends draw the same directions, and signs alone are sent."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.codecs import DirectionSigns, Floats, flatten_tensors, unflatten_tensors
from mix2fld.protocols.aggregation.aggregate import combine_weights
from mix2fld.protocols.base import LateUploads
from mix2fld.protocols.parts import Inbox, Line, StepInfo, Stepped, Turn, of_devices, parameter
from mix2fld.protocols.sums import SharedChoices
from mix2fld.protocols.updates import as_tensors
from mix2fld.tensors import plus, zeros
from mix2fld.types import ServerState, Tensors, Update, Upload

TIE = 1e-3
"""Votes below this share of all samples are a tie, but for rounding."""


@dataclass(frozen=True, kw_only=True)
class FeedSign(SharedChoices):
    """One bit a step (FeedSign, Cai et al., 2025): which way along a random direction loss falls.

    A device sends the sign of its update's product with a direction that all devices draw alike;
    after one local step that is the sign of the directional derivative, which FeedSign measures by
    two evaluations of the loss. The server moves along the direction as most devices say.
    """

    late_uploads: ClassVar[LateUploads] = ""
    downlinks: ClassVar[tuple[str, ...]] = ("auto", "weights", "relay", "coded")
    title: str = "FeedSign"
    colour: str = "#882255"
    line: Line = (0, (1, 1))
    bits: int = parameter(1)
    """Directions of a round, each with a sign of its own."""
    step_size: float = parameter(0.002)
    """By which the server moves along each, in units of its standard deviation."""

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise InputError(f"protocols = feedsign:bits={self.bits}: must be 1 or above")
        if not self.step_size > 0:
            raise InputError(f"protocols = feedsign:step_size={self.step_size:g}: must be above 0")

    def make_codec(self, weights: int) -> DirectionSigns:
        if weights and self.bits > max(1, weights // 2):
            raise InputError(
                f"protocols = feedsign:bits={self.bits}: must be at most half of the {weights:,} "
                "weights"
            )
        return DirectionSigns(count=self.bits)

    @property
    def values(self) -> int:
        """One for each direction."""
        return self.bits

    def signal(self, upload: Upload, turn: Turn) -> NDArray[np.float32]:
        """The signs."""
        return self._votes(upload.value.tensors, turn.round_number)[0]

    def from_signal(self, mean: NDArray[np.float32], turn: Turn) -> Update:
        """The mean vote of each direction."""
        return self.read(mean, turn)

    server_words = "The server moves along each direction of a round, where most signs point."

    def step(self, server: ServerState, inbox: Inbox, round_number: int) -> Stepped:
        """A step of the same length along every direction; none where votes are equal."""
        if not inbox:
            return server, StepInfo()
        uploads, last = as_tensors(inbox), self.global_model(server)
        mean = combine_weights(uploads, zeros(last), self.learning.config.defence)
        votes, directions = self._votes(mean, round_number)
        signs = np.where(np.abs(votes) < TIE, 0, np.sign(votes)).astype(np.float32)
        row = np.float32(self.step_size) * (signs @ directions)
        did = StepInfo(words=f"moved by the majority of {of_devices(inbox)}")
        weights = plus(last, unflatten_tensors(row, self.dims))
        return replace(server, weights=weights, updates=server.updates + 1), did

    def _votes(self, tensors: Tensors, number: int) -> tuple[Floats, Floats]:
        """The coordinates of a sum of a round's directions, few and so independent; and these."""
        size = self.dims.num_weights
        directions = self.make_codec(size).directions(
            self.choices(Turn(self.config.seed, number, 0)), size
        )
        row, exact = flatten_tensors(tensors, self.dims), directions.astype(np.float64)
        found = np.linalg.solve(exact @ exact.T, exact @ row.astype(np.float64))
        return found.astype(np.float32), directions
