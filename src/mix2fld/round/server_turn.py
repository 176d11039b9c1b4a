"""The server's part of a round, for any row of the table."""

import time
from collections.abc import Mapping
from dataclasses import replace

from mix2fld.config import Config
from mix2fld.round.checks import check_server
from mix2fld.round.clock import computing_seconds
from mix2fld.round.scenario import Scenario
from mix2fld.types import ServerState, Upload


def server_turn(
    scenario: Scenario, before: ServerState, inbox: Mapping[int, Upload], round_number: int
) -> tuple[ServerState, float]:
    """The global update, and the seconds that it took, as stated or as measured."""
    config, seeding = scenario.config, scenario.protocol.seeds
    started = time.perf_counter()
    after = global_update(scenario, before, inbox, round_number)
    measured = time.perf_counter() - started
    unmixes = seeding is not None and seeding.unmixed
    check_server(config, after.weights, unmixes, round_number)
    converted = after.seed_set is not None and after.outputs is not None
    converted &= after.updates > before.updates
    steps = config.learning.server_steps if converted else 0
    return after, computing_seconds(config.clock, config.clock.server_step_us, steps, measured)


def global_update(
    scenario: Scenario, state: ServerState, inbox: Mapping[int, Upload], round_number: int
) -> ServerState:
    """Take in new seeds, then the protocol's own step."""
    new = {d: upload.seeds for d, upload in inbox.items() if upload.seeds is not None}
    if new:
        state = replace(state, seeds={**state.seeds, **new}, seed_set=None)
    if scenario.protocol.seeds is not None and state.seed_set is None:
        state = replace(state, seed_set=scenario.wire.prepare_seeds(state.seeds))
    step = scenario.protocol.server_step
    return step(state, inbox, state.seed_set, scenario.task, round_number)


def sends_download(config: Config, before: ServerState, after: ServerState) -> bool:
    """Whether the server has something to send after its turn (decision 23)."""
    again = config.channel.no_uploads == "rebroadcast" and after.updates > 0
    return after.updates > before.updates or again
