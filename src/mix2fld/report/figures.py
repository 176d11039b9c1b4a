"""Pictures of finished runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from mix2fld.report.series import describe_setting, title_of
from mix2fld.report.style import style_of
from mix2fld.runs.folder import RunResult

SAMPLES = 600


def draw_curves(results: Sequence[RunResult], target: Path | BinaryIO) -> None:
    """Accuracy of the reference device over simulated seconds: mean and range over seeds."""
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for protocol in dict.fromkeys(result.config.protocols[0] for result in results):
        _draw_protocol(axes, [r for r in results if r.config.protocols[0] == protocol], protocol)
    config = results[0].config
    axes.set_title(describe_setting(config), fontsize=10)
    axes.set_xlabel("simulated time in seconds, communication and computing")
    axes.set_ylabel("test accuracy of the reference device")
    axes.grid(alpha=0.3)
    axes.set_xlim(left=0)
    axes.set_ylim(*_zoomed(results))
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(target, dpi=150, format="png")
    plt.close(figure)


def curve_of(result: RunResult) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds and accuracies of a run's reference device; it holds its accuracy while it waits."""
    seconds: list[float] = []
    accuracies: list[float] = []
    for point in (point for info in result.rounds for point in info["curve"]):
        now = point["communication"] + point["computing"]
        if point["event"] == "download":
            seconds.append(now)
            accuracies.append(accuracies[-1])
        seconds.append(now)
        accuracies.append(point["accuracy"])
    return np.array(seconds), np.array(accuracies)


def _draw_protocol(axes: Axes, runs: Sequence[RunResult], protocol: str) -> None:
    style, title = style_of(protocol), title_of(protocol)
    curves = [curve_of(run) for run in runs]
    if len(curves) == 1:
        axes.plot(*curves[0], label=title, linewidth=1.6, **style)
        return
    grid = np.linspace(0, min(seconds[-1] for seconds, _ in curves), SAMPLES)
    values = np.stack([np.interp(grid, *curve) for curve in curves])
    axes.plot(grid, values.mean(axis=0), label=title, linewidth=1.6, **style)
    band = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
    axes.fill_between(grid, values.min(axis=0), values.max(axis=0), **band)


def _zoomed(results: Sequence[RunResult]) -> tuple[float, float]:
    """Limits that leave out the first climb from an untrained model."""
    curves = [curve_of(result)[1] for result in results]
    trained = np.concatenate([curve[2:] if len(curve) > 2 else curve for curve in curves])
    low, high = float(trained.min()), float(trained.max())
    margin = 0.05 * max(high - low, 0.02)
    return max(0.0, low - margin), min(1.0, high + margin)
