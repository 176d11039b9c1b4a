"""The one loop that runs many runs, wherever they are run.

Finished runs are not run again, interrupted ones resume. One that fails is tried again some times;
then it is reported, and the others continue.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from mix2fld.runs.simulation import finished_run
from mix2fld.sweep.jobs import Job, JobResult, dataset_of, prepare_jobs

Status = Literal["waiting", "running", "finished", "failed"]
TICK_S = 0.5
"""How often progress is looked at."""


class Event(NamedTuple):
    """News of a job: it begins to run somewhere, or it is done."""

    job: Job
    where: str = ""
    done: JobResult | None = None


class RunPlace(Protocol):
    """Where runs are run: this process, processes of this machine, a cluster."""

    def slots(self) -> int:
        """How many jobs it takes at a time."""

    def cores(self) -> int:
        """How many cores its jobs use at a time."""

    def begin(self, job: Job) -> None:
        """Start a job."""

    def events(self, seconds: float, tick: Callable[[], None]) -> list[Event]:
        """News of the jobs taken, after at most so long; ``tick`` is called while it waits."""

    def stop(self) -> None:
        """End whatever is in progress; what is on disk stays."""


@dataclass(eq=False)
class Track:
    """The state of a job: waiting, running, done or failed."""

    job: Job
    status: Status = "waiting"
    where: str = ""
    tries: int = 0
    done_before: int = 0
    """Rounds that were on disk when it was first looked at."""
    rounds: int = 0
    reason: str = ""


@dataclass
class SweepProgress:
    """The states of all jobs, and the time left."""

    tracks: list[Track]
    started: float = field(default_factory=time.monotonic)

    def of(self, status: Status) -> list[Track]:
        """The jobs of one status, in their order."""
        return [track for track in self.tracks if track.status == status]

    def seconds_left(self) -> float | None:
        """Time left for all jobs, from the pace so far; None before the first round."""
        computed = sum((t.rounds - t.done_before) * t.job.round_cost for t in self.tracks)
        left = sum(
            (t.job.config.rounds - t.rounds) * t.job.round_cost
            for t in self.tracks
            if t.status in ("waiting", "running")
        )
        return left * (time.monotonic() - self.started) / computed if computed > 0 else None


class Board:
    """Told how the jobs fare; by itself, shows nothing."""

    def show(self, progress: SweepProgress) -> None:
        """Some time has passed, or something has happened."""

    def ended(self, track: Track, progress: SweepProgress) -> None:
        """A job is finished, or was given up."""

    def note(self, line: str) -> None:
        """Something that the user should know, but that stops nothing."""


def run_jobs(
    jobs: Sequence[Job], place: RunPlace, *, retries: int = 1, board: Board | None = None
) -> SweepProgress:
    """Run all jobs; returns how each of them ended. The caller, which made the place, stops it."""
    prepare_jobs(jobs)
    return _Loop(jobs, place, retries, board or Board()).run()


class _Loop:
    """The state of the loop."""

    def __init__(self, jobs: Sequence[Job], place: RunPlace, retries: int, board: Board) -> None:
        self._place, self._retries, self._board = place, retries, board
        self._tracks = {id(job): _track(job) for job in jobs}
        self._progress = SweepProgress(list(self._tracks.values()))
        self._waiting = deque(self._progress.of("waiting"))
        self._taken = 0

    def run(self) -> SweepProgress:
        """Until nothing waits and nothing runs."""
        self._progress.started = time.monotonic()
        while self._waiting or self._taken:
            while self._waiting and self._taken < self._place.slots():
                self._place.begin(self._waiting.popleft().job)
                self._taken += 1
            for event in self._place.events(TICK_S, self._tick):
                self._hear(event)
            self._tick()
        return self._progress

    def _tick(self) -> None:
        for track in self._progress.of("running"):
            track.rounds = max(track.rounds, track.job.rounds_done())
        self._board.show(self._progress)

    def _hear(self, event: Event) -> None:
        track = self._tracks[id(event.job)]
        if event.done is None:
            track.status, track.where = "running", event.where
            return
        self._taken -= 1
        track.tries += 1
        track.rounds = event.job.rounds_done()
        for line in event.done.notes:
            before, named, after = line.partition(f"{event.job.config.run_name}: ")
            self._board.note(f"{event.job.name}: {after if named else before}")
        if event.done.failure is None:
            track.status = "finished"
        else:
            track.reason = event.done.failure
            if track.tries <= self._retries:
                track.status = "waiting"
                self._board.note(f"{event.job.name}: {track.reason}; tried again")
                self._waiting.append(track)
                return
            track.status = "failed"
        self._board.ended(track, self._progress)


def _track(job: Job) -> Track:
    """A job as it is found."""
    rounds = job.rounds_done()
    done = finished_run(job.folder, dataset_of(job.config)) is not None
    return Track(job, "finished" if done else "waiting", done_before=rounds, rounds=rounds)
