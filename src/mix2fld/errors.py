"""The one exception that means: the input is wrong, and here is what would be right."""

from difflib import get_close_matches
from collections.abc import Iterable


class InputError(Exception):
    """Bad input. The message is one sentence for a person: field, value, what would be right."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to append to a message about an unknown ``word``; lists all choices if none is close."""
    choices = sorted(known)
    close = get_close_matches(word, choices, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(choices)}"
