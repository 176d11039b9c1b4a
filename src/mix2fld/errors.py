"""The one exception that means: the input is wrong, and here is what would be right."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(Exception):
    """Bad input. The message is one sentence for a person: field, value, what would be right."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for a message about an unknown ``word``: the closest choice, or all of them."""
    choices = sorted(known)
    close = get_close_matches(word, choices, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(choices)}"
