"""The adviser: costs of the user's link, gains as measured, and what lies outside."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mix2fld.advice.measured import (
    MeasuredPoint,
    MeasuredSetting,
    label_skew,
    load_measured,
    read_measured,
)
from mix2fld.advice.ranking import Case, Option, best_by_protocol, nearest, rank
from mix2fld.cli import main
from mix2fld.config.settings import Config
from mix2fld.links import make_link
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.of_settings import sizes_for
from mix2fld.types import SampleFormat
from mix2fld_lab.regime_map import _stretches, draw_regime_map, winner
from mix2fld_lab.reproduction.frontier.make_measured import dump_measured
from mix2fld_lab.reproduction.frontier.points import points_of
from mix2fld_lab.reproduction.frontier.settings import SETTINGS
from mix2fld_lab.reproduction.results_folder import ResultsFolder
from places import ROOT

RESULTS = ResultsFolder(ROOT / "results")
ALONE = MeasuredPoint("isolated", "isolated", "isolated", {}, 0, [0.8, 0.81], None)
FL = MeasuredPoint("fl", "FL", "fl", {}, 2e6, [0.95, 0.96], [0.96, 0.96])
MURMUR = MeasuredPoint(
    "murmur-200", "Murmur", "murmur", {"update_bits": 200}, 1000, [0.93, 0.94], [0.94, 0.94]
)


def setting(key: str = "mnist-non-iid", **changes: Any) -> MeasuredSetting:
    fields: dict[str, Any] = {
        "key": key, "title": key, "kind": "labels", "skew": 0.2, "devices": 10, "taking_part": 10,
        "samples": 500, "weights": 12_544, "rounds": 5, "points": (ALONE, FL, MURMUR),
        "dataset": key.split("-", maxsplit=1)[0], "ideal_link": True,
    }  # fmt: skip
    return MeasuredSetting(**{**fields, **changes})


def case(weights: int = 12_544, skew: float = 0.2, **fields: Any) -> Case:
    config = Config.of(**fields)
    images = SampleFormat((28, 28, 1), "uint8")
    return Case(sizes_for(Classification(10), config, images, ((weights,),)), "labels", skew)


COUNTS = hnp.arrays(
    np.int64, st.tuples(st.integers(1, 6), st.integers(2, 6)), elements=st.integers(0, 50)
)


@given(COUNTS.filter(lambda counts: bool(counts.sum())))
def test_skew_is_a_distance(counts: np.ndarray) -> None:
    skew = label_skew(counts)
    assert 0 <= skew < 1
    assert label_skew(3 * counts) == pytest.approx(skew)
    assert label_skew(np.tile(counts[:1] + 1, (3, 1))) == pytest.approx(0)


def test_skew_of_devices_with_one_label_each() -> None:
    assert label_skew(7 * np.eye(10, dtype=np.int64)) == pytest.approx(0.9)


def test_gains_are_those_of_the_seeds() -> None:
    options = {one.point.protocol: one for one in rank(case(), setting())}
    assert options["murmur"].over_alone is not None
    assert options["isolated"].over_alone is not None
    assert options["murmur"].over_alone.mean == pytest.approx(13)
    assert options["murmur"].over_fl is not None
    assert options["murmur"].over_fl.mean == pytest.approx(-2)
    assert options["isolated"].over_alone.mean == 0


def test_costs_are_those_of_the_link() -> None:
    asked = case(devices=10, downlink="weights")
    options = {one.point.protocol: one for one in rank(asked, setting())}
    link = make_link(asked.config, 10)
    up, down = link.budget("uplink", 200, 10), link.budget("downlink", 32 * 12_544, 10)
    slots = up.expected_round_slots + down.expected_round_slots
    assert options["murmur"].seconds == pytest.approx(slots / 1000)
    assert options["murmur"].bits_per_round == 200
    least = min(up.delivery_probability, down.delivery_probability)
    assert options["murmur"].chance == pytest.approx(least)
    assert not options["fl"].suits
    assert (
        "upload of 401 kbit: delivery probability 0.6 %, required: 95.0 %"
        in options["fl"].reasons[0]
    )
    assert [one.point.protocol for one in rank(asked, setting())] == ["murmur", "isolated", "fl"]


def test_relayed_uploads_cost_less_than_weights() -> None:
    """The default of Murmur: ten uploads of 200 bits and a little go down in place of weights."""
    weights, relay = (
        next(o for o in rank(case(devices=10, **told), setting()) if o.point.protocol == "murmur")
        for told in ({"downlink": "weights"}, {})
    )
    assert relay.seconds < weights.seconds / 5
    assert relay.bits_per_round == weights.bits_per_round


def murmur_mix(**fields: Any) -> Option:
    seeds = {"update_bits": 4000}
    replayed = MeasuredPoint("x", "x", "murmur-mix", seeds, 1e5, [0.99, 0.99], None)
    ranked = rank(case(**fields), setting(points=(ALONE, replayed)))
    return next(one for one in ranked if one.point.protocol == "murmur-mix")


def test_seeds_that_are_replayed_go_down_over_several_rounds() -> None:
    """All of them are more than the paper's downlink delivers at once."""
    assert murmur_mix().suits


