"""One style for every figure: colours that colour-blind readers can tell apart, and line styles.

The protocol colours are those of Okabe and Ito, and of Tol for updates in few bits. For those with
too little contrast on a dark page, ``ON_DARK`` has a lighter shade of the same hue.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mix2fld.base.files import writing
from mix2fld.report.protocol_view import own_look, row_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHERS: tuple[dict[str, Any], ...] = (
    {"color": "#000000", "linestyle": "--"},
    {"color": "#882255", "linestyle": "-."},
    {"color": "#117733", "linestyle": ":"},
    {"color": "#6f5f00", "linestyle": "--"},
)
"""For custom protocols, chosen by their name."""
LINES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)))
"""For protocols with parameters, chosen by these."""
ON_DARK = {
    "#0072b2": "#4ba3e0",
    "#7f7f7f": "#a6a6a6",
    "#d55e00": "#f2792b",
    "#000000": "#f2f2f2",
    "#882255": "#d77fa8",
    "#117733": "#5cb87a",
    "#6f5f00": "#c9b74a",
    "#332288": "#9d92e0",
    "#999933": "#b9b94f",
    "#aa4499": "#d97ccb",
}
TEXT_CONTRAST = 4.6
"""Least contrast of text with its page; WCAG 2 asks for 4.5."""
PART_COLOURS = {
    "uplink": "#332288",
    "downlink": "#88ccee",
    "device": "#999933",
    "server": "#cc6677",
}
"""Parts of the simulated time."""
DASHES = {"-": "", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}

PAPER: Any = {
    "figure.figsize": (3.5, 2.4),  # inches: one column of an IEEE page
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.1,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType, embedded
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "mix2fld",  # equal figures have equal bytes
}
"""Settings of matplotlib for publication."""


def style_of(protocol: str) -> dict[str, Any]:
    """Colour and line style of a protocol; of one with parameters, another line."""
    number, row = zlib.crc32(protocol.encode()), row_of(protocol)
    if row is None or not own_look(protocol):
        return OTHERS[number % len(OTHERS)]
    line = LINES[number % len(LINES)] if ":" in protocol else row.line
    return {"color": row.colour, "linestyle": line}


def save_figure(figure: "Figure", *files: Path, field: str = "out", **options: Any) -> None:
    """Write a figure without dates: the same runs yield the same bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    with writing(field, files[0] if len(files) == 1 else files[0].parent):
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            dates = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(file.suffix)
            figure.savefig(file, metadata=dates, **options)


def as_text(colour: str) -> str:
    """The colour, darkened until text in it stands out from a white page."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    while 1.05 / (_luminance(parts) + 0.05) < TEXT_CONTRAST:
        parts = [0.97 * part for part in parts]
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def _luminance(parts: Sequence[float]) -> float:
    """Relative luminance of an sRGB colour (WCAG 2)."""
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * value for w, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def on_screen(colour: str) -> dict[str, str]:
    """A colour on a light and on a dark page."""
    return {"light": colour, "dark": ON_DARK.get(colour, colour)}


def dash_of(linestyle: Any) -> str:
    """A line style of matplotlib as an SVG ``stroke-dasharray``."""
    if isinstance(linestyle, str):
        return DASHES[linestyle]
    return " ".join(str(2 * length) for length in linestyle[1])
