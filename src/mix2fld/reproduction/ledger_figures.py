"""The figures of the ledger, drawn from records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mix2fld.report.style import style_of
from mix2fld.reproduction.cell_records import CellRecord
from mix2fld.reproduction.experiments import (
    DEVICE_COUNTS,
    EXPERIMENTS,
    INVERSE_COUNTS,
    MIXING_RATIOS,
    SEED_PAIRS,
)
from mix2fld.reproduction.privacy_records import PrivacyRecords, row
from mix2fld.reproduction.reference_curve import reference_curve
from mix2fld.reproduction.statistics import (
    accuracy,
    device_accuracies,
    distinct_per_device,
    sample_variance,
)

Cells = Mapping[str, CellRecord]
SAMPLES = 800
DPI = 130
PAIR_COLOURS = ("#e8a33d", "#d55e00", "#009e73", "#7b3294")
PAIR_LINES = (":", "--", "-.", "-")
BOTH_SIDES = ("fl", "fd", "mix2fld-50-100")
MEASURES = {
    "global": "the server's model",
    "mean": "mean of all devices, after their local steps",
}
"""Whose accuracy is drawn, and the title of its axes."""


def draw_panel(name: str, cells: Cells, path: Path) -> None:
    """Fig. 2: learning curves of the paper's systems and of alternatives, and final accuracies."""
    figure = plt.figure(figsize=(9.6, 7.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1.25, 1))
    left = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1], sharex=left, sharey=left)
    below = figure.add_subplot(grid[1, :])
    short = {key.rsplit("/", 1)[1]: cell for key, cell in cells.items()}
    papers = [key for key in short if _of_the_paper(key)]
    others = [key for key in short if not _of_the_paper(key) or key in BOTH_SIDES]
    others = [key for key in others if not key.endswith("literal")]
    for axes, keys, title in (
        (left, papers, "the paper's systems"),
        (right, others, "alternatives"),
    ):
        for key in keys:
            _draw_mean_curve(axes, short[key], _style(key))
        axes.set(
            title=title, xlabel="simulated seconds, communication and computing", xlim=(0, None)
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4)
    left.set_ylabel("test accuracy of the reference device, %")
    left.set_ylim(*_limits(short))
    _draw_ends(below, short)
    figure.suptitle(f"{EXPERIMENTS[name].title}; line: mean over seeds, band: lowest to highest")
    _save(figure, path)


def _of_the_paper(key: str) -> bool:
    return key in ("fl", "fd") or (key.startswith("mix") and not key.endswith("literal"))


def _style(key: str) -> dict[str, Any]:
    for place, (sent, made) in enumerate(SEED_PAIRS):
        if key.startswith(f"mix2fld-{sent}-{made}"):
            return {"color": PAIR_COLOURS[place], "linestyle": PAIR_LINES[place]}
    if key == "mixfld-10":
        return {**style_of("mixfld"), "linestyle": ":"}
    return style_of(key.split("-", maxsplit=1)[0])


def _draw_mean_curve(axes: Axes, cell: CellRecord, style: dict[str, Any]) -> None:
    """Mean over seeds, with a band from the lowest to the highest."""
    curves = [reference_curve(run) for run in cell.runs]
    times = np.linspace(0, min(seconds[-1] for seconds, _ in curves), SAMPLES)
    values = np.stack([np.interp(times, *curve) for curve in curves])
    axes.plot(times, values.mean(axis=0), label=cell.label, linewidth=1.3, **style)
    if len(curves) > 1:
        band = {"color": style["color"], "alpha": 0.07, "linewidth": 0}
        axes.fill_between(times, values.min(axis=0), values.max(axis=0), **band)


def _limits(cells: Cells) -> tuple[float, float]:
    """From the lowest point after the first climb to the highest."""
    trained = np.concatenate(
        [reference_curve(run)[1][4:] for cell in cells.values() for run in cell.runs]
    )
    low, high = float(np.quantile(trained, 0.02)), float(trained.max())
    return max(0.0, low - 2), min(100.0, high + 1)


