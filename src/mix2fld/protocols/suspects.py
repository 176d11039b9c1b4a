"""Devices whose upload lies far from the rest, or contradicts it: for the record, and in words."""

from collections.abc import Mapping
from typing import Any

from mix2fld.protocols.seed_screening import Judgement

Suspect = dict[str, Any]
"""A device, what it uploaded, and by how much that differs; as the record of a round has it."""


def far_from_the_rest(upload: str, far: Mapping[int, float]) -> tuple[Suspect, ...]:
    """Devices by how many times as far from the median as is typical their upload is."""
    return tuple(
        {"device": device, "upload": upload, "times": round(times, 1)}
        for device, times in far.items()
    )


def contradicted(upload: str, judged: Judgement) -> tuple[Suspect, ...]:
    """Devices whose labels others do not agree with."""
    return tuple(
        {
            "device": device,
            "upload": upload,
            "agreement": round(judged.agreement[device], 3),
            "typical": round(judged.typical, 3),
        }
        for device in judged.left_out
    )


def in_words(suspect: Mapping[str, Any]) -> str:
    """One suspect as a sentence."""
    who = f"device {suspect['device']}"
    if suspect["upload"] == "seeds":
        return (
            f"the seeds of {who} are left out: models of other devices agree with "
            f"{100 * suspect['agreement']:.1f} % of their labels, typically with "
            f"{100 * suspect['typical']:.1f} %"
        )
    if suspect["upload"] == "labels":
        return (
            f"{who} assigns {100 * suspect['agreement']:.1f} % of the seeds their own labels, "
            f"typically {100 * suspect['typical']:.1f} %"
        )
    what = "an update" if suspect["upload"] == "update" else suspect["upload"]
    return f"{who} uploaded {what} {suspect['times']:g} times as far from the median as is typical"
