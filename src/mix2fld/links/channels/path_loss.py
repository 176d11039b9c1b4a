"""Path loss over distance: the paper's power law, free space, and the models of 3GPP TR 38.901.

The formulas are those of TR 38.901 (V17.0.0) Table 7.4.1-1, the chances of a line of sight those of
Table 7.4.2-1, the spreads of shadowing those beside the formulas. Distances are on the ground, in
metres; a carrier is in GHz; heights are the model's own unless they are given.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config

Floats = NDArray[np.float64]
LIGHT_M_PER_S = 3.0e8
"""As TR 38.901 has it."""


def from_db(decibels: Floats | float) -> Floats:
    """A ratio of powers from its decibels."""
    ratio: Floats = 10 ** (np.asarray(decibels, np.float64) / 10)
    return ratio


@dataclass(frozen=True)
class PathLoss(ABC):
    """Attenuation in dB over distance, with and without a line of sight."""

    carrier_ghz: float
    base_m: float
    device_m: float

    name: ClassVar[str]
    heights_m: ClassVar = (0.0, 0.0)
    """Of base station and device, unless they are given."""
    spreads_db: ClassVar = (0.0, 0.0)
    """Standard deviation of shadowing, with a line of sight and without one."""
    carriers_ghz: ClassVar = (0.0, math.inf)
    distances_m: ClassVar = (0.0, math.inf)
    bases_m: ClassVar = (0.0, math.inf)
    devices_m: ClassVar = (0.0, math.inf)

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The model as a config has it."""
        cell, (base, device) = config.cell, cls.heights_m
        return cls(cell.carrier_ghz, cell.base_height_m or base, cell.device_height_m or device)

    def __post_init__(self) -> None:
        """Refuse what a model was not made for."""
        for field, value, (low, high), unit in (
            ("carrier_ghz", self.carrier_ghz, self.carriers_ghz, "GHz"),
            ("base_height_m", self.base_m, self.bases_m, "m"),
            ("device_height_m", self.device_m, self.devices_m, "m"),
        ):
            if not low <= value <= high:
                raise InputError(
                    f"{field} = {value:g}: path_loss = {self.name} is made for {low:g} to "
                    f"{high:g} {unit}"
                )

    def check_distances(self, distances_m: Floats) -> None:
        """Refuse distances that the model was not made for."""
        low, high = self.distances_m
        outside = distances_m[(distances_m < low) | (distances_m > high)]
        if outside.size:
            raise InputError(
                field="distance",
                value=f"{outside[0]:g} m",
                hint=f"path_loss = {self.name} is made for {low:g} to {high:g} m",
            )

    def across(self, distances_m: Floats) -> Floats:
        """The distance from antenna to antenna, d_3D."""
        return np.hypot(distances_m, self.base_m - self.device_m)

    @abstractmethod
    def with_sight(self, distances_m: Floats) -> Floats:
        """Loss in dB with a line of sight."""

    def without_sight(self, distances_m: Floats) -> Floats:
        """Loss in dB without a line of sight; the same for a model that knows no difference."""
        return self.with_sight(distances_m)

    def chance_of_sight(self, distances_m: Floats) -> Floats:
        """Chance of a line of sight; 1 for a model that knows no difference."""
        return np.ones_like(distances_m)

    def shadowing_db(self, distances_m: Floats, in_sight: NDArray[np.bool_]) -> Floats:
        """Standard deviation of shadowing, in dB."""
        return np.where(in_sight, *self.spreads_db) + np.zeros_like(distances_m)

    def gain(self, distances_m: Floats, in_sight: NDArray[np.bool_], more_db: float) -> Floats:
        """Mean power that arrives of what is sent, with another loss beside this one."""
        loss = np.where(in_sight, self.with_sight(distances_m), self.without_sight(distances_m))
        return from_db(-(loss + more_db))


