"""How processes that were started are ended, with all that they started."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STOP_SECONDS = 10.0


@contextmanager
def ignoring_signals() -> Iterator[None]:
    """Whoever presses Ctrl-C again waits until all is cleaned up."""
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
    """Kill what is left of a process and its children, and see them gone."""
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
