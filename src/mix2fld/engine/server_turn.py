"""The server's part of a round, for any row of the table."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from mix2fld.config.settings import Config
from mix2fld.engine.checks import check_server
from mix2fld.engine.clock import computing_seconds
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.staleness import mixed
from mix2fld.protocols.parts import StepInfo
from mix2fld.protocols.seed_screening import NO_VERDICT, Judgement, judge_seeds
from mix2fld.tasks.training import base_rate
from mix2fld.types import SeedSet, ServerState, Upload


class ServerTurn(NamedTuple):
    """What the server did in a round."""

    state: ServerState
    seconds: float
    """As stated or as measured."""
    judged: Judgement
    """Of the seeds, if new ones arrived."""
    labels: Judgement
    """Of the labels that devices gave to seeds."""


def server_turn(
    scenario: Scenario, before: ServerState, inbox: Mapping[int, Upload], round_number: int
) -> ServerTurn:
    """The global update."""
    config, seeding = scenario.config, scenario.protocol.seeds
    started = time.perf_counter()
    after, judged, info = global_update(scenario, before, inbox, round_number)
    measured = time.perf_counter() - started
    unmixes = seeding is not None and seeding.unmixed
    wire = scenario.wire
    trains = wire.protocol.server_trains
    rate = base_rate(config.learning) if trains else wire.rate_in(round_number)
    check_server(config, after.weights, unmixes, round_number, rate)
    steps = judged.steps + info.steps
    seconds = computing_seconds(config.clock, config.clock.server_step_us, steps, measured)
    return ServerTurn(after, seconds, judged, info.judged or NO_VERDICT)


def global_update(
    scenario: Scenario, state: ServerState, inbox: Mapping[int, Upload], round_number: int
) -> tuple[ServerState, Judgement, StepInfo]:
    """Take in new seeds, then the protocol's own step; seeds are judged when new ones arrive."""
    new = {d: upload.seeds for d, upload in inbox.items() if upload.seeds is not None}
    judged = NO_VERDICT
    if new:
        state = replace(state, seeds={**state.seeds, **new}, seed_set=None)
    if scenario.protocol.seeds is not None and state.seed_set is None:
        found = judge_seeds(state.seeds, scenario.learning)
        judged = found if new else NO_VERDICT  # else it was judged before, in another process
        state = replace(state, seed_set=_prepared(scenario, state, found.left_out))
    stepped, info = scenario.wire.protocol.step(state, inbox, round_number)
    stepped = mixed(scenario, state, stepped, inbox)
    return scenario.wire.downlink.after_step(state, stepped, inbox, round_number), judged, info


def _prepared(scenario: Scenario, state: ServerState, left_out: tuple[int, ...]) -> SeedSet | None:
    """The samples to train on, from the seeds of all devices but these."""
    used = {device: seeds for device, seeds in state.seeds.items() if device not in left_out}
    prepared = scenario.wire.prepare_seeds(used)
    return None if prepared is None else replace(prepared, left_out=left_out)


def sends_download(config: Config, before: ServerState, after: ServerState) -> bool:
    """Whether the server has something to send after its turn (decision 23)."""
    again = config.channel.no_uploads == "rebroadcast" and after.updates > 0
    return after.updates > before.updates or again
