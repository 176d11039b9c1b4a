"""What the report says is what the runs recorded."""

import json
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import mix2fld
from mix2fld.cli.commands import parse
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.report.curves import shape
from mix2fld.report.dataset import UnavailableDataError, data_of
from mix2fld.report.headline import best_of
from mix2fld.report.html import MOST_BYTES, as_json, report_page
from mix2fld.report.over_seeds import over_seeds, spread_words
from mix2fld.report.page_data import page_data
from mix2fld.report.protocol_view import round_steps
from mix2fld.report.series import group
from mix2fld.runs.config_file import command
from mix2fld.runs.reader import FoundRuns, LoadedRun, read_run, require_runs
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.metric import ACCURACY
from mix2fld_lab.gallery import gallery, seeds_delivered
from stored_runs import play, save_toy_dataset
from toys import toy_config, toy_dataset


def loaded(folder: Path) -> LoadedRun:
    run = read_run(folder)
    assert run is not None
    return run


def test_means_and_spread_are_over_seeds(runs: Path) -> None:
    summaries = [json.loads((runs / f"fl-s{seed}" / "summary.json").read_text()) for seed in (0, 1)]
    row = over_seeds(summaries)
    means = [summary["scores"]["mean"] for summary in summaries]
    assert row["score"] == pytest.approx(np.mean(means))
    assert row["spread"] == pytest.approx(np.std(means, ddof=1))
    assert spread_words([row, row]) == "sample std over 2 seeds"
    assert row["delivered"] == sum(summary["uploads"]["delivered"] for summary in summaries)
    single = over_seeds(summaries[:1])
    assert single["spread"] == summaries[0]["scores"]["std"]
    assert spread_words([single]) == "std over all devices of the run"
    assert "seeds" in spread_words([single, row])
    assert "devices" in spread_words([single, row])


def test_a_curve_shows_what_was_spent_before_it_was_measured(runs: Path) -> None:
    run = loaded(runs / "fl-s0")
    found = shape([run], "bits", "devices")
    assert found is not None
    sent = np.cumsum([0, *(info["bits"]["up"] for info in run.rounds)])[:-1] / 1e6
    np.testing.assert_allclose(found.x["bits"], sent)
    means = [np.mean(info["scores"]["devices"]) for info in run.rounds]
    np.testing.assert_allclose(found.mean, means)
    seconds = shape([run], "seconds", "devices")
    assert seconds is not None
    air = np.cumsum([0, *(info["seconds"]["communication"] for info in run.rounds)])[:-1]
    np.testing.assert_allclose(seconds.x["seconds"], air + 6e-4 * np.arange(1, 4), rtol=1e-6)


def test_the_band_holds_every_seed(runs: Path) -> None:
    pair = [loaded(runs / f"mix2fld-s{seed}") for seed in (0, 1)]
    found = shape(pair, "rounds", "devices")
    assert found is not None
    values = np.array([[np.mean(info["scores"]["devices"]) for info in run.rounds] for run in pair])
    np.testing.assert_allclose(found.low, values.min(axis=0))
    np.testing.assert_allclose(found.high, values.max(axis=0))
    np.testing.assert_allclose(found.mean, values.mean(axis=0))
    assert found.seeds.tolist() == [2, 2, 2]


@pytest.mark.parametrize("measure", ["devices", "reference", "server"])
@pytest.mark.parametrize("axis", ["seconds", "air", "rounds", "bits"])
def test_a_run_in_progress_counts_up_to_its_last_round(runs: Path, axis: str, measure: str) -> None:
    whole = loaded(runs / "fl-s0")
    begun = loaded(runs / "fl-s1")
    begun = LoadedRun(begun.folder, begun.config, begun.rounds[:2], finished=False)
    found = shape([whole, begun], axis, measure)
    alone = shape([whole], axis, measure)
    assert found is not None
    assert alone is not None
    assert np.isfinite(found.mean).all()
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()
    assert found.seeds[-1] == 1
    assert found.mean[-1] == pytest.approx(alone.mean[-1])


def test_there_is_no_curve_of_what_was_not_measured(runs: Path) -> None:
    assert shape([loaded(runs / "fd-s0")], "rounds", "server") is None