def test_a_download_that_never_arrives_excludes() -> None:
    option = murmur_mix(downlink_power_dbm=5, downlink="weights")
    assert option.chance == 0
    assert not option.suits


def test_more_seeds_than_samples_exclude() -> None:
    seeds = {"update_bits": 200, "seed_samples": 20, "seed_pooling": 2, "seed_bits": 4}
    replayed = MeasuredPoint("x", "x", "murmur-mix", seeds, 1e5, [0.99, 0.99], None)
    for held, suits in ((19, False), (20, True)):
        options = rank(case(samples_per_device=held), setting(points=(ALONE, replayed)))
        found = {one.point.protocol: one for one in options}["murmur-mix"]
        assert found.suits is suits


def test_a_deadline_excludes() -> None:
    asked = case()
    late = Case(asked.sizes, "labels", 0.2, deadline_s=1e-4)
    suits = [one.point.protocol for one in rank(late, setting()) if one.suits]
    assert suits == ["isolated"]


def test_each_protocol_appears_once() -> None:
    second = MeasuredPoint(
        "murmur-500", "more", "murmur", {"update_bits": 500}, 2500, [0.9, 0.9], None
    )
    options = best_by_protocol(rank(case(), setting(points=(ALONE, second, MURMUR))))
    assert [one.point.contender for one in options] == ["murmur-200", "isolated"]


def test_within_a_point_the_fewest_bits_come_first() -> None:
    for gain, first in ((0.9301, "murmur"), (0.9390, "murmur"), (0.9410, "fl")):
        fl = MeasuredPoint("fl", "FL", "fl", {}, 2e6, [gain, gain + 0.01], None)
        ranked = rank(case(link="ideal"), setting(points=(ALONE, fl, MURMUR)))
        assert ranked[0].point.protocol == first


def test_the_nearest_setting_and_what_lies_outside() -> None:
    near, far = setting(), setting("mnist-shards", skew=0.8)
    assert nearest(case(), {"far": far, "near": near})[0] is near
    assert case().outside(near) == []
    assert case(weights=10**6).outside(near) == ["weights: 1,000,000, measured: 12,544"]
    assert case(skew=0.4).outside(near) == ["label skew: 0.40, measured: 0.20"]
    assert case(devices=100, participants=5).outside(setting(devices=100, taking_part=20)) == [
        "devices of a round: 5, measured: 20"
    ]


def test_settings_with_the_same_data_are_nearer() -> None:
    both = {key: setting(key) for key in ("mnist-non-iid", "cifar10-non-iid")}
    assert nearest(case(dataset="cifar10"), both)[0].key == "cifar10-non-iid"
    (outside,) = case(dataset="fashion-mnist").outside(both["cifar10-non-iid"])
    assert outside == "data: fashion-mnist, measured: cifar10"


def test_what_was_measured_over_a_lossy_link_is_no_reference() -> None:
    """Its FL lost uploads; what the user's link loses is worked out."""
    lossy = setting("mnist-non-iid-paper-link", ideal_link=False)
    found = nearest(case(skew=0.2), {"lossy": lossy, "ideal": setting("mnist-iid", skew=0.5)})
    assert [one.key for one in found] == ["mnist-iid"]


def test_one_device_has_nobody_to_learn_from() -> None:
    suits = [one.point.protocol for one in rank(case(devices=1), setting()) if one.suits]
    assert suits == ["isolated"]


def test_the_reason_names_the_transfer_that_fails() -> None:
    options = {
        one.point.protocol: one
        for one in rank(case(weights=5_000_000, downlink="weights"), setting())
    }
    (reason,) = options["murmur"].reasons
    assert reason.startswith("download of 160 Mbit: delivery probability 0.0 %")


def test_the_table_survives_its_text() -> None:
    settings = {"mnist-non-iid": setting(), "smartwatch": setting("smartwatch", kind="sources")}
    assert read_measured(dump_measured(settings)) == settings


