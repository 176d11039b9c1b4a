"""The audit scaled down: its stages, their null experiments, resuming, its page and bad input."""

import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.runs.simulation import run
from mix2fld_lab.attacks.empirical import most_true_positives
from mix2fld_lab.attacks.unmixing import Candidates
from mix2fld_lab.audit import shadows
from mix2fld_lab.audit.audit import Audit
from mix2fld_lab.audit.effort import QUICK, audit_command
from mix2fld_lab.audit.findings import distinct_uplinks, pooled
from mix2fld_lab.audit.identify import nearest
from mix2fld_lab.audit.page import draw_privacy_figure, privacy_page
from mix2fld_lab.audit.panel import leak_points
from mix2fld_lab.audit.records import load_audit
from mix2fld_lab.audit.sections import sections
from mix2fld_lab.audit.separation import Query, separate, train_separator
from mix2fld_lab.audit.separators import foreign_samples
from mix2fld_lab.audit.shadows import Watched
from mix2fld_lab.audit.summary import summary_tables
from mix2fld_lab.made_with import said_of
from mix2fld_lab.reproduction.attacked_mixes import attack_rows, attacks_on_mixes, audited_mixes
from mix2fld_lab.reproduction.claims import CLAIMS
from mix2fld_lab.reproduction.evidence import Evidence
from places import ROOT
from stored_runs import save_toy_dataset
from toys import toy_config, toy_dataset, toy_grid

SMALL = replace(
    QUICK, outsiders=1300, devices=4, separator_steps=3, attacked_rounds=2, budgets=((2.0, 1),)
)
TRAIN = 3800
PROTOCOLS = (
    "isolated", "statistics", "fl", "fl8", "fd", "fld", "mixfld", "mix2fld",
    "dp-statistics", "dp-sum",
)  # fmt: skip


def toy_audit(**fields: object) -> Audit:
    config = toy_grid(protocols=PROTOCOLS, samples_per_device=260, feature_side=1, **fields)
    return Audit(config, toy_dataset(train=TRAIN), SMALL)


@pytest.fixture(scope="module")
def record_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "toy.json"
    toy_audit().run(path)
    return path


def test_an_audit_records_every_stage(record_path: Path) -> None:
    stages = json.loads(record_path.read_text())["stages"]
    assert list(stages) == [stage.name for stage in toy_audit().stages()]
    inverted = stages["seeds/mixed/0.1/s0/inversion"]
    assert inverted["found"] == inverted["of"] > 0
    raw = stages["seeds/raw/1/s0/box"]["0.001"]
    assert raw["seed"]["rate"] == 1
    assert raw["device"]["found"] == raw["seed"]["found"] == 4 * 10
    assert stages["accuracy/isolated/s0"]["uplink_bits"] == 0
    assert set(stages["uploads/s0"]) == {"fl", "fl8", "fd"}
    for name in ("fl", "fl8", "fd"):  # the first round alone, attacked in another way
        first = {**stages["uploads/s0"][name]}
        assert (name == "fd") == (first.pop("by margin", None) is None)
        assert stages[f"rounds/{name}/s0"]["1"] == first
    assert stages["noise/dp-statistics/s0"]["0.01"]["gaussian_epsilon"] <= 8
    assert stages["budget/dp-sum/2:1/s0"]["uplink_bits"] == 8 + 21 * 4 * 7  # sums alone


def test_parameters_behind_a_name_are_those_of_its_stages() -> None:
    names = ("murmur:bits=40", "murmur:bits=400")
    audit = Audit(toy_grid(protocols=names, samples_per_device=260), toy_dataset(TRAIN), SMALL)
    stages = {stage.name: stage for stage in audit.stages()}
    sent = [stages[f"accuracy/{name}/s0"].find()["uplink_bits"] for name in names]
    assert sent == [SMALL.rounds * 40, SMALL.rounds * 400]
    assert distinct_uplinks(names) == {name: name for name in names}
    watched = Watched(audit.ground, 0, [0], SMALL.shadows)
    told = {name: shadows._setting(watched, name).learning.config for name in names}
    assert [config.updates.update_bits for config in told.values()] == [40, 400]


