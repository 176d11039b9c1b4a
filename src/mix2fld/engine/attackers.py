"""Attackers of a simulation: between what devices learned and what the link carries.

They replace their own uploads, and nothing else: their devices learn and listen as all others do.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.codecs import flatten_tensors, unflatten_tensors
from mix2fld.engine.attacks import ATTACKS, Attack, Known
from mix2fld.engine.fleet_interface import Trained
from mix2fld.engine.scenario import Scenario, attackers_of
from mix2fld.engine.wire import Packet
from mix2fld.protocols.base import NoUplink, Protocol, Turn
from mix2fld.protocols.statistics import Summary
from mix2fld.tasks.learning import Learning
from mix2fld.types import Local, Seeds, ServerState, State, Statistics, Tensors, Update

Floats = NDArray[np.float64]


def check_attack(scenario: Scenario) -> None:
    """Refuse an attack on uploads that the protocol does not have."""
    name, row = scenario.config.attack.attack, scenario.protocol
    attack = ATTACKS.get(name)
    if attack is None:
        return
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
    other = row.uplink.labels_seeds or row.uplink.measures_samples
    uploads = not isinstance(row.uplink, NoUplink) and not other
    statistics = isinstance(row.seeds, Summary)
    if attack.upload is not None:
        return uploads or statistics
    return attack.seeds is None or not (row.seeds is None or statistics)


def replace_uploads(
    scenario: Scenario, server: ServerState, round_number: int, trained: Trained
) -> Trained:
    """What came of the local phase, with the uploads of attackers replaced."""
    config, packets = scenario.config, dict(trained.packets)
    begun = config.attack.attack != "none" and round_number >= config.attack.attack_from
    if not begun or not scenario.wire.uploads_in(round_number):
        return trained
    attack = ATTACKS[config.attack.attack]
    by_statistics = isinstance(scenario.protocol.seeds, Summary)
    stage = (_Statistics if by_statistics else _Stage)(scenario, server, round_number)
    sending = {d: packet for d, packet in packets.items() if stage.sends(packet)}
    attackers = sorted(attackers_of(config) & sending.keys())
    others = [d for d in sorted(sending) if d not in attackers] or attackers
    learned = [stage.learned(d, packets[d]) for d in others] if attack.upload else []
    honest = np.stack(learned or [stage.last])
    for device in attackers:
        packets[device] = stage.attacked(device, packets[device], attack, honest)
    return trained._replace(packets=packets)


class _Stage:
    """Uploads as rows of numbers, and rows of numbers as uploads."""

    def __init__(self, scenario: Scenario, server: ServerState, round_number: int) -> None:
        self._scenario, self._round = scenario, round_number
        self._model = _last_model(scenario.learning, server)
        self._sends_outputs = scenario.protocol.uplink.payload.name == "outputs"
        labels = scenario.learning.dims.num_labels
        uniform = np.full(labels * labels, 1.0 / labels)
        outputs = uniform if server.outputs is None else server.outputs.ravel().astype(np.float64)
        self.last: Floats = outputs if self._sends_outputs else self._flat(self._model)

    def sends(self, packet: Packet) -> bool:
        """Whether there is something to replace."""
        del packet
        return True

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
        wire, dims = self._scenario.wire, self._scenario.learning.dims
        knowledge, seeds = packet.knowledge, packet.seeds
        if attack.upload is not None:
            sent = attack.upload(self._known(device, packet, attack, honest))
            turn = self._turn(device)._replace(room=packet.knowledge.bits)
            knowledge = wire.encode_knowledge(self._state(), self._local(sent), turn)
        if attack.seeds is not None and seeds is not None:
            own_seeds = wire.decode_seeds(seeds.data)
            if isinstance(own_seeds, Seeds):
                seeds = wire.encode_seeds(
                    attack.seeds(own_seeds, dims.num_labels, self._strength(attack))
                )
        return Packet(knowledge, seeds, attack.samples or packet.samples)

    def _known(self, device: int, packet: Packet, attack: Attack, honest: Floats) -> Known:
        rng = stream(self._scenario.learning.seed, "attack", self._round, device)
        return Known(self.learned(device, packet), honest, self.last, rng, self._strength(attack))

    def _strength(self, attack: Attack) -> float:
        wanted = self._scenario.config.attack.attack_strength
        return attack.strength if wanted is None else wanted

    def _local(self, sent: Floats) -> Local:
        """What a device would have learned that uploads this."""
        dims = self._scenario.learning.dims
        outputs = np.zeros((dims.num_labels,) * 2, np.float32)
        if self._sends_outputs:
            return Local(self._model, _as_distributions(sent.reshape(outputs.shape)))
        return Local(unflatten_tensors(sent.astype(np.float32), dims), outputs)

    def _state(self) -> State:
        """A device that has just received the last global model."""
        return {"weights": self._model, **self._scenario.wire.uplink.start(self._model)}

    def _flat(self, tensors: Tensors) -> Floats:
        return flatten_tensors(tensors, self._scenario.learning.dims).astype(np.float64)

    def _turn(self, device: int) -> Turn:
        return Turn(self._scenario.learning.seed, self._round, device)


class _Statistics(_Stage):
    """Statistics, in the round in which they are uploaded; what nobody knows yet is zero."""

    def __init__(self, scenario: Scenario, server: ServerState, round_number: int) -> None:
        super().__init__(scenario, server, round_number)
        self.last = np.zeros(1)

    def sends(self, packet: Packet) -> bool:
        """Only once."""
        return packet.seeds is not None

    def learned(self, device: int, packet: Packet) -> Floats:
        """Counts, sums and scatter, one after the other."""
        del device
        own = self._own(packet)
        return np.concatenate([part.ravel() for part in own]).astype(np.float64)

    def attacked(self, device: int, packet: Packet, attack: Attack, honest: Floats) -> Packet:
        """The statistics that are sent in place of honest ones."""
        if attack.upload is None:
            return packet
        own = self._own(packet)
        sent = attack.upload(self._known(device, packet, attack, honest)).astype(np.float32)
        ends = np.cumsum([part.size for part in own])[:-1]
        parts = zip(np.split(sent, ends), own, strict=True)
        false = Statistics(*(part.reshape(like.shape) for part, like in parts))
        seeds = self._scenario.wire.encode_seeds(false)
        return Packet(packet.knowledge, seeds, attack.samples or packet.samples)

    def _own(self, packet: Packet) -> Statistics:
        if packet.seeds is None:
            raise ValueError("this device has sent its statistics before")
        own: Statistics = self._scenario.wire.decode_seeds(packet.seeds.data)
        return own


def _last_model(learning: Learning, server: ServerState) -> Tensors:
    return learning.common_weights if server.weights is None else server.weights


def _as_distributions(values: Floats) -> NDArray[np.float32]:
    """Rows that a payload of outputs carries: no value below zero, each row with sum one."""
    shifted = values - values.min(axis=1, keepdims=True)
    totals = shifted.sum(axis=1, keepdims=True)
    even = np.full_like(values, 1.0 / values.shape[1])
    return np.divide(shifted, totals, out=even, where=totals > 0).astype(np.float32)
