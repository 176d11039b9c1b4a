"""The section "Other models" of ``docs/benchmarks.md``, and the targets that go with it."""

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.other_models import BY_NAME, OTHER_MODELS, OtherModel
from benchmarks.passes import ratios, spread, values
from benchmarks.table import OTHER_CHECK_STEPS, SIDES
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table

RECORD = Path(__file__).parent.parent / "results" / "bench" / "other_models.json"
ENGINE, LOOP, STEPPER = SIDES
SMALL_WEIGHTS, SMALL_BATCH = 100_000, 10
TEXT = """\
Local phases of four devices, both cores busy, microseconds of one core per SGD step. Models are as
their authors write them: a Flax module, or a network of the package; in the PyTorch columns the
same network as a PyTorch module, in a plain training loop with one process per core and through this
engine's PyTorch stepper. All sides of a row are measured side by side. Samples are noise, since no
time depends on them. Testing is the share of the machine's fused multiply-adds (of all cores at
once, measured right after it) that this engine's evaluation of the model reaches.
`make bench ARGS="--models"` measures this section alone, `ARGS="--models mlp-32"` one row of it."""


def section() -> str:
    """The table of other models."""
    record = load_record()
    measured = [model for model in OTHER_MODELS if values(record, name_of(model, ENGINE))]
    if not measured:
        return "Not measured."
    head = (
        "model, batch, optimiser",
        "weights",
        *(f"{title}, µs" for title in SIDES.values()),
        "× faster than the loop",
        "module: × the loop",
        "testing, % of peak",
    )
    measured.sort(
        key=lambda model: statistics.median(
            ratios(record, name_of(model, LOOP), name_of(model, ENGINE))
        )
    )  # what is slowest beside PyTorch stands first
    rows = [_row(record, model) for model in measured]
    notes = [_same_work(record, measured), _machine(record)]
    return "\n\n".join([TEXT, markdown_table(head, rows), *notes])


def load_record() -> dict[str, Any]:
    """What was measured last; nothing, if nothing was."""
    if not RECORD.exists():
        return {"records": []}
    found: dict[str, Any] = json.loads(RECORD.read_text())
    return found


def _same_work(record: dict[str, Any], measured: list[OtherModel]) -> str:
    names = [name_of(model, side) for model in measured for side in SIDES]
    largest = max(record["checks"][name] for name in names if name in record["checks"])
    return (
        f"Same work: after {OTHER_CHECK_STEPS} steps the mean weights of all sides differ from "
        f"those of plain JAX by at most {largest:.0e}."
    )


def _machine(record: dict[str, Any]) -> str:
    machine = record["machine"]
    peaks = [row["peak_gflops"] for row in record["records"] if row.get("peak_gflops")]
    loads = [row["load_before"] for row in record["records"]]
    return (
        f"Median of {record['passes']} passes, smallest and largest in brackets. Measured on "
        f"{machine['cpu']}, {machine['cores']} cores, {spread(peaks, 0)} GFLOP/s; jax "
        f"{machine['versions']['jax']}, torch {machine['versions']['torch']}; load average before "
        f"a measurement: {spread(loads)}. {said_of(record)}"
    )


def _row(record: dict[str, Any], model: OtherModel) -> tuple[str, ...]:
    loop, stepper = name_of(model, LOOP), name_of(model, STEPPER)
    return (
        f"{model.title}, {model.batch_size}, {model.optimizer}",
        f"{model.weights:,}",
        *(spread(values(record, name_of(model, side)).values(), 0) for side in SIDES),
        spread(ratios(record, loop, name_of(model, ENGINE)), 2),
        spread(ratios(record, stepper, loop), 2),
        spread(testing_shares(record, model), 0),
    )


def targets() -> list[tuple[str, float, bool, str]]:
    """Aim, worst median, whether it is met, and unit."""
    record, found = load_record(), []
    faster = {
        model: statistics.median(speed)
        for model in OTHER_MODELS
        if (speed := ratios(record, name_of(model, LOOP), name_of(model, ENGINE)))
    }
    small = [
        ratio
        for model, ratio in faster.items()
        if model.weights < SMALL_WEIGHTS and model.batch_size <= SMALL_BATCH
    ]
    if faster:
        worst = min(faster.values())
        found.append(
            ("other models: never slower than a plain PyTorch loop", worst, worst >= 1, "×")
        )
    if small:
        aim = f"below {SMALL_WEIGHTS:,} weights with batch ≤ {SMALL_BATCH}: at least 2 × faster"
        found.append((aim, min(small), min(small) >= 2, "×"))
    modules = [
        statistics.median(slower)
        for model in OTHER_MODELS
        if (slower := ratios(record, name_of(model, STEPPER), name_of(model, LOOP)))
    ]
    if modules:
        aim = "PyTorch modules: within 5 % of a plain loop"
        found.append((aim, max(modules), max(modules) <= 1.05, "×"))
    if shares := testing_shares(record, BY_NAME["paper-1"]):
        share = statistics.median(shares)
        aim = "evaluation of the paper's network at 60 % of the machine's fused multiply-adds"
        found.append((aim, share, share >= 60, "%"))
    return found


def testing_shares(record: dict[str, Any], model: OtherModel) -> list[float]:
    """Per cent of the peak that evaluation reaches, pass by pass."""
    rows = [row for row in record["records"] if row["name"] == name_of(model, ENGINE)]
    cores = record["machine"]["cores"] if rows else 0
    # Both are of all cores: a time counts every core.
    return [
        100 * 2e-3 * model.multiplications / row["us_per_test_image"] / (row["peak_gflops"] / cores)
        for row in rows
        if row["peak_gflops"]
    ]


def name_of(model: OtherModel, side: str) -> str:
    """The contender that measures a model."""
    return f"{model.name}-{side}"
