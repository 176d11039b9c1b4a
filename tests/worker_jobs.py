"""What the tests let worker processes do."""

import os
import sys
import time
from typing import Any

from mix2fld.base.errors import InputError


def process_and_square(item: int) -> tuple[int, int]:
    time.sleep(0.02)
    return os.getpid(), item * item


def apply(function: Any, offset: Any, item: int) -> Any:
    return function(item) + offset


def fail(item: str) -> None:
    if item == "input":
        raise InputError("field = 3: must be 4")
    if item == "die":
        os._exit(7)
    raise LookupError(item)


def say(item: str) -> str:
    print(item)
    print("beside", file=sys.stderr)
    return item


def threads(item: int) -> int:
    del item
    return int(os.environ["OMP_NUM_THREADS"])


def echo(item: Any) -> Any:
    return item


def sleep_long(item: int) -> int:
    time.sleep(60)
    return item


class Counted:
    """Tells how many of its kind live in the process that it is in."""

    alive = 0

    def __init__(self) -> None:
        Counted.alive += 1

    def __setstate__(self, state: Any) -> None:
        Counted.alive += 1

    def __getstate__(self) -> Any:
        return {"some": "state"}

    def __del__(self) -> None:
        Counted.alive -= 1


def alive(item: int) -> int:
    time.sleep(0.05)
    return Counted.alive


def how_many(counted: Counted, item: int) -> int:
    time.sleep(0.05)
    return counted.alive
