"""What is kept from round to round, as one plain tree that a checkpoint can hold."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.engine.clock import Clock
from mix2fld.engine.flights import Flight, message_of, tree_of
from mix2fld.engine.messages import Message
from mix2fld.types import OneTimeUpload, Seeds, ServerState, State, Statistics


@dataclass(frozen=True, eq=False)
class Roster:
    """What the server knows of each device."""

    scores: NDArray[np.float64]
    """[D], or [D, M] of several metrics, at the end of its last local phase; nan: not measured."""
    uploaded: NDArray[np.int64]  # [D], the last round whose upload was delivered; 0 for none
    last_turn: NDArray[np.int64]  # [D], the round that a device should have been through last
    listened: NDArray[np.int64]  # [D], the last round whose download it received without a turn

    @classmethod
    def empty(cls, devices: int, metrics: int = 1) -> "Roster":
        """The roster before the first round."""
        zeros = np.zeros(devices, np.int64)
        shape = (devices,) if metrics == 1 else (devices, metrics)
        return cls(np.full(shape, np.nan), zeros, zeros, zeros)


@dataclass(frozen=True, eq=False)
class RunState:
    """All that is kept from one round to the next."""

    round_number: int
    devices: Any
    """What the fleet keeps of its devices; nobody else looks into it."""
    server: ServerState
    clock: Clock
    roster: Roster
    link: State = field(default_factory=dict)
    flights: dict[int, Flight] = field(default_factory=dict)
    """Devices that are still computing or transmitting."""
    last_uploads: dict[int, Message] = field(default_factory=dict)
    """Where the server does not wait: what the last upload of each device was, if it counts on."""

    def tree(self) -> State:
        """The state as nested dicts and lists of arrays and numbers."""
        server, roster = self.server, self.roster
        flights = {str(device): flight.tree() for device, flight in self.flights.items()}
        last = {str(device): tree_of(message) for device, message in self.last_uploads.items()}
        return {
            "round": self.round_number,
            "devices": self.devices,
            "server": {
                "weights": server.weights,
                "outputs": server.outputs,
                "seeds": {str(d): _parts_of(seeds) for d, seeds in server.seeds.items()},
                "updates": server.updates,
                "memory": server.memory,
            },
            "clock": [self.clock.communication, self.clock.computing],
            "roster": dict(vars(roster)),
            "link": self.link,
            **({"flights": flights} if flights else {}),
            **({"last_uploads": last} if last else {}),
        }

    @classmethod
    def from_tree(cls, tree: State) -> "RunState":
        """The state that ``tree`` took apart."""
        server = tree["server"]
        seeds = {int(device): _uploaded_once(parts) for device, parts in server["seeds"].items()}
        return cls(
            round_number=int(tree["round"]),
            devices=tree["devices"],
            server=ServerState(**{**server, "seeds": seeds}),
            clock=Clock(*tree["clock"]),
            roster=Roster(**tree["roster"]),
            link=tree["link"],
            flights={
                int(device): Flight.from_tree(flight)
                for device, flight in tree.get("flights", {}).items()
            },
            last_uploads={
                int(device): message_of(message)
                for device, message in tree.get("last_uploads", {}).items()
            },
        )


def _parts_of(seeds: OneTimeUpload) -> State:
    return {name: part for name, part in seeds._asdict().items() if part is not None}


def _uploaded_once(parts: State) -> OneTimeUpload:
    return Statistics(**parts) if "scatter" in parts else Seeds(**parts)
