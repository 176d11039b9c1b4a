"""Worker processes, one for each core, for work that holds the interpreter's lock.

They are started when they are first needed, stay for the next round and the next run, and end with
this process. A worker neither imports ``__main__`` nor gets the terminal's Ctrl-C: it is this
process that stops them.
"""

import atexit
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from itertools import count
from threading import Lock
from typing import Any
from weakref import finalize

from mix2fld.base.errors import InputError
from mix2fld.native.processor import usable_cores
from mix2fld.tasks.worker import Answer, Drop, Keep, Request, WorkerCall

_BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from mix2fld.tasks.worker import serve; serve()"
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_AHEAD = 2
"""Calls that a worker has at a time, so that it never waits for the next."""


class Held:
    """An object that workers keep from the first call that names it until nobody here has it."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = next(_keys)
        finalize(self, _gone.append, self.key).atexit = False


_keys = count()
_gone: deque[int] = deque()
"""Keys of objects that were deleted."""


def in_workers(
    function: Callable[..., Any], held: tuple[Held, ...], items: int, item: Callable[[int], Any]
) -> list[Any]:
    """``function(*held, item(i))`` for each i below ``items``; an item is made when it is due.

    ``function`` is imported by the workers; what is held may be anything, also of ``__main__``.
    """
    return _workers(os.getpid()).map(function, held, items, item)


@lru_cache(maxsize=1)
def _workers(process: int) -> "Workers":
    """Those of this process; after a fork, the child has its own."""
    del process
    workers = Workers()
    atexit.register(workers.stop)
    return workers


class Workers:
    """As many processes as there are cores, at most."""

    def __init__(self) -> None:
        self._running: list[Worker] = []
        self._lock = Lock()

    def map(
        self, function: Callable[..., Any], held: tuple[Held, ...], items: int,
        item: Callable[[int], Any],
    ) -> list[Any]:  # fmt: skip
        """The items shared out; a free worker takes the next."""
        with self._lock:
            return self._map(function, held, items, item)

    def _map(
        self, function: Callable[..., Any], held: tuple[Held, ...], items: int,
        item: Callable[[int], Any],
    ) -> list[Any]:  # fmt: skip
        wanted = min(usable_cores(), items)
        self._drop_ended()
        while len(self._running) < wanted:
            self._running.append(Worker())
        self._forget()
        results: list[Any] = [None] * items
        numbers = iter(range(items))  # a step of it is one operation: threads can share it

        def serve(worker: Worker) -> None:
            numbered = ((number, item(number)) for number in numbers)
            try:
                for number, value in worker.answers(function, held, numbered):
                    results[number] = value
            except BaseException:
                deque(numbers, maxlen=0)  # nobody begins another item
                raise

        try:
            with ThreadPoolExecutor(wanted) as threads:
                self._wait(threads.map(serve, self._running[:wanted]))
        except BaseException:
            self.stop()
            raise
        return results

    def stop(self) -> None:
        """End all workers at once; the next call starts new ones."""
        running, self._running = self._running, []
        for worker in running:
            worker.kill()
        for worker in running:
            worker.close()

    def _wait(self, served: Iterator[None]) -> None:
        """Until all are served; if that is not to be, kill workers, or threads would wait on."""
        try:
            for _ in served:
                pass
        except BaseException:
            for worker in self._running:
                worker.kill()
            raise

    def _drop_ended(self) -> None:
        """Close workers that ended while nobody asked them anything."""
        for worker in [worker for worker in self._running if worker.ended()]:
            self._running.remove(worker)
            worker.close()

    def _forget(self) -> None:
        while _gone:
            key = _gone.popleft()
            for worker in self._running:
                worker.forget(key)


class Worker:
    """One process, seen from its parent."""

    def __init__(self, cores: Sequence[int] = ()) -> None:
        """``cores``: those that it may use; by default all of this process."""
        self._known: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BEGIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,
        )
        if cores and hasattr(os, "sched_setaffinity"):
            with suppress(OSError):
                os.sched_setaffinity(self._process.pid, cores)
        self._send(sys.path)

    def answers(
        self, function: Callable[..., Any], held: tuple[Held, ...], items: Iterator[tuple[int, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Take items while there are any, and yield what comes of each, with its number."""
        for each in held:
            self._keep(each)
        keys = tuple(each.key for each in held)
        asked: deque[int] = deque()
        for number, item in items:
            self._send(WorkerCall(function, keys, item))
            asked.append(number)
            if len(asked) == _AHEAD:
                yield asked.popleft(), self._receive()
        while asked:
            yield asked.popleft(), self._receive()

    def forget(self, key: int) -> None:
        """Let go of an object."""
        if key in self._known:
            self._known.remove(key)
            self._send(Drop(key))

    def ended(self) -> bool:
        """Whether the process is no more."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()

    def close(self) -> None:
        """Leave nothing of an ended process."""
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # of what was not sent yet
                pipe.close()

    def _keep(self, held: Held) -> None:
        if held.key not in self._known:
            import cloudpickle

            self._send(Keep(held.key, cloudpickle.dumps(held.value)))
            self._known.add(held.key)

    def _send(self, request: Request | list[str]) -> None:
        assert self._process.stdin is not None
        try:
            pickle.dump(request, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        try:
            answer: Answer = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None
        if answer.bad_input is not None:
            raise InputError(answer.bad_input)
        if answer.failure is not None:
            raise RuntimeError(f"in a worker process:\n{answer.failure}")
        return answer.value

    def _ended(self) -> OSError:
        code = self._process.wait()
        return ChildProcessError(
            f"a worker process ended with exit code {code}; it may have run out of memory, which "
            f"{usable_cores()} of them share"
        )
