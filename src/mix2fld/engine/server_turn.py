"""The server's part of a round: the step of its protocol, whichever that is."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from mix2fld.config.settings import Config
from mix2fld.engine.checks import check_kept, check_steps
from mix2fld.engine.clock import computing_seconds
from mix2fld.engine.divergence import check_server
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.staleness import mixed
from mix2fld.protocols.parts import StepInfo, Stepped
from mix2fld.tasks.training import base_rate
from mix2fld.types import ServerState, Upload


class ServerTurn(NamedTuple):
    """What the server did in a round."""

    state: ServerState
    seconds: float
    """As stated or as measured."""
    did: StepInfo
    """What the protocol says of its step."""


def server_turn(
    scenario: Scenario, before: ServerState, inbox: Mapping[int, Upload], round_number: int
) -> ServerTurn:
    """The global update."""
    config, seeding = scenario.config, scenario.protocol.seeds
    started = time.perf_counter()
    after, did = global_update(scenario, before, inbox, round_number)
    measured = time.perf_counter() - started
    unmixes = seeding is not None and seeding.unmixed
    wire = scenario.wire
    trains = wire.protocol.server_steps > 0
    rate = base_rate(config.learning) if trains else wire.rate_in(round_number)
    check_server(config, after.weights, unmixes, round_number, rate)
    check_steps(config, wire.protocol, did)
    seconds = computing_seconds(config.clock, config.clock.server_step_us, did.steps, measured)
    return ServerTurn(after, seconds, did)


def global_update(
    scenario: Scenario, state: ServerState, inbox: Mapping[int, Upload], round_number: int
) -> Stepped:
    """The protocol's step, as far as late uploads let it go, and as the downlink carries it."""
    protocol, downlink = scenario.wire.protocol, scenario.wire.downlink
    stepped, did = protocol.step(state, inbox, round_number)
    check_kept(protocol, stepped, inbox)
    stepped = mixed(scenario, state, stepped, inbox)
    return downlink.after_step(state, stepped, inbox, round_number), did


def sends_download(config: Config, before: ServerState, after: ServerState) -> bool:
    """Whether the server has something to send after its turn (decision 23)."""
    again = config.channel.no_uploads == "rebroadcast" and after.updates > 0
    return after.updates > before.updates or again