@dataclass(frozen=True)
class PowerLaw(PathLoss):
    """The paper's: r^-alpha, for any carrier."""

    exponent: float
    name = "power-law"

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The exponent is a setting of the channel; heights have no effect."""
        return cls(config.cell.carrier_ghz, 0.0, 0.0, config.channel.path_loss_exponent)

    def with_sight(self, distances_m: Floats) -> Floats:
        """Loss in dB: 10 alpha log10 r."""
        return 10 * self.exponent * np.log10(distances_m)

    def gain(self, distances_m: Floats, in_sight: NDArray[np.bool_], more_db: float) -> Floats:
        """The paper's r^-alpha to the last digit."""
        gains = np.array([math.pow(r, -self.exponent) for r in distances_m.tolist()])
        return gains * from_db(-more_db)


@dataclass(frozen=True)
class Wired(PathLoss):
    """No path loss: a line that delivers its rate at any length."""

    name = "none"

    def with_sight(self, distances_m: Floats) -> Floats:
        return np.zeros_like(distances_m)


@dataclass(frozen=True)
class FreeSpace(PathLoss):
    """Friis: (4 pi d f / c)^2."""

    name = "free-space"
    carriers_ghz = (1e-3, 1e3)

    def with_sight(self, distances_m: Floats) -> Floats:
        """20 log10(4 pi d f / c)."""
        return 20 * np.log10(4 * math.pi * distances_m * self.carrier_ghz * 1e9 / LIGHT_M_PER_S)


@dataclass(frozen=True)
class _Urban(PathLoss):
    """UMi and UMa, whose formulas differ in their numbers alone."""

    carriers_ghz = (0.5, 100.0)
    distances_m = (10.0, 5000.0)
    near: ClassVar[tuple[float, float]]
    """PL_1 with a line of sight at 1 m and 1 GHz, and its growth with the decadic logarithm."""
    bend: ClassVar[float]
    """Of PL_2, the factor of the breakpoint's logarithm."""
    hidden: ClassVar[tuple[float, float, float, float]]
    """Without a line of sight: growth, at 1 m and 1 GHz, of the carrier, of the device's height."""
    reach_m: ClassVar[float]
    """Over which the chance of a line of sight falls off."""

    def with_sight(self, distances_m: Floats) -> Floats:
        """PL_LOS, beyond d'_BP with an effective environment height h_E of 1 m as well."""
        across, (start, growth) = self.across(distances_m), self.near
        above = (self.base_m - 1) * (self.device_m - 1)
        corner = 4 * above * self.carrier_ghz * 1e9 / LIGHT_M_PER_S
        near = start + growth * np.log10(across) + 20 * math.log10(self.carrier_ghz)
        far = start + 40 * np.log10(across) + 20 * math.log10(self.carrier_ghz)
        bend = corner**2 + (self.base_m - self.device_m) ** 2
        return np.where(distances_m <= corner, near, far - self.bend * math.log10(bend))

    def without_sight(self, distances_m: Floats) -> Floats:
        """PL_NLOS."""
        growth, start, carrier, height = self.hidden
        across = self.across(distances_m)
        hidden = growth * np.log10(across) + start + carrier * math.log10(self.carrier_ghz)
        return np.maximum(self.with_sight(distances_m), hidden - height * (self.device_m - 1.5))

    def chance_of_sight(self, distances_m: Floats) -> Floats:
        """Table 7.4.2-1; for UMa of a device that is at most 13 m high."""
        beyond = np.maximum(distances_m, 18.0)
        return 18 / beyond + np.exp(-beyond / self.reach_m) * (1 - 18 / beyond)


@dataclass(frozen=True)
class UrbanMicro(_Urban):
    """UMi street canyon: the base station below the roofs."""

    name = "umi"
    heights_m, bases_m, devices_m = (10.0, 1.5), (10.0, 10.0), (1.5, 22.5)
    near, bend, hidden = (32.4, 21.0), 9.5, (35.3, 22.4, 21.3, 0.3)
    reach_m, spreads_db = 36.0, (4.0, 7.82)


@dataclass(frozen=True)
class UrbanMacro(_Urban):
    """UMa: the base station above the roofs; devices up to 13 m high, where h_E is 1 m."""

    name = "uma"
    heights_m, bases_m, devices_m = (25.0, 1.5), (25.0, 25.0), (1.5, 13.0)
    near, bend, hidden = (28.0, 22.0), 9.0, (39.08, 13.54, 20.0, 0.6)
    reach_m, spreads_db = 63.0, (4.0, 6.0)


