"""Fine-tuning: after the last round, every device takes more steps on its own samples.

They are plain steps at the rate of the last round: the model need suit this device alone, so that
no logit adjustment takes the labels that it holds out of the loss, and no mean is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mix2fld.engine.divergence import check_devices
from mix2fld.engine.fleets.local import LocalFleet
from mix2fld.engine.local_phase import train_phase
from mix2fld.engine.scenario import Scenario
from mix2fld.protocols.parts import Turn
from mix2fld.types import State, Tensors

if TYPE_CHECKING:
    from collections.abc import Callable

TOGETHER = 256
"""Devices that are tuned side by side."""
PLAIN = {"logit_adjustment": 0.0, "device_model": "trained"}


def finetune(
    scenario: Scenario,
    fleet: LocalFleet,
    read: "Callable[[Sequence[int]], Mapping[int, State]]",
    rounds_done: int,
) -> dict[int, Tensors]:
    """The model of every device after its steps; ``read`` returns states after the last round."""
    learning = scenario.learning
    config = learning.config.replace(local_steps=learning.config.learning.finetune_steps, **PLAIN)
    plain = replace(scenario, learning=replace(learning, config=config))
    number, everyone = rounds_done + 1, fleet.available()
    found: dict[int, Tensors] = {}
    for first in range(0, len(everyone), TOGETHER):
        some = everyone[first : first + TOGETHER]
        turns = {device: Turn(learning.seed, number, device) for device in some}
        held, learners = fleet.learners(read(some), turns)
        local = train_phase(plain.wire, plain.learning, held, learners).local
        check_devices(config, local, number, plain.wire.rate_in(number))
        found.update({device: own.weights for device, own in local.items()})
    return found
