"""A fleet is where devices live: in this process, on a cluster, at the other end of a network.

The round asks it four things: who can take part, train these, deliver this to these, measure these.
Everything else (who is asked, what the link delivers, the server's step, the clock, the record) is
the round's. A fleet keeps nothing itself: the states of its devices come in and go out, and only
the fleet looks into them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mix2fld.engine.masked_sums import PartialSum, Total
from mix2fld.engine.messages import Message
from mix2fld.engine.state import Roster
from mix2fld.tasks.base import Score
from mix2fld.types import Tensors


class LastDownload(Protocol):
    """The last global state as it would be sent; None if there is none."""

    def __call__(self, device: int | None = None) -> bytes | None:
        """All of it; or for a device that missed none since its last turn."""


class Order(NamedTuple):
    """What devices are asked to do in a round."""

    round_number: int
    asked: tuple[int, ...]
    reference: int
    """The device that is also measured on its way through the local phase, if it is asked."""
    evaluated: frozenset[int]
    """The devices whose score is measured; that of others need not be."""
    roster: Roster
    last_download: "LastDownload"
    """The last global state, for a device that lost its own or did not hear it."""
    bit_budgets: Mapping[int, int]
    """Bits that each device may upload; empty if their number is fixed."""
    held: int = 0
    """Uploads that arrived and wait for the server's next step."""


class LocalPhaseOutcome(NamedTuple):
    """Outcome of a local phase."""

    messages: Mapping[int, Message]
    """The uploads of the devices that answered."""
    observed: Any
    """What ``measure`` needs to know of the local phase."""
    computing_seconds: Mapping[int, float]
    """Measured time of each device that answered."""
    network_seconds: float = 0.0
    """Measured time on a real network; 0 where the link is simulated."""
    in_flight: frozenset[int] = frozenset()
    """Devices, asked now or before, that may yet answer in a later round: where the server does not
    wait for a fleet whose time is real. Answers of devices asked before are among the messages, and
    ``computing_seconds`` are then those of the round until each came."""


class Outcome(NamedTuple):
    """How a round ended for the devices that were asked."""

    round_number: int
    asked: tuple[int, ...]
    uploaded: frozenset[int]
    """Devices whose upload the server has taken."""
    download: bytes | None
    """The multicast, if there is one."""
    receivers: frozenset[int]
    """Devices that the link delivers it to; some of them may not have been asked."""
    ended: frozenset[int]
    """Devices whose turn is over, whether they were asked in this round or before."""

    def others(self, trained: Collection[int]) -> list[int]:
        """Devices that did not train in this round, but for which something changes."""
        heard = self.receivers if self.download is not None else frozenset[int]()
        return sorted((heard | self.ended).difference(self.asked) | heard.difference(trained))


class Delivered(NamedTuple):
    """Which devices received the download, and how long that took."""

    devices: frozenset[int]
    network_seconds: float = 0.0


class Scores(NamedTuple):
    """What a task's metrics are after a local phase."""

    devices: Mapping[int, Score]
    intermediate: list[tuple[int, Score]]
    """Of the reference device: steps done, score; empty if it did not take part."""
    models: list[Score]
    """Of the other models that were asked about."""


class Fleet(Protocol):
    """Devices, wherever they are."""

    def start(self) -> Any:
        """The states of all devices before the first round."""

    def available(self) -> Sequence[int]:
        """The devices that can take part now."""

    def train(self, states: Any, order: Order) -> tuple[Any, LocalPhaseOutcome]:
        """The local phase of the devices that are asked, and their uploads."""

    def deliver(self, states: Any, outcome: Outcome) -> tuple[Any, Delivered]:
        """Tell the devices that were asked how the round ended; give receivers the download."""

    def measure(self, observed: Any, models: Sequence[Tensors]) -> Scores:
        """Scores of the evaluated devices that trained, and of some other models."""

    def add_up(self, part: PartialSum) -> Total | None:
        """The sum of uploads that nobody reads; asked for where sums are masked alone."""

    def refuse(self, device: int, round_number: int, reason: str) -> None:
        """An upload arrived that no honest device would send."""
