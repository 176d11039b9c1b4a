"""Differences over the same seeds."""

import pytest

from mix2fld_lab.numbers import page, verdicts
from mix2fld_lab.paired import difference


def test_a_difference_is_over_the_seeds_of_both() -> None:
    found = difference({0: 1.0, 1: 2.0, 2: 9.0}, {0: 0.0, 1: 0.5})
    assert found is not None
    assert found.mean == pytest.approx(1.25)
    assert found.half == pytest.approx(12.706 * 0.25, rel=1e-3)
    assert found.word("more", "less") == "no difference"
    assert difference({0: 1.0}, {0: 2.0}) is None


def record(protocol: str, seed: int, error: float, server: float | None = None) -> dict:
    scores = {
        "mean": error, "global": server, "further": [{"mean": error}, {"mean": 0.5}],
        "baselines": {"mean": 2.0},
    }  # fmt: skip
    return {
        "protocol": protocol, "seed": seed, "scores": scores,
        "bits": {"up": {"fl": 1000, "fd": 10}.get(protocol, 1)},
        "uploads": {"attempted": 1, "delivered": 1}, "seconds": {"communication": 0.1},
    }  # fmt: skip


def test_verdicts_follow_from_records() -> None:
    records = []
    for seed in range(3):
        noise = 0.01 * seed
        records += [
            record("isolated", seed, 1 + noise),
            record("fd", seed, 1.5 + 2 * noise),
            record("fl", seed, 0.5 + noise * noise, 0.5),
        ]
    said = verdicts(records)
    assert said["smaller"] == "100 times fewer bits up for fd than for fl"
    assert said["teacher"].endswith(": worse")
    assert said["gains"] == "better: fl; no difference: none; worse: fd"
    assert "better: fl" in page(records)
