"""Uploads that are some steps old: what they count for in the server's step."""

from collections.abc import Mapping
from dataclasses import replace

from mix2fld.engine.flights import Flight
from mix2fld.engine.messages import Message
from mix2fld.engine.scenario import Scenario
from mix2fld.protocols import lateness
from mix2fld.protocols.parts import Turn
from mix2fld.types import ServerState, Upload


def with_last_uploads(
    scenario: Scenario, inbox: Mapping[int, Upload], known: Mapping[int, Message], number: int
) -> dict[int, Upload]:
    """New uploads, and those that are ``known`` of all other devices."""
    if not inbox:
        return {}
    found = dict(inbox)
    for device in known.keys() - inbox.keys():
        message = known[device]
        turn = Turn(scenario.learning.seed, message.round_number, device)
        upload = scenario.wire.decode_upload(message, turn)
        found[device] = upload._replace(staleness=number - message.round_number)
    return {device: found[device] for device in sorted(found)}


def last_uploads(
    scenario: Scenario,
    known: Mapping[int, Message],
    ended: Mapping[int, Flight],
    inbox: Mapping[int, Upload],
) -> dict[int, Message]:
    """What is to be known of the uploads in later steps."""
    if not (scenario.policy.uses_late and scenario.protocol.late_uploads == "replaced"):
        return {}
    sent = {device: ended[device].message for device in inbox if device in ended}
    new = {d: message._replace(once=None) for d, message in sent.items() if message is not None}
    return dict(sorted({**known, **new}.items()))


def mixed(
    scenario: Scenario, before: ServerState, after: ServerState, inbox: Mapping[int, Upload]
) -> ServerState:
    """The server after its step, which goes the less far the staler its uploads are."""
    if scenario.protocol.late_uploads != "mixed" or not inbox or after.weights is None:
        return after
    last = scenario.learning.sent.common_weights if before.weights is None else before.weights
    return replace(after, weights=lateness.mixed(scenario.policy, last, after.weights, inbox))
