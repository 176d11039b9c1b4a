"""The section "Ordinary networks" of ``docs/benchmarks.md``, and its targets."""

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.other_models import BY_NAME, conv
from benchmarks.passes import spread
from mix2fld_lab.markdown import markdown_table

RECORD = Path(__file__).parent.parent / "results" / "bench" / "ordinary.json"
SIDES = {
    "engine": "mix2fld",
    "torch": "PyTorch, plain loop",
    "torch-last": "PyTorch, channels last",
    "torch-compiled": "torch.compile",
}
ROWS = {"usual-10": 1.5, "resnet-32": 1.5, "cifar-32": 2.0}
"""How many times faster than the plain loop each model is to be."""
FIRST = {"usual-10": conv(28, 5, 1, 32), "resnet-32": conv(32, 3, 3, 16),
         "cifar-32": conv(32, 3, 3, 32)}  # fmt: skip
"""Multiplications of the first layer, whose inputs need no gradient."""
NAMES = {"avx512": "AVX-512", "avx2": "AVX2"}
TEXT = """\
Milliseconds of one core per SGD step (processor time, of many steps less that of few), each side a process of its own
on the same core, in turn within a pass. A ratio is taken within a pass; above 1, mix2fld is faster. Rows with the
smallest ratio stand first. Of the peak: the arithmetic of forward pass and both gradients, in fused multiply-adds of
this core measured in the same pass. With AVX2, all sides are kept from using AVX-512;
torch.compile is left out there, since its code fails (index out of bounds); what is empty was not measured. Made by
`python -m benchmarks.ordinary` (part of `make bench`)."""


def load_record() -> dict[str, Any]:
    """What was measured last; nothing, if nothing was."""
    if not RECORD.exists():
        return {"rows": {}}
    found: dict[str, Any] = json.loads(RECORD.read_text())
    return found


def speed_ups(record: dict[str, Any], row: str, side: str = "torch") -> list[float]:
    """How many times as long a side takes as the engine, pass by pass."""
    found = record["rows"][row]
    others = found.get(side, [])
    return [other / own for other, own in zip(others, found["engine"], strict=False)]


def shares(record: dict[str, Any], row: str) -> list[float]:
    """Per cent of the peak that the engine's steps reach, pass by pass."""
    name = row.split(maxsplit=1)[0]
    model = BY_NAME[name]
    flops = 2 * model.batch_size * (3 * model.multiplications - FIRST[name])
    found = record["rows"][row]
    return [
        100 * flops / (own * 1e6) / peak
        for own, peak in zip(found["engine"], found["peak"], strict=True)
    ]


def section() -> str:
    """The table."""
    record = load_record()
    if not record["rows"]:
        return "Not measured."
    names = sorted(record["rows"], key=lambda row: statistics.median(speed_ups(record, row)))
    rivals = [side for side in SIDES if side != "engine"]
    head = (
        "model, batch",
        "instructions",
        *(f"{title}, ms" for title in SIDES.values()),
        *(f"× {SIDES[side]}" for side in rivals),
        "% of peak",
    )
    rows = []
    for row in names:
        name, instructions = row.split()
        found, model = record["rows"][row], BY_NAME[name]
        rows.append((
            f"{model.title}, {model.batch_size}",
            f"{NAMES[instructions]}, {statistics.median(found['peak']):.0f} GFLOP/s",
            *(spread(found.get(side, []), 1) for side in SIDES),
            *(spread(speed_ups(record, row, side), 2) for side in rivals),
            spread(shares(record, row), 0),
        ))  # fmt: skip
    machine = record["machine"]
    versions = machine["versions"]
    passes = len(record["rows"][names[0]]["engine"])
    told = (
        f"Median of {passes} passes, smallest and largest in brackets. {machine['cpu']} "
        f"({', '.join(machine['flags'])}), {machine['compiler']}; jax {versions['jax']}, torch "
        f"{versions['torch']}; load average {record['load']:.1f}."
    )
    return "\n\n".join([TEXT, markdown_table(head, rows), told])


def targets() -> list[tuple[str, float, bool, str]]:
    """Aim, median, whether it is met, and unit."""
    record, found = load_record(), []
    for row in record["rows"]:
        name, instructions = row.split()
        ratio = statistics.median(speed_ups(record, row))
        aim = f"{BY_NAME[name].title}, {NAMES[instructions]}: at least {ROWS[name]:g} × faster"
        found.append((f"{aim} than a plain PyTorch loop", ratio, ratio >= ROWS[name], "×"))
    return found
