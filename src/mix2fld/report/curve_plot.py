"""Learning curves of finished runs as one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from mix2fld.report.curves import Floats, line, reference_points
from mix2fld.report.protocol_view import title_of
from mix2fld.report.series import describe_setting
from mix2fld.report.style import style_of
from mix2fld.runs.results import RunResult

SAMPLES = 600


def draw_curves(results: Sequence[RunResult], target: Path | BinaryIO) -> None:
    """Accuracy of the reference device over simulated seconds: mean and range over seeds."""
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for protocol in dict.fromkeys(result.config.protocols[0] for result in results):
        _draw_protocol(axes, [r for r in results if r.config.protocols[0] == protocol], protocol)
    config = results[0].config
    axes.set_title(describe_setting(config), fontsize=10)
    axes.set_xlabel("simulated seconds, computing and on air")
    axes.set_ylabel("test accuracy of the reference device")
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=1, symbol=" %"))
    axes.grid(alpha=0.3)
    axes.set_xlim(left=0)
    axes.set_ylim(*_zoomed(results))
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(target, dpi=150, format="png")
    plt.close(figure)


def _draw_protocol(axes: Axes, runs: Sequence[RunResult], protocol: str) -> None:
    style, title = style_of(protocol), title_of(protocol)
    curves = [_seconds_and_accuracies(run) for run in runs]
    if len(curves) == 1:
        axes.plot(*curves[0], label=title, linewidth=1.6, **style)
        return
    grid = np.linspace(0, min(seconds[-1] for seconds, _ in curves), SAMPLES)
    values = np.stack([np.interp(grid, *curve) for curve in curves])
    axes.plot(grid, values.mean(axis=0), label=title, linewidth=1.6, **style)
    band = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
    axes.fill_between(grid, values.min(axis=0), values.max(axis=0), **band)


def _seconds_and_accuracies(result: RunResult) -> tuple[Floats, Floats]:
    return line(reference_points(result.rounds, result.config.learning.local_steps), "seconds")


def _zoomed(results: Sequence[RunResult]) -> tuple[float, float]:
    """Limits that leave out the first climb from an untrained model."""
    curves = [_seconds_and_accuracies(result)[1] for result in results]
    trained = np.concatenate([curve[2:] if len(curve) > 2 else curve for curve in curves])
    low, high = float(trained.min()), float(trained.max())
    margin = 0.05 * max(high - low, 0.02)
    return max(0.0, low - margin), min(1.0, high + margin)