def test_settings_are_told_apart_by_what_differs(runs: Path, tmp_path: Path) -> None:
    play(tmp_path, protocols="fl", local_steps=7)
    shutil.copytree(runs / "fl-s0", tmp_path / "again" / "fl-s0")
    settings, series = group(require_runs([runs, tmp_path]).runs)
    assert [one.label for one in settings if "local steps 7" in one.label]
    assert len(settings) == 2
    labels = [one.label for one in series]
    assert len(labels) == len(set(labels)) == 5
    assert [len(one.runs) for one in series if one.protocol == "fl"] == [2, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"protocols": ("fl8", "mix2fld"), "seed": (3, 1), "rounds": 4},
        {"mixing_ratio": (0.2, 0.3), "reuse_pairs": False, "stop_when_converged": True},
        {"dataset": "/data/my file's.npz", "data_folder": "/some where/$HOME", "partition": "iid"},
        {"learning_rate": 1e-7, "bandwidth_hz": 1.5e7, "tolerance": 0.1 + 0.2},
    ],
)
def test_the_command_gives_the_config_back(fields: dict[str, object]) -> None:
    config = Grid.of(**fields)
    words = shlex.split(command(config))
    assert words[:2] == ["mix2fld", "run"]
    assert parse("run", words[2:]).settings == config


def test_only_what_is_not_the_default_is_in_the_command() -> None:
    assert command(Grid()) == "mix2fld run"
    assert command(Grid.of(devices=4)) == "mix2fld run --devices 4"


def test_the_best_are_marked_and_ties_shared() -> None:
    base = {
        "metric": asdict(ACCURACY),
        "server": None,
        "converged_seconds": None,
        "bits_down": 0,
        "delivered": 1,
    }
    rows = [
        {**base, "score": 0.9, "spread": 0.02, "bits_up": 8, "attempted": 1},
        {**base, "score": 0.885, "spread": 0.0, "bits_up": 2, "attempted": 2},
        {**base, "score": 0.87, "spread": 0.1, "bits_up": 2, "attempted": 2},
        {**base, "score": 0.6, "spread": 0.1, "bits_up": 0, "attempted": 0},
    ]
    best = best_of(dict(enumerate(rows)))
    assert best["score"] == [0]
    assert best["close"] == [1]
    assert best["bits_up"] == [1, 2]
    assert best["delivered"] == [0]
    assert best["server"] == best["bits_down"] == []


def test_the_gallery_shows_the_samples_of_the_run(runs: Path) -> None:
    run = loaded(runs / "mix2fld-s0")
    shown = gallery(run)
    assert shown is not None
    simulation = make_simulation(run.config, data_of(run))
    arrived = seeds_delivered(run)
    assert shown["devices"] == len(arrived) > 1
    for card in shown["cards"]:
        made_of = []
        for mix in card["mixes"]:
            assert mix["device"] in arrived
            own = simulation.fleet.own(mix["device"])
            seeds = simulation.scenario.wire.make_once(mix["device"], *own)
            assert seeds is not None
            pixels = decoded(mix["mixed"])
            (row,) = np.flatnonzero((seeds.inputs[..., 0] == pixels).all(axis=(1, 2)))[:1]
            assert seeds.labels[row].tolist() == mix["mixed"]["labels"]
            raw = np.stack([decoded(tile) for tile in mix["raw"]]).astype(float)
            made_of.append(raw)
            np.testing.assert_allclose(0.1 * raw[0] + 0.9 * raw[1], pixels, atol=0.5 + 1e-9)
            nearest = min(np.linalg.norm(pixels - one) for one in raw)
            assert mix["mixed"]["privacy"] == pytest.approx(np.log(nearest), abs=1e-3)
        labels = {label for mix in card["mixes"] for label in mix["mixed"]["labels"]}
        assert {tile["labels"][0] for tile in card["made"]} == labels
        first, second = (decoded(mix["mixed"]).astype(float) for mix in card["mixes"])
        for tile in card["made"]:
            major = card["mixes"][0]["mixed"]["labels"][1] == tile["labels"][0]
            own, other = (first, second) if major else (second, first)
            exact = (0.9 * own - 0.1 * other) / 0.8
            nearest = min(np.linalg.norm(exact - one) for raw in made_of for one in raw)
            assert tile["privacy"] == pytest.approx(np.log(nearest), abs=1e-3)


