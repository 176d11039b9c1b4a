"""Apps that start warm: one process imports what an app needs and forks for every message.

Flower starts ``flwr-clientapp`` anew for each message, which imports Flower and, to train, JAX. A
node instead finds a small program of that name first: it hands its arguments over a socket in a
folder that only the node's user can enter, and ends. Where nobody listens, it
becomes Flower's own program.
"""

import atexit
import json
import os
import shutil
import signal
import socket
import sys
import warnings
from importlib import import_module
from pathlib import Path

PROGRAM = "flwr-clientapp"
LONGEST = 65_536
"""Bytes of the arguments of a program."""
CHECK_S = 1.0
"""How often the process looks whether its node is still there."""
HANDED_OVER = b"+"
PRELOADED = (
    "flwr.supernode.cli",
    "httpcore",
    "mix2fld.deploy.client_app",
    "mix2fld.deploy.edge.full",
)
"""What a message needs, also what is otherwise imported at first use."""
LAUNCHER = """\
#!{python} -IS
import json, os, socket, sys
try:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect({address!r})
        socket.send_fds(line, [json.dumps(sys.argv[1:]).encode()], [1, 2])
        if line.recv(1) == {word!r}:
            sys.exit()
except OSError:
    pass
os.execv({program!r}, [{program!r}, *sys.argv[1:]])
"""


def write_launcher(folder: Path) -> bool:
    """Write the small program into ``folder``; False if Flower's own cannot be found."""
    program = shutil.which(PROGRAM)
    if program is None:
        return False
    text = LAUNCHER.format(
        python=sys.executable, address=str(address_in(folder)), word=HANDED_OVER, program=program
    )
    file = folder / PROGRAM
    file.write_text(text, encoding="utf-8")
    file.chmod(0o700)
    return True


def address_in(folder: Path) -> Path:
    """Where the process listens."""
    return folder / "socket"


def serve(folder: Path, node: int) -> None:
    """Fork for every message, until the node with that process number has ended."""
    _preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for apps
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address_in(folder)))
        listener.listen()
        listener.settimeout(CHECK_S)
        while os.getppid() == node:
            try:
                line, _ = listener.accept()
            except TimeoutError:
                continue
            with line:
                line.settimeout(CHECK_S)
                _take(line)


def _preload() -> None:
    """Import what apps need; what is imported here must start no threads."""
    for name in PRELOADED:
        import_module(name)
    import_module("mix2fld.deploy.backoff").shorten_first_wait()
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # JAX has not begun to compute


def _take(line: socket.socket) -> None:
    """Take over what a launcher hands over, in a process of its own."""
    try:
        words, files, _, _ = socket.recv_fds(line, LONGEST, 2)
        if len(files) == 2 and os.fork() == 0:
            line.sendall(HANDED_OVER)
            _become(json.loads(words), files)
        for file in files:
            os.close(file)
    except OSError:
        return


def _become(arguments: list[str], files: list[int]) -> None:
    """Be ``flwr-clientapp`` with these arguments and outputs; does not return."""
    from flwr.supernode.cli import flwr_clientapp

    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file, output in zip(files, (1, 2), strict=True):
            os.dup2(file, output)
        sys.argv = [PROGRAM, *arguments]
        flwr_clientapp()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
