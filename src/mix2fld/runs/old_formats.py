"""What earlier versions wrote, turned into what this one writes: settings, records, checkpoints.

Nothing else knows of a format before today's but by its number. Version 0.1 wrote records and
checkpoints of formats 1 and 2 and settings without a number, 0.2 those of format 3.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.tasks.metric import ACCURACY
from mix2fld.types import State

Tensors = dict[str, NDArray[Any]]
Fields = dict[str, Any]

# Settings

OLD_NAMES = {"seeding": {"seed_bits_per_pixel": "seed_bits"}}
"""Fields that version 0.1.0 wrote under other names, by section."""


def settings_today(tree: Fields) -> Fields:
    """The fields of a file under the names that they have today."""
    for section, names in OLD_NAMES.items():
        fields = tree.get(section)
        for old, new in names.items():
            if isinstance(fields, dict) and old in fields and new not in fields:
                fields[new] = fields.pop(old)
    return tree


def with_downlink_as_it_was(tree: Fields) -> Fields:
    """The fields of a run; before there was a choice, weights came down."""
    updates = tree.get("updates", {})
    if "downlink" in updates:
        return tree
    return {**tree, "updates": {**updates, "downlink": "weights"}}


def with_rates_as_used(tree: Fields) -> Fields:
    """The fields of a version that multiplied any learning rate by the protocol's schedule."""
    from mix2fld.tasks.training import PAPER_RATE

    learning = tree.get("learning", {})
    rate, final = learning.get("learning_rate"), learning.get("final_learning_rate", "auto")
    if rate == PAPER_RATE:
        return {**tree, "learning": {**learning, "learning_rate": "auto"}}
    names = tree.get("protocols")
    if not isinstance(rate, float) or final != "auto" or not isinstance(names, list):
        return tree
    (first, last), *others = {_rate_factors(name) for name in names}
    if others or (first, last) == (1.0, 1.0):
        return tree
    used = {"learning_rate": first * rate, "final_learning_rate": last * rate}
    return {**tree, "learning": {**learning, **used}}


def _rate_factors(protocol: Any) -> tuple[float, float]:
    from mix2fld.protocols.table import PROTOCOLS

    row = PROTOCOLS.get(str(protocol))
    return (1.0, 1.0) if row is None else row.training.rate_factors


# Records

FIELDS_OF_FORMAT_1 = frozenset(
    {"round", "accuracy", "curve", "uploads", "downloads", "bits", "slots"}
    | {"seconds", "change", "converged", "seeds"}
)
"""Of a line of ``rounds.jsonl`` without a format and without a checksum."""


def record_today(fields: Fields, written: int) -> Fields:
    """A round; before format 3, all devices were asked and measured."""
    return with_metric(fields if written >= 3 else _with_devices(fields))


def with_metric(fields: Fields) -> Fields:
    """A round or a summary with the metric beside its scores; before format 4, accuracies."""
    if "accuracy" not in fields:
        return fields
    named = {"accuracy": "scores"}
    found = {named.get(name, name): value for name, value in fields.items()}
    found["scores"] = {"metric": asdict(ACCURACY), **found["scores"]}
    if "curve" in found:
        found["curve"] = [
            {"score" if name == "accuracy" else name: value for name, value in point.items()}
            for point in found["curve"]
        ]
    return found


def _with_devices(fields: Fields) -> Fields:
    """A round with the devices that were asked and measured, and those whose uploads arrived."""
    everyone = list(range(len(fields["accuracy"]["devices"])))
    fields = {**fields, "accuracy": {**fields["accuracy"], "measured": everyone}}
    found: Fields = {}
    for name, value in fields.items():
        if name == "uploads":
            found["asked"] = everyone
        found[name] = value
    for name in ("uploads", "downloads"):
        came = [device for device in everyone if fields[name]["devices"][device]]
        found[name] = {**fields[name], "devices": came}
    return found


# Checkpoints

SCALARS_OF_FORMAT_1 = {"format", "round", "updates", "clock"}
"""Of a checkpoint without a checksum."""
ONE_ARRAY_FOR_ALL = (1, 2)
"""Formats of checkpoints that are no trees; what devices keep is in arrays over all of them."""


def tree_of_arrays(scalars: Fields, tensors: Tensors, like: Any) -> State:
    """The state in such a file; ``like`` are the states of its devices at the start."""
    number = int(scalars["round"])
    seeds = sorted(name.split(".")[1] for name in tensors if name.startswith("seed_images."))
    rounds = np.full(len(tensors["seeds_due"]), number, np.int64)
    held = np.isin(np.arange(len(rounds)), [int(device) for device in seeds])
    return {
        "round": number,
        "devices": like if isinstance(like, np.ndarray) else _devices(tensors, like),
        "server": {
            "weights": _numbered("server_weights", tensors),
            "outputs": tensors.get("server_outputs"),
            "seeds": {
                device: {
                    "inputs": tensors[f"seed_images.{device}"],
                    "labels": tensors[f"seed_labels.{device}"],
                }
                for device in sorted(seeds, key=int)
            },
            "updates": int(scalars["updates"]),
            "memory": {},
        },
        "clock": [float(seconds) for seconds in scalars["clock"]],
        "roster": {
            "scores": np.full(len(rounds), np.nan),
            "uploaded": np.where(held, number, 0),
            "last_turn": rounds,
            "listened": np.zeros_like(rounds),
        },
        "link": {},
    }


def tree_today(tree: State, written: int, like: Any) -> State:
    """The tree of a checkpoint; ``like`` are the states of its devices at the start."""
    if written == 3:
        roster = tree["roster"]
        tree["roster"] = {"scores": roster.pop("accuracies"), **roster}
    if isinstance(like, np.ndarray) and isinstance(tree["devices"], list):
        tree["devices"] = like  # of a deployment, nothing was kept
    return tree


def _devices(tensors: Tensors, like: list[State]) -> list[State]:
    """What devices keep today, of what was kept then."""
    stacked = _numbered("weights", tensors)
    if stacked is None:
        raise KeyError("holds no weights")
    return [
        {
            name: value
            for name, value in (
                ("weights", tuple(tensor[device] for tensor in stacked)),
                ("teacher", tensors["teachers"][device]),
                ("seeds_due", np.asarray(tensors["seeds_due"][device])),
            )
            if name in state
        }
        for device, state in enumerate(like)
    ]


def _numbered(name: str, tensors: Tensors) -> tuple[NDArray[Any], ...] | None:
    found = sorted(int(key.split(".")[1]) for key in tensors if key.startswith(f"{name}."))
    return tuple(tensors[f"{name}.{number}"] for number in found) or None
