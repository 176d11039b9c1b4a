"""Where the devices of a cell are, and how much of a signal reaches them on average.

A device stays where it is, and so does its line of sight; its shadowing wanders from round to round
as an autoregressive process, which keeps its log-normal spread.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.config.settings import Config
from mix2fld.links.channels.path_loss import MODELS, Floats, PathLoss
from mix2fld.types import State


@dataclass(frozen=True)
class Geometry:
    """The law by which devices are placed."""

    path_loss: PathLoss
    near_m: float
    far_m: float
    """Devices are uniform in the ring between these distances; equal distances place all there."""
    given_m: tuple[float, ...]
    """Distances of the devices, where they are given."""
    line_of_sight: str
    spread_db: float | None
    """Standard deviation of shadowing; None is the model's own."""
    memory: float
    """Correlation of shadowing from a round to the next."""
    extra_loss_db: float

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The cell that a config describes."""
        cell, channel = config.cell, config.channel
        near, far = cell.ring_m or (channel.distance_m, channel.distance_m)
        if cell.distances_m and len(cell.distances_m) != config.data.devices:
            raise InputError(
                field="distances_m",
                hint=f"{len(cell.distances_m)} distances; must be one for each of devices "
                f"= {config.data.devices}",
            )
        if cell.path_loss not in MODELS:
            raise InputError(
                field="path_loss",
                value=f"{cell.path_loss!r}",
                hint=f"no such model; {did_you_mean(cell.path_loss, MODELS)}",
            )
        model = MODELS[cell.path_loss].from_config(config)
        model.check_distances(np.array(cell.distances_m or (near, far)))
        return cls(
            path_loss=model,
            near_m=near,
            far_m=far,
            given_m=cell.distances_m,
            line_of_sight=cell.line_of_sight,
            spread_db=cell.shadowing_db,
            memory=cell.shadowing_memory,
            extra_loss_db=cell.extra_loss_db,
        )

    def place(self, devices: int, rng: np.random.Generator) -> State:
        """Devices on their places, with their lines of sight and their shadowing."""
        squares = rng.uniform(self.near_m**2, self.far_m**2, devices)
        distances = np.array(self.given_m) if self.given_m else np.sqrt(squares)
        if self.near_m == self.far_m and not self.given_m:
            distances = np.full(devices, self.near_m)  # exactly
        drawn = rng.random(devices) < self.path_loss.chance_of_sight(distances)
        in_sight = {
            "drawn": drawn,
            "always": np.ones(devices, np.bool_),
            "never": np.zeros(devices, np.bool_),
        }[self.line_of_sight]
        spread = self.spread(distances, in_sight)
        return {
            "distance_m": distances,
            "in_sight": in_sight,
            "shadowing_db": spread * rng.standard_normal(devices),
        }

    def wander(self, state: State, rng: np.random.Generator) -> State:
        """The shadowing of the next round."""
        spread = self.spread(state["distance_m"], state["in_sight"])
        fresh = spread * rng.standard_normal(len(spread))
        kept = self.memory * state["shadowing_db"]
        return {**state, "shadowing_db": kept + math.sqrt(1 - self.memory**2) * fresh}

    def spread(self, distances_m: Floats, in_sight: NDArray[np.bool_]) -> Floats:
        """Standard deviation of the shadowing of each device, in dB."""
        if self.spread_db is not None:
            return np.full(len(distances_m), self.spread_db)
        return self.path_loss.shadowing_db(distances_m, in_sight)

    def gain(self, state: State) -> Floats:
        """Mean power that arrives of what is sent, [D], before shadowing."""
        return self.path_loss.gain(state["distance_m"], state["in_sight"], self.extra_loss_db)
