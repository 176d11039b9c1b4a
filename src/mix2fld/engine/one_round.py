"""The round: it exists once, for every protocol, every link, every fleet and every policy of time.

Ask devices, wait for their uploads, let the server take its step, carry its download, and write
down what happened.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.engine.attackers import replace_uploads
from mix2fld.engine.bit_budgets import download_arrives, upload_bit_budgets
from mix2fld.engine.clock import Clock, Slowest, computing_seconds
from mix2fld.engine.convergence import relative_change
from mix2fld.engine.curve import MeasuredScores, curve_of, phase_clocks
from mix2fld.engine.fleet_interface import Fleet, LocalPhaseOutcome, Order, Outcome
from mix2fld.engine.flights import Airtime, Flight
from mix2fld.engine.info import Observed, RoundInfo, record
from mix2fld.engine.masked_sums import check_ciphers
from mix2fld.engine.participation import as_array, draw_participants
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.server_turn import sends_download, server_turn
from mix2fld.engine.staleness import last_uploads, with_last_uploads
from mix2fld.engine.state import Roster, RunState
from mix2fld.engine.transfers import Transfer, transmit
from mix2fld.engine.uploads import answered_flights, begin_flights, collect_uploads
from mix2fld.protocols.aggregation.outliers import far_uploads
from mix2fld.protocols.suspects import Suspect, far_from_the_rest
from mix2fld.tasks.stepper import snapshot_steps
from mix2fld.types import ServerState, State, Upload


def start_run(scenario: Scenario, fleet: Fleet) -> RunState:
    """The state before the first round."""
    check_ciphers(scenario)
    rng = stream(scenario.learning.seed, "link")
    return RunState(
        round_number=0,
        devices=fleet.start(),
        server=ServerState(),
        clock=Clock(),
        roster=Roster.empty(scenario.devices, 1 + len(scenario.learning.task.further)),
        link=scenario.link.start(scenario.devices, rng),
    )


def run_round(scenario: Scenario, fleet: Fleet, state: RunState) -> tuple[RunState, RoundInfo]:
    """One global update: local phase, upload, server step, download."""
    link_slot, policy = scenario.link.slot_seconds, scenario.policy
    available, link = _reachable(scenario, fleet, state)
    order = _order(scenario, state, available, link)
    devices, trained = fleet.train(state.devices, order)
    trained = replace_uploads(scenario, state.server, order.round_number, trained)

    asked = _computing(scenario, order, trained)
    slowest = _slowest(scenario, asked)
    flights = {
        **answered_flights(scenario, state.flights, trained),
        **begin_flights(scenario, state.server, order, trained, asked),
    }
    air = Airtime(scenario, flights, order.round_number, link, policy.at_once, state.clock.seconds)
    inbox, uploaded, quorum = collect_uploads(scenario, fleet, policy, air, len(asked))
    waited = air.seconds
    if not policy.uses_late:
        air.abandon()
    last_known = last_uploads(scenario, state.last_uploads, air.ended, inbox)
    inbox = with_last_uploads(scenario, inbox, last_known, order.round_number)
    turn = server_turn(scenario, state.server, inbox, order.round_number)
    server = turn.state
    audience = _audience(scenario, order, available, air)
    down, sent, air.link = _carry_download(
        scenario, (state.server, server), audience, order, uploaded, air.link
    )
    receivers = frozenset(np.flatnonzero(down.arrived).tolist())
    ended = frozenset(air.ended if policy.uses_late else {*order.asked, *air.ended})
    outcome = Outcome(order.round_number, order.asked, uploaded, sent.data, receivers, ended)
    devices, delivered = fleet.deliver(devices, outcome)
    down = down.only(delivered.devices)
    server = _after_receipt(scenario, server, delivered.devices, order.asked, sent)

    known, measured = _measure(scenario, fleet, state, trained, server)
    network = trained.network_seconds, delivered.network_seconds
    down_seconds = float(down.slots.max(initial=0)) * link_slot
    clock = state.clock.after(computing=air.quiet_seconds if flights else slowest.seconds).after(
        communication=sum((air.aired_slots * link_slot, down_seconds, *network)),
        computing=turn.seconds,
    )
    left = air.after(down_seconds + sum(network) + turn.seconds)
    roster = _update(state, order, available, outcome, air, known)
    after = RunState(order.round_number, devices, server, clock, roster, air.link, left, last_known)
    phase = phase_clocks(
        state.clock,
        asked.get(scenario.reference, slowest.seconds),
        slowest.seconds,
        [step for step, _ in measured.intermediate],
    )
    seen = Observed(
        before=state,
        asked=asked,
        computed=air.computed(),
        slowest=slowest,
        up=air.transfer(uploaded),
        down=down,
        quorum=quorum,
        after=after,
        curve=curve_of(
            state.round_number,
            measured,
            phase,
            state.clock,
            clock if down.arrived[scenario.reference] else None,
        ),
        change=relative_change(state.server, server),
        waited=waited,
        multicast=down_seconds,
        ended=ended,
        spans=air.timeline(),
        staleness={d: order.round_number - air.ended[d].number for d in sorted(uploaded)},
        did=turn.did,
        far=_far_uploads(scenario, inbox),
        beyond_history=sent.beyond_history,
    )
    return after, record(seen, measured, scenario)


def _reachable(scenario: Scenario, fleet: Fleet, state: RunState) -> tuple[Sequence[int], State]:
    """The devices of the fleet that the link reaches in this round."""
    rng = stream(scenario.learning.seed, "link", state.round_number + 1)
    reached, link = scenario.link.begin_round(state.link, state.clock.seconds, rng)
    available = fleet.available()
    if reached is None:
        return available, link
    return [device for device in available if reached[device]], link


def _draw(
    scenario: Scenario, available: Sequence[int], flights: Mapping[int, Flight], number: int
) -> tuple[int, ...]:
    """Who takes part of those that are neither computing nor transmitting."""
    idle = [device for device in available if device not in flights] if flights else available
    awaited = sum(not flight.late for flight in flights.values())
    return draw_participants(scenario.config, idle, number, awaited)


def _order(scenario: Scenario, state: RunState, available: Sequence[int], link: State) -> Order:
    number = state.round_number + 1

    def last_download(device: int | None = None) -> bytes | None:
        if not state.server.updates:
            return None
        alike = not scenario.wire.downlink.sends_steps
        return encoded(None if alike else device)

    @cache
    def encoded(device: int | None) -> bytes:
        return scenario.wire.encode_download(state.server, device).data

    asked = _draw(scenario, available, state.flights, number)
    evaluated = scenario.evaluated_in(number)
    due = asked if scenario.wire.uploads_in(number) else ()
    budgets = upload_bit_budgets(scenario, due, link, state.flights)
    held = sum(bool(flight.arrived) for flight in state.flights.values())
    return Order(
        number, asked, scenario.reference, evaluated, state.roster, last_download, budgets, held
    )


def _audience(
    scenario: Scenario, order: Order, available: Sequence[int], air: Airtime
) -> list[int]:
    """Who listens to the multicast: all idle devices, or those of this round and of the next
    (decision 28)."""
    coming: Collection[int]
    if scenario.wire.all_listen:
        coming = set(available) - air.busy.keys()
    else:
        coming = _draw(scenario, available, air.busy, order.round_number + 1)
    done = {*order.asked, *air.ended} - air.busy.keys()
    return sorted({*coming, *(d for d in done if d in order.asked or d in available)})


class Multicast(NamedTuple):
    """What the server sent down."""

    value: Any = None
    data: bytes | None = None
    beyond_history: Sequence[int] = ()
    """Listeners that lack more steps than the server keeps, so that it sends weights."""


def _carry_download(
    scenario: Scenario,
    server: tuple[ServerState, ServerState],
    audience: list[int],
    order: Order,
    added: Collection[int],
    link: State,
) -> tuple[Transfer, Multicast, State]:
    """Multicast the global state to those who listen, if the server has one to send.

    Those whose uploads were ``added`` under masks are sent the keys and shares of others, too.
    """
    bits, sent = np.zeros(scenario.devices, np.int64), Multicast()
    before, after = server
    if sends_download(scenario.config, before, after):
        arrives = download_arrives(scenario, audience, link)
        value = scenario.wire.downlink.download_for(after, audience, arrives)
        message = scenario.wire.download_message(order.round_number, value)
        bits[audience] = message.bits
        bits[[d for d in audience if d in added]] += scenario.wire.overhead.down
        lacking = scenario.wire.downlink.beyond_history(after, audience, value)
        sent = Multicast(value, message.body.data, lacking)
    delivery, link = transmit(scenario, "downlink", bits, order.round_number, link)
    return Transfer.of(bits, delivery), sent, link


def _after_receipt(
    scenario: Scenario,
    server: ServerState,
    receivers: Collection[int],
    asked: Collection[int],
    sent: Multicast,
) -> ServerState:
    """The server when it knows who received its multicast."""
    if sent.data is None:
        return server
    changed = scenario.wire.downlink.on_receipt(server, receivers, asked, sent.value)
    return replace(server, memory={**server.memory, **changed}) if changed else server


def _computing(scenario: Scenario, order: Order, trained: LocalPhaseOutcome) -> dict[int, float]:
    """Seconds that each device that was asked takes for its steps, as stated or as measured."""
    config, measured = scenario.config, trained.computing_seconds
    steps, costs = config.learning.local_steps, scenario.step_us
    return {
        d: computing_seconds(config.clock, costs[d], steps, measured.get(d, 0.0))
        for d in order.asked
    }


def _slowest(scenario: Scenario, computing: dict[int, float]) -> Slowest:
    """Who the round waits for; without any device it lasts as long as with the slowest of all."""
    config = scenario.config
    if not computing:
        steps, cost = config.learning.local_steps, max(scenario.step_us)
        return Slowest(None, computing_seconds(config.clock, cost, steps, measured=0.0))
    device = max(computing, key=computing.__getitem__)
    return Slowest(device, computing[device])


def _far_uploads(scenario: Scenario, inbox: Mapping[int, Upload]) -> tuple[Suspect, ...]:
    """Devices whose upload lies far from those of others."""
    protocol = scenario.wire.protocol
    return far_from_the_rest(protocol.upload_kind or "", far_uploads(protocol, inbox))


def _measure(
    scenario: Scenario,
    fleet: Fleet,
    state: RunState,
    trained: LocalPhaseOutcome,
    server: ServerState,
) -> tuple[NDArray[np.float64], MeasuredScores]:
    """The scores known of devices [D], and what the record shows beside them."""
    learning, reference, known = (
        scenario.learning,
        scenario.reference,
        state.roster.scores.copy(),
    )
    unknown = bool(np.isnan(known[reference]).any())
    untrained = [learning.initial_weights(reference)] if unknown else []
    of_server = [] if server.weights is None or learning.personal else [server.weights]
    found = fleet.measure(trained.observed, [*untrained, *of_server])
    for device in found.devices.keys() & set(scenario.evaluated):
        known[device] = found.devices[device][0] if known.ndim == 1 else found.devices[device]
    settings = scenario.config.learning
    points = snapshot_steps(settings.local_steps, scenario.config.curve_points)
    unknown = bool(np.isnan(known[reference]).any())
    at_least = found.models[0] if unknown else tuple(np.atleast_1d(known[reference]).tolist())
    intermediate = found.intermediate or [(step, at_least) for step in points]
    initial = found.models[0] if state.round_number == 0 else None
    last = found.models[-1] if of_server else None
    return known, MeasuredScores(intermediate, initial, last)


def _update(
    state: RunState,
    order: Order,
    available: Sequence[int],
    outcome: Outcome,
    air: Airtime,
    known: NDArray[np.float64],
) -> Roster:
    """A device that was away should catch up later; one that was not drawn has missed nothing."""
    roster, number, asked = state.roster, order.round_number, list(order.asked)
    rested = np.zeros(len(known), np.bool_)
    rested[as_array(available)] = True
    rested[list(state.flights)] = True
    rested[asked] = False
    uploaded = roster.uploaded.copy()
    for device in outcome.uploaded:
        uploaded[device] = air.ended[device].number
    listened = roster.listened.copy()
    listened[list(outcome.receivers.difference(asked))] = number
    return Roster(
        scores=known,
        uploaded=uploaded,
        last_turn=np.where(rested, roster.last_turn, number),
        listened=listened,
    )
