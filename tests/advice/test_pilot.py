"""The pilot: who is compared, when the order is clear, what is scarce, and the verdict."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mix2fld.advice.measured import MeasuredPoint, load_measured
from mix2fld.advice.pilot import MOST_SEEDS, OURS, Pilot, candidates, family_of, run_pilot
from mix2fld.advice.ranking import Case, Option, best_by_protocol, points_named, rank
from mix2fld.advice.reveals import reveals
from mix2fld.advice.scarcity import Scarce, scarce_of
from mix2fld.advice.verdict import _rounds_of, give_verdict
from mix2fld.cli import main
from mix2fld.config.settings import PRESETS, Config
from mix2fld.data import load_dataset
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.metric import ACCURACY, Metric
from mix2fld.tasks.of_settings import sizes_for
from mix2fld.types import SampleFormat
from stored_runs import save_toy_dataset
from toys import save_dataset, toy_numbers

MEASURED = load_measured()["mnist-non-iid"]


def case(deadline_s: float | None = None, **fields: Any) -> Case:
    config = Config.of(**fields)
    images = SampleFormat((28, 28, 1), "uint8")
    return Case(
        sizes_for(Classification(10), config, images, ((12_544,),)), "labels", 0.2, deadline_s
    )


def options_of(asked: Case, *names: str) -> list[Option]:
    points = points_named(asked, MEASURED, names) if names else None
    return best_by_protocol(rank(asked, MEASURED, points))


def pilot_of(
    scores: Mapping[str, Sequence[float]], asked: Case, metric: Metric = ACCURACY
) -> Pilot:
    options = options_of(asked, *scores)

    def simulate(option: Option, seed: int) -> float:
        return scores[option.point.protocol][seed]

    return run_pilot(options, range(MOST_SEEDS), simulate, lambda: metric)


IDEAL = case(link="ideal")
CLOSE = [0.900, 0.912, 0.905, 0.897, 0.909]


def test_the_best_of_each_family_and_devices_alone() -> None:
    everybody = rank(IDEAL, MEASURED)
    found = candidates(best_by_protocol(everybody), everybody, named=False)
    uploading, alone = found[:-1], found[-1]
    others = [one for one in uploading if one.point.protocol != OURS]
    families = [family_of(one.point.protocol) for one in others]
    assert len(uploading) == len(others) + 1
    assert len(set(families)) == len(families) >= 5
    assert alone.point.protocol in ("isolated", "own-statistics")


def test_named_protocols_are_all_compared() -> None:
    options, everybody = options_of(IDEAL, "murmur", "eden"), rank(IDEAL, MEASURED)
    found = [one.point.protocol for one in candidates(options, everybody, named=True)]
    assert sorted(found[:2]) == ["eden", "murmur"]
    assert found[2] in ("isolated", "own-statistics")


def test_a_clear_order_needs_three_seeds() -> None:
    pilot = pilot_of({"fl": [0.95, 0.951, 0.949], "isolated": [0.80, 0.801, 0.799]}, IDEAL)
    assert [len(trial.gains) for trial in pilot.trials] == [3, 3]
    assert not pilot.unclear


def test_only_those_whose_order_is_open_get_more_seeds() -> None:
    other = [0.905, 0.901, 0.911, 0.903, 0.900]
    scores = {"fl": CLOSE, "eden": other, "isolated": [0.60, 0.612, 0.605]}
    pilot = pilot_of(scores, IDEAL)
    seeds = {one.option.point.protocol: len(one.gains) for one in pilot.trials}
    assert seeds == {"fl": 5, "eden": 5, "isolated": 3}
    assert len(pilot.unclear) == 1


def test_of_those_that_are_close_the_cheapest_is_chosen() -> None:
    scores = {"fl": CLOSE, "murmur": [0.898, 0.911, 0.903, 0.899, 0.905], "isolated": [0.7] * 5}
    pilot = pilot_of(scores, IDEAL)
    chosen = pilot.chosen("bits")
    assert pilot.most_accurate.option.point.protocol == "fl"
    assert chosen is not None
    assert chosen.option.point.protocol == "murmur"


def test_an_upload_that_gains_nothing_is_not_worth_its_bits() -> None:
    pilot = pilot_of({"fl": CLOSE, "isolated": [one - 0.001 for one in CLOSE[::-1]]}, IDEAL)
    chosen = pilot.chosen("joules")
    assert chosen is not None
    assert chosen.option.point.protocol == "isolated"


def test_a_metric_that_should_be_low() -> None:
    error = Metric("RMSE", better="lower")
    pilot = pilot_of({"fl": [1.0, 1.01, 0.99], "isolated": [3.0, 3.01, 2.99]}, IDEAL, error)
    assert pilot.most_accurate.option.point.protocol == "fl"
    verdict = give_verdict(IDEAL, pilot, options_of(IDEAL), Scarce("bits", "as asked"))
    assert "RMSE 1.000 ± 0.025 on validation samples" in verdict.lines[0]
    assert "2.000 ± 0.000 better than training alone" in verdict.lines[0]


@pytest.mark.parametrize(
    ("asked", "resource"),
    [
        (IDEAL, "bits"),
        (case(link="ideal", deadline_s=1.0), "seconds"),
        (case(**PRESETS["nb-iot"]), "joules"),
        (case(**PRESETS["lorawan-dr5"], devices=2), "seconds"),
    ],
)
def test_what_a_link_makes_scarce(asked: Case, resource: str) -> None:
    assert scarce_of(rank(asked, MEASURED), asked.deadline_s).resource == resource


def test_the_downlink_is_the_protocols_own() -> None:
    """Ten uploads of 500 bits come down, not 401 kbit of weights."""
    told = {name: options_of(case(downlink=name), "murmur")[0] for name in ("default", "weights")}
    assert told["weights"].bits_down == 401_408
    bits_up = told["default"].bits_per_round
    assert 10 * bits_up <= told["default"].bits_down < 12 * bits_up


def test_parameters_pick_what_was_measured_with_them() -> None:
    *measured, other = points_named(IDEAL, MEASURED, ["murmur:bits=200", "murmur:bits=333"])
    assert measured
    assert {one.changes["update_bits"] for one in measured} == {200}
    assert all(one.devices for one in measured)
    assert other.devices == []


def test_who_was_not_measured_comes_last() -> None:
    options = options_of(IDEAL, "murmur:bits=333", "fd", "murmur")
    assert [one.point.protocol for one in options] == ["murmur", "fd", "murmur:bits=333"]
    assert options[-1].over_alone is None
    assert options[-1].bits_per_round == 333
    assert options[-1].as_dict()["points_over_alone"] is None


def test_protocols_that_need_a_round_together_are_excluded_where_nobody_waits() -> None:
    for wait, suits in (("all", True), ("buffered:5", False)):
        (cfd,) = options_of(case(link="ideal", wait=wait), "cfd")
        assert cfd.suits is suits
    assert cfd.reasons == ("needs the uploads of a round together, wait is buffered:5",)


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("isolated", "nothing: devices upload nothing"),
        ("fl8", "nothing beyond weights in 8 bits each, to the server"),
        (
            "murmur",
            "nothing beyond compressed update, to the server; its relay shows each device's codes "
            "to the other devices",
        ),
        ("fld", "nothing beyond mean outputs and samples, to the server"),
        ("mixfld", "nothing beyond mean outputs and mixed samples, to the server"),
        ("statistics", "nothing beyond statistics, to the server"),
    ],
)
def test_what_is_revealed(protocol: str, words: str) -> None:
    assert reveals(Config.of(protocol=protocol)) == words


def test_privacy_noise_and_sums_are_named() -> None:
    assert "ε = 8" in reveals(Config.of(protocol="dp-fl"))
    assert reveals(Config.of(protocol="dp-sum")).startswith("nothing beyond the sum of ")
    assert "codes" not in reveals(Config.of(protocol="murmur", downlink="weights"))
    assert "multicast to all devices" in reveals(Config.of(protocol="murmur-mix"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(43_200, "12-hour rounds"), (1.5, "1.5-second rounds"), (259_200, "3-day rounds")],
)
def test_how_long_rounds_are_is_named(seconds: float, words: str) -> None:
    assert _rounds_of(seconds) == words


def test_a_verdict_names_what_would_change_it() -> None:
    asked = case()
    scores = {"murmur": [0.90, 0.902, 0.898, 0.9, 0.9], "mixfld": [0.95, 0.951, 0.949, 0.95, 0.95]}
    scores["isolated"] = [0.80, 0.801, 0.799, 0.8, 0.8]
    pilot = pilot_of(scores, asked)
    verdict = give_verdict(asked, pilot, options_of(asked), Scarce("bits", "as asked"))
    assert verdict.trial.option.point.protocol == "mixfld"
    assert "if no sample may leave a device: Murmur" in verdict.lines[2]
    assert "if 5.0 points are not worth " in verdict.lines[2]
    assert "if the link carried it (upload of " in verdict.lines[2]
    assert "15.0 ± 0.0 points better than training alone" in verdict.lines[0]
    assert "MixFLD is clearly the most accurate (paired t-test" in verdict.lines[1]


def test_what_costs_nothing_in_accuracy_changes_no_verdict() -> None:
    scores = {"fl": [0.9002, 0.9, 0.9001], "murmur": [0.9, 0.9001, 0.9], "isolated": [0.7] * 3}
    pilot = pilot_of({name: [*own, *own] for name, own in scores.items()}, IDEAL)
    verdict = give_verdict(IDEAL, pilot, options_of(IDEAL), Scarce("bits", "as asked"))
    assert verdict.trial.option.point.protocol == "murmur"
    assert " 0.0 points" not in verdict.lines[2]


def test_a_note_on_the_data_comes_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = str(save_toy_dataset(tmp_path / "toy.npz"))
    noted = replace(load_dataset(Config.of(dataset=data).data), notes=("rows are neighbours",))
    monkeypatch.setattr("mix2fld.data.load_dataset", lambda *_, **__: noted)
    main(["advise", "--dataset", data, *TOY, *SHORT, "--protocols", "fd", "--pilot"])
    assert capsys.readouterr().err.count("rows are neighbours") == 1


TOY = ["--devices", "3", "--samples-per-device", "30", "--partition", "iid", "--model", "mlp"]
SHORT = ["--rounds", "1", "--local-steps", "20", "--server-steps", "5"]


def test_a_pilot_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = str(save_toy_dataset(tmp_path / "toy.npz"))
    named = ["--protocols", "fd", "murmur:bits=333", "--seed", "3", "4"]
    asked = ["advise", "--dataset", data, *TOY, *SHORT, *named, "--pilot"]
    main([*asked, "--json"])
    told = json.loads(capsys.readouterr().out)
    runs = [(run["protocol"], run["seed"]) for run in told["pilot"]]
    assert {name for name, _ in runs} >= {"fd", "murmur:bits=333"}
    assert len(runs) == 6
    assert {seed for _, seed in runs} == {3, 4}
    assert {one["protocol"] for one in told["options"]} == {"fd", "murmur:bits=333"}
    verdict = told["verdict"]
    assert verdict["protocol"] in {name for name, _ in runs}
    chosen = [r["scores"]["mean"] for r in told["pilot"] if r["protocol"] == verdict["protocol"]]
    assert f"accuracy {100 * np.mean(chosen):.1f} ±" in verdict["sentences"][0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--protocols", "murmr"], "did you mean 'murmur'"),
        (["--protocols", "murmur:bit=3"], "murmur has no parameter 'bit'"),
        (["--scarce", "money"], "--scarce money: must be one of auto, bits, seconds, joules"),
        (["--wait", "never"], "wait = 'never': no such policy"),
        (["--weights", "50", "--pilot"], "needs your data and your model"),
    ],
)
def test_bad_input(given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["advise", *given])
    assert told in capsys.readouterr().err


def test_measured_points_may_lack_accuracies() -> None:
    point = MeasuredPoint("x", "x", "dp-fl", {}, float("nan"), [], None)
    (option,) = rank(IDEAL, MEASURED, [point])
    assert option.over_alone is None
    assert option.over_fl is None


@pytest.mark.parametrize("more", [[], ["--pilot", "--seed", "0", "1"]])
def test_numbers_are_ranked_by_costs_and_compared_by_their_metric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    data = save_dataset(tmp_path / "numbers.npz", toy_numbers())
    small = "--partition iid --devices 3 --samples-per-device 40 --model linear --rounds 1"
    short = "--local-steps 40 --server-steps 20 --protocols isolated fl murmur cfd"
    main(["advise", "--dataset", str(data), *small.split(), *short.split(), *more])
    told = " ".join(capsys.readouterr().out.split())
    assert "nothing was measured for regression" in told
    assert "not possible with these samples and this model: CFD" in told
    assert "accura" not in told
    assert "points" not in told
    assert told.index("Murmur") < told.index("FL ") < told.index("isolated")
    assert ("verdict: " in told and "RMSE" in told) or not more


def test_no_map_of_gains_is_drawn_where_nothing_was_measured(tmp_path: Path) -> None:
    data = save_dataset(tmp_path / "numbers.npz", toy_numbers())
    flags = ["--dataset", str(data), "--partition", "iid", "--devices", "3", "--model", "linear"]
    with pytest.raises(SystemExit):
        main(["advise", *flags, "--samples-per-device", "40", "--out", str(tmp_path / "map.png")])
    assert not (tmp_path / "map.png").exists()
