"""The user's case: a link, devices, their data and a model, and the measured settings near it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mix2fld.advice.measured import Kind, MeasuredSetting
from mix2fld.config import Config
from mix2fld.learning.task import Sizes

FAR_SKEW = 0.15
"""A difference in label skew beyond which nothing close was measured."""
FAR_FACTOR = 3.0
"""A ratio of weights, devices or samples beyond which nothing close was measured."""


@dataclass(frozen=True)
class Case:
    """What is asked about."""

    sizes: Sizes
    kind: Kind
    skew: float
    deadline_s: float | None = None
    """Longest time on the air that a round may take."""

    @property
    def config(self) -> Config:
        """The settings: link, devices, energy."""
        return self.sizes.config

    def distance(self, setting: MeasuredSetting) -> float:
        """How far a measured setting is: one for each limit of closeness that is used up."""
        return math.fsum(self._parts(setting).values())

    def outside(self, setting: MeasuredSetting) -> list[str]:
        """In what the case lies further from a measured setting than what counts as close."""
        found = {name for name, part in self._parts(setting).items() if part > 1}
        mine = {
            "how devices differ": f"{self.kind}, measured: {setting.kind}",
            "label skew": f"{self.skew:.2f}, measured: {setting.skew:.2f}",
            "weights": f"{self.sizes.dims.num_weights:,}, measured: {setting.weights:,}",
            "devices": f"{self.config.data.devices:,}, measured: {setting.devices:,}",
            "samples of a device": (
                f"{self.config.data.samples_per_device:,}, measured: {setting.samples:,}"
            ),
        }
        return [f"{name}: {text}" for name, text in mine.items() if name in found]

    def _parts(self, setting: MeasuredSetting) -> dict[str, float]:
        def factor(one: float, other: float) -> float:
            return abs(math.log(one / other)) / math.log(FAR_FACTOR)

        data = self.config.data
        parts = {
            "how devices differ": 0.0 if self.kind == setting.kind else 10.0,
            "label skew": abs(self.skew - setting.skew) / FAR_SKEW,
            "weights": factor(self.sizes.dims.num_weights, setting.weights),
            "devices": factor(data.devices, setting.devices),
        }
        if self.kind == "labels":
            parts["samples of a device"] = factor(data.samples_per_device, setting.samples)
        return parts


def nearest(case: Case, measured: Mapping[str, MeasuredSetting]) -> list[MeasuredSetting]:
    """All measured settings, the nearest first."""
    return sorted(measured.values(), key=case.distance)
