"""The section "Other models" of ``docs/benchmarks.md``, and the targets that go with it."""

import statistics
from typing import Any

from benchmarks.other_models import BY_NAME, OTHER_MODELS, OtherModel
from benchmarks.passes import ratios, spread, values
from benchmarks.table import OTHER_CHECK_STEPS, SIDES
from mix2fld.report.markdown import markdown_table

ENGINE, LOOP, STEPPER = SIDES
SMALL_WEIGHTS, SMALL_BATCH = 100_000, 10
TEXT = """\
Local phases of four devices, both cores busy, microseconds of one core per SGD step. Models are as
their authors write them: a Flax module, or a network of the package; in the PyTorch columns the
same network as a PyTorch module, in a plain training loop with a process to a core and through this
engine's PyTorch stepper. Samples are noise, since no time depends on them. Testing is the share of
the machine's fused multiply-adds (of all cores at once, measured in the same pass) that this
engine's evaluation of the model reaches."""


def section(record: dict[str, Any]) -> str:
    """The table of other models."""
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
    rows = [_row(record, model) for model in measured]
    checks = [
        record["checks"][name_of(model, side)]
        for model in measured
        for side in SIDES
        if name_of(model, side) in record["checks"]
    ]
    note = (
        f"Same work: after {OTHER_CHECK_STEPS} steps the mean weights of all sides differ from those "
        f"of plain JAX by at most {max(checks, default=0.0):.0e}. Peak: "
        f"{spread(values(record, 'peak', 'gflops').values(), 0)} GFLOP/s."
    )
    return "\n\n".join([TEXT, markdown_table(head, rows), note])


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


def targets(record: dict[str, Any]) -> list[tuple[str, float, bool, str]]:
    """Aim, worst median, whether it is met, and unit."""
    found = []
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
    times = values(record, name_of(model, ENGINE), "us_per_test_image")
    peaks = values(record, "peak", "gflops")
    # Both are of all cores: a time counts every core.
    return [
        100 * 2 * model.multiplications / (times[number] * 1e3) / (peaks[number] / cores(record))
        for number in times
        if number in peaks
    ]


def cores(record: dict[str, Any]) -> int:
    """Cores of the machine that was measured."""
    found: int = record["machine"]["cores"]
    return found


def name_of(model: OtherModel, side: str) -> str:
    """The contender that measures a model."""
    return f"{model.name}-{side}"
