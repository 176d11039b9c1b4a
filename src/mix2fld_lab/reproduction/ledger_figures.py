"""The figures of the ledger, drawn from records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mix2fld.base.spread import sample_variance
from mix2fld.report.curve_plot import CurveTrace, System, draw_systems, trace_of
from mix2fld.report.style import as_text, style_of
from mix2fld_lab.reproduction.cell_records import IN_RUNS, CellRecord
from mix2fld_lab.reproduction.experiments import (
    DEVICE_COUNTS,
    EXPERIMENTS,
    INVERSE_COUNTS,
    MIXING_RATIOS,
)
from mix2fld_lab.reproduction.privacy_records import PrivacyRecords, row
from mix2fld_lab.reproduction.statistics import accuracy, device_accuracies, distinct_per_device

Cells = Mapping[str, CellRecord]
DPI = 130
COLUMNS = 5
"""Panels in a row of Fig. 2."""
HEAD_TO_HEAD = ("fl", "fd", "mixfld-50", "mix2fld-50-100", "fl8")
CROWDED = 0.35
"""Marks that are closer have their labels on different sides."""
MIXED = {"mixfld": ("MixFLD", "mixup"), "mix2fld": ("Mix2FLD", "mix2up")}
"""Title of a protocol, and the kind of its samples in the records of privacy."""
MEASURES = {
    "global": "the server's model",
    "mean": "mean of all devices, after their local steps",
}
"""Whose accuracy is drawn, and the title of its axes."""


def draw_panel(name: str, cells: Cells, path: Path) -> None:
    """Fig. 2: a learning curve for each system, and the accuracies at the end."""
    short = {key.rsplit("/", 1)[1]: cell for key, cell in cells.items()}
    shown = [key for key in short if key != "isolated" and not key.endswith("literal")]
    rows = -(-len(shown) // COLUMNS)
    figure = plt.figure(figsize=(9.6, 2.0 * rows + 3.4), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(2.0 * rows + 0.4, 3.0))
    above, below = parts
    grid = above.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
    for unused in grid[len(shown) :]:
        unused.set_axis_off()
    systems = [_system(key, short[key]) for key in shown]
    alone = _system("isolated", short["isolated"]) if "isolated" in short else None
    draw_systems(above, list(grid[: len(shown)]), systems, alone)
    above.supylabel("test accuracy, %", fontsize=9)
    seeds = min(len(cell.runs) for cell in short.values())
    above.suptitle(f"{EXPERIMENTS[name].title}; {seeds} seed{'s' if seeds > 1 else ''}")
    _draw_ends(below.subplots(), short)
    _save(figure, path)


def draw_head_to_head(cells: Cells, path: Path) -> None:
    """The paper's systems with their default settings, and FL in 8 bits."""
    short = {key.rsplit("/", 1)[1]: cell for key, cell in cells.items()}
    size = (2.1 * len(HEAD_TO_HEAD), 3.0)
    figure, grid = plt.subplots(
        1, len(HEAD_TO_HEAD), figsize=size, layout="constrained", sharex=True, sharey=True
    )
    systems = [_system(key, short[key]) for key in HEAD_TO_HEAD]
    draw_systems(figure, list(grid), systems, _system("isolated", short["isolated"]))
    grid[0].set_ylabel("test accuracy, %", fontsize=9)
    _save(figure, path)


def _system(key: str, cell: CellRecord) -> System:
    return System(cell.label, _colour(key), [_trace(run) for run in cell.runs])


def _trace(run: Mapping[str, Any]) -> CurveTrace:
    names = [IN_RUNS.get(name, name) for name in run["curve"]]
    points = [
        dict(zip(names, values, strict=True)) for values in zip(*run["curve"].values(), strict=True)
    ]
    return trace_of(points, run["rounds"]["mean"], run["summary"]["converged_round"])


def _colour(key: str) -> str:
    """That of the protocol, as in every picture."""
    return str(style_of(key.split("-", maxsplit=1)[0])["color"])


