"""The uploads of a round: what is sent, what arrives, and what the server reads of it."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.codecs import PayloadError
from mix2fld.engine.checks import check_upload
from mix2fld.engine.fleet_interface import Fleet, LocalPhaseOutcome, Order
from mix2fld.engine.flights import Airtime, Flight
from mix2fld.engine.info import QuorumResult
from mix2fld.engine.masked_sums import SUM, with_sums
from mix2fld.engine.messages import Message
from mix2fld.engine.policies.policy import Policy
from mix2fld.engine.scenario import Scenario
from mix2fld.protocols.parts import Turn
from mix2fld.types import ServerState, Upload


class Collected(NamedTuple):
    """What the server has when it waits no longer."""

    inbox: dict[int, Upload]
    delivered: frozenset[int]
    """The devices whose uploads count."""
    quorum: QuorumResult


def begin_flights(
    scenario: Scenario,
    server: ServerState,
    order: Order,
    trained: LocalPhaseOutcome,
    computing: Mapping[int, float],
) -> dict[int, Flight]:
    """Every device that was asked, on its way.

    An upload that a device never handed over counts as its size in advance. A device that claims
    more bits than an upload can have is charged for the largest one; what it sent is refused when
    it is opened.
    """
    flights, due = {}, scenario.wire.uploads_in(order.round_number)
    most = scenario.wire.upload_size(with_seeds=True).bits
    for device in order.asked:
        message = trained.messages.get(device)
        size = scenario.wire.upload_size(with_seeds=device not in server.seeds)
        promised = order.bit_budgets.get(device, size.bits)
        masks = scenario.wire.overhead.up if message is not None and message.body.bits else 0
        bits = (promised if message is None else min(message.bits + masks, most)) if due else 0
        until = math.inf if device in trained.in_flight else computing[device]
        bits = 0 if until == math.inf else bits
        flights[device] = Flight(order.round_number, until, message, bits, bits)
    return flights


def answered_flights(
    scenario: Scenario, flights: Mapping[int, Flight], trained: LocalPhaseOutcome
) -> dict[int, Flight]:
    """The flights of earlier rounds; of a fleet whose time is real, with answers that came since.

    A device that is not going to answer is done.
    """
    found = {}
    for device, flight in flights.items():
        now, message = flight, trained.messages.get(device)
        if flight.computing == math.inf and device not in trained.in_flight:
            now = flight._replace(computing=0.0)
        if flight.message is None and message is not None:
            bits = message.bits + scenario.wire.overhead.up * (message.body.bits > 0)
            seconds = trained.computing_seconds[device]
            now = now._replace(computing=seconds, message=message, size=bits, bits=bits)
        found[device] = now
    return found


def collect_uploads(
    scenario: Scenario, fleet: Fleet, policy: Policy, air: Airtime, asked: int
) -> Collected:
    """Wait as the policy says, and read what arrives; without a quorum none of it is taken
    (decision 30).

    If a missed quorum is to be repeated, those whose upload was lost send it again.
    """
    config, inbox, opened = scenario.config.availability, dict[int, Upload](), set[int]()
    needed = config.min_uploads if any(f.bits for f in air.flights.values()) else 0

    def enough() -> bool:
        waiting, wanted = [d for d in air.ended if d not in opened], policy.enough(asked)
        while waiting:
            lacking = wanted - len(inbox) if policy.uses_late else math.inf
            if lacking <= 0:
                break
            now = len(waiting) if lacking == math.inf else math.ceil(lacking)
            some, waiting = waiting[:now], waiting[now:]
            opened.update(some)
            flights = {device: air.ended[device] for device in some}
            for device, upload in _open(scenario, fleet, flights, air.number).items():
                if weight := policy.weight(upload.staleness):
                    inbox[device] = upload._replace(weight=weight)
        nobody = not air.awaited and (bool(air.ended) or bool(asked))
        return nobody or len(inbox) >= max(1, policy.enough(asked))

    air.until(enough, policy.limit)
    repeats = 0
    while (
        config.missed_quorum == "repeat"
        and not air.awaited
        and len(inbox) < needed
        and repeats < config.upload_repeats
    ):
        missing = [d for d, f in air.ended.items() if f.size and f.message and d not in inbox]
        if not missing:
            break
        repeats += 1
        air.repeat(missing)
        opened.difference_update(missing)
        air.until(enough, policy.limit)
    air.hold(air.ended.keys() - opened)
    quorum = QuorumResult(needed, len(inbox), repeats)
    taken = {device: inbox[device] for device in sorted(inbox)} if quorum.met else {}
    if scenario.link.adds:
        return Collected(_added(scenario, taken, air.number), frozenset(taken), quorum)
    if scenario.wire.masks:
        sent = _sent(air, inbox if policy.uses_late else None)
        summed, used = with_sums(scenario, fleet.add_up, sent, taken, air.number)
        return Collected(summed, used, quorum._replace(arrived=len(used)))
    return Collected(taken, frozenset(taken), quorum)


def _sent(air: Airtime, those: Mapping[int, Upload] | None) -> dict[int, Message]:
    """What devices sent in the round, arrived or not, or only ``those``."""
    flights = sorted({**air.flights, **air.ended}.items())
    return {
        device: flight.message
        for device, flight in flights
        if flight.message is not None and flight.message.body.bits
        if (flight.number == air.number if those is None else device in those)
    }


def check_exchange(scenario: Scenario) -> None:
    """Refuse a policy of time, or a protocol, whose uploads have no meaning on this link."""
    protocol, config, policy = scenario.protocol, scenario.config, scenario.policy
    if not scenario.link.adds:
        return
    if not policy.at_once:
        raise InputError(
            field="wait",
            value=config.availability.wait,
            hint="the link adds uploads that are transmitted at the same time; must be all",
        )
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
    protocol, seed = scenario.wire.protocol, scenario.learning.seed
    samples = np.array([upload.samples for upload in opened.values()], np.float64)
    turns = [Turn(seed, number, device) for device in opened]
    signals = [protocol.signal(opened[turn.device], turn) for turn in turns]
    mean = scenario.link.superpose(
        np.stack(signals).astype(np.float64), samples, stream(seed, "superposition", number)
    )
    if mean is None:
        return {}
    value = protocol.from_signal(mean.astype(np.float32), Turn(seed, number, SUM))
    return {SUM: Upload(value, int(samples.sum()))}


def _open(
    scenario: Scenario, fleet: Fleet, flights: Mapping[int, Flight], number: int
) -> dict[int, Upload]:
    """What the server reads of uploads that arrived, from the bytes that were sent."""
    sent = {d: own.message for d, own in flights.items() if own.arrived and own.message is not None}
    if scenario.wire.masks:  # nobody reads them
        return {
            device: Upload(None, own.samples, staleness=number - own.round_number)
            for device, own in sent.items()
            if own.body.bits
        }
    turns = [Turn(scenario.learning.seed, flights[d].number, d) for d in sent]
    read, found = scenario.wire.decode_uploads(list(sent.values()), turns), dict[int, Upload]()
    for device, upload in zip(sent, read, strict=True):
        try:
            if isinstance(upload, PayloadError):
                raise upload
            check_upload(scenario.wire.protocol, upload, scenario.learning.dims.samples)
        except PayloadError as error:
            fleet.refuse(device, number, str(error))
            continue
        found[device] = upload._replace(staleness=number - flights[device].number)
    return found
