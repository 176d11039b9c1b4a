"""What is told to the user in one sentence: bad input, and what else can stop a run."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any


class Mix2fldError(Exception):
    """A command ends with this sentence, and no traceback."""


class InputError(Mix2fldError):
    """Bad input: the field, its value, what would be right.

    Of a field without a value, or of something else that was given, there is a sentence alone.
    """

    def __init__(
        self, sentence: str = "", *, field: str = "", value: Any = None, hint: str = ""
    ) -> None:
        super().__init__(sentence)
        self.field, self.value, self.hint = field, value, hint or sentence

    def __str__(self) -> str:
        if not self.field:
            return self.hint
        shown = self.field if self.value is None else f"{self.field} = {self.value}"
        return f"{shown}: {self.hint}"

    def renamed(self, before: str, now: str) -> "InputError":
        """The same, of a field that its reader knows by another name."""
        field = now if self.field == before else self.field
        return InputError(field=field, value=self.value, hint=self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        return _same, (self.field, self.value, self.hint)


def _same(field: str, value: Any, hint: str) -> InputError:
    return InputError(field=field, value=value, hint=hint)


class ResourceError(Mix2fldError):
    """A disk, a machine or its memory failed: nothing that was given is wrong."""


class DamagedError(Mix2fldError):
    """A file of a run is not as it was written."""


class TransportLostError(Mix2fldError):
    """No device can be asked, because what carries the messages is away: this is not a round."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown ``word``: the closest known one, or all of them."""
    choices = sorted(known)
    close = get_close_matches(word, choices, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(choices)}"


def some_of(values: Sequence[Any], most: int = 8) -> str:
    """Values for a message: the first of them, and how many others there are."""
    others = len(values) - most
    named = ", ".join(map(str, values[:most]))
    return named if others <= 0 else f"{named} and {others:,} other{'s' if others > 1 else ''}"
