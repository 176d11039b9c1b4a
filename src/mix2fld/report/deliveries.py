"""Which devices a round asked, and what the link did with their uploads and downloads.

The only place in the report that knows how a record names devices.
"""

from collections.abc import Sequence
from typing import Any, Literal

from mix2fld.runs.reader import LoadedRun

Direction = Literal["uploads", "downloads"]

DELIVERED, LOST, NOT_ASKED, NOTHING_SENT = "1", "0", "x", "-"
"""What happened between one device and the server in one direction of one round."""
MEANINGS = {
    DELIVERED: "delivered",
    LOST: "lost",
    NOT_ASKED: "not asked",
    NOTHING_SENT: "nothing sent",
}


def asked(info: dict[str, Any], devices: int) -> set[int]:
    """Devices that were asked to take part; all of them where a record does not list any."""
    return set(info.get("asked", range(devices)))


def delivered(info: dict[str, Any], direction: Direction) -> set[int]:
    """Devices whose transfer arrived.

    A record lists their numbers, or, in an older format, a truth value for each device; the two
    are told apart by type.
    """
    listed: Sequence[int | bool] = info[direction]["devices"]
    if listed and isinstance(listed[0], bool):
        return {device for device, arrived in enumerate(listed) if arrived}
    return set(listed)


def deliveries(info: dict[str, Any], direction: Direction, devices: int) -> str:
    """A letter for each of the first ``devices`` devices, one of ``MEANINGS``."""
    taking_part, arrived = asked(info, devices), delivered(info, direction)
    otherwise = LOST if info[direction]["attempted"] else NOTHING_SENT
    return "".join(
        NOT_ASKED if device not in taking_part else DELIVERED if device in arrived else otherwise
        for device in range(devices)
    )


def seeds_delivered(run: LoadedRun) -> list[int]:
    """Devices whose seed samples the server has.

    They go with a device's first upload; lost ones with its next uploads, if they are resent.
    """
    resent = run.config.seeding.lost_seeds == "resend"
    tried: set[int] = set()
    received: set[int] = set()
    for info in run.rounds:
        arrived = delivered(info, "uploads")
        received |= arrived if resent else arrived - tried
        tried |= asked(info, run.config.data.devices)
    return sorted(received)
