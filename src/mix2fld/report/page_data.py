"""The content of the report page, as plain data for JSON."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mix2fld import __version__
from mix2fld.report.command import command
from mix2fld.report.curves import AXES, MEASURES, as_plain, curve
from mix2fld.report.dataset import UnavailableDataError, data_of, label_map
from mix2fld.report.deliveries import MEANINGS, deliveries, measured_devices, seeds_delivered
from mix2fld.report.gallery import gallery
from mix2fld.report.headline import best_of, tiles
from mix2fld.report.over_seeds import over_seeds, spread_words
from mix2fld.report.protocol_view import in_table_order, payload_names, seeding_of, title_of
from mix2fld.report.series import Series, Setting, describe_setting, group
from mix2fld.report.style import PART_COLOURS, dash_of, on_screen, style_of
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.metrics import PARTS, seconds_by_part
from mix2fld.runs.reader import Found, LoadedRun

MOST_DEVICES = 200
CELLS = 200_000
"""How many device accuracies a page holds at most, so that it stays small."""
LABEL_MAPS = 10


def page_data(found: Found) -> dict[str, Any]:
    """The content of a report of the runs that were found, finished or in progress."""
    runs = [run for run in found.runs if run.rounds]
    waiting = [_state(run) for run in found.runs if not run.rounds]
    settings, series = group(runs)
    rows = [over_seeds([run.summary for run in one.runs]) for one in series]
    kept = _rounds_kept(runs)
    shown = [_series(one, row, kept) for one, row in zip(series, rows, strict=True)]
    return {
        "version": __version__,
        "title": _title(series),
        "axes": AXES,
        "measures": MEASURES,
        "parts": {part: on_screen(PART_COLOURS[part]) for part in PARTS},
        "settings": [
            {**_setting(one), **_behind(one, number, series)} for number, one in enumerate(settings)
        ],
        "series": shown,
        "best": best_of(rows),
        "spread": spread_words(rows) if rows else "",
        "deliveries": MEANINGS,
        "tiles": tiles([one.label for one in series], rows),
        "waiting": waiting,
        "notes": found.notes,
    }


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
        "config": dump_config(one.config),
        "command": command(one.config),
        "seeds": list(one.config.seed),
        "devices": one.config.data.devices,
    }


def _series(one: Series, row: dict[str, Any], kept: int) -> dict[str, Any]:
    style = style_of(one.protocol)
    return {
        "protocol": one.protocol,
        "title": title_of(one.protocol),
        "label": one.label,
        "setting": one.setting,
        "colour": on_screen(style["color"]),
        "dash": dash_of(style["linestyle"]),
        "summary": row,
        "curves": _curves(one.runs),
        "seconds": _seconds(one.runs),
        "payload": payload(one.runs, one.protocol),
        "runs": [_run(run, kept) for run in one.runs],
    }


def _curves(runs: Sequence[LoadedRun]) -> dict[str, dict[str, Any]]:
    return {
        measure: {axis: as_plain(found) for axis in AXES if (found := curve(runs, axis, measure))}
        for measure in MEASURES
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
    up, down = payload_names(protocol)
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


def _state(run: LoadedRun) -> dict[str, Any]:
    return {
        "protocol": title_of(run.protocol),
        "seed": run.seed,
        "folder": run.folder.name,
        "finished": run.finished,
        "done": len(run.rounds),
        "planned": run.config.rounds,
    }


def _run(run: LoadedRun, kept: int) -> dict[str, Any]:
    """One run by device: accuracies and deliveries of at most ``kept`` rounds, evenly spaced."""
    devices = measured_devices(run)[:MOST_DEVICES]
    places = np.unique(np.linspace(0, len(run.rounds) - 1, kept).round().astype(int))
    rounds = [run.rounds[place] for place in places]
    return {
        **_state(run),
        "rounds": [info["round"] for info in rounds],
        "devices": devices,
        "accuracy": [
            [None if value is None else round(value, 4) for value in _shown_accuracies(info)]
            for info in rounds
        ],
        "up": [deliveries(info, "uploads", devices) for info in rounds],
        "down": [deliveries(info, "downloads", devices) for info in rounds],
    }


def _shown_accuracies(info: dict[str, Any]) -> list[float | None]:
    accuracies: list[float | None] = info["accuracy"]["devices"]
    return accuracies[:MOST_DEVICES]


def _rounds_kept(runs: Sequence[LoadedRun]) -> int:
    devices = sum(min(run.config.devices_evaluated, MOST_DEVICES) for run in runs)
    return max(1, CELLS // max(1, devices))


def _behind(one: Setting, number: int, series: Sequence[Series]) -> dict[str, Any]:
    """What the dataset is needed for: the label distribution and the samples at the server."""
    runs = [run for other in series if other.setting == number for run in other.runs]
    plain: dict[str, Any] = {"labels": {}, "gallery": None, "unavailable": None}
    try:
        for seed in one.config.seed[:LABEL_MAPS]:
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
