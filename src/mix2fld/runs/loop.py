"""Plays the rounds of one run to its end, whoever plays them: the simulator or a deployment."""

from dataclasses import asdict
from typing import Any, Protocol

from mix2fld.config import Config
from mix2fld.learning.task import Task
from mix2fld.round.checks import warn_if_chance_level
from mix2fld.round.info import RoundInfo, RunState
from mix2fld.runs.folder import RunFolder, RunResult, summarise, warn
from mix2fld.runs.interrupts import raise_if_remembered


class Player(Protocol):
    """Whoever can play a round."""

    @property
    def task(self) -> Task:
        """What is learned."""

    @property
    def reference(self) -> int:
        """The device whose accuracy is followed through the round."""

    def start(self) -> RunState:
        """The state before the first round."""

    def run_round(self, state: RunState) -> tuple[RunState, RoundInfo]:
        """One global update."""


class Watcher:
    """Told what happens while runs are played; by itself, passes on notes and nothing else."""

    def note(self, line: str) -> None:
        """Something that the user should know, but that stops nothing."""
        warn(line)

    def begin(self, config: Config, rounds_done: int) -> None:
        """A run starts, or goes on after ``rounds_done`` rounds."""

    def round_done(self, config: Config, info: RoundInfo) -> None:
        """A round is over."""

    def end(self, result: RunResult) -> None:
        """A run is over."""


def play(player: Player, folder: RunFolder | None, watcher: Watcher) -> RunResult:
    """Play a run, or what is left of it in its folder."""
    config = player.task.config
    state = player.start()
    rounds: list[dict[str, Any]] = []
    if folder is not None:
        folder.prepare(config)
        state, rounds = folder.resume(like=state)
    watcher.begin(config, len(rounds))
    while len(rounds) < config.rounds and not (
        config.stop_when_converged and rounds and rounds[-1]["converged"]
    ):
        state, info = player.run_round(state)
        if folder is not None:
            folder.append(info, state)
        rounds.append(asdict(info))
        watcher.round_done(config, info)
        raise_if_remembered()
    summary = summarise(config, rounds, player.reference, player.task.kernel)
    result = RunResult(config, rounds, summary)
    if folder is not None:
        folder.finish(result.summary)
    watcher.end(result)
    dims, accuracy = player.task.dims, summary["accuracy"]["mean"]
    if word := warn_if_chance_level(config, dims.num_labels, accuracy):
        watcher.note(word)
    return result
