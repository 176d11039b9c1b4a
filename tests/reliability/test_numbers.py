"""Divergence is said with round, device and cause; long sums are those of float64."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.engine.checks import warn_if_chance_level
from mix2fld.engine.divergence import DivergedError
from mix2fld.protocols.aggregation.aggregate import average_weights
from mix2fld.report.tables import results_table
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.runs.summary import summarise
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.stepper import Start, Watch, draw_samples, local_results
from mix2fld.types import Samples, Upload
from toys import toy_config, toy_dataset


def test_a_device_that_diverges_is_named(tmp_path) -> None:
    config = toy_config(learning_rate=1e30)
    with pytest.raises(
        DivergedError, match=r"weights of device \d diverged in round 1; use a smaller"
    ):
        run(config, tmp_path, dataset=toy_dataset())
    assert not list(tmp_path.rglob("summary.json"))
    assert not list(tmp_path.rglob("rounds.jsonl"))


def test_weights_that_grow_without_bound_are_found_before_they_overflow() -> None:
    with pytest.raises(DivergedError, match="diverged"):
        run(toy_config(learning_rate=1e17, local_steps=1), dataset=toy_dataset())


@pytest.mark.parametrize(
    ("protocol", "fields", "rate"),
    [
        ("murmur", {"local_steps": 1}, "0.02: the weights of device . diverged in round 1"),
        ("fl", {"final_learning_rate": 1e30}, r"1e\+30: the weights of device . .* round 2"),
    ],
)
def test_the_rate_that_is_named_is_the_one_that_was_used(
    protocol: str, fields: dict[str, Any], rate: str
) -> None:
    data = toy_dataset()
    train, test = (part.astype(np.float32) * 1e12 for part in (data.train_inputs, data.test_inputs))
    far = replace(data, train_inputs=train, test_inputs=test)
    config = toy_config(protocol=protocol, **{"learning_rate": "auto", **fields})
    with pytest.raises(DivergedError, match=f"learning_rate = {rate}") as told:
        run(config, dataset=data if protocol == "fl" else far)
    assert f"than {rate.split(':', 1)[0]}" in str(told.value).replace("+", r"\+")


def test_a_warning_names_the_rates_of_the_protocol() -> None:
    config = toy_config(protocol="murmur", learning_rate="auto")
    warning = warn_if_chance_level(config, Classification(4).doubt(0.25))
    assert "learning_rate = 0.02 to 0.005 may be too large or too small" in str(warning)


def test_the_printed_sign_is_named_as_a_cause() -> None:
    config = toy_config(
        protocol="fd", distillation_loss="printed", distillation_weight=1e9, rounds=3
    )
    with pytest.raises(DivergedError, match=r"diverged in round 2.*printed has no lower bound"):
        run(config, dataset=toy_dataset())


def test_the_condition_number_is_named_as_a_cause() -> None:
    config = toy_config(
        protocol="mix2fld",
        mixing_ratio=0.4999,
        learning_rate=0.5,
        server_steps=200,
        local_steps=1,
        rounds=3,
    )
    with pytest.raises(DivergedError, match=r"server's model diverged.*condition number 5e\+03"):
        run(config, dataset=toy_dataset())


def test_the_weight_of_distillation_is_named_as_a_cause() -> None:
    config = toy_config(protocol="fd", distillation_weight=1e30, rounds=3)
    with pytest.raises(DivergedError, match=r"or a smaller distillation_weight than 1e\+30"):
        run(config, dataset=toy_dataset())


def test_devices_that_learned_nothing_are_no_silent_result(capsys) -> None:
    run(toy_config(learning_rate=1e-9, local_steps=1, rounds=1), dataset=toy_dataset())
    assert "fl-s0: with an accuracy of" in (said := capsys.readouterr().err)
    assert "no better than guessing one of 4 labels; learning_rate = 1e-09 may be too" in said
    run(toy_config(rounds=1), dataset=toy_dataset(), progress=False)
    assert not capsys.readouterr().err


def test_a_figure_that_is_not_finite_is_not_recorded(tmp_path) -> None:
    with pytest.raises(InputError, match=r"not finite: .*computing = inf"):
        run(toy_config(device_step_us=1e308), tmp_path, dataset=toy_dataset())
    assert not list(tmp_path.rglob("rounds.jsonl"))


def test_too_many_steps_to_count_are_refused() -> None:
    with pytest.raises(InputError, match=r"local_steps = 20000000.*16,777,216"):
        run(toy_config(local_steps=20_000_000), dataset=toy_dataset())


def test_long_sums_of_outputs_are_those_of_float64() -> None:
    """Eq. 2 over 20,000 steps without learning, so that every output is known."""
    config, data = toy_config(learning_rate=1e-30, local_steps=20_000), toy_dataset()
    stepper = make_simulation(config, data).scenario.learning.stepper
    weights = stepper.draw_weights(0)
    held = stepper.hold(Samples(data.train_inputs, one_hot(data.train_labels, 4)))
    draws = draw_samples(np.random.default_rng(0), len(data.train_labels), 20_000, 1)
    start = Start(weights, np.zeros((4, 4), np.float32))
    learned = stepper.train(label_loss, held, [start], [draws], Watch(0, (20_000,)))
    (phase,) = learned.phases
    bias, kernel, last_bias, last_kernel = (tensor.astype(np.float64) for tensor in weights)
    pixels = data.train_inputs.reshape(len(data.train_inputs), -1) / 255
    logits = np.maximum(pixels @ kernel.T + bias, 0) @ last_kernel.T + last_bias
    outputs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for label in range(4):
        seen = draws[data.train_labels[draws[:, 0]] == label, 0]
        assert int(phase.label_counts[label]) == len(seen)
        np.testing.assert_allclose(
            local_results([phase])[0].outputs[label], outputs[seen].mean(axis=0), rtol=2e-5
        )


def test_the_mean_of_many_models_is_that_of_float64() -> None:
    rng = np.random.default_rng(1)
    models = [(1e3 + rng.normal(size=50)).astype(np.float32) for _ in range(2000)]
    samples = rng.integers(1, 999, 2000).tolist()
    inbox = {d: Upload([model], samples[d]) for d, model in enumerate(models)}
    exact = [
        math.fsum(float(model[i]) * count for model, count in zip(models, samples, strict=True))
        / sum(samples)
        for i in range(50)
    ]
    np.testing.assert_array_equal(average_weights(inbox)[0], np.array(exact, np.float32))


def test_the_seconds_of_many_rounds_add_up() -> None:
    (result,) = run(toy_config(rounds=1), dataset=toy_dataset())
    info = {**result.rounds[0], "seconds": {"communication": 0.1, "computing": 1e-7}}
    summary = summarise(result.config, [info] * 100_000, 0, "xla")
    assert summary["seconds"]["communication"] == math.fsum([0.1] * 100_000)
    assert results_table([result]).row_count == 1