def _draw_ends(axes: Axes, cells: Cells) -> None:
    """Accuracy after the last local phase: every seed a dot, their mean a bar across."""
    for place, (key, cell) in enumerate(cells.items()):
        colour = _style(key)["color"]
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
    for axes, split, colour in zip(both, ("iid", "non-iid"), ("#0072b2", "#d55e00"), strict=True):
        groups = [device_accuracies(cells[f"symmetric-{split}/devices-{n}"]) for n in DEVICE_COUNTS]
        _draw_boxes(axes, groups, colour)
        axes.set(title="IID" if split == "iid" else "non-IID", xlabel="number of devices")
    both[0].set_ylabel("test accuracy of a device, %")
    figure.suptitle(
        "Mix2FLD (10, 20), symmetric: range, quartiles, median, ◆ mean; mean ± sample std written",
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
    figure, both = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained", sharey=True)
    for axes, (measure, title) in zip(both, MEASURES.items(), strict=True):
        for protocol, kind in (("mixfld", "mixup"), ("mix2fld", "mix2up")):
            at = row(privacy["mnist"], kind, "min", MIXING_RATIOS)
            _draw_trade(axes, cells, (protocol, measure), at)
        axes.set(
            title=title, xlabel="sample privacy (smallest of the samples that the server uses)"
        )
        axes.grid(alpha=0.3)
    both[0].set_ylabel("test accuracy, %")
    both[0].legend(fontsize=8, loc="lower left")
    figure.suptitle(
        f"λ from {MIXING_RATIOS[0]:g} to {MIXING_RATIOS[-1]:g} on both lines; non-IID, ideal link; "
        "mean ± sample std over seeds",
        fontsize=10,
    )
    _save(figure, path)


def _draw_trade(axes: Axes, cells: Cells, what: tuple[str, str], at: Sequence[float]) -> None:
    """A line for each number of bits; the ratios stand beside Mix2FLD's 8-bit line."""
    protocol, measure = what
    colour, name = style_of(protocol)["color"], {"mixfld": "MixFLD"}.get(protocol, "Mix2FLD")
    for bits, line, marker in ((32, "--", "o"), (8, "-", "s")):
        found = [
            accuracy(cells[f"privacy-accuracy/{protocol}-{ratio:g}-{bits}bit"], measure)
            for ratio in MIXING_RATIOS
        ]
        axes.errorbar(
            at, [each.mean for each in found], [each.std for each in found], color=colour,
            linestyle=line, marker=marker, ms=4, capsize=2, label=f"{name}, {bits}-bit seeds",
        )  # fmt: skip
        if bits == 8 and protocol == "mix2fld":
            for x, each, ratio in zip(at, found, MIXING_RATIOS, strict=True):
                axes.annotate(f"{ratio:g}", (x, each.mean), (3, 4), textcoords="offset points",
                              fontsize=7, color=colour)  # fmt: skip


def draw_inverse_counts(cells: Cells, path: Path) -> None:
    """Accuracy against N_I, and where the server runs out of distinct pairs."""
    figure, both = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained", sharey=True)
    for axes, (measure, title) in zip(both, MEASURES.items(), strict=True):
        for sent, colour, marker in ((10, "#d55e00", "o"), (50, "#7b3294", "s")):
            of_sent = [cells[f"inverse-count/{sent}-{made}"] for made in INVERSE_COUNTS]
            found = [accuracy(cell, measure) for cell in of_sent]
            axes.errorbar(
                INVERSE_COUNTS, [each.mean for each in found], [each.std for each in found],
                color=colour, marker=marker, ms=4, capsize=2, label=f"N_S = {sent}",
            )  # fmt: skip
            exhausted = distinct_per_device(of_sent[-1])
            if exhausted < INVERSE_COUNTS[-1]:
                axes.axvline(exhausted, color=colour, linestyle=":", linewidth=1)
        axes.set(title=title, xlabel="N_I, inverse-Mixup samples per device", xscale="log")
        axes.set_xticks(INVERSE_COUNTS, [str(made) for made in INVERSE_COUNTS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    both[0].set_ylabel("test accuracy, %")
    both[0].legend(fontsize=8, loc="lower right")
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