def _draw_ends(axes: Axes, cells: Cells) -> None:
    """Accuracy after the last local phase: every seed a dot, their mean a bar across."""
    for place, (key, cell) in enumerate(cells.items()):
        colour = _colour(key)
        reference = 100 * cell.values("summary", "accuracy", "reference")
        everyone = 100 * cell.values("summary", "accuracy", "mean")
        axes.plot([place - 0.12] * len(reference), reference, "o", ms=4, color=colour, alpha=0.6)
        axes.plot([place + 0.12] * len(everyone), everyone, "s", ms=4, mfc="none", color=colour)
        axes.hlines(reference.mean(), place - 0.3, place, color=colour, linewidth=2)
        axes.hlines(everyone.mean(), place, place + 0.3, color=colour, linewidth=2)
    labels = [
        cell.label.replace(", T_max", ",\nT_max").replace(" (", "\n(") for cell in cells.values()
    ]
    axes.set_xticks(range(len(labels)), labels, fontsize=7.5)
    axes.set_ylabel("accuracy after the last round, %")
    axes.set_title(
        "one mark per seed, bar: mean; ● reference device, □ mean of all devices", fontsize=9
    )
    axes.grid(alpha=0.3, axis="y")


def draw_device_counts(cells: Cells, path: Path) -> None:
    """Fig. 3: how the accuracies of all devices of all seeds are distributed."""
    figure, both = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained", sharey=True)
    colour = str(style_of("mix2fld")["color"])
    for axes, split in zip(both, ("iid", "non-iid"), strict=True):
        groups = [device_accuracies(cells[f"symmetric-{split}/devices-{n}"]) for n in DEVICE_COUNTS]
        _draw_boxes(axes, groups, colour)
        axes.set(title="IID" if split == "iid" else "non-IID", xlabel="number of devices")
    both[0].set_ylabel("test accuracy of a device, %")
    figure.suptitle(
        "Mix2FLD (10, 20), symmetric: range, quartiles, median, ◆ mean; above: mean ± sample std",
        fontsize=10,
    )
    _save(figure, path)


def _draw_boxes(axes: Axes, groups: Sequence[NDArray[np.float64]], colour: str) -> None:
    """A box for each number of devices, with mean and deviation above it."""
    axes.boxplot(
        groups,
        positions=range(len(groups)),
        widths=0.55,
        showmeans=True,
        whis=(0, 100),
        medianprops={"color": colour},
        meanprops={"marker": "D", "markerfacecolor": colour, "markeredgecolor": colour},
    )
    for place, values in enumerate(groups):
        note = f"{values.mean():.2f}\n± {sample_variance(values) ** 0.5:.2f}"
        axes.annotate(
            note, (place, values.max()), (0, 4), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set_xticks(range(len(groups)), [str(n) for n in DEVICE_COUNTS])
    axes.grid(alpha=0.3, axis="y")
    axes.margins(y=0.12)


def draw_privacy_accuracy(cells: Cells, privacy: PrivacyRecords, path: Path) -> None:
    """Accuracy against the sample privacy of each mixing ratio."""
    figure, grid = plt.subplots(
        2, 2, figsize=(9.6, 6.6), layout="constrained", sharex=True, sharey="col"
    )
    for column, (measure, title) in enumerate(MEASURES.items()):
        for axes, protocol in zip(grid[:, column], MIXED, strict=True):
            at = row(privacy["mnist"], MIXED[protocol][1], "min", MIXING_RATIOS)
            _draw_trade(axes, cells, (protocol, measure), at)
            axes.set_ylabel("test accuracy, %" if column == 0 else "")
            axes.grid(alpha=0.3)
            axes.margins(y=0.16)
        grid[0, column].set_title(title, fontsize=10)
        grid[1, column].set_xlabel("sample privacy, smallest of the server's samples")
        _point_to_more_privacy(grid[1, column])
    for axes in grid[:, 0]:
        axes.legend(fontsize=8, loc="lower left")
    figure.suptitle(
        "the number at a mark is the mixing ratio λ; non-IID, ideal link; mean ± sample std over "
        "seeds",
        fontsize=10,
    )
    _save(figure, path)


def _point_to_more_privacy(axes: Axes) -> None:
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "axes fraction"}
    axes.annotate("", (0.99, -0.27), (0.62, -0.27), arrowprops={"arrowstyle": "->"}, **place)
    text = "samples resemble private ones less: more private"
    axes.annotate(text, (0.61, -0.27), fontsize=8, ha="right", va="center", **place)


