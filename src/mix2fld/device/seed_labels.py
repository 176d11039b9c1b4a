"""Uploads of labels: what a device's model says of each seed that all devices share."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from mix2fld.device.uplinks import Turn, Uplink
from mix2fld.link.payloads import SeedLabels
from mix2fld.types import Dimensions, Local, State

if TYPE_CHECKING:
    from mix2fld.config import Config


@dataclass(frozen=True)
class LabelsOfSeeds(Uplink):
    """What the trained model says of each seed that all devices share."""

    devices: int = 1
    bits: int = 1
    num_labels: int = 1

    @property
    def labels_seeds(self) -> bool:
        """It does."""
        return True

    @property
    def payload(self) -> SeedLabels:  # type: ignore[override]
        """Labels of the seeds that the device holds."""
        return SeedLabels(self.devices, self.bits)

    def configured(self, config: "Config", dims: Dimensions) -> Self:
        """With the bits of a label, and for so many devices."""
        bits = config.seeding.label_bits
        return replace(self, devices=config.data.devices, bits=bits, num_labels=dims.num_labels)

    def value(self, state: State, local: Local, turn: Turn) -> Any:
        """The codes of the labels, by the device whose seeds they are for."""
        del state, turn
        return {d: self.payload.codes(outputs) for d, outputs in local.on_seeds.items()}

    def read(self, value: Any, turn: Turn) -> Any:
        """The label distributions that the codes stand for."""
        del turn
        return {d: self.payload.labels(codes, self.num_labels) for d, codes in value.items()}