@dataclass(frozen=True)
class RuralMacro(PathLoss):
    """RMa, with the table's default streets (W = 20 m) and buildings (h = 5 m)."""

    name = "rma"
    heights_m, bases_m, devices_m = (35.0, 1.5), (10.0, 150.0), (1.0, 10.0)
    carriers_ghz = (0.5, 30.0)
    distances_m = (10.0, 5000.0)
    street_m: ClassVar = 20.0
    building_m: ClassVar = 5.0

    def _corner(self) -> float:
        """Breakpoint distance, d_BP."""
        return 2 * math.pi * self.base_m * self.device_m * self.carrier_ghz * 1e9 / LIGHT_M_PER_S

    def _near(self, across: Floats) -> Floats:
        """PL_1."""
        height = self.building_m**1.72
        return (
            20 * np.log10(40 * math.pi * across * self.carrier_ghz / 3)
            + min(0.03 * height, 10) * np.log10(across)
            - min(0.044 * height, 14.77)
            + 0.002 * math.log10(self.building_m) * across
        )

    def with_sight(self, distances_m: Floats) -> Floats:
        """PL_RMa-LOS."""
        across, corner = self.across(distances_m), self._corner()
        far = self._near(np.array(corner)) + 40 * np.log10(across / corner)
        return np.where(distances_m <= corner, self._near(across), far)

    def without_sight(self, distances_m: Floats) -> Floats:
        """PL_RMa-NLOS."""
        across, base = self.across(distances_m), math.log10(self.base_m)
        hidden = (
            161.04
            - 7.1 * math.log10(self.street_m)
            + 7.5 * math.log10(self.building_m)
            - (24.37 - 3.7 * (self.building_m / self.base_m) ** 2) * base
            + (43.42 - 3.1 * base) * (np.log10(across) - 3)
            + 20 * math.log10(self.carrier_ghz)
            - (3.2 * math.log10(11.75 * self.device_m) ** 2 - 4.97)
        )
        return np.maximum(self.with_sight(distances_m), hidden)

    def chance_of_sight(self, distances_m: Floats) -> Floats:
        """Table 7.4.2-1, RMa."""
        return np.exp(-np.maximum(distances_m - 10, 0) / 1000)

    def shadowing_db(self, distances_m: Floats, in_sight: NDArray[np.bool_]) -> Floats:
        """4 dB with a line of sight, 6 dB beyond the breakpoint, 8 dB without."""
        seen = np.where(distances_m <= self._corner(), 4.0, 6.0)
        return np.where(in_sight, seen, 8.0)


@dataclass(frozen=True)
class IndoorOffice(PathLoss):
    """InH, the mixed office: rooms and corridors, the base station below the ceiling."""

    name = "inh"
    heights_m, bases_m, devices_m = (3.0, 1.0), (1.0, 5.0), (0.5, 3.0)
    carriers_ghz = (0.5, 100.0)
    distances_m = (1.0, 150.0)
    spreads_db = (3.0, 8.03)

    def with_sight(self, distances_m: Floats) -> Floats:
        """PL_InH-LOS."""
        across = self.across(distances_m)
        return 32.4 + 17.3 * np.log10(across) + 20 * math.log10(self.carrier_ghz)

    def without_sight(self, distances_m: Floats) -> Floats:
        """PL_InH-NLOS."""
        across = self.across(distances_m)
        hidden = 38.3 * np.log10(across) + 17.30 + 24.9 * math.log10(self.carrier_ghz)
        return np.maximum(self.with_sight(distances_m), hidden)

    def chance_of_sight(self, distances_m: Floats) -> Floats:
        """Table 7.4.2-1, indoor, mixed office."""
        near = np.exp(-np.maximum(distances_m - 1.2, 0) / 4.7)
        return np.where(distances_m < 6.5, near, 0.32 * np.exp(-(distances_m - 6.5) / 32.6))


MODELS: dict[str, type[PathLoss]] = {
    model.name: model
    for model in (PowerLaw, Wired, FreeSpace, UrbanMicro, UrbanMacro, RuralMacro, IndoorOffice)
}
"""Every model by its name in the config."""
