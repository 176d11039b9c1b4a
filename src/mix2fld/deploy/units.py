"""Units for systemd: the SuperLink, the proxy in front of it, and a node."""

from pathlib import Path

from mix2fld.deploy.proxy import PROXY_PORT, SUPERLINK_PORT, Proxy

KEYS = Path("/etc/mix2fld")
"""Where the files of ``mix2fld deploy keys`` are on each machine."""
BIN = Path("/opt/mix2fld/bin")
"""The environment with mix2fld and Flower."""
HARDENING = """\
DynamicUser=yes
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
Restart=always
RestartSec=15
"""


def limits(memory_percent: int) -> str:
    """What a unit may take of its machine: a flood ends it, it starts again, and runs resume."""
    return f"MemoryMax={memory_percent}%\nMemorySwapMax=0\nLimitNOFILE=65536\nTasksMax=4096\n"


OF_PROGRAMS, OF_DOORS = 75, 50
"""Percent of a machine's memory for what computes, and for what only passes messages on."""
QUIET = "FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1"


def superlink_unit() -> str:
    """Listens on loopback: who may command it is on this machine, or has a tunnel to it."""
    return f"""\
[Unit]
Description=mix2fld: SuperLink, on loopback
After=network.target

[Service]
ExecStart={BIN}/flower-superlink --host 127.0.0.1 --port {SUPERLINK_PORT} \\
  --database %S/mix2fld-superlink/superlink.db --ssl-ca-certfile {KEYS}/ca.crt \\
  --ssl-certfile {KEYS}/server.crt --ssl-keyfile %d/server.key \\
  --enable-supernode-auth --disable-runtime-dependency-installation
LoadCredential=server.key:{KEYS}/server.key
StateDirectory=mix2fld-superlink
WorkingDirectory=%S/mix2fld-superlink
Environment={QUIET} FLWR_HOME=%S/mix2fld-superlink/flower
Environment=MIX2FLD_CACHE=%S/mix2fld-superlink/cache PATH={BIN}:/usr/bin:/bin
{HARDENING}{limits(OF_PROGRAMS)}
[Install]
WantedBy=multi-user.target
"""


def proxy_unit() -> str:
    """The one part that listens to the network."""
    return f"""\
[Unit]
Description=mix2fld: proxy for nodes
After=network.target

[Service]
ExecStart=/usr/sbin/nginx -e stderr -p /run/mix2fld-proxy -c {KEYS}/nginx.conf
LoadCredential=server.key:{KEYS}/server.key
RuntimeDirectory=mix2fld-proxy
MemoryDenyWriteExecute=yes
{HARDENING}{limits(OF_DOORS)}
[Install]
WantedBy=multi-user.target
"""


def node_unit(address: str) -> str:
    """A template: ``mix2fld-node@3`` is device 3; of several on one machine each needs a port."""
    return f"""\
[Unit]
Description=mix2fld: device %i
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={BIN}/python -P -m mix2fld.deploy.node --superlink {address} \\
  --root-certificates {KEYS}/ca.crt \\
  --auth-supernode-private-key %d/device.key --port ${{PORT}} \\
  --node-config 'data="/srv/mix2fld/samples.npz" state="/var/lib/mix2fld-node-%i/state"'
LoadCredential=device.key:{KEYS}/device-%i.key
StateDirectory=mix2fld-node-%i
WorkingDirectory=%S/mix2fld-node-%i
BindReadOnlyPaths=/srv/mix2fld
Environment=PORT=9094 {QUIET} FLWR_HOME=%S/mix2fld-node-%i/flower
Environment=MIX2FLD_CACHE=%S/mix2fld-node-%i/cache PATH={BIN}:/usr/bin:/bin
{HARDENING}{limits(OF_PROGRAMS)}
[Install]
WantedBy=multi-user.target
"""


def write_units(folder: Path, host: str, largest_body: int, devices: int) -> None:
    """``nginx.conf``, and a unit for each part of a deployment whose nodes use this host."""
    proxy = Proxy(
        certificate=KEYS / "server.crt",
        key=Path("/run/credentials/mix2fld-proxy.service/server.key"),
        authority=KEYS / "ca.crt",
        largest_body=largest_body,
        devices=devices,
    )
    address = f"[{host}]:{PROXY_PORT}" if ":" in host else f"{host}:{PROXY_PORT}"
    for name, text in {
        "nginx.conf": proxy.nginx_config(),
        "mix2fld-superlink.service": superlink_unit(),
        "mix2fld-proxy.service": proxy_unit(),
        "mix2fld-node@.service": node_unit(address),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
