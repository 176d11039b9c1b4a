"""A finished sweep: its runs by setting, as a table and as a picture."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from mix2fld.config.settings import Config, field_names, setting
from mix2fld.report.over_seeds import over_seeds, spread_words
from mix2fld.report.protocol_view import title_of
from mix2fld.report.tables import PLAIN
from mix2fld.runs.reader import LoadedRun
from mix2fld.tasks.metric import Metric, metric_of

MOST_SHOWN = 60
"""Settings that a picture has room for."""
LOG_SPAN = 20
"""From this ratio of the largest to the smallest number on, they are spaced by their logarithm."""


class SweepRow(NamedTuple):
    """A setting and a protocol: means over seeds."""

    values: tuple[Any, ...]
    """Of the settings that differ."""
    protocol: str
    found: Mapping[str, Any]


class SweepRows(NamedTuple):
    """All of them, in the order of their values."""

    names: list[str]
    """The settings that differ."""
    rows: list[SweepRow]
    metric: Metric

    @property
    def best(self) -> float:
        """The best mean."""
        return self.metric.best(row.found["score"] for row in self.rows)


def sweep_rows(runs: Sequence[LoadedRun]) -> SweepRows | None:
    """The finished runs by setting and protocol; None if there are none."""
    finished = [run for run in runs if run.summary]
    if not finished:
        return None
    names = varied_names([run.config for run in finished])
    groups: dict[tuple[Any, ...], list[LoadedRun]] = {}
    for run in sorted(finished, key=lambda run: [_order(setting(run.config, n)) for n in names]):
        key = (*(setting(run.config, name) for name in names), run.protocol)
        groups.setdefault(key, []).append(run)
    rows = [
        SweepRow(key[:-1], key[-1], over_seeds([run.summary for run in own]))
        for key, own in groups.items()
    ]
    return SweepRows(names, rows, metric_of(finished[0].summary["scores"]))


def sweep_table(sweep: SweepRows) -> Table:
    """One row for each setting and protocol: means over seeds, the best marked."""
    metric = sweep.metric
    table = Table(
        title="By setting",
        caption=f"{metric.title}, ± {spread_words([dict(row.found) for row in sweep.rows])}; "
        "*: the best",
        **PLAIN,
    )
    for heading in (*sweep.names, "protocol", metric.name, "Mbit up", "seeds"):
        table.add_column(
            heading, justify="left" if heading == "protocol" else "right", no_wrap=True
        )
    for values, protocol, found in sweep.rows:
        first = found["score"] == sweep.best
        score = f"{metric.number(found['score'])} ± {metric.number(found['spread'])}"
        cells = [*map(shown, values), title_of(protocol), f"{score} {'*' if first else ' '}"]
        cells += [f"{found['bits_up'] / 1e6:.3g}", str(found["runs"])]
        table.add_row(*cells, style="bold" if first else "")
    return table


def draw_sweep(sweep: SweepRows, path: Path) -> bool:
    """The metric of every setting, a line for each protocol; False: too many, nothing is drawn.

    Along the axis are the values of the one number that varies, or else the settings in words.
    """
    import matplotlib.pyplot as plt

    from mix2fld.report.style import style_of

    settings = list(dict.fromkeys(row.values for row in sweep.rows))
    if len(settings) > MOST_SHOWN:
        return False
    numbers = [one[0] for one in settings if len(one) == 1 and _is_number(one[0])]
    by_number = len(numbers) == len(settings) > 1
    places = {one: one[0] if by_number else place for place, one in enumerate(settings)}
    width = 6.4 if by_number else max(4.8, 0.4 * len(settings) + 3)
    figure, axes = plt.subplots(figsize=(width, 4), layout="constrained")
    for protocol in dict.fromkeys(row.protocol for row in sweep.rows):
        own = [row for row in sweep.rows if row.protocol == protocol]
        at = [places[row.values] for row in own]
        score, spread = (
            [sweep.metric.factor * r.found[k] for r in own] for k in ("score", "spread")
        )
        look = style_of(protocol)
        axes.errorbar(
            at, score, spread, marker="o", capsize=3, label=title_of(protocol),
            color=look["color"], linestyle=look["linestyle"] if by_number else "none",
        )  # fmt: skip
    if by_number:
        axes.set_xlabel(sweep.names[0].replace("_", " "))
        if min(numbers) > 0 and max(numbers) / min(numbers) >= LOG_SPAN:
            axes.set_xscale("log")
    else:
        words = [", ".join(f"{n} {shown(v)}" for n, v in zip(sweep.names, one, strict=True))
                 for one in settings]  # fmt: skip
        axes.set_xticks(range(len(settings)), words, rotation=45, ha="right")
    axes.set_ylabel(sweep.metric.title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return True


def varied_names(configs: Sequence[Config]) -> list[str]:
    """Settings that differ between runs, but for protocol and seed."""
    return [
        name
        for name in field_names(Config)
        if name not in ("seed", "protocol")
        and len({repr(setting(config, name)) for config in configs}) > 1
    ]


def shown(value: Any) -> str:
    """A value of a setting in a cell."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _order(value: Any) -> tuple[float, str]:
    """Numbers by size, then all else by its text."""
    return (float(value), "") if _is_number(value) else (math.inf, str(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
