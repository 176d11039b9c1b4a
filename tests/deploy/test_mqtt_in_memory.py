"""The MQTT fleet without a broker: every protocol has the numbers of the simulator."""

import json
import random
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy import lab, memory_line
from deploy.lab import (
    DEPLOYED,
    assert_same_as_engine,
    deployed_config,
    diary,
    rounds_of,
    run_in_process,
)
from deploy.memory_line import MemoryBroker, MemoryLine, run_in_memory
from mix2fld.deploy.edge.device import EdgeDevice, MakeLearning
from mix2fld.deploy.edge.full import full_learning
from mix2fld.deploy.edge.learning import small_learning
from mix2fld.deploy.edge.messages import (
    MessageError,
    Trained,
    pack,
    unpack,
)
from mix2fld.deploy.edge.run_settings import DeviceRun, pack_run, unpack_run
from mix2fld.runs.loop import Watcher
from mix2fld.tasks.classification import Classification
from toy_networks import small_onnx
from toys import many_labels, toy_dataset, toy_numbers


@pytest.mark.parametrize("name", DEPLOYED)
def test_every_protocol_has_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    path = run_in_memory(tmp_path, deployed_config(tmp_path, protocol=name))
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_last_layer_by_itself_has_the_numbers_of_the_engine(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="murmur", update_bits=150, last_layer_share=0.4)
    path = run_in_memory(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize(
    "run_deployed",
    [run_in_memory, partial(run_in_memory, make_learning=small_learning), run_in_process],
)
def test_devices_make_the_features_of_what_they_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_deployed: Callable[..., Path]
) -> None:
    """Their files hold samples as they were recorded; the numbers are those of the engine."""
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "cache"))
    recorded = toy_dataset()
    height, width, channels = recorded.sample_shape
    small_onnx(tmp_path / "net.onnx", shape=("n", channels, height, width))
    chosen = {"protocol": "mix2fld", "model": "auto", "features": str(tmp_path / "net.onnx")}
    config = deployed_config(tmp_path, recorded, **chosen)
    module = lab if run_deployed is run_in_process else memory_line
    monkeypatch.setattr(module, "load_dataset", lambda _: recorded)
    path = run_deployed(tmp_path, config)
    monkeypatch.undo()
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "cache"))
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize("make_learning", [full_learning, small_learning])
def test_as_many_labels_as_hidden_units_have_the_numbers_of_the_engine(
    tmp_path: Path, make_learning: MakeLearning
) -> None:
    """Both ends take the same one of two layers [128, ...] for the last."""
    config = deployed_config(
        tmp_path, many_labels(), protocol="murmur", update_bits=400, last_layer_share=0.4,
        samples_per_device=200,
    )  # fmt: skip
    path = run_in_memory(tmp_path, config, make_learning=make_learning)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize("protocol", ["fl", "murmur", "mix2fld", "statistics", "fd"])
