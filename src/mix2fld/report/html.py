"""The report as one HTML file that contains its style, its scripts and its data."""

import base64
import io
import json
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

from mix2fld.base.files import write_atomic, writing
from mix2fld.config.settings import setting
from mix2fld.report.over_seeds import over_seeds, spread_words
from mix2fld.report.page_data import page_data
from mix2fld.report.protocol_view import title_of
from mix2fld.report.sweep_view import varied_names
from mix2fld.report.tables import OWN_HEADINGS, own_rows
from mix2fld.report.units import in_joules, spread_of
from mix2fld.runs.own_tests import TestedRun
from mix2fld.runs.reader import FoundRuns
from mix2fld.runs.results import RunResult
from mix2fld.tasks.metric import ACCURACY, metric_of

SCRIPTS = (
    "dom", "format", "state", "view", "scale", "export", "line_chart", "read_values", "bar_chart",
    "strip_chart", "delivery_grid", "heat_map", "top", "pareto", "target", "table", "grid",
    "curves", "breakdown", "link_budget", "what_if", "player", "timeline", "diagram", "devices",
    "fleet", "samples", "page",
)  # fmt: skip
"""One idea each, in the order in which they need each other; ``page`` starts the page."""
MOST_BYTES = 6_000_000
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; connect-src "
)
METRIC = "metric"
_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    METRIC: lambda row: f"{spread_of(metric_of(row), row['score'], row['spread'])}{_measured(row)}",
    "training": lambda row: row["training"],
    "uploads delivered": lambda row: f"{row['delivered']} of {row['attempted']}",
    "uplink Mbit": lambda row: f"{row['bits_up'] / 1e6:.3g}",
    "downlink Mbit": lambda row: f"{row['bits_down'] / 1e6:.3g}",
    "simulated seconds": lambda row: f"{row['communication'] + row['computing']:.3g}",
    "energy of a device per round": lambda row: (
        "–" if row["joules"] is None else in_joules(row["joules"])
    ),
}


def _measured(row: dict[str, Any]) -> str:
    """How many devices are measured, if not all are."""
    if row["measured"] == row["devices"]:
        return ""
    return f" ({row['measured']:,} of {row['devices']:,} measured)"


def write_report(found: FoundRuns, path: Path, panels: str = "") -> int:
    """Write the report of ``found`` to ``path``, with more sections; returns its size in bytes."""
    begun = [run for run in found.runs if run.rounds]
    page = report_page(page_data(found), own_panel(begun) + panels).encode()
    with writing("out", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a pipe, or standard output
            path.write_bytes(page)
        else:
            write_atomic(path, page)
    return len(page)


def report_page(data: dict[str, Any], panels: str = "") -> str:
    """A page that needs no other file and no network."""
    series = data["views"]["finished"]["series"]
    table = plain_table([one["label"] for one in series], [one["summary"] for one in series])
    return _page(data["title"], as_json(data), table, live=False, panels=panels)


def live_page() -> str:
    """The same page without data: it polls ``data.json`` at the address it came from."""
    return _page("mix2fld", "null", "", live=True)


def as_json(data: dict[str, Any]) -> str:
    """JSON that is safe inside a script element: nothing in it can end that element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain_table(labels: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """The results as an HTML table that needs no script; notebooks show it too."""
    name = metric_of(rows[0]).name if rows else ACCURACY.name
    heads = ["protocol", *(f"{name} of devices" if of == METRIC else of for of in _COLUMNS)]
    head = "".join(f"<th>{escape(words)}</th>" for words in heads)
    body = "".join(
        f"<tr><th>{escape(label)}</th>"
        + "".join(f"<td>{escape(cell(row))}</td>" for cell in _COLUMNS.values())
        + "</tr>"
        for label, row in zip(labels, rows, strict=True)
    )
    note = escape(f"± is the {spread_words(rows)}") if rows else ""
    return (
        f"<table><caption>{note}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def own_panel(runs: Sequence[TestedRun]) -> str:
    """Devices on their own test samples, for each setting; empty where none were held out."""
    known = [run for run in runs if "own" in run.summary]
    if not known:
        return ""
    metric = metric_of(known[0].summary["scores"])
    varied = varied_names([run.config for run in known])
    groups: dict[str, list[TestedRun]] = {}
    for run in known:
        words = ", ".join(f"{name} {setting(run.config, name)}" for name in varied)
        groups.setdefault(words, []).append(run)
    heads = "".join(
        f"<th>{escape(words)}</th>"
        for words in ("", *(" ".join(heading.split()) for heading in OWN_HEADINGS))
    )
    rows = "".join(
        f"<tr><th>{escape(f'{name} ({words})' if words else name)}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for words, own in groups.items()
        for name, *cells in own_rows(own, metric, known)
    )
    return (
        '<section id="own-tests" aria-labelledby="own-tests-h">'
        '<h2 id="own-tests-h">Devices on their own test samples</h2>'
        f"<p>{escape(metric.title)} with the model that each device has at the end; worst decile: "
        "the worst tenth of the devices; worse off: devices that are worse than training alone.</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _page(title: str, data: str, table: str, *, live: bool, panels: str = "") -> str:
    return Template(_part("page.html")).substitute(
        title=escape(title),
        policy=_POLICY + ("'self'" if live else "'none'"),
        css=_part("page.css"),
        js="\n".join(_part(f"{name}.js") for name in SCRIPTS),
        data=data,
        table=table,
        panels=panels,
        live=str(live).lower(),
    )


def _part(name: str) -> str:
    return (files("mix2fld.report") / "page" / name).read_text(encoding="utf-8")


def results_html(results: Sequence[RunResult]) -> str:
    """A table with a row for each protocol, and the learning curves."""
    names = list(dict.fromkeys(result.config.protocol for result in results))
    rows = [over_seeds([r.summary for r in results if r.config.protocol == name]) for name in names]
    table = plain_table([title_of(name) for name in names], rows) + own_panel(results)
    if find_spec("matplotlib") is None:
        return table
    from mix2fld.report.curve_plot import draw_curves

    picture = io.BytesIO()
    draw_curves(results, picture)
    data = base64.b64encode(picture.getvalue()).decode()
    image = (
        f'<img alt="learning curves" style="max-width: 100%" src="data:image/png;base64,{data}">'
    )
    return table + image
