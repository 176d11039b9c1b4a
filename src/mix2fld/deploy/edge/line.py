"""The one interface behind which messages are carried: MQTT, or the memory of a test."""

from collections.abc import Callable
from typing import Protocol

Say = Callable[[str], None]
"""Tells the operator of this end what happens, a line at a time."""


class Line(Protocol):
    """A connection to a broker, which is made again whenever it breaks."""

    def publish(
        self, topic: str, payload: bytes, *, qos: int, retain: bool = False,
        expires_s: float | None = None,
    ) -> None:  # fmt: skip
        """Send a message; without a connection it is sent when there is one."""

    def subscribe(self, topic: str, *, qos: int, again: bool = False) -> None:
        """Hear a topic; its retained message comes if the subscription is new, or ``again``."""

    def unsubscribe(self, topic: str) -> None:
        """Stop receiving the messages of a topic."""


def no_log(line: str) -> None:
    """Discard messages for the operator."""


class Listener(Protocol):
    """Who is at this end of a line."""

    def connected(self, line: Line, resumed: bool) -> None:
        """Connected; ``resumed`` if again, and the broker has kept all that was sent."""

    def lost(self, line: Line) -> None:
        """The connection broke; it is made again."""

    def hear(self, line: Line, topic: str, payload: bytes) -> None:
        """Handle an incoming message."""
