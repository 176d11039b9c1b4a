"""The content of the report page, as plain data for JSON."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mix2fld import __version__
from mix2fld.base.lab import has_lab, lab
from mix2fld.report.charts import bars, charts
from mix2fld.report.curves import MEASURES, as_plain, shapes
from mix2fld.report.dataset import UnavailableDataError, bins_in, data_of, label_map
from mix2fld.report.findings import findings
from mix2fld.report.fleet import fleets
from mix2fld.report.headline import best_of, conclusion, tiles
from mix2fld.report.over_seeds import over_seeds, spread_words
from mix2fld.report.plans import what_if
from mix2fld.report.protocol_view import (
    payload_names,
    round_steps,
    seeding_of,
    title_of,
)
from mix2fld.report.run_view import (
    MOST_DEVICES,
    rounds_kept,
    run_record,
    standing_of,
    state_record,
)
from mix2fld.report.series import Series, Setting, common_metric, describe_setting, distinct, group
from mix2fld.report.style import dash_of, on_screen, style_of
from mix2fld.runs.config_file import command, dump_config
from mix2fld.runs.reader import FoundRuns, LoadedRun
from mix2fld.runs.summary import PARTS, seconds_by_part


def made() -> dict[str, str]:
    """Date, version and machine; no name of a host or a user."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}",
    }


def _processor() -> str:
    """The model of the processor where the system names it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def series_record(one: Series, row: dict[str, Any]) -> dict[str, Any]:
    """All that the page says of a series, with what its row of the table says."""
    style = style_of(one.protocol)
    seconds, transfers = _seconds(one.runs), payload(one.runs, one.protocol)
    return {
        "protocol": one.protocol,
        "title": title_of(one.protocol),
        "label": one.label,
        "settings": one.settings,
        "ranked": one.ranked,
        "state": "finished" if one.ranked else standing_of(one.runs[-1]).state,
        "colour": on_screen(style["color"]),
        "dash": dash_of(style["linestyle"]),
        "summary": row,
        "by_seed": {str(run.seed): round(run.summary["scores"]["mean"], 5) for run in one.runs},
        "curves": {
            name: [as_plain(found) for found in shapes(one.runs, name)] for name in MEASURES
        },
        "seconds": seconds,
        "payload": transfers,
        "bars": bars(seconds, transfers),
        "steps": round_steps(one.protocol, one.runs[0].config),
    }


def _seconds(runs: Sequence[LoadedRun]) -> dict[str, float]:
    """Mean seconds of a run, by link direction and by who computes."""
    split = [seconds_by_part(run.rounds) for run in runs]
    return {
        part: float(np.mean([sum(info[part] for info in rounds) for rounds in split]))
        for part in PARTS
    }


def payload(runs: Sequence[LoadedRun], protocol: str) -> dict[str, Any]:
    """Bits of one device's first upload, of its later ones on average, and of a download."""
    uploads = [sizes for run in runs if (sizes := _upload_sizes(run))]
    later = [bits for one in uploads for bits in one[1:]]
    up, down = payload_names(protocol, runs[0].config)
    return {
        "up": up,
        "seeds": seeding_of(protocol) is not None,
        "down": down,
        "first_bits": max((one[0] for one in uploads), default=0),
        "later_bits": float(np.mean(later)) if later else None,
        "down_bits": max((info["bits"]["down"] for run in runs for info in run.rounds), default=0),
    }


def _upload_sizes(run: LoadedRun) -> list[float]:
    """Mean bits of an upload in each round that had any."""
    counted = [(info["bits"]["up"], info["uploads"]["attempted"]) for info in run.rounds]
    return [bits / attempted for bits, attempted in counted if attempted]


LABEL_MAPS = 10


def page_data(found: FoundRuns) -> dict[str, Any]:
    """The content of a report of the runs that were found, finished or in progress."""
    runs = [run for run in found.runs if run.rounds]
    planned = [run for run in found.runs if not run.rounds] + found.planned
    settings, series = group(runs)
    metric = common_metric(runs)
    shown = [run for one in series for run in one.runs]
    kept = rounds_kept(shown)
    views = {"finished": view(runs, unfinished=False)}
    if not all(run.finished for run in shown):
        views["all"] = view(runs, unfinished=True)
    return {
        "made": made(),
        "title": _title(series),
        "metric": asdict(metric),
        "charts": charts(metric),
        "settings": [
            {**_setting(one), **_behind(one, number, series)} for number, one in enumerate(settings)
        ],
        "views": views,
        "runs": {_run_id(run): run_record(run, kept) for run in shown},
        "states": [state_record(run) for run in (*distinct(runs), *planned)],
        "fleets": fleets([*distinct(runs), *planned]),
        "findings": findings(settings, series, planned),
        "notes": found.notes,
    }


def view(runs: Sequence[LoadedRun], *, unfinished: bool) -> dict[str, Any]:
    """The series with their means: of the finished runs, or of all runs as far as they are."""
    settings, series = group(runs, unfinished=unfinished)
    rows = [over_seeds([run.summary for run in one.runs]) for one in series]
    ranked = [n for n, one in enumerate(series) if one.ranked]
    here = [[n for n in ranked if number in series[n].settings] for number in range(len(settings))]
    return {
        "series": [
            {**series_record(one, row), "runs": [_run_id(run) for run in one.runs]}
            for one, row in zip(series, rows, strict=True)
        ],
        "spread": spread_words(rows) if rows else "",
        "conclusion": conclusion(settings, series, rows) if series else "",
        "settings": [
            {
                "best": best_of({n: rows[n] for n in ranked}),
                "tiles": tiles({title_of(series[n].protocol): rows[n] for n in ranked}),
            }
            for ranked in here
        ],
    }


def _run_id(run: LoadedRun) -> str:
    return str(run.folder)


def _title(series: Sequence[Series]) -> str:
    titles = list(dict.fromkeys(title_of(one.protocol) for one in series))
    if not titles:
        return "No rounds yet"
    if len(titles) > 6:
        return f"{len(titles)} protocols compared"
    listed = ", ".join(titles[:-1]) + f" and {titles[-1]}" if len(titles) > 1 else titles[0]
    return f"{listed} compared" if len(titles) > 1 else listed


def _setting(one: Setting) -> dict[str, Any]:
    return {
        "label": one.label or describe_setting(one.config),
        "description": describe_setting(one.config),
        "differs": {name: v for name, v in one.differs.items() if isinstance(v, int | float)},
        "config": dump_config(one.config),
        "command": command(one.config),
        "seeds": list(one.config.seeds),
        "devices": one.config.data.devices,
        "finished_rounds": one.config.rounds,
    }


def _behind(one: Setting, number: int, series: Sequence[Series]) -> dict[str, Any]:
    """What the dataset is needed for: the label distribution and the samples at the server."""
    here = [other for other in series if number in other.settings]
    runs = [run for other in here for run in other.runs]
    plain: dict[str, Any] = {
        "labels": {},
        "bins": [],
        "gallery": None,
        "unavailable": None,
        "what_if": what_if(one.config, here),
    }
    try:
        for seed in one.config.seeds[:LABEL_MAPS]:
            run = next(run for run in runs if run.seed == seed)
            plain["labels"][str(seed)] = _labels(run)
            plain["bins"] = bins_in(data_of(run), run.config)
        plain["gallery"] = lab("gallery").gallery_of(runs) if has_lab() else None
    except UnavailableDataError as error:
        plain["unavailable"] = str(error)
    return plain


def _labels(run: LoadedRun) -> list[list[int]]:
    counts: list[list[int]] = label_map(data_of(run), run.config)[:MOST_DEVICES].tolist()
    return counts
