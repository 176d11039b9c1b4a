"""The content of the report page, as plain data for JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from mix2fld.report.command import command
from mix2fld.report.conclusion import conclusion
from mix2fld.report.curves import AXES, MEASURES
from mix2fld.report.dataset import UnavailableDataError, data_of, label_map
from mix2fld.report.deliveries import MEANINGS, seeds_delivered
from mix2fld.report.findings import findings
from mix2fld.report.gallery import gallery
from mix2fld.report.headline import best_of, tiles
from mix2fld.report.machine import made
from mix2fld.report.over_seeds import over_seeds, spread_words
from mix2fld.report.page_run import MOST_DEVICES, rounds_kept, run_record
from mix2fld.report.page_series import series_record
from mix2fld.report.protocol_view import in_table_order, seeding_of, title_of
from mix2fld.report.run_state import state_record
from mix2fld.report.series import Series, Setting, common_metric, describe_setting, distinct, group
from mix2fld.report.style import PART_COLOURS, on_screen
from mix2fld.report.whatif import what_if
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.metrics import PARTS
from mix2fld.runs.reader import Found, LoadedRun

LABEL_MAPS = 10


def page_data(found: Found) -> dict[str, Any]:
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
        "axes": AXES,
        "metric": asdict(metric),
        "measures": {key: words.format(metric=metric.name) for key, words in MEASURES.items()},
        "deliveries": MEANINGS,
        "parts": {part: on_screen(PART_COLOURS[part]) for part in PARTS},
        "settings": [
            {**_setting(one), **_behind(one, number, series)} for number, one in enumerate(settings)
        ],
        "views": views,
        "runs": {_run_id(run): run_record(run, kept) for run in shown},
        "states": [state_record(run) for run in (*distinct(runs), *planned)],
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
        "gallery": None,
        "unavailable": None,
        "what_if": what_if(one.config, here),
    }
    try:
        for seed in one.config.seeds[:LABEL_MAPS]:
            run = next(run for run in runs if run.seed == seed)
            plain["labels"][str(seed)] = _labels(run)
        best = most_informative(runs)
        plain["gallery"] = None if best is None else _gallery(_SameSamples(best))
    except UnavailableDataError as error:
        plain["unavailable"] = str(error)
    return plain


def most_informative(runs: Sequence[LoadedRun]) -> LoadedRun | None:
    """Of the first seed: the run whose server does most with samples, Mix2FLD before FLD."""
    sending = [run for run in runs if seeding_of(run.protocol) is not None]
    order = in_table_order(run.protocol for run in sending)
    return min(sending, key=lambda run: (run.seed, -order.index(run.protocol)), default=None)


def _labels(run: LoadedRun) -> list[list[int]]:
    counts: list[list[int]] = label_map(data_of(run), run.config)[:MOST_DEVICES].tolist()
    return counts


class _SameSamples:
    """A run, equal to another while the server has received the same samples."""

    def __init__(self, run: LoadedRun) -> None:
        self.run = run
        self._key = (dump_config(run.config), tuple(seeds_delivered(run)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameSamples) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=16)
def _gallery(seen: _SameSamples) -> dict[str, Any] | None:
    return gallery(seen.run)
