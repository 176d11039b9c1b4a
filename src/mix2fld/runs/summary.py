"""What a finished run comes to: its records, added up."""

import math
from collections.abc import Sequence
from typing import Any

from mix2fld.config import Config, mixing_condition
from mix2fld.learning.training import Training, resolve
from mix2fld.protocol import PROTOCOLS
from mix2fld.runs.metrics import device_accuracies
from mix2fld.runs.records import FORMAT


def summarise(
    config: Config, rounds: Sequence[dict[str, Any]], reference: int, kernel: str
) -> dict[str, Any]:
    """What ``summary.json`` says of a finished run: its records, added up."""
    last = rounds[-1]["accuracy"]
    accuracies = device_accuracies(last)
    converged = next((info for info in rounds if info["converged"]), None)
    done = len(rounds) if converged is None else converged["round"]

    def total(group: str, name: str, upto: int = len(rounds)) -> Any:
        values = [info[group][name] for info in rounds[:upto]]
        return math.fsum(values) if group == "seconds" else sum(values)

    return {
        "format": FORMAT,
        "protocol": config.protocols[0],
        "seed": config.seed[0],
        "rounds": len(rounds),
        "converged_round": None if converged is None else done,
        "accuracy": {
            "mean": float(accuracies.mean()),
            "std": float(accuracies.std()),
            "min": float(accuracies.min()),
            "max": float(accuracies.max()),
            "reference": last["reference"],
            "global": last["global"],
        },
        "devices": {"all": config.data.devices, "measured": len(accuracies)},
        "reference_device": reference,
        "kernel": kernel,
        "training": _training(config),
        "uploads": {name: total("uploads", name) for name in ("attempted", "delivered")},
        "downloads": {name: total("downloads", name) for name in ("attempted", "delivered")},
        "bits": {name: total("bits", name) for name in ("up", "down")},
        "seconds": {name: total("seconds", name) for name in ("communication", "computing")},
        "seeds": {**rounds[-1]["seeds"], "condition": mixing_condition(config.seeding.ratios)},
        "seconds_to_converge": None
        if converged is None
        else {name: total("seconds", name, done) for name in ("communication", "computing")},
    }


def _training(config: Config) -> dict[str, Any]:
    """What the devices trained with: the config, and what the row recommends where it is auto."""
    row = PROTOCOLS.get(config.protocols[0])
    return resolve(config, Training() if row is None else row.training)._asdict()
