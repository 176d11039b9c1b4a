"""Finished runs in a notebook."""

import base64
import io
from collections.abc import Sequence
from importlib.util import find_spec

from mix2fld.report.html import plain_table
from mix2fld.report.over_seeds import over_seeds
from mix2fld.report.protocol_view import title_of
from mix2fld.runs.results import RunResult


def results_html(results: Sequence[RunResult]) -> str:
    """A table with a row for each protocol, and the learning curves."""
    names = list(dict.fromkeys(result.config.protocol for result in results))
    rows = [over_seeds([r.summary for r in results if r.config.protocol == name]) for name in names]
    table = plain_table([title_of(name) for name in names], rows)
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
