"""Attackers of a simulation: between what devices learned and what the link carries.

They replace their own uploads, and nothing else: their devices learn and listen as all others do.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.device.attacks import ATTACKS, Attack, Known
from mix2fld.device.uplinks import NoUplink, Turn
from mix2fld.errors import InputError
from mix2fld.learning.task import Task
from mix2fld.link.payloads import flatten_tensors, unflatten_tensors
from mix2fld.protocol import Protocol
from mix2fld.round.fleet_interface import Trained
from mix2fld.round.scenario import Scenario, attackers_of
from mix2fld.round.wire import Packet
from mix2fld.streams import stream
from mix2fld.types import Local, Seeds, ServerState, State, Tensors, Update

Floats = NDArray[np.float64]


def check_attack(scenario: Scenario) -> None:
    """Refuse an attack on uploads that the protocol does not have."""
    name, row = scenario.config.attack.attack, scenario.protocol
    attack = ATTACKS.get(name)
    if attack is None or attack.upload is None or meets(attack, row):
        return
    raise InputError(
        f"attack = {name}: replaces uploads of weights, updates or outputs; {row.title} has none "
        "of them"
    )


def meets(attack: Attack, row: Protocol) -> bool:
    """Whether devices of this row have what the attack replaces."""
    other = row.uplink.labels_seeds or row.uplink.measures_samples
    uploads = not isinstance(row.uplink, NoUplink) and not other
    if attack.upload is not None:
        return uploads
    return attack.seeds is None or row.seeds is not None


def replace_uploads(
    scenario: Scenario, server: ServerState, round_number: int, trained: Trained
) -> Trained:
    """What came of the local phase, with the uploads of attackers replaced."""
    config, packets = scenario.config, dict(trained.packets)
    begun = config.attack.attack != "none" and round_number >= config.attack.attack_from
    if not begun or not scenario.wire.uploads_in(round_number):
        return trained
    attackers = sorted(attackers_of(config) & packets.keys())
    attack, stage = ATTACKS[config.attack.attack], _Stage(scenario, server, round_number)
    others = [d for d in sorted(packets) if d not in attackers] if attack.upload else []
    learned = [stage.learned(d, packets[d]) for d in others]
    honest = np.stack(learned or [stage.last])
    for device in attackers:
        packets[device] = stage.attacked(device, packets[device], attack, honest)
    return trained._replace(packets=packets)


class _Stage:
    """Uploads as rows of numbers, and rows of numbers as uploads."""

    def __init__(self, scenario: Scenario, server: ServerState, round_number: int) -> None:
        self._scenario, self._round = scenario, round_number
        self._model = _last_model(scenario.task, server)
        self._sends_outputs = scenario.protocol.uplink.payload.name == "outputs"
        labels = scenario.task.dims.num_labels
        uniform = np.full(labels * labels, 1.0 / labels)
        outputs = uniform if server.outputs is None else server.outputs.ravel().astype(np.float64)
        self.last: Floats = outputs if self._sends_outputs else self._flat(self._model)
        self._strength = scenario.config.attack.attack_strength

    def learned(self, device: int, packet: Packet) -> Floats:
        """What a device learned, as the server would read it."""
        value: Any = self._scenario.wire.decode_knowledge(packet.knowledge.data, self._turn(device))
        if self._sends_outputs:
            return value.ravel().astype(np.float64)
        if isinstance(value, Update):
            return self._flat(self._model) + self._flat(value.tensors)
        return self._flat(value)

    def attacked(self, device: int, packet: Packet, attack: Attack, honest: Floats) -> Packet:
        """The upload that is sent in place of an honest one."""
        wire, dims = self._scenario.wire, self._scenario.task.dims
        knowledge, seeds = packet.knowledge, packet.seeds
        if attack.upload is not None:
            rng = stream(self._scenario.task.seed, "attack", self._round, device)
            strength = attack.strength if self._strength is None else self._strength
            own = self.learned(device, packet)
            sent = attack.upload(Known(own, honest, self.last, rng, strength))
            turn = self._turn(device)._replace(room=packet.knowledge.bits)
            knowledge = wire.encode_knowledge(self._state(), self._local(sent), turn)
        if attack.seeds is not None and seeds is not None:
            own_seeds = wire.decode_seeds(seeds.data)
            if isinstance(own_seeds, Seeds):
                seeds = wire.encode_seeds(attack.seeds(own_seeds, dims.num_labels))
        return Packet(knowledge, seeds, attack.samples or packet.samples)

    def _local(self, sent: Floats) -> Local:
        """What a device would have learned that uploads this."""
        dims = self._scenario.task.dims
        outputs = np.zeros((dims.num_labels,) * 2, np.float32)
        if self._sends_outputs:
            return Local(self._model, _as_distributions(sent.reshape(outputs.shape)))
        return Local(unflatten_tensors(sent.astype(np.float32), dims), outputs)

    def _state(self) -> State:
        """A device that has just received the last global model."""
        return {"weights": self._model, **self._scenario.wire.uplink.start(self._model)}

    def _flat(self, tensors: Tensors) -> Floats:
        return flatten_tensors(tensors, self._scenario.task.dims).astype(np.float64)

    def _turn(self, device: int) -> Turn:
        return Turn(self._scenario.task.seed, self._round, device)


def _last_model(task: Task, server: ServerState) -> Tensors:
    return task.common_weights if server.weights is None else server.weights


def _as_distributions(values: Floats) -> NDArray[np.float32]:
    """Rows that a payload of outputs carries: no value below zero, each row with sum one."""
    shifted = values - values.min(axis=1, keepdims=True)
    totals = shifted.sum(axis=1, keepdims=True)
    even = np.full_like(values, 1.0 / values.shape[1])
    return np.divide(shifted, totals, out=even, where=totals > 0).astype(np.float32)
