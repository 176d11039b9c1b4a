"""The server behind the live page: whom it answers, what it reads, how it ends."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mix2fld.base.errors import InputError
from mix2fld.base.files import LOCK
from mix2fld.report.live import LiveHandler, PageServer, make_server
from mix2fld.runs.records import read_records, write_line


def ask(page_server: PageServer, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", page_server.server_port, timeout=120)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_it_binds_to_this_machine_only(page_server: PageServer) -> None:
    assert page_server.server_address[0] == "127.0.0.1"


def test_it_answers_a_browser_of_this_machine_only(page_server: PageServer) -> None:
    assert ask(page_server, "/")[0] == 200
    assert ask(page_server, "/", "localhost:8420")[0] == 200
    assert ask(page_server, "/data.json", "evil.example:8420")[0] == 403


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/config.toml", "/data.json/x", "/?x"])
def test_there_are_two_answers_and_no_files(page_server: PageServer, path: str) -> None:
    assert ask(page_server, path)[0] == 404


def test_data_follows_the_files_and_nothing_is_written(
    page_server: PageServer, runs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    assert json.loads(ask(page_server, "/data.json")[1])["views"]["finished"]["series"] == []
    shutil.copytree(runs / "fl-s0", folder / "fl-s0")
    before = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}
    first = ask(page_server, "/data.json")[1]
    assert [series["protocol"] for series in json.loads(first)["views"]["finished"]["series"]] == [
        "fl"
    ]
    assert ask(page_server, "/data.json")[1] == first
    assert {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))} == before
    shutil.rmtree(folder)
    assert json.loads(ask(page_server, "/data.json")[1])["views"]["finished"]["series"] == []


def test_idle_connections_are_closed(
    page_server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that never asks, one that stops in the middle, and one that has had its answer."""
    monkeypatch.setattr(LiveHandler, "timeout", 0.3)
    for sent in (b"", b"GET / HT", b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", page_server.server_port), timeout=60) as idle:
            idle.sendall(sent)
            while idle.recv(1 << 16):
                pass
    assert ask(page_server, "/")[0] == 200


def test_a_port_in_use_is_said(page_server: PageServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"port = {page_server.server_port}: cannot be used"):
        make_server(tmp_path, page_server.server_port)
    with pytest.raises(InputError, match="port = 70000"):
        make_server(tmp_path, 70000)


def test_the_command_serves_until_interrupted(runs: Path) -> None:
    watching = subprocess.Popen(
        [sys.executable, "-m", "mix2fld", "watch", str(runs), "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            said += watching.stdout.readline()
        port = int(json.loads(said)["address"].rstrip("/").rsplit(":", 1)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", "/data.json")
        assert len(json.loads(connection.getresponse().read())["views"]["finished"]["series"]) == 4
        connection.close()
        watching.send_signal(signal.SIGINT)
        _, complaints = watching.communicate(timeout=120)
    finally:
        watching.kill()
        watching.wait()
    assert watching.returncode == 0
    assert "Traceback" not in complaints


@pytest.mark.parametrize("name", ["rounds.jsonl", "summary.json", "failure.txt", ".lock"])
def test_a_pipe_in_the_place_of_a_file_costs_no_other_run(
    page_server: PageServer, runs: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "runs"
    for copy in ("good", "bad"):
        shutil.copytree(runs / "fl-s0", folder / copy)
    (folder / "bad" / "summary.json").unlink()
    name = LOCK if name == ".lock" else name
    (folder / "bad" / name).unlink(missing_ok=True)
    os.mkfifo(folder / "bad" / name)
    data = json.loads(ask(page_server, "/data.json")[1])
    assert len(data["views"]["finished"]["series"]) == 1
    assert name != "rounds.jsonl" or "rounds.jsonl: cannot be read (not a file)" in data["notes"][0]


def test_a_forged_record_costs_no_other_run(
    page_server: PageServer, runs: Path, tmp_path: Path
) -> None:
    """Its seal is right, and a field is not what a round has there."""
    folder = tmp_path / "runs"
    for copy in ("good", "bad"):
        shutil.copytree(runs / "fl-s0", folder / copy)
    rounds = folder / "bad" / "rounds.jsonl"
    (folder / "bad" / "summary.json").unlink()
    fields = read_records(rounds).rounds[0]
    rounds.write_bytes(write_line({**fields, "scores": 7}, "")[0])
    data = json.loads(ask(page_server, "/data.json")[1])
    assert len(data["views"]["finished"]["series"]) == 1
    assert any("bad: cannot be shown" in note for note in data["notes"])


@pytest.mark.skipif(
    not Path("/proc/net/tcp").exists() or os.geteuid() != 0 or not shutil.which("curl"),
    reason="needs Linux, curl and a second user",
)
def test_other_users_of_this_machine_are_refused(page_server: PageServer) -> None:
    address = f"http://127.0.0.1:{page_server.server_port}/data.json"
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", address]
    for user, status in ((65534, "403"), (0, "200")):
        said = subprocess.run(
            command, user=user, capture_output=True, text=True, check=True, cwd="/"
        )
        assert said.stdout == status
