"""Makes ``records/kept_numbers.json``: short runs of every protocol, by the public interface alone.

The file was made with version 0.1.0, before the round was written for any fleet, and is kept: run
this again only to add a protocol or a setting, never to make a test pass.
"""

import hashlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import mix2fld
from mix2fld.native.processor import cpu_flags
from toys import toy_config, toy_dataset

KEPT = Path(__file__).parent / "records" / "kept_numbers.json"
FADING = {"link": "rayleigh", "bandwidth_hz": 1e6, "max_slots": 420, "uplink_power_dbm": 12.0}
LOSSY = {**FADING, "max_slots": 8, "uplink_power_dbm": 9.0, "downlink_power_dbm": 5.0}
MNIST = {
    "local_steps": 200,
    "server_steps": 100,
    "rounds": 2,
    "test_samples": 1000,
    "max_slots": 114,
    "seed_samples": 10,
    "inverse_samples": 20,
}
FIELDS = ("round", "accuracy", "curve", "bits", "slots", "seconds", "change", "converged", "seeds")
ACCURACIES = ("devices", "reference", "global")


def numbers_of(result: Any) -> list[dict[str, Any]]:
    """What must stay: accuracies, bits, slots and seconds of every round."""
    return [
        {
            **{name: info[name] for name in FIELDS},
            "accuracy": {name: info["accuracy"][name] for name in ACCURACIES},
            "uploads": [info["uploads"]["attempted"], info["uploads"]["delivered"]],
            "downloads": [info["downloads"]["attempted"], info["downloads"]["delivered"]],
        }
        for info in result.rounds
    ]


def toy_numbers(protocol: str, link: dict[str, Any] = FADING) -> list[dict[str, Any]]:
    """Three rounds of an MLP over a fading link that loses some uploads."""
    config = toy_config(protocols=protocol, rounds=3, partition="non-iid", rare_labels=1, **link)
    return numbers_of(mix2fld.run(config, dataset=toy_dataset())[0])


def mnist_numbers(protocol: str) -> list[dict[str, Any]]:
    """Two rounds of the paper's network and link."""
    return numbers_of(mix2fld.run(mix2fld.Config.of(protocols=protocol, **MNIST))[0])


def processor() -> str:
    """What the last digits of floating point depend on: code is compiled for the processor."""
    described = f"{platform.machine()}{cpu_flags()}"
    return hashlib.sha256(described.encode()).hexdigest()[:16]


if __name__ == "__main__":
    protocols = tuple(mix2fld.PROTOCOLS)
    kept = {
        "version": mix2fld.__version__,
        "processor": processor(),
        "toy": {name: toy_numbers(name) for name in protocols},
        "lossy": {name: toy_numbers(name, LOSSY) for name in protocols},
        "mnist": {name: mnist_numbers(name) for name in protocols},
    }
    KEPT.write_text(json.dumps(kept) + "\n")
    for part in ("toy", "lossy", "mnist"):
        for name, rounds in kept[part].items():
            print(
                part,
                name,
                [(r["uploads"], r["downloads"], r["accuracy"]["global"]) for r in rounds],
            )
