"""Attackers of a simulation: between what devices learned and what the link carries.

They replace their own uploads, and nothing else: their devices learn and listen as all others do.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.engine.attacks import ATTACKS, Attack, Known
from mix2fld.engine.fleet_interface import LocalPhaseOutcome
from mix2fld.engine.messages import Message
from mix2fld.engine.scenario import Scenario, attackers_of
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.parts import Device, Turn
from mix2fld.types import ServerState, Statistics

Floats = NDArray[np.float64]


def check_attack(scenario: Scenario) -> None:
    """Refuse an attack on uploads that the protocol does not have."""
    name, row = scenario.config.attack.attack, scenario.protocol
    attack = ATTACKS.get(name)
    if attack is None:
        return
    task = scenario.learning.task
    if (attack.shifts_labels or attack.seeds) and not task.by_label:
        raise InputError(
            field="attack",
            value=name,
            hint=f"falsifies labels, and the task {task.name} has none",
        )
    if not meets(attack, row):
        kinds = "uploads of weights, updates, outputs or statistics" if attack.upload else "seeds"
        raise InputError(field="attack", value=name, hint=f"replaces {kinds}; {row.title} has none")
    strength = scenario.config.attack.attack_strength
    if attack.upload is None and strength is not None and not (attack.seeds and strength <= 1):
        wanted = "a share of seeds, at most 1" if attack.seeds else "left out: it has no factor"
        raise InputError(
            field="attack_strength",
            value=f"{strength:g}",
            hint=f"with attack = {name} must be {wanted}",
        )


def meets(attack: Attack, row: Protocol) -> bool:
    """Whether devices of this row have what the attack replaces."""
    if attack.upload is not None:
        return row.upload_kind is not None or row.statistics is not None
    return attack.seeds is None or row.seeds is not None


def replace_uploads(
    scenario: Scenario, server: ServerState, round_number: int, trained: LocalPhaseOutcome
) -> LocalPhaseOutcome:
    """Outcome of the local phase, with the uploads of attackers replaced."""
    config, messages = scenario.config, dict(trained.messages)
    begun = config.attack.attack != "none" and round_number >= config.attack.attack_from
    if not begun or not scenario.wire.uploads_in(round_number):
        return trained
    attack = ATTACKS[config.attack.attack]
    by_statistics = scenario.protocol.statistics is not None
    stage = (_Statistics if by_statistics else _Stage)(scenario, server, round_number)
    sending = {d: message for d, message in messages.items() if stage.sends(message)}
    attackers = sorted(attackers_of(config) & sending.keys())
    others = [d for d in sorted(sending) if d not in attackers] or attackers
    learned = [stage.learned(messages[d]) for d in others] if attack.upload else []
    honest = np.stack(learned) if learned else stage.nothing
    for device in attackers:
        messages[device] = stage.attacked(messages[device], attack, honest)
    return trained._replace(messages=messages)


class _Stage:
    """Uploads as rows of numbers, and rows of numbers as uploads."""

    nothing = np.zeros((1, 1))

    def __init__(self, scenario: Scenario, server: ServerState, round_number: int) -> None:
        self._scenario, self._server, self._round = scenario, server, round_number
        self._protocol, self._wire = scenario.wire.protocol, scenario.wire

    @property
    def last(self) -> Floats:
        """The last global value, as a row of numbers."""
        return self._protocol.last_row(self._server)

    def sends(self, message: Message) -> bool:
        """Whether there is something to replace."""
        del message
        return True

    def learned(self, message: Message) -> Floats:
        """What a device learned, as the server would read it."""
        value = self._wire.decode_body(message.body.data, self._turn(message))
        return self._protocol.as_row(value, self._server)

    def attacked(self, message: Message, attack: Attack, honest: Floats) -> Message:
        """The upload that is sent in place of an honest one."""
        body, once = message.body, message.once
        if attack.upload is not None:
            sent = attack.upload(self._known(message, attack, honest))
            local = self._protocol.from_row(sent, self._server)
            turn = self._turn(message)._replace(bit_budget=message.body.bits)
            body = self._wire.encode_body(self._device(turn), local)
        if attack.seeds is not None and once is not None:
            labels, own = self._scenario.learning.dims.num_labels, self._wire.decode_once(once.data)
            once = self._wire.encode_once(attack.seeds(own, labels, self._strength(attack)))
        samples = attack.samples or message.samples
        return message._replace(body=body, once=once, samples=samples)

    def _known(self, message: Message, attack: Attack, honest: Floats) -> Known:
        rng = stream(self._scenario.learning.seed, "attack", self._round, message.sender)
        return Known(self.learned(message), honest, self.last, rng, self._strength(attack))

    def _strength(self, attack: Attack) -> float:
        wanted = self._scenario.config.attack.attack_strength
        return attack.strength if wanted is None else wanted

    def _device(self, turn: Turn) -> Device:
        """One that has just received the last global model."""
        model = self._scenario.learning.sent.common_weights
        model = model if self._server.weights is None else self._server.weights
        state = {"weights": model, **self._protocol.start(model)}
        return Device(state, turn, _no_samples, lambda: None)

    def _turn(self, message: Message) -> Turn:
        return Turn(self._scenario.learning.seed, self._round, message.sender)


class _Statistics(_Stage):
    """Statistics, in the round in which they are uploaded; what nobody knows yet is zero."""

    @property
    def last(self) -> Floats:
        """Statistics have no last global value: zero."""
        return np.zeros(1)

    def sends(self, message: Message) -> bool:
        """Whether the upload has statistics, which a device sends once."""
        return message.once is not None

    def learned(self, message: Message) -> Floats:
        """Counts, sums and scatter, one after the other."""
        return np.concatenate([part.ravel() for part in self._own(message)]).astype(np.float64)

    def attacked(self, message: Message, attack: Attack, honest: Floats) -> Message:
        """The statistics that are sent in place of honest ones."""
        if attack.upload is None:
            return message
        own = self._own(message)
        sent = attack.upload(self._known(message, attack, honest)).astype(np.float32)
        ends = np.cumsum([part.size for part in own])[:-1]
        parts = zip(np.split(sent, ends), own, strict=True)
        false = Statistics(*(part.reshape(like.shape) for part, like in parts))
        once = self._wire.encode_once(false)
        return message._replace(once=once, samples=attack.samples or message.samples)

    def _own(self, message: Message) -> Statistics:
        if message.once is None:
            raise ValueError("this device has sent its statistics before")
        own: Statistics = self._wire.decode_once(message.once.data)
        return own


def _no_samples() -> Any:
    raise ValueError("an attacker's upload is made without samples")