def _draw_trade(axes: Axes, cells: Cells, what: tuple[str, str], at: Sequence[float]) -> None:
    """A line for each number of bits; every mixing ratio stands beside its mark."""
    protocol, measure = what
    colour, name = style_of(protocol)["color"], MIXED[protocol][0]
    tops, ends = (np.full(len(MIXING_RATIOS), side * np.inf) for side in (-1, 1))
    for bits, line, marker in ((32, "--", "o"), (8, "-", "s")):
        found = [
            accuracy(cells[f"privacy-accuracy/{protocol}-{ratio:g}-{bits}bit"], measure)
            for ratio in MIXING_RATIOS
        ]
        axes.errorbar(
            at, [each.mean for each in found], [each.std for each in found], color=colour,
            linestyle=line, marker=marker, ms=4, capsize=2, label=f"{name}, {bits}-bit seeds",
            mfc=colour if bits == 8 else "white",
        )  # fmt: skip
        tops = np.maximum(tops, [each.mean + each.std for each in found])
        ends = np.minimum(ends, [each.mean - each.std for each in found])
    crowd = 0
    for place, (x, ratio) in enumerate(zip(at, MIXING_RATIOS, strict=True)):
        crowd = crowd + 1 if place and x - at[place - 1] < CROWDED else 0
        end, offset, side = ((tops, (0, 4), "center"), (ends, (0, -11), "center"),
                             (tops, (0, 4), "center"), (tops, (8, -6), "left"))[crowd % 4]  # fmt: skip
        axes.annotate(f"{ratio:g}", (x, end[place]), offset, textcoords="offset points",
                      fontsize=7, color=as_text(colour), ha=side)  # fmt: skip


def draw_inverse_counts(cells: Cells, path: Path) -> None:
    """Accuracy against N_I, and where the server runs out of distinct pairs."""
    figure, both = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained", sharey=True)
    for axes, (measure, title) in zip(both, MEASURES.items(), strict=True):
        colour = style_of("mix2fld")["color"]
        for sent, marker, line in ((10, "o", "--"), (50, "s", "-")):
            of_sent = [cells[f"inverse-count/{sent}-{made}"] for made in INVERSE_COUNTS]
            found = [accuracy(cell, measure) for cell in of_sent]
            axes.errorbar(
                INVERSE_COUNTS, [each.mean for each in found], [each.std for each in found],
                color=colour, marker=marker, ms=4, capsize=2, linestyle=line, label=f"N_S = {sent}",
                mfc=colour if sent == 50 else "white",
            )  # fmt: skip
            exhausted = distinct_per_device(of_sent[-1])
            if exhausted < INVERSE_COUNTS[-1]:
                axes.axvline(exhausted, color=colour, linestyle=":", linewidth=1)
                text: dict[str, Any] = {
                    "rotation": 90,
                    "fontsize": 7,
                    "color": as_text(colour),
                    "va": "bottom",
                    "ha": "right",
                }
                axes.annotate(f" N_S = {sent}", (exhausted, axes.get_ylim()[0]), **text)
        axes.set(title=title, xlabel="N_I, inverse-Mixup samples per device", xscale="log")
        axes.set_xticks(INVERSE_COUNTS, [str(made) for made in INVERSE_COUNTS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    both[0].set_ylabel("test accuracy, %")
    both[0].legend(fontsize=8, loc="upper left")
    figure.suptitle(
        "dotted: beyond this N_I the same pairs are reused; mean ± sample std over seeds; "
        "non-IID, asymmetric",
        fontsize=10,
    )
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI)
    plt.close(figure)
