"""Work that releases the interpreter's lock, shared out to this process's threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from mix2fld.native.processor import usable_cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The result for each item; a thread for each core takes the next one that nobody has."""
    results: dict[int, Result] = {}
    waiting = iter(range(len(items)))

    def work() -> None:
        for place in waiting:
            results[place] = function(items[place])

    cores = usable_cores()
    others = range(min(cores, len(items)) - 1)
    helping = [_helpers(cores - 1).submit(work) for _ in others]
    try:
        work()
    finally:
        list(waiting)  # if one failed, the others take no more
        failures = [each.exception() for each in helping if not each.cancel()]
    for failure in failures:
        if failure is not None:
            raise failure
    return [results[place] for place in range(len(items))]


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    """Threads beside the one that asks; they wait for the next work."""
    return ThreadPoolExecutor(count, "mix2fld")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)
