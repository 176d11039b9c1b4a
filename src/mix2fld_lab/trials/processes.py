"""Processes that are started and watched together, and ended with all that they started."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld_lab.trials.private_network import PrivateNetwork

HOST = "127.0.0.1"
START_SECONDS = 300.0
STOP_SECONDS = 10.0
# Has a command end with its parent, even if that was killed with -9: prctl(PR_SET_PDEATHSIG, TERM).
LEASH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def ignoring_signals() -> Iterator[None]:
    """A second Ctrl-C waits until all is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, and wait until they have ended."""
    signal_group(process, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + STOP_SECONDS
    with suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.02)


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class NamedProcesses:
    """Processes by their names, with their logs in one folder."""

    def __init__(self, folder: Path, network: PrivateNetwork | None = None) -> None:
        self.folder, self._network = folder.resolve(), network
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def logs(self) -> Path:
        """Where each process writes its log."""
        return self.folder / "logs"

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a process in a session of its own, with its log in the folder."""
        log = (self.logs / f"{name}.log").open("ab")
        with log:
            log.write(f"$ {shlex.join(command)}\n".encode())
            log.flush()
            self._processes[name] = self.popen(command, log)

    def stop(self, *names: str) -> None:
        """End these processes and all that they started."""
        for name in names:
            signal_group(self._processes[name], signal.SIGTERM)
        for name in names:
            process = self._processes.pop(name)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            end_group(process)

    def kill(self, name: str) -> None:
        """``kill -9`` a process and all that it started."""
        end_group(self._processes.pop(name))

    def log(self, name: str) -> str:
        """What a process has written so far."""
        return (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def alive(self, name: str) -> bool:
        """Whether a process is running."""
        return self._processes[name].poll() is None

    def wait_for_port(self, name: str, host: str, port: int) -> None:
        """Wait until a process listens; raises ``InputError`` if it ends before."""
        deadline = time.monotonic() + START_SECONDS
        while not self.answers(host, port):
            self._check_alive(name)
            if time.monotonic() > deadline:
                raise InputError(f"the {name} does not answer; see {self.logs}")
            time.sleep(0.1)

    def answers(self, host: str, port: int) -> bool:
        """Whether someone listens there."""
        if self._network is not None:
            return self._network.listens(port)
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            return False
        return True

    def popen(self, command: Sequence[str], output: Any) -> subprocess.Popen[bytes]:
        """Start a process that ends with this one, even if this one is killed."""
        leash = [sys.executable, "-I", "-S", "-c", LEASH] if sys.platform == "linux" else []
        inside = [] if self._network is None else self._network.inside
        return subprocess.Popen(
            [*inside, *leash, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output != subprocess.PIPE else None,
            env=self.environment(),
            cwd=self.folder,
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        """What processes find in theirs."""
        return dict(os.environ)

    def _check_alive(self, name: str) -> None:
        if not self.alive(name):
            last = self.log(name).strip().splitlines()[-3:]
            raise InputError(f"{name} ended: {' '.join(' '.join(last).split())}")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
