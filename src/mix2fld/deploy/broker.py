"""Mosquitto as the broker of a fleet: its configuration, its access list, its process."""

import os
import shutil
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from mix2fld.base.errors import InputError
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data import dataset_sizes
from mix2fld.engine.wire import Wire
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning

PORT, BROKER_PORT = 8883, 8884
"""Of the front, which devices use, and of the broker behind it, on loopback."""
MESSAGE_BYTES = 1 << 12
"""What a message has beside its payload at most, and the messages without one."""
SPARE_CONNECTIONS = 1000
"""Connections that have proved nothing yet, beside one for each device."""
QUEUED_EACH = 8
"""Messages that may wait for the server, for each device."""
ACCESS = """\
# A device's name is the number in its certificate. It reads settings and downloads, its own orders,
# and nothing else; it writes its own uploads and its own presence, and nothing else.
user server
topic write s
topic write g
topic write o/+
topic read u/+
topic read p/+

pattern read s
pattern read g
pattern read o/%u
pattern write u/%u
pattern write p/%u
"""


@dataclass(frozen=True)
class Broker:
    """What a Mosquitto configuration is made of."""

    keys: Path
    """Folder with ca.crt and broker.crt."""
    state: Path
    """Folder for sessions, queues and retained messages."""
    largest_message: int
    """Bytes; larger ones are refused before they are received."""
    devices: int
    listen: str = f"{BROKER_PORT} 127.0.0.1"
    """Port, or port and address."""
    private: Path | None = None
    """Folder with the broker's key and the access list, if they are not beside its certificate."""
    user: str | None = None
    """Who it becomes if root starts it."""

    def config(self) -> str:
        """A whole configuration file, for ``mosquitto -c``."""
        user = f"user {self.user}\n" if self.user else ""
        private = self.private or self.keys
        return f"""\
# The broker of a fleet of mix2fld: TLS on both sides, and a device is whoever its certificate says.
{user}listener {self.listen}
cafile {self.keys}/ca.crt
certfile {self.keys}/broker.crt
keyfile {private}/broker.key
require_certificate true
use_identity_as_username true
# Or a device could connect under another's name, end its session and read what is queued in it.
use_username_as_clientid true
allow_anonymous false
acl_file {private}/access.acl

max_packet_size {self.largest_message}
max_connections {2 * places(self.devices)}
max_queued_messages {QUEUED_EACH * self.devices + 100}
max_topic_alias 0
max_keepalive 3600
set_tcp_nodelay true

# What a crash may lose of the last seconds, server and devices send again.
persistence true
persistence_location {self.state}/
autosave_interval 10
log_dest stderr
log_type error
log_type warning
log_type notice
"""

    def write(self, folder: Path, name: str = "mosquitto.conf") -> Path:
        """The configuration and ``access.acl`` in a folder; returns the former."""
        (folder / "access.acl").write_text(ACCESS, encoding="utf-8")
        (folder / "access.acl").chmod(0o600)
        file = folder / name
        file.write_text(self.config(), encoding="utf-8")
        return file


def places(devices: int) -> int:
    """Connections that may wait at the front at once; as many may be in use, or just closed."""
    return devices + SPARE_CONNECTIONS


def find_mosquitto() -> str:
    """The program; raises ``InputError`` if it is not installed."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise InputError(
            "deploy mqtt needs Mosquitto; install it, e.g. with: apt install mosquitto"
        )
    return program


def largest_message(settings: Config | Grid) -> int:
    """Bytes of the largest message in a run of any of the protocols, either way."""
    samples, num_labels = dataset_sizes(settings.data)
    runs = {one.protocol: one for one in single_runs(settings)}
    wires = [
        Wire(get_protocol(name), make_learning(one, samples, Classification(num_labels)))
        for name, one in runs.items()
    ]
    up = max(wire.upload_size(with_seeds=True).bits for wire in wires)
    down = max(wire.download_size().bits for wire in wires)
    return ceil(max(up, down) / 8) + MESSAGE_BYTES
