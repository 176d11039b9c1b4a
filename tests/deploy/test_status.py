"""What an operator sees of a fleet: a table, and health and metrics for a monitor."""

import json
import os
import shutil
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import mix2fld
from deploy.lab import deployed_config, rounds_of
from deploy.memory_line import MemoryBroker, run_in_memory
from deploy.test_silent_device import Silent
from mix2fld.base.errors import InputError
from mix2fld.base.locks import FolderLock
from mix2fld.cli import main
from mix2fld.deploy.edge.messages import pack, unpack
from mix2fld.deploy.health import HealthServer, make_health_server
from mix2fld.deploy.keys import ends, make_fleet_certificates
from mix2fld.runs.fleet_status import SPARE_S, deployed_runs, run_status
from mix2fld.runs.loop import Watcher
from mix2fld.runs.simulation import run


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


class Untrue(Silent):
    """Device 2 is silent in all rounds but the first, device 1 boasts in the second."""

    def __init__(self) -> None:
        super().__init__(range(2, 9))

    def send(self, topic, payload, qos=1, retain=False):
        if topic == "u/1" and payload[:1] == b"T" and unpack(payload).round == 2:
            payload = pack(unpack(payload)._replace(scores=[7.0]))
        super().send(topic, payload, qos, retain)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    config = deployed_config(folder, protocol="fd", rounds=4)
    return run_in_memory(folder, config, Untrue(), timeout_s=1)


def test_the_files_of_a_run_say_how_each_device_is(finished: Path) -> None:
    status = run_status(finished)
    assert status is not None
    assert (status.rounds_done, status.finished, status.trouble(time.time())) == (4, True, "")
    by_device = [(d.taken, d.refused, d.round, d.silent) for d in status.devices]
    assert by_device == [(4, 0, 4, 0), (3, 1, 4, 0), (1, 0, 1, 3), (4, 0, 4, 0)]
    assert {one.version for one in status.devices} == {mix2fld.__version__}
    seen = [one.last_seen for one in status.devices]
    assert seen[2] < seen[1] <= status.last_event
    assert status.silent == [2]


def test_every_event_is_a_json_object_in_a_line(finished: Path) -> None:
    lines = (finished / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert all({"time", "event"} <= event.keys() for event in events)
    kinds = [event["event"] for event in events if event["event"] != "note"]
    assert (kinds[0], kinds[-1], kinds.count("round")) == ("started", "finished", 4)
    assert kinds.count("upload") == sum(len(i["uploads"]["devices"]) for i in rounds_of(finished))
    said = (finished / "diary.log").read_text().splitlines()
    assert [event["words"] for event in events if "words" in event] == [
        line.partition(" ")[2] for line in said
    ]


def test_a_device_of_another_version_is_named_once(tmp_path: Path) -> None:
    """It still takes part if its messages have the form of this version."""

    class Older(MemoryBroker):
        def send(self, topic, payload, qos=1, retain=False):
            if topic == "p/1":
                super().send(topic, b"1 0.1.9", qos, retain)
                payload = b"1 0.1.9\n\x1b"
            super().send(topic, payload, qos, retain)

    path = run_in_memory(tmp_path, deployed_config(tmp_path, protocol="fd", rounds=2), Older())
    said = (path / "diary.log").read_text()
    words = f"device 1 has mix2fld 0.1.9, and this server {mix2fld.__version__}; install the same"
    assert said.count("device 1 has mix2fld") == 1
    assert words in said
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4, 4]


