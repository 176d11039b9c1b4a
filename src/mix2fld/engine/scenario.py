"""What is fixed for a whole run: the learning, the row of the protocol table, and the link."""

from dataclasses import dataclass
from functools import cached_property

from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.engine.clock import device_step_us
from mix2fld.engine.policies.policy import Policy
from mix2fld.engine.wire import Wire, checked_wire
from mix2fld.links import Link
from mix2fld.protocols.base import Protocol
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.training import LocalTraining


@dataclass(frozen=True, eq=False)
class Scenario:
    """One protocol, one seed, one link."""

    learning: Learning
    protocol: Protocol
    link: Link

    @property
    def config(self) -> Config:
        """The settings of the run."""
        return self.learning.config

    @property
    def devices(self) -> int:
        """How many devices there are, |D|."""
        return self.config.data.devices

    @property
    def training(self) -> LocalTraining:
        """How the devices train."""
        return self.wire.training

    @cached_property
    def wire(self) -> Wire:
        """What crosses the link."""
        return checked_wire(self.protocol, self.learning)

    @property
    def policy(self) -> Policy:
        """When the server takes its step."""
        return self.wire.policy

    @cached_property
    def reference(self) -> int:
        """The device whose score is followed through the round."""
        return reference_device(self.config)

    @cached_property
    def step_us(self) -> list[float]:
        """Stated time of one SGD step on each device."""
        return device_step_us(self.config).tolist()

    @cached_property
    def evaluated(self) -> tuple[int, ...]:
        """The devices whose score is measured, in the order of their numbers."""
        return evaluated_devices(self.config)

    def evaluated_in(self, round_number: int) -> frozenset[int]:
        """Those that are measured in a round."""
        if self.config.evaluated_rounds == "last" and round_number < self.config.rounds:
            return frozenset({self.reference})
        return frozenset(self.evaluated)


def reference_device(config: Config) -> int:
    """The reference device of a run: drawn once, from its seed."""
    return int(stream(config.seed, "reference").integers(config.data.devices))


def attackers_of(config: Config) -> frozenset[int]:
    """The devices that attack, drawn once; the reference device stays honest."""
    if config.attack.attack == "none":
        return frozenset()
    order = stream(config.seed, "attackers").permutation(config.data.devices)
    others = order[order != reference_device(config)]
    return frozenset(others[: config.attack.attackers].tolist())


def evaluated_devices(config: Config) -> tuple[int, ...]:
    """The devices of a run whose score is measured: drawn once, the reference among them.

    What attackers reach is of no interest.
    """
    drawn, attackers = _drawn_devices(config), attackers_of(config)
    return tuple(device for device in drawn if device not in attackers) if attackers else drawn


def _drawn_devices(config: Config) -> tuple[int, ...]:
    devices, count = config.data.devices, config.devices_evaluated
    if count == devices:
        return tuple(range(devices))
    reference = reference_device(config)
    others = stream(config.seed, "evaluated").choice(devices - 1, size=count - 1, replace=False)
    others += others >= reference
    return tuple(sorted([reference, *others.tolist()]))
