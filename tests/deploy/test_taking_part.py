"""Devices that are not drawn, not connected, or lost their state; and a protocol with a memory."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Context, Message

from deploy.grid import InProcessGrid
from deploy.lab import (
    DEPLOYED,
    FAULTY,
    assert_same_as_engine,
    deployed_config,
    diary,
    last_state,
    order_in,
    rounds_of,
    run_in_process,
    trained_in,
)
from deploy.largest_updates import LARGEST
from mix2fld.config.settings import Config
from mix2fld.deploy.client_app import app
from mix2fld.deploy.edge.messages import Trained
from mix2fld.deploy.forms import to_record
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.simulation import make_simulation
from places import TESTS
from toys import representatives, toy_dataset

sys.path.insert(0, str(FAULTY))
import faulty_app


class Listener:
    """The real client, or a faulty one; hears orders and answers, and may act before a round."""

    def __init__(self, client: Callable[[Message, Context], Message] = app) -> None:
        self.client = client
        self.orders: list[SimpleNamespace] = []
        self.answers: dict[tuple[int, int], Trained] = {}
        self.before: Callable[[SimpleNamespace], None] = lambda _: None

    def __call__(self, message: Message, context: Context) -> Message:
        if message.metadata.message_type != "train":
            return self.client(message, context)
        order = order_in(message)
        self.orders.append(order)
        self.before(order)
        reply = self.client(message, context)
        if trained := trained_in(reply):
            self.answers[order.round, order.device] = trained
        return reply


@pytest.mark.parametrize("name", representatives(DEPLOYED))
def test_two_of_four_devices_have_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    config = deployed_config(tmp_path, protocol=name, rounds=4, participants=2)
    listener = Listener()
    path = run_in_process(tmp_path, config, listener)
    asked = [info["asked"] for info in rounds_of(path)]
    assert all(len(some) == 2 for some in asked)
    assert len({tuple(some) for some in asked}) > 1
    assert [(order.round, order.device) for order in listener.orders] == [
        (number, device) for number, some in enumerate(asked, 1) for device in some
    ]
    assert "catches up" not in diary(path)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize("name", ["fl", "fd", "mix2fld"])
def test_lost_uploads_of_some_have_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    config = deployed_config(tmp_path, protocol=name, rounds=5, participants=0.5, seed=1)
    faults = {0: "0:fails", 1: "2:fails 3:fails"}
    path = run_in_process(tmp_path, config, faulty_app.client, faults)
    infos = rounds_of(path)
    assert 0 < sum(info["uploads"]["delivered"] for info in infos) < 10
    assert all(info["uploads"]["attempted"] == 2 for info in infos)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_device_that_is_not_connected_is_not_asked(tmp_path: Path) -> None:
    """Not asked is not lost: nothing is charged, nothing counts as attempted."""
    config = deployed_config(tmp_path, protocol="mix2fld", rounds=3)
    path = tmp_path / "runs" / config.run_name

    def prepare(grid: InProcessGrid) -> None:
        grid.is_away = lambda device: device == 1 and len(rounds_of(path)) < 2

    listener = Listener()
    run_in_process(tmp_path, config, listener, prepare=prepare)
    infos = rounds_of(path)
    assert [info["asked"] for info in infos] == [[0, 2, 3], [0, 2, 3], [0, 1, 2, 3]]
    for info in infos:
        assert info["uploads"]["attempted"] == info["downloads"]["attempted"] == len(info["asked"])
        assert info["uploads"]["devices"] == info["downloads"]["devices"] == info["asked"]
    assert [info["seeds"]["devices"] for info in infos] == [3, 3, 4]
    wire = make_simulation(config, toy_dataset()).scenario.wire
    plain, first = (wire.upload_size(with_seeds=seeds).bits for seeds in (False, True))
    assert [info["bits"]["up"] for info in infos] == [3 * first, 3 * plain, 3 * plain + first]
    assert diary(path).count("device 1 was away and catches up") == 1
    (again,) = [order for order in listener.orders if order.catch_up]
    assert (again.device, again.round, again.uploaded) == (1, 3, 0)
    assert again.download == wire.encode_download(before_last(tmp_path, config)).data


def before_last(folder: Path, config: Config):
    """The server of the same run after all rounds but the last."""
    short = config.replace(rounds=config.rounds - 1)
    path = folder / "runs" / config.run_name

    def prepare(grid: InProcessGrid) -> None:
        grid.is_away = lambda device: device == 1

    assert path.exists()
    (folder / "again").mkdir()
    again = run_in_process(folder / "again", short, prepare=prepare)
    return last_state(again, short, devices_are_elsewhere=True).server


def test_those_connected_are_drawn_from(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=4, participants=2)
    path = tmp_path / "runs" / config.run_name

    def prepare(grid: InProcessGrid) -> None:
        grid.is_away = lambda device: device == 3 and len(rounds_of(path)) < 3

    run_in_process(tmp_path, config, prepare=prepare)
    infos = rounds_of(path)
    assert all(len(info["asked"]) == 2 for info in infos)
    assert all(3 not in info["asked"] for info in infos[:3])
    assert "device 0 was away" not in diary(path)
    rounds = last_state(path, config, devices_are_elsewhere=True).roster.last_turn
    assert rounds[3] == (4 if 3 in infos[3]["asked"] else 3)


@pytest.mark.parametrize("harm", ["damaged", "newest lost", "all lost"])
@pytest.mark.parametrize("name", ["fd", "mix2fld"])
def test_a_device_that_lost_its_state_catches_up(tmp_path: Path, name: str, harm: str) -> None:
    config = deployed_config(tmp_path, protocol=name, rounds=4)
    listener = Listener()

    def spoil(order: SimpleNamespace) -> None:
        if (order.round, order.device, order.catch_up) != (3, 2, False):
            return
        (folder,) = (tmp_path / "device-2" / "state").glob("*/device-2")
        newest = folder / "2.state"
        if harm == "damaged":
            newest.write_bytes(newest.read_bytes()[:-1])
        elif harm == "newest lost":
            newest.unlink()
        else:
            shutil.rmtree(folder)

    listener.before = spoil
    path = run_in_process(tmp_path, config, listener)
    assert diary(path).count("was away and catches up") == 1
    assert "round 3: device 2 was away and catches up" in diary(path)
    infos = rounds_of(path)
    assert all(info["uploads"]["devices"] == [0, 1, 2, 3] for info in infos)
    sent = [listener.answers[number, 2].seeds is not None for number in (1, 2, 3, 4)]
    assert sent == [name == "mix2fld", False, False, False]
    assert infos[1]["bits"]["up"] == infos[2]["bits"]["up"]


def test_seeds_that_never_arrived_are_sent_by_a_device_that_lost_its_state(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fld", rounds=3)
    listener = Listener(faulty_app.client)

    def forget(order: SimpleNamespace) -> None:
        if (order.round, order.device, order.catch_up) == (2, 2, False):
            shutil.rmtree(tmp_path / "device-2" / "state")

    listener.before = forget
    path = run_in_process(tmp_path, config, listener, {2: "1:fails"})
    assert [info["seeds"]["devices"] for info in rounds_of(path)] == [3, 4, 4]
    assert listener.answers[2, 2].seeds is not None
    assert listener.answers[3, 2].seeds is None


def test_seeds_of_a_protocol_without_any_are_refused(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=1)
    path = run_in_process(tmp_path, config, faulty_app.client, {2: "1:seeds"})
    assert "round 1: device 2 refused: seeds: this protocol has none" in diary(path)
    assert rounds_of(path)[0]["uploads"]["devices"] == [0, 1, 3]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_seeds_are_taken_once(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="mixfld", rounds=2)
    listener = Listener()

    def client(message: Message, context: Context) -> Message:
        reply = listener(message, context)
        trained = trained_in(reply)
        if trained is None or context.node_id != 102:
            return reply
        first = listener.answers[1, 2].seeds
        return Message(to_record(trained._replace(seeds=first)), reply_to=message)

    path = run_in_process(tmp_path, config, client)
    assert "round 2: device 2 refused: seeds: they were uploaded before" in diary(path)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 3]
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


def test_a_deployed_run_of_format_2_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four rounds are done, without device 3. No device reads what it stored then."""
    kept = TESTS / "records" / "format2" / "deployed" / "mix2fld-s0"
    path = Path(shutil.copytree(kept, tmp_path / "runs" / "mix2fld-s0"))
    monkeypatch.chdir(tmp_path)
    deployed_config(tmp_path)  # writes toy.npz
    listener = Listener()
    assert run_in_process(tmp_path, RunFolder(path).config(), listener) == path
    assert diary(path).count("round 3: device") == diary(path).count("was away and catches up") == 4
    infos = rounds_of(path)
    assert [info["uploads"]["delivered"] for info in infos] == [3, 3, 4, 4]
    assert [info["seeds"]["devices"] for info in infos] == [3, 3, 4, 4]
    sent = {turn for turn, answer in listener.answers.items() if answer.seeds is not None}
    assert sent == {(3, 3)}
    assert infos[3]["uploads"]["devices"] == infos[3]["asked"] == [0, 1, 2, 3]


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(PROTOCOLS, "largest", LARGEST)
    return "largest"