def decoded(tile: dict[str, str]) -> np.ndarray:
    import base64
    import io

    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(tile["image"].split(",")[1]))))


def test_data_that_is_gone_or_another_is_not_shown(tmp_path: Path) -> None:
    play(tmp_path, protocols="mix2fld")
    folder = tmp_path / "runs"
    assert page_data(require_runs([folder]))["settings"][0]["labels"]
    (tmp_path / "toy.npz").rename(tmp_path / "away.npz")
    with pytest.raises(UnavailableDataError, match=r"toy\.npz"):
        data_of(loaded(folder / "mix2fld-s0"))
    shown = page_data(require_runs([folder]))["settings"][0]
    assert shown["gallery"] is None
    assert "toy.npz" in shown["unavailable"]
    save_toy_dataset(tmp_path / "toy.npz")
    with np.load(tmp_path / "away.npz") as stored:
        changed = dict(stored)
    changed["train_inputs"] = changed["train_inputs"][::-1]
    np.savez(tmp_path / "toy.npz", **changed)
    with pytest.raises(UnavailableDataError, match="different data or a custom protocol"):
        data_of(loaded(folder / "mix2fld-s0"))


def test_a_page_of_many_devices_stays_small(runs: Path) -> None:
    run = loaded(runs / "fl-s0")
    devices, rounds = 1000, 60
    rng = np.random.default_rng(0)
    many = []
    for number in range(1, rounds + 1):
        info = json.loads(json.dumps(run.rounds[0]))
        info["round"] = number
        info["scores"]["devices"] = rng.random(devices).tolist()
        for direction in ("uploads", "downloads"):
            info[direction] = {
                "attempted": devices,
                "delivered": devices,
                "devices": [True] * devices,
            }
        many.append(info)
    found = FoundRuns()
    for seed in range(40):
        config = run.config.replace(devices=devices, rounds=rounds, seed=seed)
        found.runs.append(LoadedRun(run.folder, config, many, finished=True))
    page = report_page(page_data(found))
    assert len(page.encode()) < MOST_BYTES


def test_json_in_the_page_cannot_end_its_element() -> None:
    text = as_json({"a": "</script><!-- & \u2028"})
    assert "<" not in text
    assert "&" not in text
    assert json.loads(text) == {"a": "</script><!-- & \u2028"}


def test_toy_data_is_what_the_runs_used(runs: Path) -> None:
    dataset = data_of(loaded(runs / "fl-s0"))
    np.testing.assert_array_equal(dataset.train_inputs, toy_dataset().train_inputs)
    assert dataset.num_labels == 4


@pytest.mark.parametrize("protocol", ["fl", "mix2fld"])
def test_devices_that_were_not_asked_are_shown_as_such(tmp_path: Path, protocol: str) -> None:
    play(tmp_path, protocols=protocol, participants=3, rounds=4)
    data = page_data(require_runs([tmp_path / "runs"]))
    assert data["settings"][0]["unavailable"] is None
    (run,) = data["runs"].values()
    for direction in ("up", "down"):
        assert [row.count("n") for row in run[direction]] == [1] * 4
        assert {len(row) for row in run[direction]} == {4}
    assert report_page(data)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_servers_step_of_every_protocol_is_told(name: str) -> None:
    assert "takes its step" not in round_steps(name, Config())["server"]


def test_a_page_shows_who_computed_and_transmitted_when_and_what_waiting_cost(tmp_path):
    fields = {"devices": 4, "local_steps": 10, "device_step_us": (1e5, 2e5, 3e5, 9e5)}
    config = toy_config(protocol="fl", rounds=5, wait="asynchronous", server_step_us=0, **fields)
    mix2fld.run(config, tmp_path, dataset=toy_dataset())
    (run,) = page_data(require_runs([tmp_path]))["runs"].values()
    first, second, third = run["timing"][:3]
    assert first["policy"] == "asynchronous"
    assert first["spans"] == [[1, 1, 1], [1, None, None], [1, None, None], [1, None, None]]
    assert [one["until"] for one in run["timing"]] == [1, 1, 0, 1, 0]
    assert third["stale"] == [1, 2]  # device 1 was asked in round 1, two steps before
    assert [one["arrived"][0] for one in run["timing"][:3]] == ["dnnn", "dnnn", "ndnn"]
    assert second["idle"] == 0
