"""Benchmarks that need no other package do what they measure, in small."""

import math

import pytest
from benchmarks import codec_speed, numbers_speed

from mix2fld.tasks.base import Task
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.regression import Regression


def test_coding_is_timed_by_both_paths() -> None:
    found = codec_speed.one_pass(steps=20, uploads=3)
    assert found["local phase"] > 0
    for path in codec_speed.PATHS:
        assert set(found[path]) == {"encode", "decode"}


@pytest.mark.parametrize("task", [Classification(10), Regression((0.0,), (1.0,), (0.0,))])
@pytest.mark.parametrize("model", list(numbers_speed.MODELS))
def test_a_step_is_timed_on_labels_and_on_numbers(model: str, task: Task) -> None:
    assert math.isfinite(numbers_speed.step(model, task, steps=5, batch_size=2))