def test_numbers_as_targets_have_the_numbers_of_the_engine(tmp_path: Path, protocol: str) -> None:
    fields = {"protocol": protocol, "partition": "iid", "model": "mlp", "samples_per_device": 40}
    config = deployed_config(tmp_path, toy_numbers(), **fields)
    path = run_in_memory(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
    (info,) = rounds_of(path)[-1:]
    assert [one["metric"]["name"] for one in info["scores"]["further"]] == ["MAE", "R²"]


class Untidy(MemoryBroker):
    """Delivers every message twice, and every fifth one once more, long after."""

    def __init__(self) -> None:
        super().__init__()
        self.old: list[tuple[MemoryLine, str, bytes]] = []
        self.count = 0

    def deliveries(self, line, topic, payload):
        self.count += 1
        one = (line, topic, payload)
        if self.count % 5 == 0:
            self.old.append(one)
        late = [self.old.pop(0)] if len(self.old) > 4 else []
        return [one, one, *late]


class Shuffled(MemoryBroker):
    """Delivers what is under way in any order, and some of it twice."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = random.Random(seed)

    def deliveries(self, line, topic, payload):
        return [(line, topic, payload)] * self.rng.choice([1, 1, 2])

    def pump(self) -> None:
        self.rng.shuffle(self.pending)
        super().pump()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_reordering_changes_nothing(tmp_path: Path, seed: int) -> None:
    config = deployed_config(tmp_path, protocol="topk", rounds=3)
    path = run_in_memory(tmp_path, config, Shuffled(seed))
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4, 4]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def uploads_in(broker: MemoryBroker) -> list[Trained]:
    answers = [unpack(data) for topic, data, _ in broker.sent if topic.startswith("u/")]
    return [answer for answer in answers if isinstance(answer, Trained)]


@pytest.mark.parametrize("name", ["fl", "topk", "mix2fld"])
def test_duplicates_and_replays_change_nothing(tmp_path: Path, name: str) -> None:
    path = run_in_memory(tmp_path, deployed_config(tmp_path, protocol=name, rounds=3), Untidy())
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4, 4]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_an_order_that_comes_again_is_answered_without_training(tmp_path: Path) -> None:
    broker = Untidy()
    trained = []

    def make_learning(config, samples, labels):
        learning = full_learning(config, samples, labels)
        stepper = learning.stepper

        class Counting:
            def __getattr__(self, name):
                if name == "train":
                    trained.append(name)
                return getattr(stepper, name)

        return replace(learning, stepper=Counting())

    run_in_memory(
        tmp_path, deployed_config(tmp_path, protocol="fd", rounds=2), broker, make_learning
    )
    assert len(trained) == 8
    by_turn: dict[tuple[int, bytes], set[bytes]] = {}
    for topic, data, _ in broker.sent:
        if topic.startswith("u/") and isinstance(answer := unpack(data), Trained):
            by_turn.setdefault((answer.round, topic), set()).add(answer.upload)
    assert len(by_turn) == 8
    assert all(len(uploads) == 1 for uploads in by_turn.values())


def test_a_late_order_of_an_older_round_is_not_answered(tmp_path: Path) -> None:
    broker = MemoryBroker()
    run_in_memory(tmp_path, deployed_config(tmp_path, protocol="fd", rounds=2), broker)
    orders = [data for topic, data, _ in broker.sent if topic == "o/2" and data[:1] == b"O"]
    first, last = unpack(orders[0]), unpack(orders[-1])
    assert (first.epoch, first.round, last.round) == (last.epoch, 1, 2)
    state = sorted((tmp_path / "device-2").rglob("*"))
    before, said = [f.read_bytes() for f in state if f.is_file()], len(broker.sent)
    broker.send("o/2", orders[0])
    assert [topic for topic, _, _ in broker.sent[said:]] == ["o/2"]
    assert [f.read_bytes() for f in state if f.is_file()] == before


def test_a_server_started_again_is_obeyed_whatever_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=2)
    broker, path = MemoryBroker(), tmp_path / "runs" / config.run_name

    class StoppedError(Exception):
        pass

    class Stopping(Watcher):
        def round_done(self, config, info):
            raise StoppedError

    with pytest.raises(StoppedError):
        run_in_memory(tmp_path, config, broker, watcher=Stopping())
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    assert run_in_memory(tmp_path, config, broker, timeout_s=3) == path
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]
    orders = [unpack(data) for topic, data, _ in broker.sent if topic == "o/2" and data[:1] == b"O"]
    assert [order.epoch for order in orders] == [2**31 + 1, 2**31 + 2]


class Losing(MemoryBroker):
    """Loses the first message of each kind that passes a test."""

    def __init__(self, lost) -> None:
        super().__init__()
        self.lost, self.gone = lost, 0

    def deliveries(self, line, topic, payload):
        if not self.gone and payload and self.lost(line.name, topic, payload):
            self.gone += 1
            return []
        return super().deliveries(line, topic, payload)


LOSSES = {
    "order": lambda name, topic, payload: topic == "o/2" and payload[:1] == b"O",
    "upload": lambda name, topic, payload: topic == "u/2" and payload[:1] == b"T",
    "download": lambda name, topic, payload: name == "2" and topic == "g",
    "confirmation": lambda name, topic, payload: topic == "u/2" and payload[:1] == b"K",
}


@pytest.mark.parametrize("what", LOSSES)
def test_what_is_lost_is_sent_again(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mix2fld.deploy.mqtt_nodes.RESEND_S", 0.2)
    broker = Losing(LOSSES[what])
    path = run_in_memory(tmp_path, deployed_config(tmp_path, protocol="fl"), broker)
    assert broker.gone == 1
    assert [info["downloads"]["delivered"] for info in rounds_of(path)] == [4, 4]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_device_with_an_old_state_catches_up(tmp_path: Path) -> None:
    """Its disk is set back by a round: it has the multicast, and needs no copy of its own."""
    config = deployed_config(tmp_path, protocol="fl", rounds=3)
    state = tmp_path / "device-1" / "state"

    class SetBack(MemoryBroker):
        def send(self, topic, payload, qos=1, retain=False):
            if topic == "o/1" and payload[:1] == b"O" and unpack(payload).round == 3:
                for file in state.rglob("2.state"):
                    file.unlink()
            super().send(topic, payload, qos, retain)

    broker = SetBack()
    path = run_in_memory(tmp_path, config, broker)
    assert "round 3: device 1 was away and catches up" in diary(path)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4, 4]
    orders = [unpack(data) for topic, data, _ in broker.sent if topic == "o/1"]
    assert [(order.round, order.catch_up, order.heard) for order in orders] == [
        (1, False, 0), (2, False, 0), (3, False, 0), (3, True, 2)
    ]  # fmt: skip
    assert all(order.download is None for order in orders)


def test_who_says_twice_that_it_is_behind_is_heard_all_the_same(tmp_path: Path) -> None:
    """An order that came twice is answered twice; the upload comes after the second answer."""
    config = deployed_config(tmp_path, protocol="topk", rounds=3)
    state = tmp_path / "device-1" / "state"

    class Twice(MemoryBroker):
        def send(self, topic, payload, qos=1, retain=False):
            if topic == "o/1" and unpack(payload).round == 3 and not unpack(payload).catch_up:
                for file in state.rglob("2.state"):
                    file.unlink()
            super().send(topic, payload, qos, retain)

        def deliveries(self, line, topic, payload):
            behind = topic == "u/1" and payload[:1] == b"B"
            return super().deliveries(line, topic, payload) * (2 if behind else 1)

    path = run_in_memory(tmp_path, config, Twice())
    assert diary(path).count("round 3: device 1 was away and catches up") == 1
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4, 4]


def test_a_device_that_lost_everything_gets_a_copy(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=2)
    state = tmp_path / "device-1" / "state"

    class Forgetful(MemoryBroker):
        def send(self, topic, payload, qos=1, retain=False):
            if topic == "o/1" and unpack(payload).round == 2:
                shutil.rmtree(state, ignore_errors=True)
            super().send(topic, payload, qos, retain)

    broker = Forgetful()
    path = run_in_memory(tmp_path, config, broker)
    last = [unpack(data) for topic, data, _ in broker.sent if topic == "o/1"][-1]
    assert last.catch_up
    assert last.download
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]


def test_two_devices_of_one_name_count_once(tmp_path: Path) -> None:
    """Both have the same key and answer the same orders; the first answer is taken."""
    config = deployed_config(tmp_path, protocol="mix2fld")

    class Twins(MemoryBroker):
        def connect(self, name, listener):
            line = super().connect(name, listener)
            if name == "1":
                twin = EdgeDevice(1, listener._source, tmp_path / "twin", full_learning)
                super().connect("twin", twin)
            return line

    broker = Twins()
    path = run_in_memory(tmp_path, config, broker)
    assert sum(answer.round == 1 for answer in uploads_in(broker)) == 5
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def hostile(change):
    """A broker that changes the uploads of device 2, as a hostile device would."""

    class Hostile(MemoryBroker):
        def send(self, topic, payload, qos=1, retain=False):
            if topic == "u/2" and payload[:1] == b"T":
                payload = change(payload)
            super().send(topic, payload, qos, retain)

    return Hostile()


HOSTILE = {
    "nothing": (lambda data: b"", "a message of 0 bytes; must have at least 13"),
    "another kind": (lambda data: b"Z" + data[1:], "a message of kind 'Z'"),
    "cut": (lambda data: data[:20], "Trained: 7 bytes that do not fit"),
    "payload cut": (lambda data: data[:-3], "outputs: 61 bytes; must be 64"),
    "many accuracies": (
        lambda data: pack(unpack(data)._replace(scores=[0.5] * 900)), "900 scores"
    ),
    "boast": (lambda data: pack(unpack(data)._replace(scores=[7.0])), "accuracy 7; must be 0 to 1"),
    "not a number": (
        lambda data: pack(unpack(data)._replace(seconds=float("nan"))), "Trained.seconds"
    ),
    "no samples": (lambda data: pack(unpack(data)._replace(samples=0)), "Trained.samples"),
    "bits": (lambda data: pack(unpack(data)._replace(padding=5)), "507 bits in 64 bytes"),
    "padding": (lambda data: data[:17] + b"\x08" + data[18:], "8 padding bits in 64 bytes"),
    "seeds": (lambda data: pack(unpack(data)._replace(seeds=None)), "seeds: missing"),
    "slow": (lambda data: pack(unpack(data)._replace(seconds=1e6)), "s of computing in a wait"),
}  # fmt: skip


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_hostile_device_is_refused_and_the_round_goes_on(tmp_path: Path, fault: str) -> None:
    change, words = HOSTILE[fault]
    config = deployed_config(tmp_path, protocol="mix2fld", rounds=1)
    path = run_in_memory(tmp_path, config, hostile(change))
    (info,) = rounds_of(path)
    assert info["uploads"]["devices"] == [0, 1, 3]
    assert "round 1: device 2 refused: " in diary(path)
    assert words in diary(path)


def test_answers_of_other_runs_and_rounds_find_nobody(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=1)

    class Replaying(MemoryBroker):
        def send(self, topic, payload, qos=1, retain=False):
            if topic == "u/2" and payload[:1] == b"T":
                answer = unpack(payload)
                super().send(topic, pack(answer._replace(run="00" * 8, upload=b"old")))
                super().send(topic, pack(answer._replace(round=7, upload=b"old")))
            super().send(topic, payload, qos, retain)

    path = run_in_memory(tmp_path, config, Replaying())
    assert "refused" not in diary(path)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_settings_of_another_version_are_not_used() -> None:
    run = DeviceRun("0123456789abcdef", {"seed": 3}, toy_dataset().samples, Classification(4))
    assert unpack_run(pack_run(run)) == run
    other = zlib.compress(b'{"format":99}')
    with pytest.raises(MessageError, match="uses message format 99"):
        unpack_run(other)
    bomb = zlib.compress(b" " * (1 << 24), 9)
    with pytest.raises(MessageError, match="settings cannot be read"):
        unpack_run(bomb)


def test_a_run_cannot_name_a_folder_elsewhere() -> None:
    run = DeviceRun("0123456789abcdef", {}, toy_dataset().samples, Classification(4))
    fields = json.loads(zlib.decompress(pack_run(run)))
    for identity in ("../../etc", "", 3, None, "00" * 9):
        forged = zlib.compress(json.dumps({**fields, "run": identity}).encode())
        with pytest.raises(MessageError, match="settings are not those of a run"):
            unpack_run(forged)


@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.builds(bytes.__add__, st.sampled_from([b"O", b"T", b"B", b"R"]), st.binary(min_size=12)),
    )
)
def test_bytes_are_a_message_or_an_error(data: bytes) -> None:
    try:
        message = unpack(data)
    except MessageError:
        return
    assert repr(unpack(pack(message))) == repr(message)


def test_a_quorum_ends_a_round_before_everybody_has_answered(tmp_path: Path) -> None:
    """Who is late is asked again, catches up, and may be among the first of another round."""
    config = deployed_config(tmp_path, protocol="fl", rounds=3, wait="quorum:2")
    path = run_in_memory(tmp_path, config, Shuffled(1))
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [2, 2, 2]
    assert "round 1: does not wait for devices" in diary(path)
