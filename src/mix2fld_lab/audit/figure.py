"""The figure of the page about privacy: how much of what a device holds an attacker finds."""

from pathlib import Path

import matplotlib.pyplot as plt

from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.sections import AuditSection

FOUND, GUARANTEED = "#b5452c", "#9a9a9a"


def draw_leaks(section: AuditSection, path: Path) -> None:
    """A bar for each protocol: its upload that gives most away, or the budget that bounds it."""
    rows = [(row, *_worst(row.leaks)) for row in section.rows() if row.sends]
    rows.sort(key=lambda one: one[2].rate if one[2] else -1.0)
    figure, axes = plt.subplots(figsize=(7.2, 0.26 * len(rows) + 1.1), layout="constrained")
    for place, (row, _, worst) in enumerate(rows):
        if worst:
            low, high = (100 * bound for bound in worst.interval())
            rate = 100 * worst.rate
            axes.barh(place, rate, color=FOUND, height=0.62)
            axes.hlines(place, low, high, color="black", linewidth=1)
            axes.annotate(f"{rate:.1f} %", (high, place), (4, 0), textcoords="offset points",
                          va="center", fontsize=8)  # fmt: skip
        elif row.guarantee:
            axes.annotate(f"guaranteed: ε = {row.guarantee.epsilon:g}", (0, place), (4, 0),
                          textcoords="offset points", va="center", fontsize=8,
                          color=GUARANTEED)  # fmt: skip
    names = [f"{row.title}: {kind}" if kind else row.title for row, kind, _ in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("share of a device's samples found at 0.1 % false positives, %", fontsize=9)
    axes.set_title(f"{section.dataset}: what a first upload gives away", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _worst(leaks: dict[str, Share]) -> tuple[str, Share | None]:
    """Which upload gives most away, and how much."""
    return max(leaks.items(), key=lambda leak: leak[1].rate, default=("", None))
