"""Tasks: any loss and metric through FL, updates and records, against an oracle in plain NumPy."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from reliability.faults import Quiet

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.engine.device_turn import local_draws
from mix2fld.models import from_torch
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.report.series import common_metric
from mix2fld.runs import checkpoint, records
from mix2fld.runs.reader import read_run
from mix2fld.runs.simulation import make_simulation, resume_run
from mix2fld.tasks.base import Task, scored
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.metric import ACCURACY, Metric
from mix2fld.tasks.table import task_for
from mix2fld.types import Dataset, Model
from stored_runs import contents
from toys import toy_config, toy_dataset

RATE, FEATURES = 0.05, 6


class Line(Task):
    """Two numbers at once, by squared loss."""

    name = "line"
    metric = Metric("RMSE", better="lower", unit="cm", factor=100.0, digits=2)
    outputs = 2

    def loss(self, outputs, targets):
        return jnp.mean(jnp.sum((outputs - targets) ** 2, axis=1))

    def torch_loss(self, outputs, targets):  # type: ignore[override]
        return ((outputs - targets) ** 2).sum(dim=1).mean()

    def score(self, outputs, targets):
        return np.sum((outputs - targets) ** 2, dtype=np.float64)

    def measure(self, sums, samples):
        return float(np.sqrt(sums[0] / samples))


LINE = Line()


def numbers(**changed) -> Dataset:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, FEATURES)).astype(np.float32)
    targets = inputs @ rng.normal(size=(FEATURES, 2)) + 0.1 * rng.normal(size=(200, 2))
    fields = {
        "train_inputs": inputs[:150],
        "train_targets": targets[:150],
        "test_inputs": inputs[150:],
        "test_targets": targets[150:],
        "train_sources": np.arange(150) % 3,
    }
    return Dataset("numbers", **{**fields, **changed})


def linear() -> Model:
    def init(key):
        del key
        return {"bias": jnp.zeros(2), "kernel": jnp.zeros((FEATURES, 2))}

    return Model("linear", init, lambda w, x: x @ w["kernel"] + w["bias"])


def config_of(**fields) -> Config:
    plain = {
        "protocol": "fl", "partition": "iid", "devices": 3, "samples_per_device": 40, "rounds": 3,
        "local_steps": 12, "batch_size": 2, "learning_rate": RATE, "link": "ideal",
    }  # fmt: skip
    return Config.of(**{**plain, **fields})


def grid_of(protocols: tuple[str, ...]) -> mix2fld.Grid:
    return mix2fld.Grid.of_run(config_of(local_steps=40)).replace(protocols=protocols)


def plain_steps(
    weights: list[NDArray], inputs: NDArray, targets: NDArray, draws: NDArray
) -> list[NDArray]:
    """Gradient descent on the mean of |x A + b - y|^2."""
    bias, kernel = weights
    for rows in draws:
        error = 2 * (inputs[rows] @ kernel + bias - targets[rows]) / len(rows)
        bias, kernel = bias - RATE * error.sum(axis=0), kernel - RATE * inputs[rows].T @ error
    return [bias, kernel]


def test_fl_learns_the_numbers_of_the_oracle() -> None:
    data, config = numbers(), config_of(samples_spread=0.5, samples_per_device=25)
    simulation = make_simulation(config, data, linear(), task=LINE)
    state, learning = simulation.start(), simulation.scenario.learning
    x, y = data.train_inputs.astype(np.float64), data.train_targets.astype(np.float64)
    parts = simulation.fleet.parts
    assert len({len(part) for part in parts}) > 1
    model = [np.zeros(2), np.zeros((FEATURES, 2))]
    for number in range(1, 4):
        state, info = simulation.run_round(state)
        trained = [
            plain_steps(model, x, y, part[local_draws(learning, number, device, len(part))])
            for device, part in enumerate(parts)
        ]
        shares = np.array([len(part) for part in parts]) / sum(map(len, parts))
        model = [
            sum(share * w for share, w in zip(shares, column, strict=True))
            for column in zip(*trained, strict=True)
        ]
        for mine, theirs in zip(model, state.server.weights, strict=True):
            np.testing.assert_allclose(theirs, mine, rtol=0, atol=1e-5)
        models = [*trained, model]
        shown = [*info.scores["devices"], info.scores["global"]]
        for weights, score in zip(models, shown, strict=True):
            found = data.test_inputs @ weights[1] + weights[0] - data.test_targets
            assert score == pytest.approx(np.sqrt((found**2).sum() / 50), abs=1e-5)


def test_modules_of_pytorch_learn_the_same() -> None:
    """With a loss in PyTorch; without one, the task and the model are both named."""
    module = from_torch(lambda: torch.nn.Linear(FEATURES, 2))
    start = [np.zeros((2, FEATURES), np.float32), np.zeros(2, np.float32)]
    ends = []
    for model, turned in ((linear(), False), (module, True)):
        simulation = make_simulation(config_of(rounds=1), numbers(), model, task=LINE)
        learning = simulation.scenario.learning
        begun = tuple(start) if turned else (start[1], start[0].T)
        stepper = learning.stepper
        own = LINE.samples(numbers().train_inputs, numbers().train_targets)
        loss = LINE.local_loss(simulation.scenario.protocol.local_loss)
        from mix2fld.tasks.stepper import Start, Watch

        draws = [local_draws(learning, 1, device, 150) for device in range(2)]
        begin = [Start(begun, np.zeros((1, 2), np.float32))] * 2
        learned = stepper.train(loss, stepper.hold(own), begin, draws, Watch(0, (12,)))
        for phase in learned.phases:
            weights = phase.weights[::-1] if turned else phase.weights
            ends.append([weights[0], weights[1].T if turned else weights[1]])
            np.testing.assert_allclose(phase.label_counts, [24])
            ends[-1].append(np.asarray(phase.output_sums))
    for one, other in zip(ends[:2], ends[2:], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)

    class Plain(Line):
        torch_loss = None

    with pytest.raises(InputError, match=r"Linear: PyTorch cannot differentiate the loss 'line'"):
        mix2fld.run(config_of(), dataset=numbers(), model=module, task=Plain())


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
    st.sampled_from([LINE, Classification(4)]),
)
def test_sums_of_parts_add_up(sizes: list[int], seed: int, task: Task) -> None:
    rng, count = np.random.default_rng(seed), sum(sizes)
    outputs = rng.normal(size=(count, task.outputs)).astype(np.float32)
    values = rng.integers(4, size=count) if task.by_label else rng.normal(size=(count, 2))
    targets = task.targets(values)
    ends = np.cumsum([0, *sizes])
    parts = [slice(a, b) for a, b in pairwise(ends)]
    added = np.sum([scored(task, outputs[part], targets[part]) for part in parts], axis=0)
    whole = task.measure(scored(task, outputs, targets), count)
    assert task.measure(added, count) == pytest.approx(whole, rel=1e-6)
    if task.by_label:
        assert whole == np.mean(outputs.argmax(axis=1) == values)


def test_a_stepper_counts_what_the_task_would() -> None:
    data, task = toy_dataset(), Classification(4)
    simulation = make_simulation(toy_config(protocol="fl"), data)
    _, info = simulation.run_round(simulation.start())
    stepper = simulation.scenario.learning.stepper
    tests = simulation.fleet._tests
    weights = simulation.scenario.learning.initial_weights(0)
    sums = scored(task, stepper.logits(weights, data.test_inputs), task.targets(data.test_labels))
    assert task.scores(sums, len(data.test_labels)) == tests.scores([weights])[0]
    assert info.scores["metric"]["name"] == "accuracy"


def needs(row: Protocol) -> str:
    if row.needs_labels:
        return "labels"
    if row.needs_groups:
        return "labels or bins of a number"
    return "a closed form" if row.needs_closed_form else ""


@pytest.mark.parametrize("protocol", [name for name, row in PROTOCOLS.items() if row.once])
def test_what_is_uploaded_once_needs_more_than_a_loss(protocol: str) -> None:
    assert needs(PROTOCOLS[protocol])


@pytest.mark.parametrize("protocol", [n for n, row in PROTOCOLS.items() if needs(row)])
def test_protocols_without_meaning_are_refused_by_name(protocol: str) -> None:
    words = rf"{protocol}: needs {needs(PROTOCOLS[protocol])}, and the task line has none"
    with pytest.raises(InputError, match=words):
        mix2fld.run(config_of(protocol=protocol), dataset=numbers(), model=linear(), task=LINE)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attack": "label-shift", "attackers": 1}, "falsifies labels"),
        ({"logit_adjustment": 1.0}, "logit_adjustment = 1.0: is by label"),
    ],
)
def test_settings_of_labels_are_refused(fields, words) -> None:
    with pytest.raises(InputError, match=words):
        mix2fld.run(config_of(**fields), dataset=numbers(), model=linear(), task=LINE)


def test_a_dataset_and_its_task_must_agree() -> None:
    assert task_for(numbers(), None).name == "regression"
    with pytest.raises(InputError, match="classification: learns labels"):
        task_for(numbers(), Classification(4))
    with pytest.raises(InputError, match="line: learns numbers"):
        task_for(toy_dataset(), LINE)
    assert task_for(toy_dataset(), None) == Classification(4)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"train_targets": np.full((150, 2), np.nan)}, "sample 0 is not finite"),
        ({"train_targets": np.ones((150, 2))}, "all are the same"),
        ({"train_targets": np.ones((149, 2))}, "one row for each of 150 samples"),
        ({"test_targets": np.ones(50)}, r"\[\] each; training targets are \[2\]"),
        ({"test_targets": None}, "test_targets"),
        ({"train_labels": np.zeros(150, int)}, "labels or targets, not both"),
    ],
)
def test_targets_that_are_none_are_refused(changed, words) -> None:
    with pytest.raises(InputError, match=words):
        numbers(**changed)


def test_each_source_is_a_device_for_any_target() -> None:
    config = config_of(partition="by-source", measured_on="validation")
    simulation = make_simulation(config, numbers(), linear(), task=LINE)
    for device, part in enumerate(simulation.fleet.parts):
        assert set(part % 3) == {device}
    _, info = simulation.run_round(simulation.start())
    assert np.isfinite(info.scores["devices"]).all()


def test_the_metric_is_shown_wherever_a_run_is(tmp_path: Path) -> None:
    config = grid_of(("isolated", "fl", "murmur"))
    results = mix2fld.run(config, tmp_path, dataset=numbers(), model=linear(), task=LINE)
    alone, fl, murmur = results
    assert all(r.summary["scores"]["metric"]["name"] == "RMSE" for r in results)
    assert 0.15 < fl.summary["scores"]["global"] < alone.summary["scores"]["mean"] < 2
    assert f"RMSE {100 * murmur.summary['scores']['mean']:.2f} cm" in repr(results)
    frame = mix2fld.load_runs(tmp_path, rows="devices")
    assert frame["RMSE"].notna().all()
    assert "RMSE/mean" in mix2fld.load_runs(tmp_path).columns
    assert "accuracy" not in (tmp_path / "fl-s0" / "rounds.jsonl").read_text()
    html = alone._repr_html_()
    assert "RMSE of devices" in html
    assert "%" not in html.split("<td>")[1]
    again = mix2fld.run(config, tmp_path, dataset=numbers(), model=linear(), task=LINE)
    assert [r.summary for r in again] == [r.summary for r in results]


def test_the_report_puts_the_lowest_first(tmp_path: Path) -> None:
    from mix2fld.report.page_data import page_data
    from mix2fld.runs.reader import read_runs

    config = grid_of(("isolated", "fl"))
    mix2fld.run(config, tmp_path / "line", dataset=numbers(), model=linear(), task=LINE)
    data = page_data(read_runs([tmp_path]))
    view = data["views"]["finished"]
    best = [view["series"][n]["title"] for n in view["settings"][0]["best"]["score"]]
    assert best == ["FL"]
    assert view["settings"][0]["tiles"][0]["question"] == "Lowest RMSE"
    assert "FL reaches" in view["conclusion"]
    assert "cm of RMSE over devices that learn alone" in view["conclusion"]
    assert data["charts"]["curves"]["measures"]["devices"]["title"] == "mean RMSE of devices"
    mix2fld.run(toy_config(protocol="fl", rounds=1), tmp_path / "labels", dataset=toy_dataset())
    with pytest.raises(InputError, match=r"RMSE and accuracy|accuracy and RMSE"):
        common_metric(read_runs([tmp_path]).runs)


def test_another_task_does_not_resume_a_run(tmp_path: Path) -> None:
    class Other(Line):
        name = "other line"

    mix2fld.run(config_of(), tmp_path, dataset=numbers(), model=linear(), task=LINE)
    with pytest.raises(InputError, match=r"different task \(line; now other line\)"):
        mix2fld.run(config_of(), tmp_path, dataset=numbers(), model=linear(), task=Other())


def test_records_of_format_3_are_of_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mix2fld.run(toy_config(protocol="fl", rounds=2), tmp_path, dataset=toy_dataset())
    folder = tmp_path / "fl-s0"
    now = records.read_records(folder / "rounds.jsonl").rounds
    assert now[0]["scores"]["metric"]["name"] == "accuracy"
    before, lines = records.START, []
    monkeypatch.setattr(records, "FORMAT", 3)
    for info in now:
        old = {("accuracy" if k == "scores" else k): v for k, v in info.items()}
        old["accuracy"] = {k: v for k, v in info["scores"].items() if k != "metric"}
        old["curve"] = [
            {("accuracy" if k == "score" else k): v for k, v in point.items()}
            for point in info["curve"]
        ]
        line, before = records.write_line(old, before)
        lines.append(line)
    monkeypatch.undo()
    (folder / "rounds.jsonl").write_bytes(b"".join(lines))
    assert json.loads(lines[0])["format"] == 3
    (folder / "summary.json").unlink()
    run = read_run(folder)
    assert run is not None
    assert run.rounds == now
    assert run.metric == ACCURACY


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_metric_knows_its_direction(better) -> None:
    metric = Metric("m", better, unit="J", factor=1000.0, digits=1)
    assert metric.text(0.01234) == "12.3 J"
    assert metric.number(0.5) == "500.0"
    assert metric.best([1.0, 3.0, 2.0]) == (3.0 if better == "higher" else 1.0)
    assert (metric.gain(2.0) > metric.gain(1.0)) == (better == "higher")
    with pytest.raises(InputError, match="must be higher or lower"):
        Metric("m", "more")


def test_doubt_is_the_tasks_own() -> None:
    assert "no better than guessing one of 4 labels" in (Classification(4).doubt(0.3) or "")
    assert Classification(4).doubt(0.32) is None
    assert LINE.doubt(1e9) is None


def test_checkpoints_of_format_3_are_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold accuracies where today's hold scores."""
    config, data = toy_config(protocol="fl", rounds=3), toy_dataset()
    simulation = make_simulation(config, data)
    state, _ = simulation.run_round(simulation.start())

    class Then:
        def tree(self):
            tree = state.tree()
            roster = dict(tree["roster"])
            return {**tree, "roster": {"accuracies": roster.pop("scores"), **roster}}

    monkeypatch.setattr(checkpoint, "FORMAT", 3)
    stored = checkpoint.dump_checkpoint(Then(), "", {})
    monkeypatch.undo()
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(stored)
    assert b"accuracies" in stored
    found = checkpoint.load_checkpoint(path, simulation.start()).state(simulation.start())
    np.testing.assert_array_equal(found.roster.scores, state.roster.scores)
    assert checkpoint.read_checkpoint(path)[0]["round"] == 1


