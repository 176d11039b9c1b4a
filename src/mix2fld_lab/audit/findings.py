"""What the stages of a record come to: counts added over seeds, and what each protocol leaks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mix2fld.protocols.base import Protocol
from mix2fld.protocols.parts import Seeding
from mix2fld.protocols.table import get_protocol, split_name
from mix2fld_lab.attacks.rates import Share

Stages = Mapping[str, Any]
LOW, HIGH = "0.001", "0.01"
"""The two false-positive rates, as records name them."""
RAW = "raw seeds (the samples themselves)"
"""They need no attack to be read; what is found is how many of a device's samples they are."""
KINDS = {
    "seeds": "attacks on seeds",
    "recurring": "samples that recur in several mixes",
    "recovery": "separation",
    "foreign": "separation with public samples of another domain",
    "averages": "averages without noise",
    "noise": "the attacker knows all samples but one",
    "uploads": "LiRA on weights and outputs",
    "rounds": "LiRA on several rounds together",
    "accuracy": "accuracy and bits",
    "budget": "what a budget costs",
}
"""What the stages of a record are, by the first part of their names."""


def pooled(stages: Stages, pattern: str, *path: str) -> Share:
    """The counts at one path of all stages whose whole name matches, added up."""
    found = [each for each in _at(stages, pattern, path) if each is not None]
    return sum((Share(each["found"], each["of"]) for each in found), Share(0, 0))


def mean(stages: Stages, pattern: str, *path: str) -> float | None:
    """The mean of one number over all stages whose whole name matches; None without any."""
    found = values(stages, pattern, *path)
    return float(np.mean(found)) if found else None


def values(stages: Stages, pattern: str, *path: str) -> list[float]:
    """One number of every stage whose whole name matches."""
    return [float(each) for each in _at(stages, pattern, path) if each is not None]


def matching(stages: Stages, pattern: str) -> list[str]:
    """The names of all stages that match as a whole."""
    return [name for name in stages if re.fullmatch(pattern, name)]


def _at(stages: Stages, pattern: str, path: tuple[str, ...]) -> list[Any]:
    """What all matching stages hold at one path; None where they hold nothing there."""
    chosen = [stages[name] for name in matching(stages, pattern)]
    for step in path:
        chosen = [None if found is None else found.get(step) for found in chosen]
    return chosen


def mixing_ratios(stages: Stages, kind: str = "seeds/mixed") -> list[str]:
    """The mixing ratios whose seeds were attacked in one way, in increasing order."""
    names = {name.removeprefix(f"{kind}/") for name in stages if name.startswith(f"{kind}/")}
    shown = {name.split("/")[0] for name in names}
    return sorted(shown, key=lambda one: [float(ratio) for ratio in one.split(",")])


def distinct_uplinks(protocols: Sequence[str]) -> dict[str, str]:
    """For each protocol that uploads what it trained, the first one whose upload is the same."""
    first: dict[Any, str] = {}
    same = {}
    for name in protocols:
        row = get_protocol(name)
        if row.upload_kind is not None:
            parameters = tuple(sorted(split_name(name)[1].items()))
            upload = (repr(row.upload_codec), row.training, row.promise, parameters)
            same[name] = first.setdefault(upload, name)
    return same


def noisy_statistics(protocols: Sequence[str]) -> list[str]:
    """The protocols whose devices upload statistics with noise of their own."""
    rows = {name: get_protocol(name) for name in protocols}
    return [
        name for name, row in rows.items() if statistics_with_noise(row) and not row.trusted_sum
    ]


def statistics_with_noise(row: Protocol) -> bool:
    """Whether statistics are what a budget protects, and not updates."""
    return row.promise is not None and row.upload_kind is None


def budgets(stages: Stages) -> list[tuple[str, float, int]]:
    """Protocol, ε and feature side of all runs with a budget, the largest ε first."""
    found = {tuple(name.split("/")[1:3]) for name in stages if name.startswith("budget/")}
    rows = [(name, *_budget(shown)) for name, shown in found]
    return sorted(rows, key=lambda row: (row[0], -row[1], -row[2]))


def _budget(shown: str) -> tuple[float, int]:
    epsilon, side = shown.split(":")
    return float(epsilon), int(side)


def uploads_samples(seeds: Seeding | None) -> bool:
    """Whether a protocol uploads samples, raw or mixed, and not statistics of them."""
    return seeds is not None


def strongest(stages: Stages, ratio: str, rate: str, of: str = "device") -> Share:
    """What the better attack finds in mixes: of a device's samples, or of one part of the mixes."""
    found = [
        pooled(stages, rf"seeds/mixed/{re.escape(ratio)}/s\d+/{attack}", rate, of)
        for attack in ("box", "residual")
    ]
    return max(found, key=lambda share: (share.of > 0, share.rate if share.of else 0.0))


def leak_of(stages: Stages, name: str, ratio: str) -> dict[str, Share]:
    """What each upload of a protocol gives away: share of a device's samples found at 0.1 %."""
    row, leaks = get_protocol(name), {}
    if row.statistics is not None:
        leaks["statistics"] = pooled(stages, r"averages/statistics/s\d+", LOW, "device")
    if row.seeds is not None and uploads_samples(row.seeds):
        if row.seeds.mixed:
            leaks["mixed seeds"] = strongest(stages, ratio, LOW)
        else:
            leaks[RAW] = pooled(stages, r"seeds/raw/1/s\d+/box", LOW, "device")
    attacked = [known for known in attacked_uploads(stages) if same_upload(known, name)]
    for known in attacked[:1]:
        kind = "outputs" if row.upload_kind == "outputs" else "first upload of the model"
        leaks[kind] = pooled(stages, r"uploads/s\d+", known, LOW, "device")
    return leaks


def attacked_uploads(stages: Stages) -> list[str]:
    """The protocols on whose first uploads LiRA was tried."""
    found = [stages[stage] for stage in matching(stages, r"uploads/s\d+")]
    return list(dict.fromkeys(name for each in found for name in each))


def same_upload(one: str, other: str) -> bool:
    """Whether the first uploads of two protocols are made alike."""
    return distinct_uplinks((one, other)) == {one: one, other: one}
