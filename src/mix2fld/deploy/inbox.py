"""What devices send to a server before it is looked at: bounded, for each device by itself."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable

Event = tuple[str, int, bytes]
"""(what happened, device or -1, payload)."""
MOST_QUEUED = 16
"""Events of one device that may wait; later ones are lost, as on a bad link."""
MOST_AT_ONCE = 100
"""Messages that a device may send at once, many times as many as a round takes."""
MOST_PER_S = 2.0
"""Messages a second that it may send in the long run: more than one whose link keeps breaking."""


class Inbox:
    """Events in the order in which they happened."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._queued = Counter[int]()
        self._changed = threading.Condition()

    def put(self, event: Event) -> None:
        """Add an event, unless too many of its device wait."""
        with self._changed:
            device = event[1]
            if device < 0 or self._queued[device] < MOST_QUEUED:
                self._queued[device] += 1
                self._events.append(event)
                self._changed.notify()

    def get(self, seconds: float) -> Event | None:
        """The next event; None if there is none in that time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._events, max(0.0, seconds)):
                return None
            event = self._events.popleft()
            self._queued[event[1]] -= 1
            return event

    def clear(self) -> None:
        """Discard all messages."""
        with self._changed:
            self._events.clear()
            self._queued.clear()


class Allowances:
    """How many messages each device may still send; what it does not use, it saves up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[int, tuple[float, float]] = {}

    def flooded_by(self, device: int) -> bool:
        """Count a message; whether it is one too many."""
        now = self._clock()
        left, since = self._left.get(device, (float(MOST_AT_ONCE), now))
        left = min(float(MOST_AT_ONCE), left + MOST_PER_S * (now - since)) - 1
        self._left[device] = left, now
        return left < 0
