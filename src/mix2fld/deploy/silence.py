"""Devices that are connected and do not answer: asked in every round, waited for ever more rarely.

A device may be slow once, or for a while; one that hangs must not cost every round its timeout.
After 1, 2, 4, 8, … rounds without an answer the round waits for it until the timeout, and in all
others only until the others have answered. An answer in time, or a new connection, ends that.
"""

from collections import Counter
from collections.abc import Collection

NAMED_AFTER = 2
"""Rounds without an answer from which on a device is called silent."""


class Silence:
    """How many rounds in a row each device has not answered."""

    def __init__(self) -> None:
        self._missed = Counter[int]()

    def patient_with(self, device: int) -> bool:
        """Whether this round waits for the device until its timeout."""
        missed = self._missed[device]
        return missed & (missed - 1) == 0

    def only(self, connected: Collection[int]) -> None:
        """Forget what was missed by those who are not connected: they are not asked."""
        for device in self._missed.keys() - set(connected):
            del self._missed[device]

    @property
    def silent(self) -> frozenset[int]:
        """Devices that have not answered for several rounds."""
        return frozenset(one for one, missed in self._missed.items() if missed >= NAMED_AFTER)

    def after_round(self, asked: Collection[int], replied: Collection[int]) -> dict[int, int]:
        """Count a round; returns the silent devices and for how many rounds they have been."""
        for device in replied:
            del self._missed[device]
        self._missed.update(set(asked) - set(replied))
        return {device: self._missed[device] for device in sorted(self.silent & set(asked))}
