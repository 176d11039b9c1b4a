"""The uploads of a round: what is sent, what arrives, and what the server reads of it."""

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.codecs import PayloadError, flatten_tensors, unflatten_tensors
from mix2fld.engine.checks import check_upload
from mix2fld.engine.fleet_interface import Fleet, Order, Trained
from mix2fld.engine.info import Quorum, Transfer
from mix2fld.engine.scenario import Scenario
from mix2fld.links import Direction, check_delivery
from mix2fld.protocols.parts import Turn
from mix2fld.types import Delivery, ServerState, State, Upload

SUM = -1
"""In place of a device: the sum of all uploads, of which the server sees no single one."""


class Collected(NamedTuple):
    """Outcome of the uploads."""

    inbox: dict[int, Upload]
    delivered: frozenset[int]
    """The devices whose uploads count."""
    transfer: Transfer
    quorum: Quorum
    link: State


def collect_uploads(
    scenario: Scenario,
    fleet: Fleet,
    server: ServerState,
    order: Order,
    trained: Trained,
    link: State,
) -> Collected:
    """Carry the uploads, and read what arrives; without a quorum none of it is taken (decision 30).

    If a missed quorum is to be repeated, those whose upload was lost send it again.
    """
    config = scenario.config.availability
    bits = _upload_bits(scenario, server, order, trained)
    needed = config.min_uploads if bits.any() else 0
    up, link = transmit(scenario, "uplink", bits, order.round_number, link)
    inbox = _open(scenario, fleet, order, trained, up)
    repeats = 0
    while len(inbox) < needed and _may_repeat(scenario, repeats):
        missing = np.array([d in trained.messages and d not in inbox for d in range(len(bits))])
        if not (missing & (bits > 0)).any():
            break
        repeats += 1
        again, link = transmit(
            scenario, "uplink", bits * missing, order.round_number, link, repeat=repeats
        )
        inbox |= _open(scenario, fleet, order, trained, again)
        up = _one_after_the_other(up, again)
    quorum = Quorum(needed, len(inbox), repeats)
    taken = inbox if quorum.met else {}
    inbox = _added(scenario, taken, order.round_number) if scenario.link.adds else taken
    return Collected(inbox, frozenset(taken), only(up, taken), quorum, link)


def check_sums(scenario: Scenario) -> None:
    """Refuse a protocol whose uploads have no meaning as a sum, on a link that adds them."""
    protocol, config = scenario.protocol, scenario.config
    if not scenario.link.adds:
        return
    if not protocol.sums or protocol.once is not None:
        raise InputError(
            field="protocols",
            value=protocol.title,
            hint="the link adds uploads, and a sum of these has no meaning; choose fl, or a "
            "protocol of updates",
        )
    if config.defence.aggregation != "mean":
        raise InputError(
            field="aggregation",
            value=config.defence.aggregation,
            hint="the link adds uploads, of which the server sees none; must be mean",
        )


def _added(scenario: Scenario, opened: dict[int, Upload], number: int) -> dict[int, Upload]:
    """What the server receives if the link adds: one upload, by the samples of each device."""
    if not opened:
        return {}
    protocol, dims = scenario.wire.protocol, scenario.learning.dims
    samples = np.array([opened[device].samples for device in sorted(opened)], np.float64)
    tensors = [protocol.tensors_in(opened[d].value, opened[d].samples) for d in sorted(opened)]
    signals = np.stack([flatten_tensors(each, dims).astype(np.float64) for each in tensors])
    rng = stream(scenario.learning.seed, "superposition", number)
    total = scenario.link.superpose(signals * samples[:, None], rng)
    mean = unflatten_tensors((total / samples.sum()).astype(np.float32), dims)
    return {SUM: Upload(protocol.from_sum(mean), int(samples.sum()))}


def transmit(
    scenario: Scenario,
    direction: Direction,
    bits: NDArray[np.int64],
    number: int,
    link: State,
    *,
    repeat: int = 0,
) -> tuple[Transfer, State]:
    """Send over the link, with the draws of this round, or of one of its repeats."""
    rng = stream(scenario.learning.seed, direction, number, *([repeat] if repeat else []))
    delivery, link = scenario.link.transmit(direction, bits, rng, link)
    checked = check_delivery(scenario.link, delivery, len(bits))
    return Transfer(bits, checked, int(np.count_nonzero(bits))), link


def only(transfer: Transfer, devices: Collection[int]) -> Transfer:
    """The transfer as it was taken at its other end: nothing was, but by ``devices``."""
    taken = np.zeros(len(transfer.bits), np.bool_)
    taken[list(devices)] = True
    delivered = transfer.delivery.delivered & (taken | (transfer.bits == 0))
    return transfer._replace(delivery=replace(transfer.delivery, delivered=delivered))


def _upload_bits(
    scenario: Scenario, server: ServerState, order: Order, trained: Trained
) -> NDArray[np.int64]:
    """Bits of each upload; one that a device never handed over counts as its size in advance.

    A device that claims more bits than an upload can have is charged for the largest one; what it
    sent is refused when it is opened.
    """
    bits = np.zeros(scenario.devices, np.int64)
    most = scenario.wire.upload_size(with_seeds=True).bits
    for device in order.asked if scenario.wire.uploads_in(order.round_number) else ():
        message = trained.messages.get(device)
        size = scenario.wire.upload_size(with_seeds=device not in server.seeds)
        promised = order.bit_budgets.get(device, size.bits)
        bits[device] = promised if message is None else min(message.bits, most)
    return bits


def _may_repeat(scenario: Scenario, repeats: int) -> bool:
    config = scenario.config.availability
    return config.missed_quorum == "repeat" and repeats < config.upload_repeats


def _open(
    scenario: Scenario, fleet: Fleet, order: Order, trained: Trained, up: Transfer
) -> dict[int, Upload]:
    """What the server reads of the uploads that arrived, from the bytes that were sent."""
    inbox = {}
    for device in np.flatnonzero(up.arrived).tolist():
        if device not in trained.messages:
            continue
        turn = Turn(scenario.learning.seed, order.round_number, device)
        try:
            upload = scenario.wire.decode_upload(trained.messages[device], turn)
            check_upload(scenario.wire.protocol, upload, scenario.learning.dims.samples)
        except PayloadError as error:
            fleet.refuse(device, order.round_number, str(error))
        else:
            inbox[device] = upload
    return inbox


def _one_after_the_other(first: Transfer, second: Transfer) -> Transfer:
    """Two transmissions as one transfer: the second begins when the first is over for all."""
    before, after, again = first.delivery, second.delivery, second.bits > 0
    begins = int(before.slots.max(initial=0))
    delivery = Delivery(
        delivered=np.where(again, after.delivered, before.delivered),
        slots=np.where(again, begins + after.slots, before.slots),
        on_air=first.on_air + second.on_air,
    )
    return Transfer(first.bits + second.bits, delivery, first.attempts + second.attempts)