def test_a_folder_of_runs_may_be_text(tmp_path: Path) -> None:
    mix2fld.run(config_of(), str(tmp_path / "runs"), dataset=numbers(), model=linear(), task=LINE)
    assert (tmp_path / "runs" / "fl-s0" / "summary.json").exists()


def test_a_model_with_other_outputs_is_refused_in_words_of_the_task() -> None:
    model = replace(
        linear(), name="three", apply=lambda w, x: jnp.zeros((len(x), 3)) + w["bias"][0]
    )
    for task, words in ((LINE, "the task line needs 2"), (None, "each target is 2 numbers")):
        with pytest.raises(InputError, match=f"model three returns 3 outputs, {words}"):
            mix2fld.run(config_of(), dataset=numbers(), model=model, task=task)


def test_a_run_of_a_program_is_not_resumed_with_what_its_config_names(tmp_path: Path) -> None:
    """Data, model and task that a program gave are in no config: another run must not begin."""
    with pytest.raises(KeyboardInterrupt):
        mix2fld.run(
            grid_of(("fl",)), tmp_path, dataset=numbers(), model=linear(), task=LINE,
            watcher=Quiet(1),
        )  # fmt: skip
    folder = tmp_path / "fl-s0"
    before = contents(folder)
    given = r"data changed.*different model \(linear.*different task \(line;.*data, model and task"
    with pytest.raises(InputError, match=given):
        resume_run(folder, toy_dataset())
    assert contents(folder) == before