def test_null_experiments_come_out_at_the_stated_rate(record_path: Path) -> None:
    stages = json.loads(record_path.read_text())["stages"]
    for rate in (0.001, 0.01):
        share = pooled(stages, r"seeds/.*/(box|residual)", f"{rate:g}", "null")
        low, _ = share.interval()
        assert share.of == 3 * 4 * 4 * 260
        assert low <= rate
        share = pooled(stages, r"averages/\w+/s0", f"{rate:g}", "null")
        assert share.of == 2 * 4 * 4 * 260
        assert share.interval()[0] <= rate
        share = pooled(stages, "uploads/s0", "fl", f"{rate:g}", "null")
        assert share.of == 4 * 4 * 260
        assert share.interval()[0] <= rate
        share = pooled(stages, "rounds/fl/s0", "2", f"{rate:g}", "null")
        assert share.interval()[0] <= rate


def test_a_finished_audit_computes_nothing_again(record_path: Path) -> None:
    before, told = record_path.read_bytes(), []
    toy_audit().run(record_path, told.append)
    assert not told
    assert record_path.read_bytes() == before


def test_a_record_of_another_audit_is_refused(record_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"holds another audit \(config: .*local_steps = 30, now 7"
    ):
        toy_audit(local_steps=7).run(record_path)


def test_the_page_is_made_from_records(record_path: Path) -> None:
    record = json.loads(record_path.read_text())
    page = privacy_page({"toy.json": record})
    assert "| Mix2FLD | mean outputs and mixed samples, to the server | in mixes" in page
    assert said_of({}) in privacy_page({"toy.json": {**record, "made_with": None}})
    assert said_of(record) in page
    assert "| isolated | nothing | – | nothing is sent |" in page
    own = "own training | "
    assert f"| DP statistics, {own}private statistics, to the server | – | guaranteed" in page
    assert "| – | guaranteed: ε = 8, δ = 1e-05; knowing all samples but one" in page
    assert "the sum of private statistics, to the server | – | guaranteed: ε = 8" in page
    assert f"| Statistics, {own}statistics, to the server | – | statistics " in page
    assert "| DP sum | 2 | 1 |" in page
    assert "### The attacker knows all samples but one" in page
    another = "separation with public samples of another domain"
    assert f"Not in these records: {another}." in page
    assert page.count("### ") == len(set(re.findall("### .*", page))) == 9
    assert "own statistics, which cost" not in page  # which this record does not hold
    weights = re.findall(r"found in its first upload: (.*)", page)
    assert [part.split(" ")[0] for part in weights[0].split(", ")] == ["FL", "FL"]
    without = {name: found for name, found in record["stages"].items() if name != "uploads/s0"}
    page = privacy_page({"toy.json": {**record, "stages": without}})
    assert f"Not in these records: {another}, LiRA on weights and outputs." in page
    assert "| FL | weights, to the server | – | not attacked |" in page


def test_what_an_audit_prints_fits_a_terminal(record_path: Path) -> None:
    stages = json.loads(record_path.read_text())["stages"]
    console = Console(width=80, file=StringIO(), record=True)
    tables = summary_tables(stages)
    for table in tables:
        assert console.measure(table).maximum <= 80  # nothing is cut off
        console.print(table, markup=False)
    shown = console.export_text()
    fl = stages["uploads/s0"]["fl"]["0.001"]["device"]
    (line,) = re.findall("upload of FL  .*", shown)
    assert f"{100 * fl['rate']:.1f} [" in line
    assert "mixes, λ = 0.1, box" in shown
    assert "DP statistics, others known" in shown
    assert re.search(rf"DP sum +{100 * stages['accuracy/dp-sum/s0']['accuracy']:.1f} ", shown)
    without = {name: found for name, found in stages.items() if name.startswith("accuracy/")}
    assert len(summary_tables(without)) == 1 < len(tables)


