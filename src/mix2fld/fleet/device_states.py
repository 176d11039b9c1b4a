"""What a fleet in this process keeps of its devices: one state each, shared while it is the same.

The states of all devices are a plain tree, as every part of a run's state is: they can be kept as
they are in a checkpoint, and a round makes new ones instead of changing them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from mix2fld.types import State

MakeState = Callable[[int], State]
"""The state that a device starts with."""


class DeviceStates(Protocol):
    """Where the states of all devices are kept; only it looks into what it returns."""

    def start(self, devices: int, make: MakeState, *, alike: bool) -> Any:
        """The states before the first round; with ``alike`` all devices start with the same."""

    def read(self, states: Any, device: int) -> State:
        """The state of one device."""

    def replaced(self, states: Any, changed: Mapping[int, State]) -> Any:
        """The states with those of some devices changed."""


class StatesInMemory:
    """A list of states, in which devices that keep the same arrays share one."""

    def start(self, devices: int, make: MakeState, *, alike: bool) -> list[State]:
        """One state for all, or one for each."""
        return [make(0)] * devices if alike else [make(device) for device in range(devices)]

    def read(self, states: list[State], device: int) -> State:
        """The state of one device."""
        return states[device]

    def replaced(self, states: list[State], changed: Mapping[int, State]) -> list[State]:
        """A new list; states of the same arrays become one."""
        after, known = list(states), dict[Any, State]()
        for device, state in changed.items():
            after[device] = known.setdefault(_content(state), state)
        return after


def _content(tree: Any) -> Any:
    """What a state consists of: equal for states of the very same arrays."""
    if isinstance(tree, dict):
        return tuple((name, _content(tree[name])) for name in sorted(tree))
    if isinstance(tree, (list, tuple)):
        return type(tree).__name__, *map(_content, tree)
    return id(tree) if isinstance(tree, np.ndarray) else (type(tree).__name__, tree)
