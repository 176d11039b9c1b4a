"""A worker process: does what its parent asks, one thing after the other, and dies with it.

Requests come in through standard input and answers go out where standard output was; what a model
prints goes to standard error.
"""

import os
import pickle
import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from traceback import format_exc, print_exc
from typing import Any, BinaryIO, NamedTuple

from mix2fld.base.errors import Mix2fldError


class Keep(NamedTuple):
    """Hold an object for the calls that will name it."""

    key: int
    data: bytes


class Drop(NamedTuple):
    """Forget an object."""

    key: int


class WorkerCall(NamedTuple):
    """Call a function with some of the objects that are held, and with an item of its own."""

    function: Callable[..., Any]
    held: tuple[int, ...]
    item: Any


class Answer(NamedTuple):
    """What a call returned, or why it did not."""

    value: Any = None
    bad_input: str | None = None
    failure: str | None = None


Request = Keep | Drop | WorkerCall


def serve() -> None:
    """Do what is asked until the parent is gone."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: SimpleQueue[Request] = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    held: dict[int, Any] = {}
    while True:
        match requests.get():
            case Keep(key, data):
                held[key] = data
            case Drop(key):
                del held[key]
            case WorkerCall() as call:
                pickle.dump(_answer(held, call), answers, pickle.HIGHEST_PROTOCOL)
                answers.flush()


def _listen(stream: BinaryIO, requests: "SimpleQueue[Request]") -> None:
    """Read ahead; where the requests end, this process ends, whatever it is doing."""
    try:
        while True:
            requests.put(pickle.load(stream))
    except EOFError:
        os._exit(0)
    except BaseException:
        print_exc()
        os._exit(1)


def _answer(held: dict[int, Any], call: WorkerCall) -> Answer:
    try:
        for key in call.held:
            if isinstance(held[key], bytes):
                held[key] = pickle.loads(held[key])
        return Answer(call.function(*(held[key] for key in call.held), call.item))
    except Mix2fldError as error:
        return Answer(bad_input=str(error))
    except Exception:
        return Answer(failure=format_exc())
