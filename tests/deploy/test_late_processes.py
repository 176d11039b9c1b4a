"""Ten device processes and a broker: a server that does not wait, masked sums, and kills."""

import time
from pathlib import Path

import pytest

from deploy.lab import deployed_grid, rounds_of
from deploy.mqtt_lab import Serving, fleet_of, needs_mosquitto, toy_run
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.engine.one_round import run_round, start_run
from mix2fld.runs.simulation import make_simulation

pytestmark = [needs_mosquitto, pytest.mark.long]
DEVICES = 10
FIELDS = {
    "devices": DEVICES,
    "samples_per_device": 20,
    "aggregation": "mean",
    "sample_weights": "ignored",
    "local_steps": 20_000,
}


class Replayed:
    """A simulated fleet whose uploads come in the rounds in which those of a deployment came."""

    def __init__(self, fleet, infos) -> None:
        self._fleet, self._infos = fleet, infos
        self._held = {}

    def __getattr__(self, name):
        return getattr(self._fleet, name)

    def train(self, states, order):
        pending, trained = self._fleet.train(states, order)
        self._held.update(trained.messages)
        came = self._infos[order.round_number - 1]["uploads"]["devices"]
        messages = {device: self._held.pop(device) for device in came}
        seconds = {device: 0.001 * (1 + place) for place, device in enumerate(came)}
        return pending, trained._replace(
            messages=messages, computing_seconds=seconds, in_flight=frozenset(self._held)
        )


def replayed(config: Config, infos: list[dict]) -> list:
    """A simulation of the same order of uploads."""
    simulation = make_simulation(config, load_dataset(config.data))
    fleet = Replayed(simulation.fleet, infos)
    state, found = start_run(simulation.scenario, fleet), []
    for _ in infos:
        state, info = run_round(simulation.scenario, fleet, state)
        found.append(info)
    return found


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol": "fl", "wait": "buffered:4", "rounds": 12},
        {"protocol": "fl", "wait": "buffered:6", "sums": "masked", "rounds": 8},
        {"protocol": "fl", "sums": "masked", "rounds": 4},
    ],
    ids=["buffered", "buffered-masked", "masked"],
)
def test_ten_processes_survive_kills_and_have_the_rounds_of_the_engine(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    grid = deployed_grid(tmp_path, kernel="native", protocols=("fl",), **FIELDS)
    with fleet_of(tmp_path, grid) as fleet:
        fleet.start_devices()
        config = toy_run(tmp_path, **{**FIELDS, **fields})
        serving = Serving(fleet, config, timeout_s=40)
        for device in (3, 7, 3):
            time.sleep(1.5)
            fleet.kill(f"device-{device}")
            fleet.start_device(device)
        path = serving.join()
    infos = rounds_of(path)
    assert len(infos) == config.rounds
    if "wait" not in fields:  # who was killed in the middle of a sum is left out of it
        assert all(info["uploads"]["delivered"] >= 7 for info in infos)
        return
    assert any(any(info["waiting"]["staleness"].values()) for info in infos)
    for own, theirs in zip(infos, replayed(config, infos), strict=True):
        assert own["scores"]["global"] == theirs.scores["global"]
        assert own["uploads"] == theirs.uploads
        assert own["bits"] == theirs.bits
        assert own["asked"] == theirs.asked
        assert own["waiting"]["staleness"] == theirs.waiting["staleness"]
