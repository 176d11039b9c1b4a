"""Ctrl-C that comes where Python cannot raise it, such as in a callback of the garbage collector.

Python reports such an exception and continues; here it is remembered, and raised between rounds.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

_came = Event()


def raise_if_remembered() -> None:
    """Raise, once, the Ctrl-C that could not be raised when it came."""
    if _came.is_set():
        _came.clear()
        raise KeyboardInterrupt


@contextmanager
def remembered() -> Iterator[None]:
    """Within the block, remember every Ctrl-C that Python would only report."""
    before = sys.unraisablehook

    def hook(lost: "sys.UnraisableHookArgs") -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _came.set()
        else:
            before(lost)

    _came.clear()
    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
