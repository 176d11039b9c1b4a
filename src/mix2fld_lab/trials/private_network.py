"""A network of our own on this machine, which processes of other users cannot reach.

Flower's control API runs code for any client that connects to it, and asks for nothing else: on the
loopback of a machine, that is every user. A network namespace has a loopback of its own. Root may
make one; others make a user namespace with it, in which they are who they were.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mix2fld.base.errors import InputError

HOLD = """
import ctypes, fcntl, os, socket, struct, sys

def call(name, *arguments):
    if getattr(libc, name)(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

libc = ctypes.CDLL(None, use_errno=True)
user, group = os.getuid(), os.getgid()
try:
    if user:
        call("unshare", 0x50000000)  # CLONE_NEWUSER | CLONE_NEWNET
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"),
                           ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    else:
        call("unshare", 0x40000000)
    with socket.socket() as any_socket:  # SIOCSIFFLAGS, IFF_UP | IFF_LOOPBACK | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x49))
except Exception as error:
    print(error, flush=True)
else:
    print("ready", flush=True)
    sys.stdin.read()
"""
JOIN = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for name in ("user", "net") if os.getuid() else ("net",):
    with open(f"/proc/{sys.argv[1]}/ns/{name}") as namespace:
        if libc.setns(namespace.fileno(), 0):
            sys.exit(f"cannot join the network of {sys.argv[1]}: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[2], sys.argv[2:])
"""
LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""
PYTHON = (sys.executable, "-I", "-S", "-c")
FLAG = "--shared-network"


class PrivateNetwork:
    """A network that exists as long as the process that holds it."""

    def __init__(self, holder: int) -> None:
        self._holder = holder

    @property
    def inside(self) -> list[str]:
        """What a command in this network begins with."""
        return [*PYTHON, JOIN, str(self._holder)]

    def listens(self, port: int) -> bool:
        """Whether somebody in it listens at a port, over IPv4."""
        lines = Path(f"/proc/{self._holder}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        sockets = (line.split()[1:4] for line in lines)
        return any(
            state == LISTENS and int(local.rpartition(":")[2], 16) == port
            for local, _, state in sockets
        )


@contextmanager
def private_network() -> Iterator[PrivateNetwork]:
    """Have a network of one's own within the block; raises ``InputError`` if there can be none."""
    try:
        holder = subprocess.Popen(
            [*PYTHON, HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise _impossible(str(error)) from None
    with holder:
        try:
            assert holder.stdout is not None
            said = holder.stdout.readline().decode(errors="replace").strip()
            if said != "ready":
                raise _impossible(said)
            yield PrivateNetwork(holder.pid)
        finally:
            holder.kill()


def _impossible(why: str) -> InputError:
    return InputError(
        f"deploy local: this machine gives no network namespace ({why}), and on its loopback other "
        "users of the machine could run code through Flower's control API; if there are none, "
        f"repeat the command with {FLAG}"
    )
