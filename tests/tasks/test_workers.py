"""Worker processes: the same results in the same order, and none of them outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import worker_jobs
from mix2fld.base.errors import InputError
from mix2fld.tasks import workers
from mix2fld.tasks.workers import Held, Workers
from places import TESTS


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    started = Workers()
    yield started
    started.stop()


def test_results_come_in_the_order_of_the_items(pool: Workers) -> None:
    found = pool.map(worker_jobs.process_and_square, (), 20, lambda number: number + 1)
    assert [square for _, square in found] == [(number + 1) ** 2 for number in range(20)]
    processes = {process for process, _ in found}
    assert len(processes) == 2
    assert os.getpid() not in processes
    again = pool.map(worker_jobs.process_and_square, (), 6, lambda number: number)
    assert {process for process, _ in again} <= processes
    assert pool.map(worker_jobs.threads, (), 2, lambda number: number) == [1, 1]


def test_what_is_held_may_be_anything(pool: Workers) -> None:
    factor = 3

    class Local:
        def __call__(self, item: int) -> int:
            return factor * item

    held = (Held(Local()), Held(np.arange(2)))
    found = pool.map(worker_jobs.apply, held, 3, lambda number: number)
    np.testing.assert_array_equal(found, [[0, 1], [3, 4], [6, 7]])


def test_an_object_is_held_as_long_as_someone_here_has_it(pool: Workers) -> None:
    held = Held(worker_jobs.Counted())
    for _ in range(2):
        assert pool.map(worker_jobs.how_many, (held,), 4, lambda number: number) == [1] * 4
    del held
    assert pool.map(worker_jobs.alive, (), 4, lambda number: number) == [0] * 4


def test_large_items_and_answers_do_not_block(pool: Workers) -> None:
    """Both pipes are full at once if nobody reads ahead."""
    array = np.random.default_rng(0).random(1 << 20)
    for found in pool.map(worker_jobs.echo, (), 6, lambda number: array + number):
        assert len(found) == len(array)


@pytest.mark.parametrize(
    ("item", "kind", "message"),
    [
        ("input", InputError, "^field = 3: must be 4$"),
        ("other", RuntimeError, "in a worker process:(.|\n)*LookupError: other"),
        ("die", ChildProcessError, "a worker process ended with exit code 7; it may have run out"),
    ],
)
def test_failures_come_back(pool: Workers, item: str, kind: type, message: str) -> None:
    """And the next call works as if nothing had been."""
    with pytest.raises(kind, match=message):
        pool.map(worker_jobs.fail, (), 2, lambda number: item)
    assert pool.map(worker_jobs.echo, (), 2, lambda number: number) == [0, 1]


def test_workers_that_were_killed_in_between_are_replaced(pool: Workers) -> None:
    found = pool.map(worker_jobs.process_and_square, (), 8, int)
    (one, _), *_ = found
    os.kill(one, signal.SIGKILL)
    os.waitid(os.P_PID, one, os.WEXITED | os.WNOWAIT)  # until it has ended; it stays a zombie
    again = pool.map(worker_jobs.process_and_square, (), 8, int)
    assert one not in {process for process, _ in again}


def test_an_item_that_cannot_be_made_stops_the_call(pool: Workers) -> None:
    def item(number: int) -> int:
        raise ValueError(f"item {number}")

    with pytest.raises(ValueError, match="item"):
        pool.map(worker_jobs.echo, (), 2, item)
    assert pool.map(worker_jobs.echo, (), 2, lambda number: number) == [0, 1]


SCRIPT = """
import os, sys, threading, time
sys.path.insert(0, {tests!r})
import worker_jobs
from mix2fld.tasks import workers
workers.usable_cores = lambda: 2
processes = {{p for p, _ in workers.in_workers(worker_jobs.process_and_square, (), 8, int)}}
print(*processes, flush=True)
workers.in_workers(worker_jobs.say, (), 2, lambda number: "words of a model")
print("working", flush=True)
workers.in_workers({job}, (), 4, int)
print("done", flush=True)
"""


def start(job: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A script without any guard of its ``__main__``, and its workers."""
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(tests=str(TESTS), job=job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert script.stdout is not None
    processes = [int(process) for process in script.stdout.readline().split()]
    assert script.stdout.readline() == "working\n"
    time.sleep(0.3)
    return script, processes


def finish(script: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed since, read in the way that ``start`` reads."""
    assert script.stdout is not None
    assert script.stderr is not None
    with script:
        return script.stdout.read(), script.stderr.read()


def all_gone(processes: list[int], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(Path(f"/proc/{process}").exists() for process in processes):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_die_with_their_parent(how: signal.Signals) -> None:
    script, processes = start("worker_jobs.sleep_long")
    assert len(processes) == 2
    script.send_signal(how)
    finish(script)
    assert all_gone(processes)


def test_ctrl_c_is_one_for_all() -> None:
    """The terminal sends it to the whole group; only the parent says anything."""
    script, processes = start("worker_jobs.sleep_long")
    os.killpg(script.pid, signal.SIGINT)
    out, said = finish(script)
    assert script.returncode == -signal.SIGINT
    assert "done" not in out
    assert said.count("Traceback") == 1
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert all_gone(processes)


def test_workers_end_quietly_and_print_beside_the_results() -> None:
    script, processes = start("worker_jobs.echo")
    out, said = finish(script)
    assert script.returncode == 0
    assert out == "done\n"
    assert said.count("words of a model\n") == said.count("beside\n") == 2
    assert len(said.splitlines()) == 4
    assert all_gone(processes)
