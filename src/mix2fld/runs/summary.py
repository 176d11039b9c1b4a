"""What a finished run comes to: its records, added up."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.bounds import mixing_condition
from mix2fld.base.errors import Mix2fldError
from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.engine.energy import Power
from mix2fld.links import make_link
from mix2fld.protocols.table import find_protocol, guarantee_of
from mix2fld.runs.metrics import JOULES, device_scores
from mix2fld.runs.records import FORMAT
from mix2fld.tasks.training import Training, resolve


def summarise(
    config: Config, rounds: Sequence[dict[str, Any]], reference: int, kernel: str
) -> dict[str, Any]:
    """What ``summary.json`` says of a finished run: its records, added up."""
    last = rounds[-1]["scores"]
    scores = device_scores(last)
    converged = next((info for info in rounds if info["converged"]), None)
    done = len(rounds) if converged is None else converged["round"]

    def total(group: str, name: str, upto: int = len(rounds)) -> Any:
        values = [info[group][name] for info in rounds[:upto]]
        return math.fsum(values) if group == "seconds" else sum(values)

    return {
        "format": FORMAT,
        "protocol": config.protocol,
        "seed": config.seed,
        "rounds": len(rounds),
        "converged_round": None if converged is None else done,
        "scores": {
            "metric": last["metric"],
            "mean": float(scores.mean()),
            "std": float(scores.std()),
            "min": float(scores.min()),
            "max": float(scores.max()),
            "reference": last["reference"],
            "global": last["global"],
            **_near_and_far(config, last),
        },
        "devices": {"all": config.data.devices, "measured": len(scores)},
        "reference_device": reference,
        "kernel": kernel,
        "training": _training(config),
        "privacy": _privacy(config),
        "uploads": {name: total("uploads", name) for name in ("attempted", "delivered")},
        "downloads": {name: total("downloads", name) for name in ("attempted", "delivered")},
        "bits": {name: total("bits", name) for name in ("up", "down")},
        "seconds": {name: total("seconds", name) for name in ("communication", "computing")},
        **_energy(config, rounds),
        **_quorum(rounds),
        "seeds": {**rounds[-1]["seeds"], "condition": mixing_condition(config.seeding.ratios)},
        "seconds_to_converge": None
        if converged is None
        else {name: total("seconds", name, done) for name in ("communication", "computing")},
    }


def _energy(config: Config, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Joules of all devices by part, those of one device in a round, and how long a battery lasts.

    ``most`` is of the measured device that spends most. Older records do not say.
    """
    if not all("joules" in info for info in rounds):
        return {}
    parts = {part: math.fsum(info["joules"][part] for info in rounds) for part in JOULES}
    mean = math.fsum(parts.values()) / config.data.devices / len(rounds)
    each = zip(*(info["joules"]["devices"] for info in rounds), strict=True)
    most = max(math.fsum(one) for one in each) / len(rounds)
    power = Power.from_config(config)
    return {
        "joules": {**parts, "device_round": {"mean": mean, "most": most}},
        "battery_rounds": {
            "mean": power.rounds_of_battery(mean),
            "least": power.rounds_of_battery(most),
        },
    }


def _quorum(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rounds that missed their quorum, and uploads that were repeated for it."""
    known = [info["quorum"] for info in rounds if "quorum" in info]
    missed = sum(not quorum["met"] for quorum in known)
    repeats = sum(quorum["repeats"] for quorum in known)
    return {"quorum": {"missed": missed, "repeats": repeats}}


def _training(config: Config) -> dict[str, Any]:
    """What the devices trained with: the config, and what the row recommends where it is auto."""
    row = find_protocol(config.protocol)
    return resolve(config, Training() if row is None else row.training)._asdict()


def _privacy(config: Config) -> dict[str, Any] | None:
    """What the uploads guarantee about the samples of a device; None: nothing."""
    guarantee = guarantee_of(config)
    return None if guarantee is None else guarantee.as_record()


def distances_m(config: Config) -> NDArray[np.float64] | None:
    """How far each device of a run is from the server; None where all are equally far."""
    if config.channel.link != "cell":
        return None
    try:
        state = make_link(config, config.data.devices).start(
            config.data.devices, stream(config.seed, "link")
        )
    except Mix2fldError:
        return None
    distances: NDArray[np.float64] = state.get("link", state)["distance_m"]
    return distances if np.ptp(distances) > 0 else None


def _near_and_far(config: Config, scores: dict[str, Any]) -> dict[str, float]:
    """Mean score of the nearer and of the farther half of the devices that were measured."""
    distances = distances_m(config)
    if distances is None:
        return {}
    known = [
        (device, value)
        for device, value in zip(scores["measured"], scores["devices"], strict=True)
        if value is not None
    ]
    if len(known) < 2:
        return {}
    by_distance = [value for _, value in sorted(known, key=lambda one: distances[one[0]])]
    half = len(by_distance) // 2
    return {
        "near": float(np.mean(by_distance[:half])),
        "far": float(np.mean(by_distance[-half:])),
    }
