"""The proxy in front of a SuperLink: nodes reach the fleet API through it, and nothing else."""

from dataclasses import dataclass
from math import ceil
from pathlib import Path

from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.deploy.templates import fill
from mix2fld.engine.wire import Wire
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.tasks.make_learning import make_learning
from mix2fld.tasks.of_settings import samples_and_task

PROXY_PORT, SUPERLINK_PORT = 8443, 8000
MESSAGE_BYTES = 1 << 18
"""What Flower adds to a payload at most, and the messages without one."""
CONNECTIONS = 8
"""Connections that a node has at most."""
FEWEST_CONNECTIONS = 64
REQUESTS = 50
"""Requests a second that a node makes at most: more wait, and twice as many are refused."""
SPARE_CONNECTIONS = 4000
"""Beside those of nodes: connections that have sent no whole request count for no address."""


@dataclass(frozen=True)
class Proxy:
    """What an nginx configuration is made of."""

    certificate: Path
    key: Path
    authority: Path
    """The certificate that the SuperLink's is signed with."""
    largest_body: int
    """Bytes of the largest request."""
    devices: int
    listen: str = str(PROXY_PORT)
    """Port, or address and port."""
    superlink_port: int = SUPERLINK_PORT
    folder: Path = Path("/run/mix2fld-proxy")
    """For its process number and for requests that are being received."""
    refused_log: str = "/dev/stderr"
    """Where refused requests are logged; a unit's standard error is none that nginx can open."""
    user: str | None = None
    """Who handles requests if root starts it; otherwise the user that starts it does."""

    def nginx_config(self) -> str:
        """A whole configuration file, for ``nginx -c``."""
        connections = max(FEWEST_CONNECTIONS, CONNECTIONS * self.devices)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        user = f"user {self.user};" if self.user else "# The user is that of the unit."
        folders = "\n".join(f"    {kind}_temp_path {self.folder / kind};" for kind in kinds)
        return fill(
            "nginx.conf",
            **vars(self) | {"user": user},
            folders=folders,
            connections=connections,
            requests=REQUESTS * self.devices,
            at_once=REQUESTS * self.devices // 2,
            all_connections=2 * connections + SPARE_CONNECTIONS,
            most_files=2 * connections + SPARE_CONNECTIONS + 100,
            largest_kilobytes=ceil(self.largest_body / 1024),
        )


def largest_request(settings: Config | Grid) -> int:
    """Bytes of the largest request that a node sends in a run of any of the protocols."""
    return ceil(largest_payloads(settings)[0] / 8) + MESSAGE_BYTES


def largest_payloads(settings: Config | Grid) -> tuple[int, int]:
    """Bits of the largest upload and of the largest download in a run of any of the protocols."""
    samples, task = samples_and_task(settings)
    runs = {one.protocol: one for one in single_runs(settings)}
    wires = [
        Wire(get_protocol(name), make_learning(one, samples, task)) for name, one in runs.items()
    ]
    up = max(wire.upload_size(with_seeds=True).bits for wire in wires)
    return up, max(wire.most_download.bits for wire in wires)
