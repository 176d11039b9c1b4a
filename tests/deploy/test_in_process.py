"""The deployment's logic without its processes: every protocol, every fault, going on."""

import json
import logging
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

import mix2fld
from deploy.grid import InProcessGrid, SpokenGrid
from deploy.lab import (
    DEPLOYED,
    FAULTY,
    HOSTILE,
    assert_same_as_engine,
    deployed_config,
    diary,
    order_in,
    rounds_of,
    run_in_process,
    trained_in,
)
from mix2fld.base.errors import InputError, TransportLostError
from mix2fld.data.samples import standardised
from mix2fld.deploy import flower_nodes, server_app
from mix2fld.deploy.client_app import app
from mix2fld.deploy.edge.messages import FORMAT, Refused
from mix2fld.deploy.forms import DOWNLOAD, TRAIN, to_record
from mix2fld.deploy.settings import Settings
from mix2fld.runs.checkpoint import made_with
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning
from mix2fld_lab.trials.flower import last_words
from toys import many_labels, toy_dataset, toy_signals

sys.path.insert(0, str(FAULTY))
import faulty_app


@pytest.mark.parametrize("name", DEPLOYED)
def test_every_protocol_has_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    path = run_in_process(tmp_path, deployed_config(tmp_path, protocol=name))
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_xla_has_the_numbers_of_the_engine(tmp_path: Path) -> None:
    path = run_in_process(tmp_path, deployed_config(tmp_path, protocol="mix2fld", kernel="xla"))
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_last_layer_by_itself_has_the_numbers_of_the_engine(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="murmur", update_bits=150, last_layer_share=0.4)
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_as_many_labels_as_hidden_units_have_the_numbers_of_the_engine(tmp_path: Path) -> None:
    """Both ends take the same one of two layers [128, ...] for the last."""
    config = deployed_config(
        tmp_path, many_labels(), protocol="murmur", update_bits=400, last_layer_share=0.4,
        samples_per_device=200,
    )  # fmt: skip
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize("name", ["fl", "fd", "mix2fld"])
def test_lost_uploads_and_missing_devices_have_the_numbers_of_the_engine(
    tmp_path: Path, name: str
) -> None:
    config = deployed_config(tmp_path, protocol=name, rounds=3, unseen_labels="zero")
    faults = {0: "1:fails 2:fails", 3: "2:fails"}
    path = run_in_process(tmp_path, config, faulty_app.client, faults)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [3, 2, 4]
    assert "round 1: device 0 failed: out of coffee" in diary(path)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_the_papers_network_has_the_numbers_of_the_engine(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="mix2fld", model="paper-cnn", learning_rate=0.01)
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize(("name", "bits"), [("fl", 8), ("mix2fld", 11), ("mixfld", 32)])
def test_signals_have_the_numbers_of_the_engine(tmp_path: Path, name: str, bits: int) -> None:
    """Float samples, standardised or not, and devices that hold what their person recorded."""
    if name == "mixfld":
        data = toy_signals(value_range=(20.0, 60.0))
        config = deployed_config(tmp_path, data, protocol=name, seed_bits=bits)
    else:
        people = np.repeat(np.arange(4), [40, 60, 90, 110])
        data = standardised(toy_signals(train_sources=people))
        config = deployed_config(
            tmp_path, data, protocol=name, seed_bits=bits, partition="by-source"
        )
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
    recorded = json.loads(made_with(path / "checkpoint.safetensors")["samples"])
    assert recorded["mean"] == list(data.mean)
    assert [recorded["low"], recorded["high"]] == list(data.value_range)


def test_a_device_with_another_range_refuses(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, toy_signals(), protocol="fl", rounds=1)

    def spoil(grid: InProcessGrid) -> None:
        file = tmp_path / "device-2" / "samples.npz"
        with np.load(file) as stored:
            arrays = {**stored, "value_range": np.array([0.0, 1.0])}
        np.savez(file, **arrays)

    path = run_in_process(tmp_path, config, prepare=spoil)
    assert "device 2 refused: it says: data = " in diary(path)
    assert "value_range is [0.0, 1.0]; this run has" in diary(path)
    assert rounds_of(path)[0]["uploads"]["devices"] == [0, 1, 3]


