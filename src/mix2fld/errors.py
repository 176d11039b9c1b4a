"""The exception for bad input, whose message says what would be right."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(Exception):
    """Bad input. The message is one sentence: the field, its value, what would be right."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown ``word``: the closest known one, or all of them."""
    choices = sorted(known)
    close = get_close_matches(word, choices, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(choices)}"
