"""What the charts of a report show, for both programs that draw them.

The page draws them as SVG with JavaScript, ``mix2fld report --figures`` for papers with matplotlib:
both read titles, units, names, colours, scales and the rows of bars from here, and decide nothing
but how it looks on their medium.
"""

from collections.abc import Mapping
from typing import Any

from mix2fld.report.curves import AXES, MEASURES
from mix2fld.report.run_view import DELIVERED, LOST, MEANINGS, NOT_ASKED, NOTHING_SENT
from mix2fld.report.style import PART_COLOURS, on_screen
from mix2fld.runs.summary import PARTS
from mix2fld.tasks.metric import Metric

AXIS_NAMES = {
    "seconds": "seconds",
    "air": "seconds on air",
    "rounds": "rounds",
    "bits": "uplink traffic",
}
MEASURE_NAMES = {
    "devices": "devices",
    "reference": "reference device",
    "server": "server model",
}
PART_NAMES = {
    "uplink": "uplink",
    "downlink": "downlink",
    "device": "device computing",
    "server": "server computing",
}
DELIVERY_COLOURS = {
    DELIVERED: {"light": "#0b63a5", "dark": "#6db5f2"},
    LOST: {"light": "#b5480a", "dark": "#f2955a"},
    NOT_ASKED: {"light": "#565d6b", "dark": "#a3abba"},
    NOTHING_SENT: {"light": "#565d6b", "dark": "#a3abba"},
}
"""Each has a mark of its own on the page, so that colour alone distinguishes nothing."""


def charts(metric: Metric) -> dict[str, Any]:
    """The description of every chart; rows and curves are those of a series."""
    return {
        "curves": {
            "axes": {
                key: {"title": title, "name": AXIS_NAMES[key], "log": key == "bits"}
                for key, title in AXES.items()
            },
            "measures": {
                key: {"title": words.format(metric=metric.name), "name": MEASURE_NAMES[key]}
                for key, words in MEASURES.items()
            },
        },
        "time": {
            "title": "total simulated time",
            "unit": "s",
            "parts": {
                part: {"name": PART_NAMES[part], **on_screen(PART_COLOURS[part])} for part in PARTS
            },
        },
        "payload": {"title": "bits of a transfer", "unit": "bit", "parts": {}},
        "deliveries": {
            letter: {"name": words, **DELIVERY_COLOURS[letter]}
            for letter, words in MEANINGS.items()
        },
    }


def bars(seconds: Mapping[str, float], payload: Mapping[str, Any]) -> dict[str, Any]:
    """The bars of a series by chart: what a bar is of, and its parts.

    A part without a colour in the chart's description has that of the series.
    """
    return {
        "time": [{"label": "", "parts": dict(seconds)}],
        "payload": [
            {"label": label, "parts": {"bits": bits}} for label, bits in transfers(payload)
        ],
    }


def transfers(payload: Mapping[str, Any]) -> list[tuple[str, float]]:
    """What a device sends first, what it sends later if that is another size, what comes down."""
    first, later, down = (payload[key] for key in ("first_bits", "later_bits", "down_bits"))
    differs = later is not None and round(later) != round(first)
    parts = [] if payload["up"] == "nothing" else [payload["up"]]
    what = " + ".join([*parts, *(["samples"] if payload["seeds"] or not parts else [])])
    found = [(f"first upload: {what}" if differs else f"upload: {what}", first)] if first else []
    found += [(f"later uploads: {payload['up']}", later)] if differs else []
    return found + ([(f"download: {payload['down']}", down)] if down else [])
