"""One look for every figure: colours that colour-blind readers can tell apart, and line styles."""

from typing import Any

STYLES: dict[str, dict[str, Any]] = {
    "isolated": {"color": "#7f7f7f", "linestyle": (0, (1, 1))},
    "fl": {"color": "#0072b2", "linestyle": "-"},
    "fl8": {"color": "#56b4e9", "linestyle": "--"},
    "fl4": {"color": "#56b4e9", "linestyle": ":"},
    "fd": {"color": "#e69f00", "linestyle": "-."},
    "fld": {"color": "#009e73", "linestyle": "--"},
    "mixfld": {"color": "#cc79a7", "linestyle": (0, (5, 1))},
    "mix2fld": {"color": "#d55e00", "linestyle": "-"},
}
OTHER: dict[str, Any] = {"color": "#000000", "linestyle": "--"}


def style_of(protocol: str) -> dict[str, Any]:
    """Colour and line style of a protocol; black for one that is not of the package."""
    return STYLES.get(protocol, OTHER)
