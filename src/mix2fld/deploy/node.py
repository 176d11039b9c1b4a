"""A node that answers within a second: Flower's SuperNode with short pauses and warm apps.

    python -P -m mix2fld.deploy.node ...

takes the options of ``flower-supernode``, which does the same with longer pauses.
"""

import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from mix2fld.deploy.warm import serve, write_launcher

IDLE_S = 3.0
"""Flower's pause between two looks for a message."""
QUICK_S = 0.3
"""The same while a run is in progress."""
REPLY_S = 0.05
"""Pause between two looks for the answer of an app."""
BUSY_S = 60.0
"""How long after its last message a run is taken to be in progress."""
APP_POLL, APP_POLL_S = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL", 0.2
DEATH_SIGNAL = 1  # prctl(PR_SET_PDEATHSIG)


class Pauses:
    """How long a node pauses: short while a run is in progress, Flower's own otherwise."""

    def __init__(self) -> None:
        self._busy_until = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Pause for at most ``seconds``; less than Flower's idle pause means that an app works."""
        now = time.monotonic()
        if seconds < IDLE_S:
            self._busy_until = now + BUSY_S
            time.sleep(min(seconds, REPLY_S))
        else:
            time.sleep(min(seconds, QUICK_S) if now < self._busy_until else seconds)


@contextmanager
def warm_apps() -> Iterator[None]:
    """Have apps started by a process that has imported what they need."""
    folder, node = Path(tempfile.mkdtemp(prefix="mix2fld-node-")), os.getpid()  # mode 0700
    try:
        if write_launcher(folder):
            if os.fork() == 0:
                _serve_and_end(folder, node)
            os.environ["PATH"] = os.pathsep.join([str(folder), os.environ.get("PATH", "")])
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve_and_end(folder: Path, node: int) -> None:
    """Be the process that forks; it ends with its node and does not return."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGTERM)
    try:
        serve(folder, node)
    finally:
        os._exit(0)


def shorten_pauses() -> None:
    """Have Flower pause as ``Pauses`` says, if it pauses where this version of it does."""
    from flwr.supernode import start_client_internal

    if vars(start_client_internal).get("time") is time:
        clock = SimpleNamespace(**{**vars(time), "sleep": Pauses().sleep})
        vars(start_client_internal)["time"] = clock


def main() -> None:
    """Run a SuperNode with the options of this command."""
    os.environ.setdefault(APP_POLL, str(APP_POLL_S))
    with warm_apps():
        from flwr.supernode.cli import flower_supernode

        from mix2fld.deploy.backoff import shorten_first_wait

        shorten_pauses()
        shorten_first_wait()
        flower_supernode()


if __name__ == "__main__":
    main()