def test_the_winner_has_the_bits(tmp_path: Path) -> None:
    assert winner(setting(), 0) is ALONE
    assert winner(setting(), 200) is MURMUR
    assert winner(setting(), 10**6) is FL
    draw_regime_map(
        {"a": setting(), "b": setting("mnist-shards", skew=0.5)}, case(), tmp_path / "map.png"
    )
    assert (tmp_path / "map.png").stat().st_size > 10_000


def test_a_winner_of_several_budgets_is_drawn_once() -> None:
    assert _stretches([ALONE, MURMUR, MURMUR, FL]) == [(0, 1, ALONE), (1, 2, MURMUR), (3, 1, FL)]


def test_the_shipped_table_follows_from_the_records() -> None:
    measured = {k: one for k, one in load_measured().items() if one.features == "none"}
    records = RESULTS.frontier_records()
    assert list(measured) == list(records)
    for key, cells in records.items():
        assert measured[key].dataset == SETTINGS[key].dataset
        assert measured[key].ideal_link == (SETTINGS[key].changes["link"] == "ideal")
        for point in points_of(cells):
            shipped = measured[key].point(point.contender.key)
            assert shipped is not None
            assert np.mean(shipped.devices) * 100 == pytest.approx(point.devices.mean, abs=1e-3)
            assert shipped.bits == pytest.approx(point.bits, abs=0.1)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    counts = tmp_path / "counts.csv"
    counts.write_text("100,0\n0,100\n50,50\n")
    asked = ["advise", "--weights", "50000", "--label-counts", str(counts), "--json"]
    main(asked)
    told = json.loads(capsys.readouterr().out)
    assert told["case"]["devices"] == 3
    assert told["case"]["label_skew"] == pytest.approx(1 / 3)
    assert told["nearest"]["setting"] in load_measured()
    assert any("weights" in each or "devices" in each for each in told["nearest"]["outside"])
    assert {"isolated", "fl", "murmur"} <= {one["protocol"] for one in told["options"]}


def test_what_to_run_names_the_preset_and_not_its_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["advise", "--preset", "nb-iot", "--weights", "12544", "--deadline-s", "0.001"])
    (to_check,) = [row for row in capsys.readouterr().out.splitlines() if "to check" in row]
    assert "(with your own --dataset and --model): mix2fld run --preset nb-iot --pro" in to_check
    assert "--bandwidth-hz" not in to_check


def test_those_who_are_excluded_for_the_same_reason_share_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["advise", "--devices", "1"])
    told = [row for row in capsys.readouterr().out.splitlines() if "not suitable" in row]
    (alike,) = [row for row in told if row.endswith(": there is no other device to learn from")]
    assert "Murmur" in alike
    assert "FD" in alike


def test_with_a_quorum_its_chance_is_required_and_not_that_of_the_worst_device(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in docs/lorawan.md: one sensor of twenty is hard to hear, and 18 of 20 are enough."""
    sensors = ["advise", "--preset", "lorawan-dr5", "--devices", "20"]
    for more, suits in ((["--wait", "quorum:0.9"], True), ([], False)):
        main([*sensors, *more])
        rows = capsys.readouterr().out.splitlines()
        first, alone = (
            next(n for n, row in enumerate(rows) if row.startswith(name))
            for name in ("Murmur ", "Own statistics")
        )
        assert (first < alone) is suits


def test_rows_whose_uploads_belong_together_are_named_and_not_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["advise", "--wait", "buffered:2"])
    told = [row for row in capsys.readouterr().out.splitlines() if "not suitable" in row]
    (alike,) = [row for row in told if row.endswith("together, wait is buffered:2")]
    assert "CFD" in alike


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--weights", "500", "--out", "map.xyz"], "out = map.xyz: must end in .png, .svg, .pdf"),
        (["--weights", "0"], "weights = 0: must be 1 or more"),
        (["--deadline-s", "-1"], "deadline_s = -1: must be above 0"),
        (["--wait", "later"], "wait = 'later': no such policy"),
        (
            ["--label-counts", "missing.csv"],
            "label_counts = missing.csv: cannot be read (no such file)",
        ),
    ],
)
def test_bad_input(given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["advise", *given])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("text", ["a,b\n", "1,2\n3\n", "-1,5\n", "0,0\n", "3\n"])
def test_bad_counts(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(SystemExit, match="2"):
        main(["advise", "--label-counts", str(path)])
    assert "label_counts" in capsys.readouterr().err
