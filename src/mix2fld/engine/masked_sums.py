"""Sums of uploads of which the server reads none: which devices are in one, and what it says.

Uploads of a kind, such as both parts of private statistics, have a sum of their own. Its devices
are those that sent one; of those whose upload was lost, masks are removed. Where the server does
not wait, its devices are those whose uploads make the step.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from mix2fld.base.streams import stream
from mix2fld.engine.messages import Message
from mix2fld.engine.scenario import Scenario
from mix2fld.masking.in_memory import masked_sum
from mix2fld.masking.keys import Words, crypto
from mix2fld.masking.party import Terms
from mix2fld.protocols.masked import MaskedSums
from mix2fld.protocols.parts import Turn
from mix2fld.types import Upload

SUM = -1
"""In place of a device: the sum of several uploads, of which the server sees no single one."""


class PartialSum(NamedTuple):
    """What a fleet adds up."""

    number: int
    """The round."""
    kind: int
    messages: Mapping[int, Message]
    """What devices sent, or hold."""
    arrived: Collection[int]


class Total(NamedTuple):
    """The sum of the numbers of some devices."""

    numbers: Words
    devices: frozenset[int]


AddUp = Callable[[PartialSum], Total | None]
"""A fleet's sum of some uploads; None if too few devices took part to the end."""


def check_ciphers(scenario: Scenario) -> None:
    """Raise ``InputError`` if masks are asked for and cannot be made."""
    if scenario.wire.masks:
        crypto()


def add_in_memory(scenario: Scenario, part: PartialSum) -> Total | None:
    """The sum of devices whose messages are all in this process, by the same exchange."""
    wire, masks = scenario.wire, _masks(scenario)
    if len(part.arrived) < masks.threshold:
        return None
    numbers = {device: wire.addends_in(own) for device, own in part.messages.items()}

    def secret(device: int) -> bytes:
        return stream(scenario.learning.seed, "masks", part.number, part.kind, device).bytes(32)

    place, devices = b"%d %d" % (part.number, part.kind), frozenset(part.arrived)
    terms = Terms(place, masks.threshold, masks.codec.bits)
    own = {device: each.numbers for device, each in numbers.items()}
    return Total(masked_sum(own, sorted(devices), terms, secret), devices)


def with_sums(
    scenario: Scenario,
    add_up: AddUp,
    sent: Mapping[int, Message],
    inbox: Mapping[int, Upload],
    number: int,
) -> tuple[dict[int, Upload], frozenset[int]]:
    """In place of uploads their sums, one for each kind; and whose uploads these are.

    A sum of too few devices is none: its uploads are as good as lost.
    """
    masks, found, used = _masks(scenario), dict[int, Upload](), frozenset[int]()
    kinds: dict[int, list[int]] = {}
    for device in sorted(inbox):
        kinds.setdefault(scenario.wire.kind_of(sent[device]), []).append(device)
    for kind, arrived in kinds.items():
        alike = {d: own for d, own in sent.items() if scenario.wire.kind_of(own) == kind}
        if len(arrived) < masks.threshold:
            continue
        total = add_up(PartialSum(number, kind, alike, arrived))
        if total is None:
            continue
        uploads = [inbox[device] for device in sorted(total.devices)]
        turn = Turn(scenario.learning.seed, number, SUM)
        value = masks.read_sum(kind, total.numbers, len(uploads), turn)
        found[SUM - kind] = Upload(
            value,
            sum(upload.samples for upload in uploads),
            staleness=max(upload.staleness for upload in uploads),
            devices=len(uploads),
        )
        used |= total.devices
    return found, used


def _masks(scenario: Scenario) -> MaskedSums:
    if scenario.wire.masks is None:
        raise ValueError("sums are open")
    return scenario.wire.masks
