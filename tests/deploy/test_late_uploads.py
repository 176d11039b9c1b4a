"""Servers that do not wait, over MQTT: the simulator's rounds for the same order of uploads."""

from pathlib import Path

import pytest

from deploy.lab import deployed_config, rounds_of
from deploy.memory_line import MemoryBroker, run_in_memory
from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.deploy.edge.messages import Trained, unpack
from mix2fld.deploy.settings import check_flower
from mix2fld.engine.info import RoundInfo
from mix2fld.engine.one_round import run_round, start_run
from mix2fld.runs.loop import Watcher
from mix2fld.runs.simulation import make_simulation
from toys import toy_config

SPEEDS = {"device_step_us": (1e5, 2.1e5, 3.3e5, 9.7e5), "server_step_us": 0}
PLAIN = {"aggregation": "mean", "sample_weights": "ignored"}


def simulated(config: Config) -> list[RoundInfo]:
    """The rounds of a simulation with unequal speeds."""
    config = config.replace(computing_time="stated", **SPEEDS)
    simulation = make_simulation(config, load_dataset(config.data))
    state, infos = start_run(simulation.scenario, simulation.fleet), []
    for _ in range(config.rounds):
        state, info = run_round(simulation.scenario, simulation.fleet, state)
        infos.append(info)
    return infos


class Ordered(MemoryBroker):
    """Holds uploads back until it is their turn, in the order of a simulation."""

    def __init__(self, infos: list[RoundInfo]) -> None:
        super().__init__()
        self.expect(infos)

    def expect(self, infos: list[RoundInfo]) -> None:
        """What is yet to be delivered; what a server that is gone has heard is lost."""
        self.turns = [
            (device, info.round - info.waiting["staleness"][str(device)])
            for info in infos
            for device in sorted(info.uploads["devices"])
        ]
        self.held: dict[tuple[int, int], tuple] = {}

    def deliveries(self, line, topic, payload):
        message = unpack(payload) if topic.startswith("u/") else None
        if not isinstance(message, Trained):
            return super().deliveries(line, topic, payload)
        self.held[int(topic[2:]), message.round] = (line, topic, payload)
        found = []
        while self.turns and self.turns[0] in self.held:
            found.append(self.held.pop(self.turns.pop(0)))
        return found


def assert_same_rounds(path: Path, infos: list[RoundInfo]) -> None:
    """All that does not depend on the time that things took."""
    found = rounds_of(path)
    assert len(found) == len(infos)
    for own, theirs in zip(found, infos, strict=True):
        assert own["scores"]["global"] == theirs.scores["global"]
        assert own["bits"] == theirs.bits
        assert own["uploads"] == theirs.uploads
        assert own["asked"] == theirs.asked
        assert own["waiting"]["staleness"] == theirs.waiting["staleness"]
        assert own["server"] == theirs.server


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol": "fl", "wait": "buffered:2"},
        {"protocol": "murmur", "update_bits": 400, "wait": "asynchronous", "downlink": "weights"},
        {"protocol": "murmur", "update_bits": 400, "wait": "buffered:2"},
        {"protocol": "fd", "wait": "buffered:2"},
        {"protocol": "fl", "wait": "buffered:3", "sums": "masked"},
    ],
    ids=["fl", "murmur-asynchronous", "murmur-relay", "fd", "fl-masked"],
)
def test_rounds_are_those_of_the_engine_for_the_same_order_of_uploads(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    config = deployed_config(tmp_path, **{**PLAIN, "rounds": 8, **fields})
    infos = simulated(config)
    assert any(any(info.waiting["staleness"].values()) for info in infos)
    path = run_in_memory(tmp_path, config, Ordered(infos))
    assert_same_rounds(path, infos)


class StopError(Exception):
    """The server is killed."""


class Stops(Watcher):
    def __init__(self, round_number: int) -> None:
        self.round_number = round_number

    def round_done(self, config, info) -> None:
        if info.round == self.round_number:
            raise StopError


@pytest.mark.parametrize("stops", [1, 4])
def test_a_server_that_is_started_again_still_waits_for_those_it_asked(
    tmp_path: Path, stops: int
) -> None:
    config = deployed_config(tmp_path, **PLAIN, protocol="fl", wait="buffered:2", rounds=7)
    infos = simulated(config)
    broker = Ordered(infos)
    with pytest.raises(StopError):
        run_in_memory(tmp_path, config, broker, watcher=Stops(stops))
    del broker.clients["server"]
    broker.expect(infos[stops:])
    path = run_in_memory(tmp_path, config, broker)
    assert_same_rounds(path, infos)


def test_a_device_that_never_answers_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, **PLAIN, protocol="fl", wait="buffered:2", rounds=4)

    class Deaf(MemoryBroker):
        def deliveries(self, line, topic, payload):
            return [] if topic == "o/1" else super().deliveries(line, topic, payload)

    path = run_in_memory(tmp_path, config, Deaf(), timeout_s=1)
    found = rounds_of(path)
    assert all(info["uploads"]["delivered"] == 2 for info in found)
    assert all(1 not in info["uploads"]["devices"] for info in found)


def test_late_uploads_are_refused_over_flower() -> None:
    with pytest.raises(InputError, match="wait = buffered:2: over Flower"):
        check_flower(toy_config(wait="buffered:2"))
