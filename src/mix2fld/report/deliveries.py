"""Which devices were asked in a round, and whether their uploads and downloads were delivered.

The only module of the report that knows how a record lists devices.
"""

from collections.abc import Sequence
from typing import Any, Literal

from mix2fld.runs.reader import LoadedRun

Direction = Literal["uploads", "downloads"]

DELIVERED, LOST, NOT_ASKED, NOTHING_SENT = "d", "l", "n", "-"
"""What happened between one device and the server in one direction of one round."""
MEANINGS = {
    DELIVERED: "delivered",
    LOST: "lost",
    NOT_ASKED: "not asked",
    NOTHING_SENT: "nothing sent",
}


def asked(info: dict[str, Any]) -> set[int]:
    """Devices that were asked to take part."""
    return set(info["asked"])


def delivered(info: dict[str, Any], direction: Direction) -> set[int]:
    """Devices whose transfer was delivered."""
    return set(info[direction]["devices"])


def measured_devices(run: LoadedRun) -> list[int]:
    """The devices whose score is measured: those that are shown one by one."""
    measured: list[int] = run.rounds[-1]["scores"]["measured"]
    return measured


def deliveries(info: dict[str, Any], direction: Direction, devices: Sequence[int]) -> str:
    """A letter for each of ``devices``, one of ``MEANINGS``."""
    taking_part, arrived = asked(info), delivered(info, direction)
    otherwise = LOST if info[direction]["attempted"] else NOTHING_SENT
    return "".join(
        NOT_ASKED if device not in taking_part else DELIVERED if device in arrived else otherwise
        for device in devices
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
        tried |= asked(info)
    return sorted(received)
