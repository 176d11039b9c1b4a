"""The training side: what a row recommends, what a config overrides, and what comes of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.protocols.table import PROTOCOLS, get_protocol
from mix2fld.report.tables import results_table
from mix2fld.runs.config_file import parse_config
from mix2fld.runs.simulation import make_simulation, run
from mix2fld.tasks.training import (
    LocalTraining,
    Training,
    label_prior,
    logit_offset,
    model_in_use,
    rate_in_round,
    resolve,
)
from toys import toy_config, toy_dataset, toy_grid

RECOMMENDED = Training(logit_adjustment=2.0, rate_factors=(2.0, 0.5), device_model="mean")
PLAIN = LocalTraining(0.01, 0.01, 0.0, 1e-4, "trained")


@pytest.mark.parametrize(
    ("fields", "plain", "recommended"),
    [
        ({}, PLAIN, LocalTraining(0.02, 0.005, 2.0, 1e-4, "mean")),
        (
            {"logit_adjustment": 0.5, "prior_floor": 0.01},
            PLAIN._replace(logit_adjustment=0.5, prior_floor=0.01),
            LocalTraining(0.02, 0.005, 0.5, 0.01, "mean"),
        ),
        (
            {"learning_rate": 0.1, "final_learning_rate": 0.04},
            PLAIN._replace(learning_rate=0.1, final_learning_rate=0.04),
            LocalTraining(0.1, 0.04, 2.0, 1e-4, "mean"),
        ),
        (
            {"logit_adjustment": 0, "final_learning_rate": "0.01", "device_model": "trained"},
            PLAIN,
            PLAIN,
        ),
        (
            {"learning_rate": 0.1},
            PLAIN._replace(learning_rate=0.1, final_learning_rate=0.1),
            LocalTraining(0.1, 0.1, 2.0, 1e-4, "mean"),
        ),
    ],
)
def test_a_config_overrides_what_a_row_recommends(
    fields: dict[str, Any], plain: LocalTraining, recommended: LocalTraining
) -> None:
    config = Config.of(**fields)
    assert resolve(config, Training()) == plain
    assert resolve(config, RECOMMENDED) == recommended


@pytest.mark.parametrize(
    ("written", "protocol", "rates"),
    [
        (0.01, "murmur", ("auto", "auto")),
        (0.05, "murmur", (0.1, 0.025)),
        (0.05, "fl", (0.05, "auto")),
        (0.01, "fl", ("auto", "auto")),
    ],
)
def test_a_run_of_an_older_version_goes_on_with_the_rates_that_it_began_with(
    written: float, protocol: str, rates: tuple[Any, Any]
) -> None:
    """Version 0.2 multiplied any learning rate by the schedule of the protocol."""
    text = f'format = 1\nprotocols = ["{protocol}"]\n[learning]\nlearning_rate = {written}\n'
    learning = parse_config(text.encode()).learning
    assert (learning.learning_rate, learning.final_learning_rate) == rates


def test_every_table_says_how_devices_trained(capsys: pytest.CaptureFixture[str]) -> None:
    results = run(toy_grid(protocols=("fl", "murmur"), learning_rate="auto"), dataset=toy_dataset())
    Console(width=100).print(results_table(results))
    said = " ".join(capsys.readouterr().out.split())
    assert "FL: η 0.01; Murmur: η 0.02 → 0.005, logit adjustment 1 to 2, mean model" in said
    frame = results.frame("runs")
    assert list(frame["training/learning_rate"]) == [0.01, 0.02]


PAPERS_ROWS = ("isolated", "fl", "fl8", "fl4", "fd", "fld", "mixfld", "mix2fld")


@pytest.mark.parametrize("name", PAPERS_ROWS)
def test_the_papers_rows_train_as_the_paper_says(name: str) -> None:
    assert resolve(Config(), PROTOCOLS[name].training) == PLAIN


def test_the_learning_rate_goes_geometrically_from_the_first_to_the_last_round() -> None:
    training = PLAIN._replace(learning_rate=0.02, final_learning_rate=0.00125)
    rates = [rate_in_round(training, p, rounds=5) for p in range(1, 6)]
    np.testing.assert_allclose(rates, [0.02, 0.01, 0.005, 0.0025, 0.00125], rtol=1e-12)
    assert rate_in_round(training, 1, rounds=1) == 0.02


@given(st.floats(1e-6, 10), st.integers(1, 50), st.integers(1, 50))
def test_a_constant_rate_is_exactly_constant(rate: float, p: int, rounds: int) -> None:
    """A factor of exactly 1 leaves the compiled steps as they are."""
    training = PLAIN._replace(learning_rate=rate, final_learning_rate=rate)
    assert rate_in_round(training, p, rounds) / rate == 1.0


def test_logit_adjustment_adds_the_log_of_the_prior_above_a_floor() -> None:
    prior = label_prior(np.array([0, 0, 0, 2], np.int32), 4)
    np.testing.assert_array_equal(prior, [0.75, 0, 0.25, 0])
    offset = logit_offset(PLAIN._replace(logit_adjustment=2.0, prior_floor=0.01), prior)
    assert offset is not None
    assert offset.dtype == np.float32
    expected = 2 * np.log([0.75, 0.01, 0.25, 0.01])
    np.testing.assert_allclose(offset, expected, rtol=1e-6)
    assert logit_offset(PLAIN, prior) is None


def test_the_model_in_use_is_the_trained_one_or_the_mean() -> None:
    before, after = (np.float32([1, 2]),), (np.float32([3, -2]),)
    assert model_in_use(PLAIN, before, after) is after
    (mean,) = model_in_use(PLAIN._replace(device_model="mean"), before, after)
    np.testing.assert_array_equal(mean, np.float32([2, 0]))


def test_resolved_values_are_in_the_summary_and_the_config_is_what_the_user_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = replace(PROTOCOLS["fl"], training=RECOMMENDED)
    monkeypatch.setitem(PROTOCOLS, "quiet", row)
    (result,) = run(toy_config(protocol="quiet", learning_rate=0.1), dataset=toy_dataset())
    assert result.summary["training"] == {
        "learning_rate": 0.1,
        "final_learning_rate": 0.1,
        "logit_adjustment": 2.0,
        "prior_floor": 1e-4,
        "device_model": "mean",
        "replay": 0.0,
        "scarce_adjustment": None,
    }
    assert result.config.learning.logit_adjustment == "auto"


def test_the_mean_is_what_is_measured_and_the_trained_model_is_what_is_sent() -> None:
    """The same updates, other accuracies: also on the way through the local phase."""
    ends, records = [], []
    for model in ("trained", "mean"):
        simulation = make_simulation(toy_config(device_model=model), toy_dataset())
        state, info = simulation.run_round(simulation.start())
        ends.append(state)
        records.append(info)
    for one, other in zip(ends[0].devices, ends[1].devices, strict=True):
        for a, b in zip(one["weights"], other["weights"], strict=True):
            np.testing.assert_array_equal(a, b)
    trained, mean = records
    assert trained.scores["devices"] != mean.scores["devices"]
    local = [point for point in mean.curve if point["event"] == "local"]
    assert local[-1]["score"] == mean.scores["reference"]
    assert local != [point for point in trained.curve if point["event"] == "local"]


def test_logit_adjustment_helps_a_device_that_lacks_labels() -> None:
    """Shards of two labels each: adjusted, a device forgets less of the labels it does not hold."""
    found = {}
    for tau in (0.0, 1.0):
        config = toy_config(
            protocol="fl", partition="shards", logit_adjustment=tau, local_steps=200, rounds=3
        )
        (result,) = run(config, dataset=toy_dataset())
        found[tau] = result.summary["scores"]["mean"]
    assert found[1.0] > found[0.0] + 0.05


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"logit_adjustment": -1}, "logit_adjustment = -1: must be auto, or a number from 0"),
        ({"logit_adjustment": "no"}, "logit_adjustment = 'no': must be auto, or a number from 0"),
        ({"final_learning_rate": 0}, "final_learning_rate = 0: must be auto, or a number above 0"),
        ({"final_learning_rate": True}, "final_learning_rate = True: must be auto"),
        ({"final_learning_rate": "nan"}, "final_learning_rate = 'nan': must be auto"),
        ({"prior_floor": 0}, "prior_floor = 0: must be greater than 0"),
        ({"device_model": "best"}, "device_model = 'best'"),
    ],
)
def test_bad_values_are_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Config.of(**fields)


@pytest.mark.parametrize(("held", "tau"), [(4, 2.0), (2, 1.5), (1, 1.25)])
def test_murmur_adjusts_by_the_labels_that_a_device_holds(held: int, tau: float) -> None:
    """Each of them as often: the offset of a label that is there is tau log(1 / held)."""
    labels = np.arange(4 * held, dtype=np.int32) % held
    row = get_protocol("murmur").training
    automatic = resolve(Config.of(protocol="murmur"), row)
    offset = logit_offset(automatic, label_prior(labels, 4))
    assert offset is not None
    assert offset[0] == pytest.approx(tau * np.log(1 / held), rel=1e-6)
    stated = resolve(Config.of(protocol="murmur", logit_adjustment=2.0), row)
    assert stated.adjustment(label_prior(labels, 4)) == 2.0


def test_the_same_training_is_that_of_the_paper_unless_something_is_stated() -> None:
    for name in ("murmur", "fl8", "statistics"):
        row = get_protocol(name).training
        plain = resolve(Config.of(protocol=name, same_training=True), row)
        assert plain == resolve(Config.of(protocol="fl"), get_protocol("fl").training)
        stated = Config.of(protocol=name, same_training=True, learning_rate=0.03)
        assert resolve(stated, row)[:2] == (0.03, 0.03)


def test_a_missing_label_counts_as_one_sample_where_tau_follows_the_labels() -> None:
    labels = np.arange(60, dtype=np.int32) % 2
    automatic = resolve(Config.of(protocol="murmur"), get_protocol("murmur").training)
    offset = logit_offset(automatic, label_prior(labels, 4), len(labels))
    assert offset is not None
    np.testing.assert_allclose(offset, 1.5 * np.log([0.5, 0.5, 1 / 60, 1 / 60]), rtol=1e-6)
    stated = resolve(
        Config.of(protocol="murmur", logit_adjustment=1.5), get_protocol("murmur").training
    )
    offset = logit_offset(stated, label_prior(labels, 4), len(labels))
    assert offset is not None
    assert offset[3] == pytest.approx(1.5 * np.log(1e-4), rel=1e-6)
