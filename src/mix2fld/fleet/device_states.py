"""What a fleet in this process keeps of its devices: one state each, shared while it is the same.

The states of all devices are a plain tree, as every part of a run's state is: they can be kept as
they are in a checkpoint, and a round makes new ones instead of changing them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mix2fld.fleet.slot_file import SlotFile
from mix2fld.types import State, sameness

MakeState = Callable[[int], State]
"""The state that a device starts with."""


WORTH_A_SLOT = 256
"""Bytes of an entry from which on it goes to the file."""


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
        """A new list; states of the same entries become one."""
        after, known = list(states), dict[Any, State]()
        for device, state in changed.items():
            after[device] = known.setdefault(_entries(state), state)
        return after


class StatesOnDisk(StatesInMemory):
    """The same list, but what only one device keeps is in a file, mapped into memory.

    What many keep, such as the last download, stays in memory, once.
    """

    def __init__(self) -> None:
        self._slots = SlotFile()

    def start(self, devices: int, make: MakeState, *, alike: bool) -> list[State]:
        """One state for all, or one for each in the file."""
        if alike:
            return super().start(devices, make, alike=True)
        return [self._stored(state, list(state)) for state in map(make, range(devices))]

    def replaced(self, states: list[State], changed: Mapping[int, State]) -> list[State]:
        """A new list; what is new and of one device goes to the file."""
        holders = Counter(id(entry) for state in changed.values() for entry in state.values())
        after = {}
        for device, state in changed.items():
            before = states[device]
            own = [
                name
                for name, entry in state.items()
                if holders[id(entry)] == 1 and before.get(name) is not entry
            ]
            after[device] = self._stored(state, own)
        self._slots.forget_pages()
        return super().replaced(states, after)

    def _stored(self, state: State, names: Sequence[str]) -> State:
        """The state with these entries in the file, but for small ones."""
        of_entries = {name: _arrays(state[name]) for name in names}
        chosen = {
            name: arrays
            for name, arrays in of_entries.items()
            if sum(array.nbytes for array in arrays) >= WORTH_A_SLOT
        }
        if not chosen:
            return state
        stored = iter(self._slots.store([array for arrays in chosen.values() for array in arrays]))
        return {**state, **{name: _with_arrays(state[name], stored) for name in chosen}}


def _entries(state: State) -> Any:
    """What a state consists of: equal for states whose entries are the very same objects."""
    return tuple((name, sameness(state[name])) for name in sorted(state))


def _arrays(tree: Any) -> list[NDArray[Any]]:
    """The arrays of a tree, in its order."""
    if isinstance(tree, dict):
        return [array for part in tree.values() for array in _arrays(part)]
    if isinstance(tree, (list, tuple)):
        return [array for part in tree for array in _arrays(part)]
    return [tree] if isinstance(tree, np.ndarray) else []


def _with_arrays(tree: Any, arrays: Iterator[NDArray[Any]]) -> Any:
    """The tree with other arrays in place of its own."""
    if isinstance(tree, dict):
        return {name: _with_arrays(part, arrays) for name, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_with_arrays(part, arrays) for part in tree)
    return next(arrays) if isinstance(tree, np.ndarray) else tree
