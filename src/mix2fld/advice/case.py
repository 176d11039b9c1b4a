"""The user's case: a link, devices, their data and a model, and the measured settings near it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mix2fld.advice.measured import Kind, MeasuredSetting
from mix2fld.config.settings import Config
from mix2fld.tasks.learning import Sizes

FAR_SKEW = 0.15
"""A difference in label skew beyond which nothing close was measured."""
FAR_FACTOR = 3.0
"""A ratio of weights, devices or samples beyond which nothing close was measured."""

OTHER_DATA = 1.5
"""How far a setting with other data is."""


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
        data = self.config.data
        found = {name for name, part in self._parts(setting).items() if part > 1}
        mine = {
            "data": f"{data.dataset}, measured: {setting.dataset}",
            "how devices differ": f"{self.kind}, measured: {setting.kind}",
            "label skew": f"{self.skew:.2f}, measured: {setting.skew:.2f}",
            "weights": f"{self.sizes.dims.num_weights:,}, measured: {setting.weights:,}",
            "devices": f"{data.devices:,}, measured: {setting.devices:,}",
            "devices of a round": (
                f"{self.config.participants_per_round:,}, measured: {setting.taking_part:,}"
            ),
            "samples of a device": f"{data.samples_per_device:,}, measured: {setting.samples:,}",
        }
        return [f"{name}: {text}" for name, text in mine.items() if name in found]

    def _parts(self, setting: MeasuredSetting) -> dict[str, float]:
        def factor(one: float, other: float) -> float:
            return abs(math.log(one / other)) / math.log(FAR_FACTOR)

        data = self.config.data
        parts = {
            "data": 0.0 if data.dataset == setting.dataset else OTHER_DATA,
            "how devices differ": 0.0 if self.kind == setting.kind else 10.0,
            "label skew": abs(self.skew - setting.skew) / FAR_SKEW,
            "weights": factor(self.sizes.dims.num_weights, setting.weights),
            "devices": factor(data.devices, setting.devices),
        }
        asked = self.config.participants_per_round
        if (asked, setting.taking_part) != (data.devices, setting.devices):
            parts["devices of a round"] = factor(asked, setting.taking_part)
        if self.kind == "labels":
            parts["samples of a device"] = factor(data.samples_per_device, setting.samples)
        return parts


def nearest(case: Case, measured: Mapping[str, MeasuredSetting]) -> list[MeasuredSetting]:
    """All settings that were measured over an ideal link, the nearest first.

    What a link loses is worked out for the user's own.
    """
    ideal = [setting for setting in measured.values() if setting.ideal_link]
    return sorted(ideal, key=case.distance)
