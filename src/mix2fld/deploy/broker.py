"""Mosquitto as the broker of a fleet: its configuration, its access list, its process."""

from dataclasses import dataclass
from math import ceil
from pathlib import Path

from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.deploy.proxy import largest_payloads
from mix2fld.deploy.templates import fill

PORT, BROKER_PORT = 8883, 8884
"""Of the front, which devices use, and of the broker behind it, on loopback."""
MESSAGE_BYTES = 1 << 12
"""What a message has beside its payload at most, and the messages without one."""
SPARE_CONNECTIONS = 1000
"""Connections that have proved nothing yet, beside one for each device."""
QUEUED_EACH = 8
"""Messages that may wait for the server, for each device."""


@dataclass(frozen=True)
class Broker:
    """What a Mosquitto configuration is made of."""

    keys: Path
    """Folder with ca.crt, ca.crl and broker.crt."""
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
        return fill(
            "mosquitto.conf",
            **vars(self) | {"user": user, "private": self.private or self.keys},
            connections=2 * places(self.devices),
            queued=QUEUED_EACH * self.devices + 100,
        )

    def write(self, folder: Path, name: str = "mosquitto.conf") -> Path:
        """The configuration and ``access.acl`` in a folder; returns the former."""
        (folder / "access.acl").write_text(fill("access.acl"), encoding="utf-8")
        (folder / "access.acl").chmod(0o600)
        file = folder / name
        file.write_text(self.config(), encoding="utf-8")
        return file


def places(devices: int) -> int:
    """Connections that may wait at the front at once; as many may be in use, or just closed."""
    return devices + SPARE_CONNECTIONS


def largest_message(settings: Config | Grid) -> int:
    """Bytes of the largest message in a run of any of the protocols, either way."""
    return ceil(max(largest_payloads(settings)) / 8) + MESSAGE_BYTES
