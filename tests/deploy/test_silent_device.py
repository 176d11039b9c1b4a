"""A device that is connected and says nothing is named, and does not cost every round a timeout."""

import time
from pathlib import Path

import pytest

from deploy.lab import deployed_config, diary, rounds_of
from deploy.memory_line import MemoryBroker, run_in_memory
from mix2fld.deploy.edge.messages import unpack
from mix2fld.deploy.silence import Silence

TIMEOUT_S = 1.0


class Silent(MemoryBroker):
    """Loses all answers of device 2 in these rounds, however often they are sent."""

    def __init__(self, rounds: range) -> None:
        super().__init__()
        self.rounds = rounds

    def deliveries(self, line, topic, payload):
        if topic == "u/2" and unpack(payload).round in self.rounds:
            return []
        return super().deliveries(line, topic, payload)


def test_the_rounds_of_a_silent_device_are_as_short_as_the_others(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=8)
    path = run_in_memory(tmp_path, config, Silent(range(1, 9)), timeout_s=TIMEOUT_S)
    said = diary(path)
    waited = [n for n in range(1, 9) if f"round {n}: device 2 did not answer" in said]
    passed = [n for n in range(1, 9) if f"round {n}: does not wait for devices 2" in said]
    assert (waited, passed) == ([1, 2, 3, 5], [4, 6, 7, 8])
    assert said.count("device 2 did not answer") == 1 + len(waited)  # once for a download
    assert all(info["uploads"]["devices"] == [0, 1, 3] for info in rounds_of(path))
    assert "round 2: device 2 is connected and has been silent for 2 rounds" in said


def test_a_device_that_speaks_again_takes_part_again(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=6)
    path = run_in_memory(tmp_path, config, Silent(range(2, 5)), timeout_s=TIMEOUT_S)
    found = [2 in info["uploads"]["devices"] for info in rounds_of(path)]
    assert found == [True, False, False, False, True, True]


@pytest.mark.parametrize(("rounds", "times"), [(60, 7), (500, 10)])
def test_a_silent_device_is_waited_for_ever_more_rarely(rounds: int, times: int) -> None:
    silence = Silence()
    waited = 0
    for _ in range(rounds):
        waited += silence.patient_with(2)
        silence.after_round(asked={1, 2}, replied={1})
        assert silence.patient_with(1)
    assert waited == times
    silence.only({1})
    silence.only({1, 2})  # it has connected again
    assert silence.patient_with(2)


def test_time_is_that_of_the_round(tmp_path: Path) -> None:
    """Without a silent device no round takes its timeout."""
    config = deployed_config(tmp_path, protocol="fd", rounds=2)
    started = time.monotonic()
    path = run_in_memory(tmp_path, config, timeout_s=60)
    assert time.monotonic() - started < 60
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]
