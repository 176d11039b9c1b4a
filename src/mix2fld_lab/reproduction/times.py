"""Times to converge under different costs of a step, and what a global update does."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.statistics import Measure
from mix2fld_lab.reproduction.step_costs import STATED_STEP_US, StepCost

CLOSE_TO_FINAL = 0.01


@dataclass(frozen=True)
class Ratio:
    """How many times longer one cell takes than another; a lower bound if some never converged."""

    value: float
    at_least: bool

    def __str__(self) -> str:
        return f"{'≥ ' if self.at_least else ''}{self.value:.2f}"


def seconds_to_converge(cell: CellRecord, cost: StepCost) -> NDArray[np.float64]:
    """Until the stopping rule fired: [seeds]; nan where it did not."""
    return np.array(
        [
            np.nan
            if run["summary"]["converged_round"] is None
            else _seconds(run, "seconds_to_converge", run["summary"]["converged_round"], cost)
            for run in cell.runs
        ]
    )


def times_longer(slow: CellRecord, fast: CellRecord, cost: StepCost) -> Ratio:
    """Ratio of mean times to converge; a run that never did counts with all its rounds."""
    ratio = _mean_seconds(slow, cost) / _mean_seconds(fast, cost)
    unfinished = bool(np.isnan(seconds_to_converge(slow, cost)).any())
    return Ratio(ratio, at_least=unfinished)


def converged_rounds(cell: CellRecord) -> list[int | None]:
    """The round in which the stopping rule fired, for every seed."""
    return [run["summary"]["converged_round"] for run in cell.runs]


def rounds_to_final(cell: CellRecord) -> NDArray[np.float64]:
    """Rounds until the reference device stayed within a point of its last accuracy: [seeds]."""
    rounds = []
    for run in cell.runs:
        accuracies = np.array(run["rounds"]["reference"])
        far = np.flatnonzero(np.abs(accuracies - accuracies[-1]) > CLOSE_TO_FINAL)
        rounds.append(far[-1] + 2 if len(far) else 1)
    return np.array(rounds, dtype=np.float64)


def _mean_seconds(cell: CellRecord, cost: StepCost) -> float:
    fired = seconds_to_converge(cell, cost)
    in_all = [_seconds(run, "seconds", run["summary"]["rounds"], cost) for run in cell.runs]
    return float(np.where(np.isnan(fired), in_all, fired).mean())


def steps_per_round(cell: CellRecord) -> tuple[float, float]:
    """SGD steps of a device and of the server in a round, from the first run's record."""
    run, rounds = cell.runs[0], cell.rounds
    device, server = _steps(run, "seconds", rounds)
    return device / rounds, server / rounds


def _seconds(run: dict[str, Any], name: str, rounds: int, cost: StepCost) -> float:
    """Computing time at other costs: the record holds it at the stated cost for all steps."""
    device_steps, server_steps = _steps(run, name, rounds)
    computing = device_steps * cost.device_us + server_steps * cost.server_us
    return float(run["summary"][name]["communication"] + computing / 1e6)


def _steps(run: dict[str, Any], name: str, rounds: int) -> tuple[float, float]:
    """Steps of a device and of the server in so many rounds, from their recorded cost."""
    device_steps = rounds * run["curve"]["step"][-1] / run["summary"]["rounds"]
    computing = run["summary"][name]["computing"]
    return device_steps, computing * 1e6 / STATED_STEP_US - device_steps


@dataclass(frozen=True)
class Jump:
    """What a global update does to the reference device's accuracy, in points."""

    at_update: float
    after_next_phase: float
    count: int


def jumps(cell: CellRecord, measure: Measure = "reference") -> Jump:
    """Mean change at an update, and from before it to the end of the next local phase.

    Where weights are downloaded the change is that of the download; in FD, whose devices keep
    their weights, it is the change up to the first point of the next local phase. Of all devices,
    records have the ends of local phases and the server's model, which all of them receive.
    """
    by_weights = cell.protocol != "fd"
    of_run = _changes_of_all if measure == "mean" else _changes
    changes = [change for run in cell.runs for change in of_run(run, by_weights)]
    if not changes:
        return Jump(float("nan"), float("nan"), 0)
    at_update, later = 100 * np.mean(changes, axis=0)
    return Jump(float(at_update), float(later), len(changes))


def _changes(run: dict[str, Any], by_weights: bool) -> list[tuple[float, float]]:
    events, accuracies = run["curve"]["event"], run["curve"]["accuracy"]
    ends = _ends_of_phases(run)
    return [
        (accuracies[end + 1] - accuracies[end], accuracies[later] - accuracies[end])
        for end, later in pairwise(ends)
        if not by_weights or events[end + 1] == "download"
    ]


def _changes_of_all(run: dict[str, Any], by_weights: bool) -> list[tuple[float, float]]:
    """Of the mean of all devices; nothing where weights are not downloaded."""
    events, rounds = run["curve"]["event"], run["rounds"]
    downloads = run["summary"]["downloads"]
    if not by_weights or downloads["delivered"] != downloads["attempted"]:
        return []
    return [
        (rounds["global"][place] - before, after - before)
        for place, (end, (before, after)) in enumerate(
            zip(_ends_of_phases(run), pairwise(rounds["mean"]), strict=False)
        )
        if events[end + 1] == "download"
    ]


def _ends_of_phases(run: dict[str, Any]) -> list[int]:
    """Where in the curve the local phase of each round ends."""
    local = [place for place, event in enumerate(run["curve"]["event"]) if event == "local"]
    points_a_round = len(local) // run["summary"]["rounds"]
    return local[points_a_round - 1 :: points_a_round]
