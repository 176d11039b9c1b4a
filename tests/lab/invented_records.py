"""Invented records: cells whose numbers a test chooses, and whole worlds of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.experiments import EXPERIMENTS, MIXING_RATIOS
from mix2fld_lab.reproduction.step_costs import StepCost

ALL_CELLS = [cell for experiment in EXPERIMENTS.values() for cell in experiment.cells]


@dataclass(frozen=True)
class Shape:
    """What the runs of an invented cell are like; accuracies as fractions."""

    converged: int | None = 3
    jump: float = -0.02
    later: float = 0.01
    seconds: float = 1.0
    downloads: bool = True
    groups: int = 50
    devices: int = 10
    noise: float = 0.001
    bits: int = 9480
    """Of one upload."""


def record(accuracy: float, **shape: Any) -> CellRecord:
    """Five runs of ten rounds: 6400 local and 3200 server steps at the stated cost."""
    like = Shape(**shape)
    runs = [_run(accuracy + like.noise * (seed - 2), seed, like) for seed in range(5)]
    return CellRecord("label", "mix2fld" if like.downloads else "fd", {}, runs)


def _run(reached: float, seed: int, like: Shape) -> dict[str, Any]:
    ends = [reached - like.later * (9 - number) for number in range(10)]
    done, uploads = like.converged or 10, 10 * like.devices
    summary = {
        "rounds": 10,
        "converged_round": like.converged,
        "accuracy": {"mean": reached, "reference": reached, "global": reached - 0.01},
        "uploads": {"attempted": uploads, "delivered": uploads},
        "downloads": {"attempted": uploads, "delivered": uploads},
        "bits": {"up": uploads * like.bits},
        "seconds": {"communication": like.seconds, "computing": 9.6},
        "seconds_to_converge": like.converged
        and {"communication": like.seconds * done / 10, "computing": 0.96 * done},
        "seeds": {"distinct_groups": like.groups},
    }
    return {
        "seed": seed,
        "summary": summary,
        "devices": [reached + 0.01 * like.noise * d for d in range(like.devices)],
        "rounds": {
            "reference": ends,
            "mean": ends,
            "global": [end + like.jump if like.downloads else None for end in ends],
        },
        "curve": _curve(ends, like),
    }


def _curve(ends: list[float], like: Shape) -> dict[str, list[Any]]:
    """Two points of each local phase, and one at each download."""
    events, heights, steps = ["start"], [0.1], [0]
    for number, end in enumerate(ends):
        events += ["local", "local"]
        heights += [heights[-1] if like.downloads else end - like.later + like.jump, end]
        steps += [6400 * number + 3200, 6400 * (number + 1)]
        if like.downloads:
            events.append("download")
            heights.append(end + like.jump)
            steps.append(6400 * (number + 1))
    clock = [0.0] * len(events)
    return {
        "event": events,
        "accuracy": heights,
        "step": steps,
        "communication": clock,
        "computing": clock,
    }


def a_world(**accuracies: float) -> dict[str, CellRecord]:
    """Every cell of every experiment, with the accuracy of the longest matching prefix."""
    world = {}
    for cell in ALL_CELLS:
        short = cell.key.split("/", 1)[1]
        names = [name for name in accuracies if short.replace("-", "_").startswith(name)]
        name = max(names, key=len, default="")
        world[cell.key] = record(
            accuracies.get(name, 0.8),
            converged=8 if cell.protocol == "fl" else 3,
            seconds=1.5 if "50" in short else 1.0,
            downloads=cell.protocol != "fd",
            jump=-0.001 if cell.protocol == "fd" else -0.02,
            devices=cell.changes.get("devices", 10),
            bits={"fl": 401_408, "fd": 3200}.get(cell.protocol, 9480),
        )
    return world


COSTS = (StepCost("air", 0, 0), StepCost("stated", 100, 100))


def privacy(lift: float) -> dict[str, list[dict[str, Any]]]:
    columns = sorted({*paper.INFERRED_COLUMNS, *paper.TABLE_COLUMNS, *MIXING_RATIOS})
    ratios = {
        f"{ratio:g}": {
            "mixup": {"min": float(np.log(ratio))},
            "mix2up": {"min": float(np.log(ratio)) + lift},
        }
        for ratio in columns
    }
    return {"mnist": [{"ratios": ratios}]}


def as_the_paper_says() -> dict[str, CellRecord]:
    world = a_world(
        fl=0.70, fd=0.69, mixfld=0.60, mix2fld_10_10=0.84, mix2fld_10_20=0.85, mix2fld_50_50=0.86,
        mix2fld_50_100=0.88, isolated=0.6, devices_50=0.86, devices=0.8,
    )  # fmt: skip
    for split in ("iid", "non-iid"):
        world[f"symmetric-{split}/fl"] = record(0.885, converged=8, bits=401_408)
    world["symmetric-non-iid/devices-50"] = record(0.82)
    calm = record(0.86)
    for run in calm.runs:
        run["devices"] = [0.86]
    world["symmetric-iid/devices-50"] = calm
    return world
