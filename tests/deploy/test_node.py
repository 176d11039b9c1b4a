"""A node that answers quickly: short pauses, and apps that start warm."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_utils import ObjectUnavailableError
from flwr.supernode import start_client_internal

from mix2fld.deploy import node
from mix2fld.deploy.backoff import FIRST_WAIT, PULLS, shorten_first_wait
from mix2fld.deploy.warm import HANDED_OVER, PROGRAM, address_in, write_launcher

# A process that forks for every message, with an app that says what it was called with.
ECHO = """
import os, sys
from pathlib import Path
import flwr.supernode.cli
from mix2fld.deploy import warm
def app():
    print("warm", *sys.argv[1:], flush=True)
    sys.exit(7)
flwr.supernode.cli.flwr_clientapp = app
warm._preload = lambda: None
warm.serve(Path(sys.argv[1]), os.getppid())
"""


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small program in a folder of its own, with a Flower that says that it was started."""
    own, cold = tmp_path / "own", tmp_path / "cold"
    for folder in (own, cold):
        folder.mkdir(mode=0o700)
    flower = cold / PROGRAM
    flower.write_text('#!/bin/sh\necho cold "$@"\n')
    flower.chmod(0o755)
    monkeypatch.setenv("PATH", str(cold), prepend=os.pathsep)
    assert write_launcher(own)
    return own / PROGRAM


def start(launcher: Path, *arguments: str) -> str:
    done = subprocess.run([launcher, *arguments], capture_output=True, check=True, text=True)
    return done.stdout


def test_where_nobody_listens_an_app_starts_as_it_does_with_flower(launcher: Path) -> None:
    assert start(launcher, "--token", "a b") == "cold --token a b\n"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(address_in(launcher.parent)))  # left behind by a process that was killed
    assert start(launcher, "again") == "cold again\n"


def test_an_app_is_forked_and_writes_where_the_node_does(launcher: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ECHO, str(launcher.parent)]) as server:
        try:
            deadline = time.monotonic() + 120
            while not address_in(launcher.parent).exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            for token in ("one", "two"):
                assert start(launcher, "--token", token) == f"warm --token {token}\n"
            assert server.poll() is None
        finally:
            server.kill()
    assert start(launcher, "after") == "cold after\n"


def test_without_flower_there_is_nothing_to_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not write_launcher(tmp_path)
    assert not list(tmp_path.iterdir())
    assert HANDED_OVER


def test_pauses_are_short_while_a_run_is_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    slept, now = [], [1000.0]
    monkeypatch.setattr(node.time, "sleep", slept.append)
    monkeypatch.setattr(node.time, "monotonic", lambda: now[0])
    pauses = node.Pauses()
    pauses.sleep(3)
    pauses.sleep(0.5)  # an app works
    pauses.sleep(3)
    now[0] += node.BUSY_S + 1
    pauses.sleep(3)
    assert slept == [3, node.REPLY_S, node.QUICK_S, 3]


def test_only_pauses_that_are_known_are_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_client_internal, "time", time)
    node.shorten_pauses()
    assert start_client_internal.time is not time
    assert start_client_internal.time.monotonic is time.monotonic
    other = object()
    monkeypatch.setattr(start_client_internal, "time", other)
    node.shorten_pauses()
    assert start_client_internal.time is other


def test_content_that_follows_its_message_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in PULLS:
        monkeypatch.setitem(vars(inflatable_utils)[name].__kwdefaults__, FIRST_WAIT, 1)
    shorten_first_wait()
    tries: list[str] = []

    def pull(name: str) -> bytes:
        tries.append(name)
        if len(tries) < 3:
            raise ObjectUnavailableError(name)
        return b"content"

    started = time.monotonic()
    assert inflatable_utils.pull_objects(["part"], pull) == {"part": b"content"}
    assert time.monotonic() - started < 2  # Flower's own waits are 0.8 and 1.6 s at least
    assert len(tries) == 3


def test_a_flower_that_waits_elsewhere_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(names: list[str], *, patience: float = 1) -> dict[str, bytes]:
        return dict.fromkeys(names, str(patience).encode())

    monkeypatch.setattr(inflatable_utils, PULLS[0], pull)
    monkeypatch.delattr(inflatable_utils, PULLS[1])
    shorten_first_wait()
    assert pull(["part"]) == {"part": b"1"}