@pytest.mark.parametrize("participants", ["all", 3])
def test_a_memory_survives_losses_and_a_restart_of_the_server(
    tmp_path: Path, largest: str, participants: object
) -> None:
    """Bit for bit as in the simulator; server and devices both remember something."""
    config = deployed_config(tmp_path, protocol=largest, rounds=5, participants=participants)
    faults = {0: "2:fails", 1: "1:fails 3:fails", 3: "4:fails"}
    stops = {3: 2, 4: 1}
    listener = Listener(faulty_app.client)

    def stop(order: SimpleNamespace) -> None:
        heard = sum(one.round == order.round for one in listener.orders)
        if heard == stops.get(order.round):
            del stops[order.round]
            raise KeyboardInterrupt

    listener.before = stop
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_in_process(tmp_path, config, listener, faults)
    path = run_in_process(tmp_path, config, listener, faults)
    infos = rounds_of(path)
    assert sum(len(info["asked"]) - info["uploads"]["delivered"] for info in infos) >= 2
    bits = {answer.bits for answer in listener.answers.values()}
    assert len(bits) > 3
    state = last_state(path, config, devices_are_elsewhere=True)
    delivered = [d for info in infos for d in info["uploads"]["devices"]]
    np.testing.assert_array_equal(state.server.memory["heard"], np.bincount(delivered, minlength=4))
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize("name", ["topk", "sign", "eden", "murmur"])
def test_updates_survive_losses_and_a_device_that_was_away(tmp_path: Path, name: str) -> None:
    """Lost uploads, a lost download, a skipped round: bit for bit as in the simulator."""
    few = {"bits_per_weight": 0.05, "upload_every": 2} if name == "eden" else {}
    config = deployed_config(tmp_path, protocol=name, rounds=4, participants=3, **few)
    faults = {0: "2:fails", 1: "1:fails 4:fails"}
    listener = Listener(faulty_app.client)
    path = run_in_process(tmp_path, config, listener, faults)
    infos = rounds_of(path)
    assert sum(info["uploads"]["attempted"] - info["uploads"]["delivered"] for info in infos) >= 1
    budgets = {order.bit_budget for order in listener.orders}
    assert budgets == ({8 * 1106} if name == "murmur" else {None})
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("oversized", r"entries: \d+ bits in \d+ bytes; must be at most 12,800 bits"),
        ("oversized-bits", r"entries: \d+ bits in \d+ bytes; must be at most 12,800 bits"),
        ("truncated", r"entries: \d+ bytes"),
        ("nan", "entries: a place or a value is wrong"),
    ],
)
def test_a_size_that_depends_on_the_value_is_not_believed(
    tmp_path: Path, largest: str, fault: str, words: str
) -> None:
    config = deployed_config(tmp_path, protocol=largest, rounds=1)
    path = run_in_process(tmp_path, config, faulty_app.client, {2: f"1:{fault}"})
    assert re.search(rf"round 1: device 2 refused: {words}", diary(path))
    (info,) = rounds_of(path)
    assert info["uploads"]["devices"] == [0, 1, 3]
    assert info["bits"]["up"] <= 4 * 12_800
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
