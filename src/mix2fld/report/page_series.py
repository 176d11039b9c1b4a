"""One series for the page: its means, curves, times and payloads."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mix2fld.report.curves import MEASURES, as_plain, shapes
from mix2fld.report.protocol_view import payload_names, seeding_of, title_of
from mix2fld.report.round_steps import round_steps
from mix2fld.report.run_state import standing_of
from mix2fld.report.series import Series
from mix2fld.report.style import dash_of, on_screen, style_of
from mix2fld.runs.metrics import PARTS, seconds_by_part
from mix2fld.runs.reader import LoadedRun


def series_record(one: Series, row: dict[str, Any]) -> dict[str, Any]:
    """All that the page says of a series, with what its row of the table says."""
    style = style_of(one.protocol)
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
        "seconds": _seconds(one.runs),
        "payload": payload(one.runs, one.protocol),
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
