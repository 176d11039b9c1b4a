"""Runs the rounds of one run to its end, whatever its fleet."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from mix2fld.base.errors import InputError, Mix2fldError, some_of
from mix2fld.config.settings import Config
from mix2fld.engine.checks import warn_if_chance_level
from mix2fld.engine.divergence import GlobalRefusedError
from mix2fld.engine.fleet_interface import Fleet
from mix2fld.engine.info import RoundInfo
from mix2fld.engine.one_round import run_round, start_run
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.state import RunState
from mix2fld.protocols.suspects import in_words
from mix2fld.runs.afterwards import Afterwards
from mix2fld.runs.finetuned import Tuned
from mix2fld.runs.folder import RunFolder, warn
from mix2fld.runs.interrupts import raise_if_remembered
from mix2fld.runs.results import RunResult
from mix2fld.runs.summary import summarise
from mix2fld.runs.trained import FinalWeights


class Watcher:
    """Told what happens while runs are in progress; by itself, passes on notes and nothing else."""

    def note(self, line: str) -> None:
        """Something that the user should know, but that stops nothing."""
        warn(line)

    def begin(self, config: Config, rounds_done: int) -> None:
        """A run starts, or resumes after ``rounds_done`` rounds."""

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """Called after each round."""

    def end(self, result: RunResult) -> None:
        """Called when a run is finished."""


class EachNoteOnce(Watcher):
    """For many runs of one dataset: a note that all of them have is passed on once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def note(self, line: str) -> None:
        """Pass it on unless it was already."""
        if line not in self._told:
            self._told.add(line)
            super().note(line)


class ProgressLine(Watcher):
    """A line on a terminal or in a notebook that says which round is done."""

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """Write the line anew."""
        end = "\n" if info.round == config.rounds else ""
        line = f"\r{config.run_name}: round {info.round} of {config.rounds}{end}"
        print(line, end="", file=sys.stderr, flush=True)

    @staticmethod
    def wanted() -> bool:
        """Whether somebody looks at standard error."""
        return sys.stderr.isatty() or "ipykernel" in sys.modules


def run_rounds(
    scenario: Scenario,
    fleet: Fleet,
    folder: RunFolder | None,
    watcher: Watcher,
    learned: Callable[[RunState, Tuned], FinalWeights],
    after: Afterwards | None = None,
) -> RunResult:
    """Run all rounds, or those that are missing in the run's folder.

    ``learned`` says what a run in this state has learned, with models that were tuned ``after``.
    """
    config = scenario.config
    state = start_run(scenario, fleet)
    rounds: list[dict[str, Any]] = []
    if folder is not None:
        folder.prepare(config)
        state, rounds = folder.resume(like=state)
    watcher.begin(config, len(rounds))
    try:
        with _older_objects_kept():
            state = _run_missing(scenario, fleet, state, folder, watcher, rounds)
    except Mix2fldError as error:
        if folder is not None:
            folder.fail(str(error))
        raise
    summary = summarise(config, rounds, scenario.reference, scenario.learning.stepper.name)
    tuned = {} if after is None else after.finetuned(state)
    summary |= {} if after is None else after.scores(state, tuned)
    result = RunResult(config, rounds, summary, partial(learned, state, tuned))
    if folder is not None:
        folder.keep_finetuned(tuned)
        folder.finish(result.summary)
    watcher.end(result)
    task, of_server = scenario.learning.task, summary["scores"]["global"]
    reached = [summary["scores"]["mean"], *([] if of_server is None else [of_server])]
    best = task.metric.best(reached)  # many devices may not have had a turn yet
    suspect = next((words for info in rounds for words in _suspects(info)), None)
    if warning := warn_if_chance_level(config, task.doubt(best), suspect):
        watcher.note(warning)
    return result


@contextmanager
def _older_objects_kept() -> Iterator[None]:
    """What exists before the rounds is not searched for garbage while they run.

    With JAX and many devices, one search takes longer than several rounds.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _run_missing(
    scenario: Scenario,
    fleet: Fleet,
    state: RunState,
    folder: RunFolder | None,
    watcher: Watcher,
    rounds: list[dict[str, Any]],
) -> RunState:
    """Add the rounds that are missing to ``rounds``, and to the run's folder; the last state."""
    config = scenario.config
    while len(rounds) < config.rounds and not (
        config.stop_when_converged and rounds and rounds[-1]["converged"]
    ):
        try:
            state, info = run_round(scenario, fleet, state)
        except GlobalRefusedError as error:
            raise _taken_back(error, rounds, folder) from None
        if folder is not None:
            folder.append(info, state)
        if not any("beyond_history" in earlier["downloads"] for earlier in rounds):
            _note_weights(info, watcher)
        rounds.append(asdict(info))
        watcher.round_done(config, info)
        raise_if_remembered()
    return state


def _note_weights(info: RoundInfo, watcher: Watcher) -> None:
    """Say why all weights are sent, if a device was away for too long to be sent steps."""
    if away := info.downloads.get("beyond_history"):
        watcher.note(
            f"round {info.round}: devices that lack more steps than the server keeps are sent all "
            f"weights: {some_of(away)} (said once)"
        )


def _taken_back(
    error: GlobalRefusedError, rounds: list[dict[str, Any]], folder: RunFolder | None
) -> InputError:
    """Why the run stops; the round that made the refused model is no longer part of it."""
    reasons = [str(error)]
    if rounds:
        reasons += _suspects(rounds[-1])
    if folder is not None and rounds:
        folder.roll_back_round()
        reasons.append(f"the model before round {len(rounds)} is kept")
    return InputError("; ".join(reasons))


def _suspects(info: dict[str, Any]) -> list[str]:
    """Who sent what lies far from the rest in a round."""
    return [f"in round {info['round']}, {in_words(s)}" for s in info.get("suspects", ())]
