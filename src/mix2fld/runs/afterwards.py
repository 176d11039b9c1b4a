"""What a simulated run does after its last round: fine-tuning, and tests on own samples."""

from collections.abc import Sequence
from functools import cached_property
from statistics import fmean
from typing import Any

from mix2fld.data import measured_samples
from mix2fld.data.partition import own_test_samples
from mix2fld.engine.finetune import finetune
from mix2fld.engine.fleets.device_states import DeviceStates
from mix2fld.engine.fleets.local import LocalFleet
from mix2fld.engine.scenario import Scenario
from mix2fld.engine.state import RunState
from mix2fld.runs.finetuned import Tuned
from mix2fld.runs.summary import own_summary
from mix2fld.tasks.stepper import TestSet
from mix2fld.types import Dataset


class Afterwards:
    """Of one run, wherever its devices were: their states are read here."""

    def __init__(self, scenario: Scenario, dataset: Dataset, states: DeviceStates) -> None:
        self._scenario, self._dataset, self._states = scenario, dataset, states

    def finetuned(self, state: RunState) -> Tuned:
        """The model of every device after its steps that follow the last round."""
        if not self._scenario.config.learning.finetune_steps:
            return {}
        fleet = LocalFleet(self._scenario, self._dataset, self._states)

        def read(devices: Sequence[int]) -> dict[int, Any]:
            return self._states.read(state.devices, devices)

        return finetune(self._scenario, fleet, read, state.round_number)

    def scores(self, state: RunState, tuned: Tuned) -> dict[str, Any]:
        """Entries of the summary: own tests; and the same and the common test when tuned."""
        evaluated = self._scenario.evaluated
        read = self._states.read(state.devices, evaluated)
        found = self._own({device: read[device]["weights"] for device in evaluated})
        if tuned:
            learning = self._scenario.learning
            samples = measured_samples(self._dataset, self._scenario.config)
            tests = TestSet(learning.stepper, learning.task, *samples)
            common = [score[0] for score in tests.scores([tuned[d] for d in evaluated])]
            own = self._own({device: tuned[device] for device in evaluated})
            steps = self._scenario.config.learning.finetune_steps
            found["finetuned"] = {"steps": steps, "mean": fmean(common), **own}
        return found

    def _own(self, models: Tuned) -> dict[str, Any]:
        learning, held = self._scenario.learning, self._held
        scores = [
            TestSet(learning.stepper, learning.task, *held[d]).scores([models[d]])[0][0]
            for d in (models if held else ())
            if len(held[d][0])
        ]
        return {"own": own_summary(scores, learning.task.metric)} if scores else {}

    @cached_property
    def _held(self) -> Any:
        return own_test_samples(self._dataset, self._scenario.config)
