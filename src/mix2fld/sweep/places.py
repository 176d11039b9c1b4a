"""Places of this machine: this process, or worker processes that share its cores."""

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from threading import Lock

from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.config.settings import Config
from mix2fld.engine.info import RoundInfo
from mix2fld.native.processor import usable_cores
from mix2fld.sweep.jobs import Job, JobResult, Notes, dataset_of, reason_of, run_into, run_job
from mix2fld.sweep.schedule import Event
from mix2fld.tasks.workers import Worker


class ThisProcess:
    """One run after the other in this process, each with all its cores."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._begun = False

    def slots(self) -> int:
        return 1

    def cores(self) -> int:
        return usable_cores()

    def begin(self, job: Job) -> None:
        """Take it; it runs while events are waited for."""
        self._job, self._begun = job, False

    def events(self, seconds: float, tick: Callable[[], None]) -> list[Event]:
        del seconds
        assert self._job is not None
        job = self._job
        if not self._begun:
            self._begun = True
            return [Event(job, "this process")]
        done = run_into(job.folder.parent, job.config, dataset_of(job.config), _Ticking(tick))
        return [Event(job, done=done)]

    def stop(self) -> None:
        """Nothing to stop: no process outlives a call."""


class _Ticking(Notes):
    def __init__(self, tick: Callable[[], None]) -> None:
        super().__init__()
        self._tick = tick

    def round_done(self, config: Config, info: RoundInfo) -> None:
        del config, info
        self._tick()


class WorkerProcesses:
    """Worker processes that stay for several runs and die with this process.

    Each has its own cores. One that dies takes only its run with it.
    """

    def __init__(self, workers: int, cores_each: int | None = None) -> None:
        self._threads = ThreadPoolExecutor(workers)
        self._workers = workers
        self._free: SimpleQueue[int] = SimpleQueue()
        self._running: dict[int, Worker] = {}
        self._cores = [_cores_of(place, workers, cores_each) for place in range(workers)]
        self._jobs: dict[Future[JobResult], Job] = {}
        self._begun: list[Event] = []
        self._lock, self._stopped = Lock(), False
        for place in range(workers):
            self._free.put(place)

    def slots(self) -> int:
        return self._workers

    def cores(self) -> int:
        """Those of all workers, each counted once."""
        return len({core for cores in self._cores for core in cores}) or self._workers

    def begin(self, job: Job) -> None:
        place = self._free.get()
        self._jobs[self._threads.submit(self._run, place, job)] = job
        self._begun.append(Event(job, f"worker {place}"))

    def events(self, seconds: float, tick: Callable[[], None]) -> list[Event]:
        del tick
        begun, self._begun = self._begun, []
        if begun:
            return begun
        ended, _ = wait(self._jobs, seconds, FIRST_COMPLETED)
        return [Event(self._jobs.pop(future), done=future.result()) for future in ended]

    def stop(self) -> None:
        """Kill all workers; their runs lose at most the round in progress."""
        with self._lock:
            self._stopped = True
            for worker in self._running.values():
                worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._running.values():
            worker.close()
        self._running.clear()

    def _run(self, place: int, job: Job) -> JobResult:
        try:
            worker = self._worker(place)
            ((_, done),) = worker.answers(run_job, (), iter([(0, job)]))
            return done
        except (OSError, Mix2fldError, RuntimeError) as error:
            self._lose(place)
            return JobResult(reason_of(error))
        finally:
            self._free.put(place)

    def _worker(self, place: int) -> Worker:
        with self._lock:
            if self._stopped:
                raise InputError("stopped")
            if place not in self._running:
                self._running[place] = Worker(self._cores[place])
            return self._running[place]

    def _lose(self, place: int) -> None:
        """Close a worker that ended."""
        with self._lock:
            worker = self._running.pop(place, None)
            if worker is not None:
                worker.kill()
                worker.close()


def _cores_of(place: int, workers: int, each: int | None) -> tuple[int, ...]:
    """The cores of one worker: an equal share, or so many; in turn if there are too few."""
    if not hasattr(os, "sched_getaffinity"):
        return ()
    cores = sorted(os.sched_getaffinity(0))
    count = min(each or max(1, usable_cores() // workers), len(cores))
    return tuple(cores[(place * count + i) % len(cores)] for i in range(count))
