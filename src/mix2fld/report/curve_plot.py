"""Learning curves of finished runs as one picture: a panel for each protocol."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import matplotlib.pyplot as plt
import numpy as np

from mix2fld.report.protocol_view import title_of
from mix2fld.report.series import describe_setting
from mix2fld.report.step_panels import System, Trace, draw_systems, trace_of
from mix2fld.report.style import style_of
from mix2fld.runs.metrics import device_scores
from mix2fld.runs.results import RunResult
from mix2fld.tasks.metric import metric_of

COLUMNS = 4
PANEL = (2.6, 2.3)
"""Inches."""


def draw_curves(results: Sequence[RunResult], target: Path | BinaryIO) -> None:
    """Score over simulated seconds, in steps: mean and range over seeds."""
    systems = [
        _system(protocol, [run for run in results if run.config.protocol == protocol])
        for protocol in dict.fromkeys(result.config.protocol for result in results)
    ]
    alone = next((system for system in systems if system.title == title_of("isolated")), None)
    systems = [system for system in systems if system is not alone] or systems
    columns = min(COLUMNS, len(systems))
    rows = -(-len(systems) // columns)
    size = (max(5.2, PANEL[0] * columns), 1.1 + PANEL[1] * rows)
    figure, grid = plt.subplots(
        rows, columns, figsize=size, layout="constrained", sharex=True, sharey=True, squeeze=False
    )
    for unused in grid.ravel()[len(systems) :]:
        unused.set_axis_off()
    draw_systems(figure, list(grid.ravel()[: len(systems)]), systems, alone)
    seeds = len({result.config.seed for result in results})
    words = "one seed" if seeds == 1 else f"{seeds} seeds"
    figure.suptitle(f"{describe_setting(results[0].config)}; {words}", fontsize=10)
    metric = metric_of(results[0].summary["scores"])
    figure.supylabel(f"test {metric.title.replace(' in ', ', ')}", fontsize=9)
    figure.savefig(target, dpi=150, format="png")
    plt.close(figure)


def _system(protocol: str, runs: Sequence[RunResult]) -> System:
    colour = style_of(protocol)["color"]
    return System(title_of(protocol), colour, [_trace(run) for run in runs])


def _trace(result: RunResult) -> Trace:
    points = [point for info in result.rounds for point in info["curve"]]
    means = [float(np.mean(device_scores(info["scores"]))) for info in result.rounds]
    metric = metric_of(result.summary["scores"])
    return trace_of(points, means, result.summary["converged_round"], metric)