def test_a_record_says_by_which_command_it_is_made(record_path: Path) -> None:
    record = json.loads(record_path.read_text())
    said = audit_command(record, "toy.json")
    assert said.startswith("mix2fld privacy audit --protocols isolated statistics fl fl8")
    assert "--attacked-devices 4" in said
    assert "--budgets 2:1 --stages seeds recurring recovery averages noise" in said
    assert said.endswith("--out toy.json")


def test_records_of_one_dataset_are_one_section(record_path: Path) -> None:
    record = json.loads(record_path.read_text())
    stages = record["stages"]
    halves = [
        {**record, "stages": {n: f for n, f in stages.items() if n.startswith("acc") == wanted}}
        for wanted in (True, False)
    ]
    (both,) = sections({"a": halves[0], "b": halves[1]})
    (whole,) = sections({"a": record})
    assert both.rows() == whole.rows()
    row = next(row for row in both.rows() if row.name == "mix2fld")
    assert row.accuracy == stages["accuracy/mix2fld/s0"]["accuracy"]
    assert row.leaks["mixed seeds"].of == 4 * 260
    assert row.leaks["outputs"] == pooled(stages, "uploads/s0", "fd", "0.001", "device")
    with pytest.raises(InputError, match=r"two of \w+ hold accuracy/isolated/s0"):
        privacy_page({"a": record, "b": halves[0]})
    other = json.loads(json.dumps(halves[1]))
    other["about"]["config"]["learning"]["local_steps"] = 31
    first, second = sections({"a": halves[0], "b": other})
    assert second.dataset == f"{first.dataset}, local steps 31"
    assert privacy_page({"a": halves[0], "b": other}).count(f"\n## {first.dataset}") == 2
    other["about"]["data"] = {"changed": True}
    with pytest.raises(InputError, match=r"records: b and a name .* samples differ"):
        privacy_page({"a": halves[0], "b": other})


def test_the_panel_has_a_point_for_what_was_attacked_or_is_guaranteed(record_path: Path) -> None:
    points = {point.title: point for point in leak_points([record_path])}
    stages = json.loads(record_path.read_text())["stages"]
    assert points["isolated"].share == 0
    found = stages["uploads/s0"]["fl"]["0.001"]["device"]["rate"]
    assert points["FL"].share == pytest.approx(found, abs=1e-6)
    assert points["DP sum"].bound
    assert points["DP sum"].share == most_true_positives(0.001, 8.0, 1e-5)
    assert points["FLD"].uplink_bits == stages["accuracy/fld/s0"]["uplink_bits"]


def test_only_some_kinds_of_stages(tmp_path: Path) -> None:
    config = toy_grid(protocols=("fl", "mix2fld"), samples_per_device=260)
    dataset = toy_dataset(train=TRAIN)
    audit = Audit(config, dataset, SMALL, ("recurring",))
    assert [stage.name for stage in audit.stages()] == ["recurring/0.1/s0"]
    with pytest.raises(InputError, match=r"stages = 'recuring': .* did you mean 'recurring'"):
        Audit(config, dataset, SMALL, ("recuring",))
    other = tmp_path / "other.npz"
    save_toy_dataset(other)
    assert len(foreign_samples(audit.ground, str(other)).labels) > 0
    arrays = dict(np.load(other))
    np.savez(other, **{**arrays, **{n: arrays[n][:, :4] for n in arrays if "inputs" in n}})
    with pytest.raises(InputError, match=r"foreign = .*must be"):
        foreign_samples(audit.ground, str(other))


def test_the_page_in_the_documentation_is_that_of_its_records() -> None:
    text = (ROOT / "docs" / "privacy.md").read_text()
    (names,) = re.findall(r"^    mix2fld privacy page (.*) --out docs/privacy.md$", text, re.M)
    assert text == privacy_page({name: load_audit(ROOT / name) for name in names.split()})
    assert (ROOT / "docs" / "images" / "privacy.png").stat().st_size > 10_000


