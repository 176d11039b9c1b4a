"""Uploads of once at the server: kept as they arrive; seed samples are judged and prepared."""

from dataclasses import replace

from mix2fld.protocols.base import Protocol
from mix2fld.protocols.parts import Inbox, StepInfo, Stepped, of_devices
from mix2fld.protocols.seed_screening import judge_seeds
from mix2fld.protocols.suspects import contradicted
from mix2fld.types import ServerState


def keep_once(server: ServerState, inbox: Inbox) -> tuple[ServerState, frozenset[int]]:
    """The server with what devices upload once, and the devices from which that is new."""
    new = {device: own.seeds for device, own in inbox.items() if own.seeds is not None}
    if new:
        server = replace(server, seeds={**server.seeds, **new}, seed_set=None)
    return server, frozenset(new)


def take_in_seeds(protocol: Protocol, server: ServerState, inbox: Inbox) -> Stepped:
    """New seed samples are kept, all are judged, and those to be trusted become a training set.

    The protocol says how: as collected, or unmixed across devices (``Seeding.prepare``). A resumed
    run makes the same set again, from the same verdict, which took its steps before.
    """
    server, new = keep_once(server, inbox)
    if protocol.seeds is None or server.seed_set is not None:
        return server, StepInfo()
    judged = judge_seeds(server.seeds, protocol.learning)
    trusted = {d: own for d, own in server.seeds.items() if d not in judged.left_out}
    samples = protocol.seeds.prepare(trusted, protocol.learning)
    if samples is not None:
        samples = replace(samples, left_out=judged.left_out)
    server = replace(server, seed_set=samples)
    if not new:
        return server, StepInfo()
    words = f"took in seed samples of {of_devices(new)}"
    if judged.left_out:
        words += f" and left out those of {of_devices(judged.left_out)}"
    return server, StepInfo(judged.steps, contradicted("seeds", judged), words)
