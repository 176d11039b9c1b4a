"""What a simulated fleet keeps of its devices: one state each, shared while it is the same.

The states of all devices are a plain tree, as every part of a run's state is: they can be kept as
they are in a checkpoint, and a round makes new ones instead of changing them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from mix2fld.base.trees import identity_key
from mix2fld.types import State

MakeState = Callable[[int], State]
"""The state that a device starts with."""


class DeviceStates(Protocol):
    """Where the states of all devices are kept; only it looks into what it returns."""

    def start(self, devices: int, make: MakeState, *, alike: bool) -> Any:
        """The states before the first round; with ``alike`` all devices start with the same."""

    def read(self, states: Any, devices: Iterable[int]) -> dict[int, State]:
        """The states of some devices."""

    def replaced(self, states: Any, changed: Mapping[int, State]) -> Any:
        """The states with those of some devices changed."""

    def restored(self, found: Any) -> Any:
        """The states that a checkpoint has; ``InputError`` if a part of them is lost."""

    def forget_others(self, *states: Any) -> None:
        """Only these are read from now on, or those that are made of them."""


class StatesInMemory:
    """A list of states, in which devices that keep the same arrays share one."""

    def start(self, devices: int, make: MakeState, *, alike: bool) -> list[State]:
        """One state for all, or one for each."""
        return [make(0)] * devices if alike else [make(device) for device in range(devices)]

    def read(self, states: list[State], devices: Iterable[int]) -> dict[int, State]:
        """The states of some devices."""
        return {device: states[device] for device in devices}

    def replaced(self, states: list[State], changed: Mapping[int, State]) -> list[State]:
        """A new list; states of the same entries become one."""
        after, known = list(states), dict[Any, State]()
        distinct = {id(state): state for state in changed.values()}
        kept = {n: known.setdefault(entries_of(state), state) for n, state in distinct.items()}
        for device, state in changed.items():
            after[device] = kept[id(state)]
        return after

    def restored(self, found: list[State]) -> list[State]:
        """They are all in the checkpoint."""
        return found

    def forget_others(self, *states: list[State]) -> None:
        """Nothing to do: what nobody refers to is gone."""


def entries_of(state: State) -> Any:
    """What a state consists of: equal for states whose entries are the very same objects."""
    return tuple((name, identity_key(state[name])) for name in sorted(state))
