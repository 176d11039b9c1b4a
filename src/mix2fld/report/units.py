"""Numbers as text, the same in the terminal and on the page."""

from collections.abc import Sequence

from mix2fld.tasks.metric import Metric


def in_a_row(words: Sequence[str]) -> str:
    """Words as a list in a sentence."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}"


def percent(share: float) -> str:
    """A share of 1 as a percentage with one decimal."""
    return f"{in_percent(share)} %"


def in_percent(share: float) -> str:
    """The same without its unit, where a heading names it."""
    return f"{100 * share:.1f}"


def spread_of(metric: Metric, value: float, spread: float) -> str:
    """A measured value and its spread, with the unit behind both."""
    return f"{metric.number(value)} ± {metric.text(spread)}"


def in_bits(bits: float) -> str:
    """Bits with the prefix that reads best."""
    for unit, size in (("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3)):
        if bits >= size:
            return f"{bits / size:.3g} {unit}"
    return f"{bits:.0f} bit"


def in_seconds(value: float) -> str:
    """Seconds with the prefix that reads best."""
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def in_time(seconds: float) -> str:
    """A time that may be milliseconds or days."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return in_seconds(seconds)


def in_joules(joules: float) -> str:
    """Joules with the prefix that reads best."""
    for unit, size in (("MJ", 1e6), ("kJ", 1e3), ("J", 1.0), ("mJ", 1e-3)):
        if joules >= size:
            return f"{joules / size:.3g} {unit}"
    return f"{1e6 * joules:.3g} µJ"