class Presences(MemoryBroker):
    """Device 1 says these in place of its presence, each of them again and again."""

    def __init__(self, *said: bytes) -> None:
        super().__init__()
        self.said, self.toggled = said, False

    def send(self, topic, payload, qos=1, retain=False):
        if topic == "p/1" or (topic == "u/1" and not self.toggled):
            self.toggled = topic == "u/1"
            for said in 9 * self.said:
                super().send("p/1", said, 1, True)
        if topic != "p/1":
            super().send(topic, payload, qos, retain)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((b"1",), "device 1 names no version (0.2 or older): it cannot read messages of format 9"),
        ((b"1", b"1 v1", b"1 v2"), "device 1 has mix2fld v2, and this server"),
        ((b"1 0.4.0 3",), "device 1 has mix2fld 0.4.0"),
        ((b"1 [/x][link=http://e]",), "device 1 names no version"),
    ],
)
def test_a_device_is_told_off_once_whatever_it_says_of_itself(
    tmp_path: Path, said: tuple[bytes, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=1)
    path = run_in_memory(tmp_path, config, Presences(*said))
    diary = (path / "diary.log").read_text()
    assert diary.count(words) == diary.count("device 1 ") == 1
    assert ("messages of format 3, not 9" in diary) == (said[0] == b"1 0.4.0 3")
    main(["deploy", "status", str(path)])
    assert "[/x]" not in capsys.readouterr().out


@pytest.fixture
def forged(finished: Path, tmp_path: Path) -> Path:
    """A copy of a run, beside an intact one."""
    shutil.copytree(finished, tmp_path / "intact")
    shutil.copytree(finished, tmp_path / "forged")
    return tmp_path / "forged"


FORGED = (
    "[1,2]", "7", '"a"', "{}", '{"time": 1}', '{"time": "x", "event": "upload"}', "[" * 100_000,
    '{"time": NaN, "event": "upload"}', '{"time": 1, "event": ["upload"]}',
    '{"time": 1, "event": "upload", "device": 99, "round": 1}',
    '{"time": 1, "event": "upload", "device": "1", "round": 1}',
    '{"time": 1, "event": "refused", "device": [1], "round": {}}',
    '{"time": 1, "event": "asked", "devices": 3, "versions": [1]}',
    '{"time": 1, "event": "asked", "devices": [9], "versions": {"99": "x", "1": "[/x]"}}',
    '{"time": 1, "event": "unanswered", "devices": [77, {}, "1"]}',
    '{"time": 1, "event": "started", "timeout_s": "long"}',
)  # fmt: skip


def test_forged_events_are_passed_over(forged: Path, finished: Path) -> None:
    with (forged / "events.jsonl").open("a") as file:
        file.writelines(f"{line}\n" for line in FORGED)
    status, intact = run_status(forged), run_status(finished)
    assert status is not None
    assert intact is not None
    assert [one.taken for one in status.devices] == [one.taken for one in intact.devices]
    assert [one.silent for one in status.devices] == [one.silent for one in intact.devices]
    assert status.devices[1].version == ""


@pytest.mark.parametrize("name", ["events.jsonl", "rounds.jsonl", "summary.json"])
def test_one_bad_run_costs_no_other_its_place(forged: Path, name: str) -> None:
    """A pipe, whose reader waits for ever, in the place of a file."""
    (forged / name).unlink()
    os.mkfifo(forged / name)
    found = {one.name: one for one in deployed_runs(forged.parent)}
    assert not found["intact"].trouble(time.time())
    troubled = name != "events.jsonl"  # nothing but the record says how a run is
    assert bool(found["forged"].trouble(time.time())) == troubled
    server = make_health_server(forged.parent, "127.0.0.1:0")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert asked(server, "/metrics")[0] == 200
    assert asked(server, "/health")[0] == (503 if troubled else 200)
    server.shutdown()
    server.server_close()


def test_the_command_prints_a_table_or_json(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["deploy", "status", str(finished.parent)])
    said = capsys.readouterr().out
    assert "4 of 4 rounds; finished" in said
    assert said.count(mix2fld.__version__) == 4
    main(["deploy", "status", str(finished), "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    assert [one["taken"] for one in found["devices"]] == [4, 3, 1, 4]


def test_a_run_that_nobody_serves_is_in_trouble(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class StoppedError(Exception):
        pass

    class Stopping(Watcher):
        def round_done(self, config, info):
            raise StoppedError

    config = deployed_config(tmp_path, protocol="fd", rounds=2)
    with pytest.raises(StoppedError):
        run_in_memory(tmp_path, config, MemoryBroker(), watcher=Stopping())
    path = tmp_path / "runs" / config.run_name
    with pytest.raises(SystemExit, match="2"):
        main(["deploy", "status", str(path)])
    said = capsys.readouterr()
    assert "no server has this run; the same command resumes it" in said.out
    lock = FolderLock(path)
    assert lock.take()
    status = run_status(path)
    assert status is not None
    assert status.trouble(status.last_event + 1) == ""
    late = status.last_event + 2 * status.timeout_s + SPARE_S + 1
    assert "nothing has happened for" in status.trouble(late)
    with (path / "events.jsonl").open("a") as file:
        file.write('{"time": 1, "event": "lost", "round": 2}\n{"time": 2, "ev')  # cut by a crash
    status = run_status(path)
    assert status is not None
    assert "lost its transport" in status.trouble(status.last_event)
    lock.give_back()


def test_folders_without_a_deployment_are_named(tmp_path: Path) -> None:
    run(deployed_config(tmp_path, protocol="fd", rounds=1), out=tmp_path / "simulated")
    for folder in (tmp_path / "simulated", tmp_path / "none"):
        with pytest.raises(SystemExit, match="2"):
            main(["deploy", "status", str(folder)])


@pytest.fixture
def monitor(finished: Path) -> Iterator[HealthServer]:
    server = make_health_server(finished.parent, "127.0.0.1:0")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def asked(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_prometheus_reads_health_and_metrics(monitor: HealthServer, finished: Path) -> None:
    status, body = asked(monitor, "/health")
    assert (status, json.loads(body)) == (200, {"healthy": True, "runs": {finished.name: ""}})
    status, body = asked(monitor, "/metrics")
    values = {
        (one.name, one.labels.get("device")): one.value
        for family in text_string_to_metric_families(body)
        for one in family.samples
    }
    assert status == 200
    assert values["mix2fld_healthy", None] == 1
    assert values["mix2fld_rounds_done", None] == 4
    assert [values["mix2fld_device_uploads_taken_total", str(d)] for d in range(4)] == [4, 3, 1, 4]
    assert values["mix2fld_device_uploads_refused_total", "1"] == 1
    assert values["mix2fld_device_silent_rounds", "2"] == 3
    assert asked(monitor, "/else")[0] == 404
    summary = finished / "summary.json"
    kept = summary.rename(finished / "kept")
    status, body = asked(monitor, "/health")
    kept.rename(summary)
    assert (status, json.loads(body)["healthy"]) == (503, False)


def test_no_run_is_no_health(tmp_path: Path) -> None:
    server = make_health_server(tmp_path, "127.0.0.1:0")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert asked(server, "/health")[0] == 503
    assert asked(server, "/metrics")[0] == 503
    with pytest.raises(InputError, match="cannot be used"):
        make_health_server(tmp_path, f"127.0.0.1:{server.server_port}")
    with pytest.raises(InputError, match="must be address:port"):
        make_health_server(tmp_path, "9464")
    server.shutdown()
    server.server_close()


@needs_ipv6
def test_a_monitor_at_an_address_of_ipv6_is_answered(finished: Path) -> None:
    server = make_health_server(finished.parent, "[::1]:0")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with urllib.request.urlopen(f"http://[::1]:{server.server_port}/health") as answer:
        assert answer.status == 200
    server.shutdown()
    server.server_close()


def test_when_keys_end_is_shown_and_measured(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys"
    make_fleet_certificates(keys, ["127.0.0.1"], 2)
    main(["deploy", "status", str(finished), "--keys", str(keys)])
    said = capsys.readouterr().out
    day = f"{ends(keys)['device-1']:%Y-%m-%d}"
    assert f"the certificate of broker ends on {day}" in said
    assert said.count(day) == 4  # broker, server, two devices
    server = make_health_server(finished.parent, "127.0.0.1:0", keys)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    line = 'mix2fld_certificate_end_timestamp_seconds{name="device-1"}'
    assert line in asked(server, "/metrics")[1]
    (keys / "ca.crl").write_bytes(b"")
    assert asked(server, "/metrics")[0] == 200
    server.shutdown()
    server.server_close()
