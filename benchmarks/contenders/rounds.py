"""This engine's whole rounds, one for each protocol, split into their parts."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.protocols import distillation
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.simulation import make_simulation
from mix2fld.tasks.native import NativeStepper
from mix2fld.tasks.stepper import TestSet
from mix2fld.tasks.xla import XlaStepper
from mix2fld.types import Dataset

PARTS: tuple[tuple[str, Any, str], ...] = (
    ("local", NativeStepper, "train"),
    ("local", XlaStepper, "train"),
    ("conversion", distillation, "convert"),
    ("evaluation", TestSet, "scores"),
)


class Stopwatch:
    """Notes when functions that it is put around were running, by a clock."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.intervals: list[tuple[float, float, str]] = []
        self._clock = clock

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = self._clock()
            result = function(*args, **kwargs)
            self.intervals.append((started, self._clock(), part))
            return result

        return timed

    @contextmanager
    def put_around(self, parts: Sequence[tuple[str, Any, str]]) -> Iterator[None]:
        """Around the functions of these parts: what it is, where it is, and its name there."""
        with ExitStack() as stack:
            for part, home, name in parts:
                # A method is found on the class, so self comes first, as with any function.
                timed = self.around(part, getattr(home, name))
                stack.enter_context(patch.object(home, name, timed))
            yield

    def seconds(self, part: str) -> float:
        """How long a part ran."""
        return sum(end - start for start, end, name in self.intervals if name == part)

    def covered(self) -> float:
        """How long any part ran; parts may overlap."""
        total, until = 0.0, 0.0
        for start, end, _ in sorted(self.intervals):
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total


def measure(devices: int, steps: int) -> dict[str, Any]:
    """The second round of every protocol over an ideal link, where everything arrives."""
    config = Config.of(devices=devices, local_steps=steps, server_steps=steps // 2, link="ideal")
    dataset = load_dataset(config.data)
    return {
        "server_steps": steps // 2,
        "rounds": {
            name: measure_protocol(config.replace(protocol=name), dataset) for name in PROTOCOLS
        },
    }


def measure_protocol(config: Config, dataset: Dataset) -> dict[str, float]:
    """Seconds of each part of a round; the first round, which compiles, is not counted."""
    simulation = make_simulation(config, dataset)
    started = time.perf_counter()
    state, _ = simulation.run_round(simulation.start())
    first = time.perf_counter() - started
    watch = Stopwatch()
    with watch.put_around(PARTS):
        started = time.perf_counter()
        simulation.run_round(state)
        total = time.perf_counter() - started
    seconds = {part: watch.seconds(part) for part, _, _ in PARTS}
    return {"total": total, **seconds, "rest": total - watch.covered(), "first": first - total}
