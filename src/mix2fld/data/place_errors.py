"""What is wrong with a place or a file that a dataset was looked for in."""


class PlaceError(Exception):
    """A place does not have a usable dataset; the message says why, in one line."""


class MissingFileError(PlaceError):
    """A file of the layout is missing."""


def one_line(error: BaseException) -> str:
    """Return an exception as a short line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