def test_a_pytorch_module_has_the_numbers_of_the_engine(tmp_path: Path) -> None:
    """Each device in a process of its own there, in workers here; dropout included."""
    config = deployed_config(tmp_path, protocol="mix2fld", model="torch_modules:with_dropout")
    path = run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_hostile_device_is_refused_and_the_round_goes_on(tmp_path: Path, fault: str) -> None:
    config = deployed_config(tmp_path, protocol="mix2fld", rounds=1)
    path = run_in_process(tmp_path, config, faulty_app.client, {2: f"1:{fault}"})
    (info,) = rounds_of(path)
    assert info["uploads"]["devices"] == [0, 1, 3]
    assert info["seeds"]["devices"] == 3
    assert re.search(rf"round 1: device 2 refused: .*{HOSTILE[fault]}", diary(path))
    assert not Path("/tmp/mix2fld-was-here").exists()
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=1)
    path = run_in_process(tmp_path, config, faulty_app.client, {1: "1:nan"})
    assert "device 1 refused: weights: a value is not finite" in diary(path)
    assert rounds_of(path)[0]["uploads"]["delivered"] == 3


@pytest.mark.parametrize("name", ["fl", "fl8"])
def test_weights_that_nobody_learns_are_refused(tmp_path: Path, name: str) -> None:
    def client(message: Message, context: Context) -> Message:
        reply = app(message, context)
        trained = trained_in(reply)
        if context.node_id != 101 or trained is None:
            return reply
        ends = np.tile(np.array([0, 2e6], "<f4"), len(trained.upload) // 8).tobytes()
        upload = ends + trained.upload[len(ends) :]
        spoilt = trained._replace(upload=upload)
        return Message(to_record(spoilt), reply_to=message)

    path = run_in_process(tmp_path, deployed_config(tmp_path, protocol=name, rounds=1), client)
    refused = r"device 1 refused: weights\d?: \S+e\+06; must be at most 1e\+06"
    assert re.search(refused, diary(path))
    assert rounds_of(path)[0]["uploads"]["devices"] == [0, 2, 3]


def test_seeds_that_are_no_pictures_are_refused(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="mix2fld", rounds=1, seed_bits=32)

    def client(message: Message, context: Context) -> Message:
        reply = app(message, context)
        trained = trained_in(reply)
        if context.node_id != 101 or trained is None:
            return reply
        pixel = np.array(1.5, "<f4").tobytes()
        spoilt = trained._replace(seeds=pixel + trained.seeds[4:])
        return Message(to_record(spoilt), reply_to=message)

    path = run_in_process(tmp_path, config, client)
    assert "device 1 refused: seeds: a value of 1.5; must be from 0 to 1" in diary(path)
    assert rounds_of(path)[0]["uploads"]["devices"] == [0, 2, 3]


def test_a_node_with_other_defaults_refuses(tmp_path: Path) -> None:
    def client(message: Message, context: Context) -> Message:
        if context.node_id == 102:
            context.run_config = {**context.run_config, "settings": "devices=4 rounds=1"}
        return app(message, context)

    path = run_in_process(tmp_path, deployed_config(tmp_path, protocol="fd", rounds=1), client)
    assert "device 2 refused: it says: the settings of this node" in diary(path)
    assert rounds_of(path)[0]["uploads"]["devices"] == [0, 1, 3]


def test_a_node_with_another_seed_refuses(tmp_path: Path) -> None:
    """Its codec would draw another rotation than the server's."""

    def client(message: Message, context: Context) -> Message:
        if context.node_id == 102:
            context.run_config = {**context.run_config, "seed": 5}
        return app(message, context)

    path = run_in_process(tmp_path, deployed_config(tmp_path, protocol="murmur", rounds=1), client)
    assert "device 2 refused: it says: the settings of this node" in diary(path)
    assert rounds_of(path)[0]["uploads"]["devices"] == [0, 1, 3]


def test_a_node_of_another_version_says_so(tmp_path: Path) -> None:
    def client(message: Message, context: Context) -> Message:
        (record,) = message.content.config_records.values()
        record["format"] = 7
        return app(message, context)

    config = deployed_config(tmp_path, protocol="fd", rounds=1)
    with pytest.raises(InputError, match="no upload arrived from round 1 to the end"):
        run_in_process(tmp_path, config, client)
    path = tmp_path / "runs" / config.run_name
    assert f"the other side uses message format 7, this one {FORMAT}" in diary(path)


def test_a_round_is_not_played_with_nobody(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=2)
    path = tmp_path / "runs" / config.run_name

    def prepare(grid: InProcessGrid) -> None:
        grid.is_away = lambda device: len(rounds_of(path)) == 1

    with pytest.raises(TransportLostError, match="no device is connected"):
        run_in_process(tmp_path, config, prepare=prepare, timeout_s=3)
    assert len(rounds_of(path)) == 1
    assert "no device is connected; start some; waiting for 3 s" in diary(path)
    run_in_process(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_superlink_that_is_away_is_no_round(
    tmp_path: Path, comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is lost while the devices of round 2 train, for longer than the round waits for them."""
    monkeypatch.setattr(flower_nodes, "REACH_S", 1.0)
    config = deployed_config(tmp_path, protocol="fl", rounds=3)
    path, lost = tmp_path / "runs" / config.run_name, []

    def client(message: Message, context: Context) -> Message:
        if message.metadata.group_id == "2" and context.node_id == 103 and not lost:
            lost.append(time.monotonic())
        return app(message, context)

    def prepare(grid: InProcessGrid) -> None:
        seconds = 4 if comes_back else 1000
        grid.superlink_is_away = lambda: bool(lost) and time.monotonic() - lost[0] < seconds

    if comes_back:
        run_in_process(tmp_path, config, client, prepare=prepare, timeout_s=3)
        assert "round 2: devices can be reached again" in diary(path)
    else:
        with pytest.raises(TransportLostError, match=r"cannot be reached .* resumes the run"):
            run_in_process(tmp_path, config, client, prepare=prepare, timeout_s=3)
        assert len(rounds_of(path)) == 1
        run_in_process(tmp_path, config)
    assert "round 2: the SuperLink cannot be reached (no answer in 1 s)" in diary(path)
    assert all(info["uploads"]["delivered"] == 4 for info in rounds_of(path))
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_round_that_can_ask_nobody_waits(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=1)
    tried: list[int] = []

    def prepare(grid: InProcessGrid) -> None:
        grid.refuses = lambda device: len(tried) < 5 and not tried.append(device)

    path = run_in_process(tmp_path, config, prepare=prepare)
    (info,) = rounds_of(path)
    assert info["uploads"]["devices"] == [1, 2, 3]  # asked once more, device 0 is refused again
    assert "round 1: none of the devices that are to be asked can be reached" in diary(path)


def test_a_device_that_was_away_catches_up(tmp_path: Path) -> None:
    """It misses round 2, and starts round 3 from the global model after it."""
    config = deployed_config(tmp_path, protocol="fl", rounds=3)
    path = tmp_path / "runs" / config.run_name
    orders = []

    def client(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "train":
            orders.append(order_in(message))
        return app(message, context)

    def prepare(grid: InProcessGrid) -> None:
        grid.is_away = lambda device: device == 1 and len(rounds_of(path)) == 1

    run_in_process(tmp_path, config, client, prepare=prepare)
    assert "round 3: device 1 was away and catches up" in diary(path)
    counts = [(i["uploads"]["delivered"], i["uploads"]["attempted"]) for i in rounds_of(path)]
    assert counts == [(4, 4), (3, 3), (4, 4)]
    (again,) = [order for order in orders if order.catch_up]
    assert (again.device, again.round) == (1, 3)
    learning = make_learning(config, toy_dataset().samples, Classification(4))
    (other,) = [order for order in orders if order.round == 3 and order.device == 0]
    assert again.download == other.download
    assert len(again.download) == 4 * learning.dims.num_weights


@pytest.mark.parametrize(
    ("settings", "with_orders"),
    [
        ({"protocol": "fl"}, True),
        ({"protocol": "mix2fld"}, True),
        ({"protocol": "murmur-mix"}, False),
        ({"protocol": "fl", "participants": 3}, False),
        ({"protocol": "fl", "stop_when_converged": True}, False),
    ],
)
def test_a_download_goes_with_the_next_order_if_that_is_sure_to_come(
    tmp_path: Path, settings: dict[str, object], with_orders: bool
) -> None:
    """All but the last; a device whose process failed is sent it by itself and confirms it."""
    heard: dict[str, set[tuple[int, int]]] = {TRAIN: set(), DOWNLOAD: set()}

    def client(message: Message, context: Context) -> Message:
        kind, device = message.metadata.message_type, context.node_id - 100
        number = int(message.metadata.group_id)
        if kind == DOWNLOAD or order_in(message).download is not None:
            heard[kind].add((number, device))
        return faulty_app.client(message, context)

    config = deployed_config(tmp_path, rounds=3, **settings)
    path = run_in_process(tmp_path, config, client, {1: "1:fails"})
    downloads = {(i["round"], d) for i in rounds_of(path) for d in i["downloads"]["devices"]}
    if with_orders:
        alone = {(1, 1), *((3, device) for device in range(4))}
        assert heard[TRAIN] - {(2, 1)} == {(number + 1, d) for number, d in downloads - alone}
        assert heard[DOWNLOAD] == alone
    else:
        assert heard[DOWNLOAD] >= {(3, device) for device in rounds_of(path)[-1]["asked"]}
        assert heard[DOWNLOAD] <= downloads
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_server_that_is_stopped_goes_on(tmp_path: Path) -> None:
    """Stopped while devices are in round 2, which they then play again."""
    config = deployed_config(tmp_path, protocol="mix2fld", rounds=3)
    calls = []

    def client(message: Message, context: Context) -> Message:
        calls.append(message.metadata.group_id)
        if calls.count("2") == 3 and len(calls) < 20:
            calls.extend(["over"] * 20)
            raise KeyboardInterrupt
        return app(message, context)

    with pytest.raises(KeyboardInterrupt):
        run_in_process(tmp_path, config, client)
    path = run_in_process(tmp_path, config, client)
    assert "1 of 3 rounds are done" in diary(path)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_new_run_does_not_meet_the_states_of_an_old_one(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl")
    path = run_in_process(tmp_path, config)
    first = (path / "identity").read_text()
    path.rename(tmp_path / "old")
    path = run_in_process(tmp_path, config)
    assert (path / "identity").read_text() != first
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_an_answer_that_never_ends_holds_up_nobody(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=1)

    def prepare(grid: InProcessGrid) -> None:
        grid.hanging = {0}

    started = time.monotonic()
    path = run_in_process(tmp_path, config, prepare=prepare, timeout_s=3)
    assert time.monotonic() - started < 30
    (info,) = rounds_of(path)
    assert info["uploads"]["devices"] == [1, 2, 3]
    assert info["downloads"]["devices"] == [1, 2, 3]
    assert "round 1: device 0 did not answer within 3 s" in diary(path)


def test_nobody_answers_for_another_device(tmp_path: Path) -> None:
    """Flower hands over any message that a node addresses to the server, with any pull."""
    config = deployed_config(tmp_path, protocol="fd", rounds=2)

    def client(message: Message, context: Context) -> Message:
        answer = app(message, context)
        if context.node_id == 103 and message.metadata.message_type == TRAIN:
            for _ in range(4):
                forged = Message(answer.content, dst_node_id=1, message_type=TRAIN)
                forged.metadata.__dict__["_src_node_id"] = 103
                strays.append(forged)
        return answer

    def prepare(grid: InProcessGrid) -> None:
        grid.strays = strays

    strays: list[Message] = []
    path = run_in_process(tmp_path, config, client, prepare=prepare)
    assert not strays
    assert all(info["uploads"]["devices"] == [0, 1, 2, 3] for info in rounds_of(path))
    said = "a message that answers no order is left out; its sender: device 3"
    assert diary(path).count(said) == 1
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_flood_of_messages_that_answer_nothing_is_named_once(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=2)

    def client(message: Message, context: Context) -> Message:
        answer = app(message, context)
        if context.node_id == 103 and message.metadata.message_type == TRAIN:
            for _ in range(80):
                forged = Message(answer.content, dst_node_id=1, message_type=TRAIN)
                forged.metadata.__dict__["_src_node_id"] = 103
                strays.append(forged)
        return answer

    def prepare(grid: InProcessGrid) -> None:
        grid.strays = strays

    strays: list[Message] = []
    path = run_in_process(tmp_path, config, client, prepare=prepare)
    said = "a flood: more than 100 messages that answer no order; the last one's sender: device 3"
    assert diary(path).count(said) == 1
    floods = [one for one in (path / "events.jsonl").read_text().splitlines() if '"flood"' in one]
    assert [json.loads(one)["device"] for one in floods] == [3]
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]


@pytest.mark.parametrize("unreadable", [0, 7])
def test_messages_that_cannot_be_read_cost_nobody_an_answer(
    tmp_path: Path, unreadable: int
) -> None:
    """Flower's grid drops whatever it has pulled along with one of them, and they keep coming."""
    config = deployed_config(tmp_path, protocol="mix2fld", rounds=2)
    grids: list[SpokenGrid] = []
    asked: list[int] = []

    def client(message: Message, context: Context) -> Message:
        if message.metadata.message_type == TRAIN:
            asked.append(context.node_id)
        return app(message, context)

    def prepare(grid: InProcessGrid) -> SpokenGrid:
        grids.append(SpokenGrid(grid, unreadable))
        return grids[0]

    path = run_in_process(tmp_path, config, client, prepare=prepare)
    assert all(info["uploads"]["devices"] == [0, 1, 2, 3] for info in rounds_of(path))
    assert sorted(asked) == sorted([100, 101, 102, 103] * 2)  # nobody trains a round twice
    assert diary(path).count("answers no order") == (1 if unreadable else 0)
    assert len(grids[0].confirmed) >= 8 + unreadable
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_device_cannot_write_lines_of_its_own(tmp_path: Path) -> None:
    forged = "\n2030-01-01T00:00:00 stopped: forged\u2028\x1b[2J"

    def client(message: Message, context: Context) -> Message:
        if context.node_id == 101:
            return Message(to_record(Refused("", 0, forged + 5000 * "x")), reply_to=message)
        if context.node_id == 102:
            return Message(RecordDict({forged: ConfigRecord()}), reply_to=message)
        return app(message, context)

    path = run_in_process(tmp_path, deployed_config(tmp_path, protocol="fd", rounds=1), client)
    lines = diary(path).splitlines()
    assert all(re.match(r"20\d\d-", line) and line.isprintable() for line in lines)
    assert max(map(len, lines)) <= 320
    assert any("device 1 refused: it says: 2030-01-01" in line for line in lines)
    assert last_words(path / "diary.log") == []


def test_unknown_names_are_left_out(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=1)

    def prepare(grid: InProcessGrid) -> None:
        grid.names = {2: "device-0", 3: "laptop"}

    path = run_in_process(tmp_path, config, prepare=prepare)
    assert "registered as 'laptop'; must be device-0 to device-3, each once" in diary(path)
    assert "node 102 is left out: registered as 'device-0'" in diary(path)
    assert rounds_of(path)[0]["uploads"]["devices"] == [0, 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": "/no/such/file.npz"}, "data = /no/such/file.npz: there is no such file"),
        ({"state": "/dev/null"}, "state = /dev/null: cannot be written (Not a directory)"),
        ({"data": ""}, 'start the node with --node-config data="FILE"'),
    ],
)
def test_what_a_device_lacks_is_said_at_the_server(
    tmp_path: Path, change: dict[str, str], words: str
) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=1)

    def prepare(grid: InProcessGrid) -> None:
        grid.node_configs[3].update(change)

    path = run_in_process(tmp_path, config, prepare=prepare)
    assert words in diary(path)
    assert "device 3 refused: it says" in diary(path)


def test_no_device_is_bad_input(tmp_path: Path) -> None:
    def prepare(grid: InProcessGrid) -> None:
        grid.is_away = lambda device: True

    config = deployed_config(tmp_path, protocol="fl", rounds=1)
    with pytest.raises(InputError, match="no device is connected"):
        run_in_process(tmp_path, config, prepare=prepare)


BAD_SETTINGS = {
    "no such field": ({"settings": "devises=3"}, "did you mean 'devices'"),
    "bad value": ({"settings": "devices=-1"}, "devices"),
    "no time": ({"timeout-s": 0}, "timeout-s = 0"),
    "no such protocol": ({"protocol": "../../x"}, "neither a known protocol nor"),
    "no such dataset": ({"settings": "dataset=nothing"}, "nothing"),
    "no such model": ({"settings": "model=nothing"}, "nothing"),
    "too long": ({"settings": "local_steps=99999999"}, "local_steps = 99999999"),
    "no such folder": ({"out": "/dev/null/runs"}, "is not a folder that can be written to"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_settings_are_one_line_and_leave_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    change, words = BAD_SETTINGS[case]
    config = deployed_config(tmp_path, protocol="fl")
    good = Settings(config, tmp_path / "runs", 1.0, 1.0).as_run_config()
    if "settings" in change:
        change = {"settings": f"{good['settings']} {change['settings']}"}
    context = Context(1, 1, {}, RecordDict(), {**good, **change})
    flower = logging.getLogger("flwr")
    try:
        with pytest.raises(InputError, match=re.escape(words)) as raised:
            server_app.app(InProcessGrid({}, {}), context)
        flower.error("ServerApp raised an exception", exc_info=raised.value)
    finally:
        flower.removeFilter(server_app._without_trace)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert words in caplog.records[0].getMessage()
    assert "Traceback" not in caplog.text
    assert {file.name for file in tmp_path.iterdir()} == {"toy.npz"}


def test_a_run_of_the_simulator_is_not_gone_on_with(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=1)
    mix2fld.run(config, tmp_path / "runs", dataset=toy_dataset())
    with pytest.raises(InputError, match="holds a run of the simulator"):
        run_in_process(tmp_path, config)
    assert not list((tmp_path / "runs").rglob("identity"))


def test_only_the_deployment_imports_flower() -> None:
    source = Path(mix2fld.__file__).parent
    for file in source.rglob("*.py"):
        text = file.read_text()
        if file.parent.name != "deploy":
            assert not re.search(r"^\s*(import|from) flwr", text, re.MULTILINE), file
        else:
            assert "mix2fld.engine.fleets.local" not in text, file
            assert not re.search(r"import.*(pickle|marshal|dill)", text), file
