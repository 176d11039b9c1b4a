"""The samples that devices of one process replay, behind those that all of them hold."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mix2fld.engine.wire import Wire
from mix2fld.tasks.replay import REPLAY, Extra
from mix2fld.tasks.stepper import Stepper
from mix2fld.types import Samples, SeedSet, State


class ReplayPool:
    """Holds the training set for a stepper and, once devices have them, the seeds they replay.

    Devices that received the same seeds share them. What was prepared and held last is kept, since
    it seldom changes from round to round; it follows from the states alone.
    """

    def __init__(self, wire: Wire, stepper: Stepper, own: Samples) -> None:
        self._wire, self._stepper, self._own = wire, stepper, own
        self._prepared: dict[bytes, SeedSet | None] = {}
        self._held: tuple[list[bytes], Any] = ([], stepper.hold(own))

    def hold(self, states: Mapping[int, State]) -> tuple[Any, Mapping[int, Extra]]:
        """What the stepper reads from, and the samples that each device replays, if it has any."""
        stocks = {d: state[REPLAY] for d, state in states.items() if REPLAY in state}
        by_device = {d: stock["held"].tobytes() for d, stock in stocks.items()}
        for device, key in by_device.items():
            if key not in self._prepared:
                self._prepared[key] = self._wire.replayed_samples(states[device])
        found = {key: self._prepared[key] for key in sorted(set(by_device.values()))}
        sets = {key: seeds for key, seeds in found.items() if seeds is not None}
        self._prepared = found
        if list(sets) != self._held[0]:
            self._held = (list(sets), self._stepper.hold(self._own, _joined(list(sets.values()))))
        extras, first = {}, len(self._own.targets)
        for key, seeds in sets.items():
            extras[key] = Extra(first, seeds.targets)
            first += len(seeds.targets)
        return self._held[1], {d: extras[key] for d, key in by_device.items() if key in extras}


def _joined(sets: list[SeedSet]) -> Samples | None:
    if not sets:
        return None
    inputs: Any = np.concatenate([seeds.inputs for seeds in sets])
    return Samples(inputs, np.concatenate([seeds.targets for seeds in sets]))
