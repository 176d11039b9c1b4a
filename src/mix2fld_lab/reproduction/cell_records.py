"""The records of an experiment: small enough to commit, enough to draw and to judge."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic
from mix2fld.runs.summary import device_scores
from mix2fld_lab.made_with import made_with
from mix2fld_lab.reproduction.experiments import Experiment, Scale

if TYPE_CHECKING:  # a record is read without the simulator
    from mix2fld.runs.results import RunResult

FORMAT = 1
CURVE = ("step", "accuracy", "event", "communication", "computing")
IN_RUNS = {"accuracy": "score"}
Recorded = Mapping[str, Mapping[int, dict[str, Any]]]
"""Records of runs, by the key of their cell and by seed."""


@dataclass(frozen=True)
class CellRecord:
    """The runs of one cell, one for each seed."""

    label: str
    protocol: str
    changes: dict[str, Any]
    runs: list[dict[str, Any]]

    def values(self, *path: str) -> NDArray[np.float64]:
        """One number of every run, by its place in the record: [seeds]."""
        return np.array([_at(run, path) for run in self.runs], dtype=np.float64)

    def total(self, *path: str) -> float:
        """The same number, summed over all runs."""
        return float(self.values(*path).sum())

    @property
    def seeds(self) -> list[int]:
        """The seed of every run."""
        return [run["seed"] for run in self.runs]

    @property
    def rounds(self) -> int:
        """How many rounds each run has."""
        return int(self.runs[0]["summary"]["rounds"])

    @property
    def devices(self) -> int:
        """How many devices each run has."""
        return len(self.runs[0]["devices"])


def shrink(result: "RunResult") -> dict[str, Any]:
    """The record of one run."""
    summary = {
        "accuracy" if name == "scores" else name: value
        for name, value in result.summary.items()
        if name != "format"
    }
    summary["accuracy"] = {of: v for of, v in summary["accuracy"].items() if of != "metric"}
    record: dict[str, Any] = {
        "seed": result.config.seed,
        "made_with": made_with(),
        "summary": summary,
        "devices": result.rounds[-1]["scores"]["devices"],
        "rounds": {
            "mean": _mean_accuracies(result),
            "reference": [info["scores"]["reference"] for info in result.rounds],
            "global": [info["scores"]["global"] for info in result.rounds],
            "delivered": [info["uploads"]["delivered"] for info in result.rounds],
            "change": [_rounded(info["change"]) for info in result.rounds],
        },
    }
    if result.config.curve_points > 1:
        points = [point for info in result.rounds for point in info["curve"]]
        record["curve"] = {
            name: [_rounded(point[IN_RUNS.get(name, name)]) for point in points] for name in CURVE
        }
    return record


def recorded_runs(path: Path, experiment: Experiment, scale: Scale) -> Recorded:
    """The runs in existing records whose cell has the same settings now, by key and seed."""
    if not path.exists():
        return {}
    found, made_at = _read(path)
    if made_at != scale.name:
        raise InputError(
            f"{path}: records of {made_at} runs, not of {scale.name} ones; choose another --results"
        )
    return {
        cell.key: {run["seed"]: run for run in found[cell.key].runs}
        for cell in experiment.cells
        if cell.key in found and found[cell.key].changes == json.loads(json.dumps(cell.changes))
    }


def save_records(
    path: Path,
    experiment: Experiment,
    scale: Scale,
    results: "Mapping[str, Sequence[RunResult]]",
    recorded: Recorded | None = None,
) -> None:
    """Write the records of an experiment, with those recorded before; a run is a line."""
    cells = []
    for cell in experiment.cells:
        about = {"label": cell.label, "protocol": cell.protocol, "changes": cell.changes}
        head = json.dumps(about, ensure_ascii=False)[:-1]
        by_seed = dict((recorded or {}).get(cell.key, {}))
        by_seed |= {result.config.seed: shrink(result) for result in results[cell.key]}
        runs = ",\n".join(json.dumps(by_seed[seed]) for seed in sorted(by_seed))
        cells.append(f'{json.dumps(cell.key)}: {head}, "runs": [\n{runs}\n]}}')
    head = json.dumps({"format": FORMAT, "experiment": experiment.name, "scale": scale.name})[:-1]
    path.parent.mkdir(parents=True, exist_ok=True)
    body = ",\n".join(cells)
    write_atomic(path, f'{head}, "cells": {{\n{body}\n}}}}\n'.encode())


def load_records(path: Path) -> dict[str, CellRecord]:
    """The cells of one experiment, by key."""
    return _read(path)[0]


def _read(path: Path) -> tuple[dict[str, CellRecord], str]:
    """The cells of one experiment, and the name of the scale that they were run at."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["format"] != FORMAT:
            raise InputError(f"{path}: format {tree['format']}, this version reads {FORMAT}")
        return {key: CellRecord(**cell) for key, cell in tree["cells"].items()}, tree["scale"]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not the records of an experiment ({error})") from None


def _at(tree: Any, path: Sequence[str]) -> Any:
    for name in path:
        tree = None if tree is None else tree[name]
    return tree


def _mean_accuracies(result: "RunResult") -> list[Any]:
    """Of all devices after each round; None where only the reference device was measured."""
    means = [_rounded(np.mean(device_scores(info["scores"]))) for info in result.rounds]
    if result.config.evaluated_rounds == "last":
        return [*[None] * (len(means) - 1), means[-1]]
    return means


def _rounded(value: Any) -> Any:
    """Microseconds and millionths are enough, and keep the records small."""
    return round(float(value), 6) if isinstance(value, (float, np.floating)) else value
