"""What records come to: metrics of each round and of a run, and the summary of a finished one."""

import math
from collections.abc import Iterable, Sequence
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
from mix2fld.runs.records import FORMAT
from mix2fld.tasks.metric import Metric, metric_of
from mix2fld.tasks.training import Training, resolve

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
        if "until" in (waiting := info.get("waiting", {})):  # each device at its own times
            uplink = on_air - waiting["down"]
            device = min(computing, waiting["until"] - uplink)
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
    """What is measured, under the name of each metric."""
    devices, name = device_scores(scores), metric_of(scores).name
    others = [_scores(other) for other in scores.get("further", ())]
    return {
        f"{name}/mean": devices.mean(),
        f"{name}/std": devices.std(),
        f"{name}/min": devices.min(),
        f"{name}/max": devices.max(),
        f"{name}/reference": scores["reference"],
        f"{name}/server": scores["global"],
        **{key: value for own in others for key, value in own.items()},
    }


def _named(group: str, values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {f"{group}/{name}": values[name] for name in names}


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
            **_of_metric(last),
            **_near_and_far(config, last),
            **_further(last),
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


def _of_metric(scores: dict[str, Any]) -> dict[str, Any]:
    """One metric over the devices that were measured."""
    devices = device_scores(scores)
    return {
        "metric": scores["metric"],
        "mean": float(devices.mean()),
        "std": float(devices.std()),
        "min": float(devices.min()),
        "max": float(devices.max()),
        "reference": scores["reference"],
        "global": scores["global"],
    }


def _further(scores: dict[str, Any]) -> dict[str, Any]:
    """Other metrics and simple predictions, where a task has them."""
    found: dict[str, Any] = {}
    if "further" in scores:
        found["further"] = [_of_metric(other) for other in scores["further"]]
    if "baselines" in scores:
        found["baselines"] = scores["baselines"]
    return found


def own_summary(scores: Sequence[float], metric: Metric) -> dict[str, Any]:
    """Scores of devices on samples of their own: all, their mean and that of the worst tenth."""
    worst_first = sorted(scores, reverse=metric.better == "lower")
    worst = worst_first[: max(1, round(len(scores) / 10))]
    return {
        "devices": list(scores),
        "mean": math.fsum(scores) / len(scores),
        "worst_decile": math.fsum(worst) / len(worst),
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
