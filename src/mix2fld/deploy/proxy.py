"""The proxy in front of a SuperLink: nodes reach the fleet API through it, and nothing else."""

from dataclasses import dataclass
from math import ceil
from pathlib import Path

from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config
from mix2fld.data import dataset_sizes
from mix2fld.engine.wire import Wire
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning

PROXY_PORT, SUPERLINK_PORT = 8443, 8000
MESSAGE_BYTES = 1 << 18
"""What Flower adds to a payload at most, and the messages without one."""
CONNECTIONS = 8
"""Connections that a node has at most."""
FEWEST_CONNECTIONS = 64
KEPT_CONNECTIONS, KEPT_S = 32, 3
"""To the SuperLink, so that few requests begin with TLS; it closes idle ones after five seconds."""


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
    user: str | None = None
    """Who handles requests if root starts it; otherwise whoever starts it does."""

    def nginx_config(self) -> str:
        """A whole configuration file, for ``nginx -c``."""
        connections = max(FEWEST_CONNECTIONS, CONNECTIONS * self.devices)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "\n".join(f"    {kind}_temp_path {self.folder / kind};" for kind in kinds)
        return f"""\
# Passes the fleet API of a SuperLink to nodes. The control API, the runtime API and everything else
# are refused: what is compared is the path as it was sent, before anything is decoded.
daemon off;
{f"user {self.user};" if self.user else "# The user is that of the unit."}
worker_processes 1;
pid {self.folder}/nginx.pid;
error_log stderr warn;

events {{
    worker_connections {2 * connections + 64};
}}

http {{
    access_log off;
    server_tokens off;
{folders}

    client_max_body_size {ceil(self.largest_body / 1024)}k;
    client_header_timeout 10s;
    client_body_timeout 60s;
    send_timeout 60s;
    keepalive_timeout 75s;
    large_client_header_buffers 4 8k;
    limit_conn_zone $binary_remote_addr zone=nodes:1m;
    limit_conn nodes {connections};

    map "$request_method $request_uri" $for_nodes {{
        default 0;
        "~^POST /v1/fleet/[a-z-]+$" 1;
    }}

    upstream superlink {{
        server 127.0.0.1:{self.superlink_port};
        keepalive {KEPT_CONNECTIONS};
        keepalive_timeout {KEPT_S}s;
    }}

    server {{
        listen {self.listen} ssl;
        ssl_certificate {self.certificate};
        ssl_certificate_key {self.key};
        ssl_protocols TLSv1.2 TLSv1.3;

        if ($for_nodes = 0) {{
            return 403;
        }}
        location / {{
            proxy_pass https://superlink;
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate {self.authority};
            proxy_ssl_name localhost;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host localhost;
        }}
    }}
}}
"""


def largest_request(settings: Config | Grid) -> int:
    """Bytes of the largest request that a node sends in a run of any of the protocols."""
    samples, num_labels = dataset_sizes(settings.data)
    runs = {one.protocol: one for one in single_runs(settings)}
    wires = [
        Wire(get_protocol(name), make_learning(one, samples, Classification(num_labels)))
        for name, one in runs.items()
    ]
    bits = max(wire.upload_size(with_seeds=True).bits for wire in wires)
    return ceil(bits / 8) + MESSAGE_BYTES
