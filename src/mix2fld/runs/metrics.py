"""The numbers of a round under one name each: in tables, in exports and in every tracker."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.tasks.metric import metric_of

Rounds = Sequence[dict[str, Any]]
"""The lines of a ``rounds.jsonl``."""


def metrics_of(rounds: Rounds) -> list[dict[str, float]]:
    """The metrics of each round; one that a round does not have is left out."""
    spent = {"seconds": 0.0, "bits_up": 0.0, "bits_down": 0.0}
    rows = []
    for info, parts in zip(rounds, seconds_by_part(rounds), strict=True):
        spent["seconds"] += sum(info["seconds"].values())
        spent["bits_up"] += info["bits"]["up"]
        spent["bits_down"] += info["bits"]["down"]
        values = {
            **_scores(info["scores"]),
            **_named("uploads", info["uploads"], ("attempted", "delivered")),
            **_named("downloads", info["downloads"], ("attempted", "delivered")),
            **_named("bits", info["bits"], ("up", "down")),
            **_named("seconds", info["seconds"], ("communication", "computing")),
            **_named("seconds", parts, PARTS),
            **_named("so_far", spent, spent),
            "change": info["change"],
            "converged": info["converged"],
            "seeds/samples": info["seeds"]["samples"],
            **_later_groups(info),
        }
        rows.append({name: float(value) for name, value in values.items() if value is not None})
    return rows


TOTALS = ("uploads", "downloads", "bits", "seconds", "joules")
"""Groups whose value for a run is the sum over its rounds, as that of repeated uploads is."""


def run_metrics(rounds: Rounds) -> dict[str, float]:
    """The metrics of a whole run: totals of what is spent, otherwise those of its last round.

    A quorum was met if it was in all rounds.
    """
    rows = metrics_of(rounds)
    found = {
        name: sum(row.get(name, 0.0) for row in rows) if _is_spent(name) else value
        for name, value in rows[-1].items()
    }
    if "quorum/met" in found:
        found["quorum/met"] = min(row.get("quorum/met", 1.0) for row in rows)
    if "joules/device_most" in found:
        spent = np.sum([info["joules"]["devices"] for info in rounds if "joules" in info], axis=0)
        found["joules/device_most"] = float(np.max(spent))
    return found


def _is_spent(name: str) -> bool:
    return name == "quorum/repeats" or name.split("/", maxsplit=1)[0] in TOTALS


JOULES = ("transmit", "receive", "computing", "idle")
"""What the energy of devices is spent on."""
PARTS = ("uplink", "downlink", "device", "server")
"""Where the simulated time of a round goes."""


def seconds_by_part(rounds: Rounds) -> list[dict[str, float]]:
    """The seconds of each round on the uplink, on the downlink, on devices and at the server."""
    split = []
    clock = 0.0
    for info in rounds:
        on_air, computing = info["seconds"]["communication"], info["seconds"]["computing"]
        slots = info["slots"]["up"] + info["slots"]["down"]
        uplink = on_air * info["slots"]["up"] / slots if slots else 0.0
        device = min(device_seconds(info, clock), computing)
        parts = (uplink, on_air - uplink, device, computing - device)
        split.append(dict(zip(PARTS, parts, strict=True)))
        clock += computing
    return split


def device_seconds(info: dict[str, Any], clock: float) -> float:
    """Of the slowest device; older records say it only in the curve of the reference device."""
    if "slowest" in info:
        return float(info["slowest"]["seconds"])
    local = [point["computing"] for point in info["curve"] if point["event"] == "local"]
    return max(local[-1] - clock, 0.0) if local else float(info["seconds"]["computing"])


def device_scores(scores: dict[str, Any]) -> NDArray[np.float64]:
    """Of the devices that were measured, in a round's record; one that never trained is left out.

    While none has trained, that of the reference device.
    """
    measured = [one for one in scores["devices"] if one is not None]
    return np.array(measured or [scores["reference"]], np.float64)


def _later_groups(info: dict[str, Any]) -> dict[str, Any]:
    """Energy and quorum, which older records do not have."""
    found: dict[str, Any] = {}
    if "joules" in info:
        found |= _named("joules", info["joules"], JOULES)
        found["joules/device_mean"] = np.mean(info["joules"]["devices"])
        found["joules/device_most"] = np.max(info["joules"]["devices"])
    if "quorum" in info:
        found |= _named("quorum", info["quorum"], ("met", "repeats"))
    return found


def _scores(scores: dict[str, Any]) -> dict[str, Any]:
    """What is measured, under the name of the metric."""
    devices, name = device_scores(scores), metric_of(scores).name
    return {
        f"{name}/mean": devices.mean(),
        f"{name}/std": devices.std(),
        f"{name}/min": devices.min(),
        f"{name}/max": devices.max(),
        f"{name}/reference": scores["reference"],
        f"{name}/server": scores["global"],
    }


def _named(group: str, values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {f"{group}/{name}": values[name] for name in names}
