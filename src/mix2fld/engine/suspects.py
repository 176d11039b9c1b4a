"""Devices whose upload lies far from the rest: for the record, and in words."""

from collections.abc import Mapping
from typing import Any

from mix2fld.engine.server_turn import ServerTurn
from mix2fld.protocols.aggregation.outliers import far_statistics, far_uploads
from mix2fld.protocols.base import Protocol
from mix2fld.types import Upload


def find_suspects(
    protocol: Protocol, inbox: Mapping[int, Upload], turn: ServerTurn, held: Mapping[int, Any]
) -> list[dict[str, Any]]:
    """Of the uploads of this round; of the seeds if they were judged in it; of statistics that
    came in it, among all that are ``held``."""
    far = [
        {"device": device, "upload": protocol.upload_kind, "times": round(times, 1)}
        for device, times in far_uploads(protocol, inbox).items()
    ]
    new = set[int]()
    if protocol.statistics is not None:
        new = {device for device, upload in inbox.items() if upload.seeds is not None}
    far += [
        {"device": device, "upload": "statistics", "times": round(times, 1)}
        for device, times in (far_statistics(held) if new else {}).items()
        if device in new
    ]
    contradicted = [
        {
            "device": device,
            "upload": name,
            "agreement": round(judged.agreement[device], 3),
            "typical": round(judged.typical, 3),
        }
        for name, judged in (("seeds", turn.judged), ("labels", turn.labels))
        for device in judged.left_out
    ]
    return [*far, *contradicted]


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