def test_the_figure_is_drawn_from_records(record_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "images" / "privacy.png"
    draw_privacy_figure({"toy.json": json.loads(record_path.read_text())}, path)
    assert path.stat().st_size > 10_000


def test_the_ledger_draws_its_verdict_on_mixes_from_audits(record_path: Path) -> None:
    attacked = audited_mixes([record_path])
    (one,) = attacks_on_mixes(attacked)
    assert one.inverted.rate == 1
    assert len(attack_rows(attacked)) == 1
    judged, _ = CLAIMS["C10"]
    part, *_ = judged(Evidence({}, {}, (), attacked))
    found = min(share.rate for share in one.members.values())
    assert part.holds == ("no" if found > 0.05 else "weaker")
    assert f"at least {100 * found:.1f} %" in part.ours
    assert len(judged(Evidence({}, {}, ()))) == 2
    elsewhere = {"smartwatch": next(iter(attacked.values()))}  # not a dataset of the paper
    assert len(judged(Evidence({}, {}, (), elsewhere))) == 2


def test_protocols_with_the_same_upload_share_an_attack() -> None:
    assert distinct_uplinks(PROTOCOLS) == {
        "fl": "fl", "fl8": "fl8", "fd": "fd", "fld": "fd", "mixfld": "fd", "mix2fld": "fd",
    }  # fmt: skip


def test_separated_parts_add_up_to_the_mix_and_improve_with_training() -> None:
    rng = np.random.default_rng(0)
    shapes = rng.random((4, 16)).astype(np.float32)
    labels = np.arange(200, dtype=np.int32) % 4  # enough that every batch of mixes is full
    values = np.clip(shapes[labels] + 0.1 * rng.normal(size=(200, 16)), 0, 1).astype(np.float32)
    public = Candidates(values, labels)
    pairs = np.array([[0, 1], [2, 3], [5, 4]])
    ratio = np.full(3, 0.3, np.float32)
    minor, dominant = values[pairs[:, 0]], values[pairs[:, 1]]
    mixes = 0.3 * minor + 0.7 * dominant
    errors = []
    for steps in (1, 40):
        weights = train_separator(public, 4, steps, seed=0)
        parts = separate(weights, Query(mixes, labels[pairs], ratio), 4)
        np.testing.assert_allclose(0.3 * parts.minor + 0.7 * parts.dominant, mixes, atol=1e-5)
        errors.append(((parts.minor - minor) ** 2).mean())
    assert errors[1] < 0.7 * errors[0]
    np.testing.assert_array_equal(nearest(dominant, values), pairs[:, 1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"outsiders": 500}, r"candidates = 500: .* 0\.1 %"),
        ({"shadows": 3}, "shadows = 3: must be at least 16"),
        ({"devices": 0}, "devices = 0: must be at least 1"),
        ({"outsiders": 2000}, r"outsiders = 2,000: devices leave 2,760"),
        ({"devices": 2}, r"candidates = 520: .* 0\.1 %"),
        ({"trials": 0}, "trials = 0: must be at least 1"),
        ({"attacked_rounds": 0}, "attacked_rounds = 0: must be at least 1"),
    ],
)
def test_bad_input_is_refused_before_anything_is_computed(
    changed: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Audit(
            toy_grid(samples_per_device=260),
            toy_dataset(train=TRAIN),
            replace(SMALL, **changed),
        )


def test_an_audit_of_a_run_whose_data_changed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = save_toy_dataset(tmp_path / "toy.npz")
    run(toy_config(dataset=str(data), rounds=1), tmp_path / "runs")
    arrays = dict(np.load(data))
    arrays["train_inputs"] = 255 - arrays["train_inputs"]
    np.savez(data, **arrays)
    out = tmp_path / "audit.json"
    given = ["privacy", "audit", "--of-run", str(tmp_path / "runs" / "fl-s0"), "--out", str(out)]
    with pytest.raises(SystemExit) as stopped:
        main(given)
    assert stopped.value.code == 2
    assert "the data changed" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [("4", "must be epsilon:feature_side"), ("-1:4", "epsilon = -1"), ("4:0", "feature_side = 0")],
)
def test_budgets_that_make_no_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    data = save_toy_dataset(tmp_path / "toy.npz")
    out = tmp_path / "audit.json"
    with pytest.raises(SystemExit) as stopped:
        main(["privacy", "audit", "--dataset", str(data), "--budgets", text, "--out", str(out)])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
