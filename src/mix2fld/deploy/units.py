"""Units for systemd, and the configurations of what they start: of a deployment, each in a folder.

Over Flower: the SuperLink on loopback, the proxy in front of it, and nodes. Over MQTT: the broker
on loopback, the front of it, the server, and devices. ``@`` in a name: one unit for each device.
"""

import os
from pathlib import Path

from mix2fld.deploy.broker import BROKER_PORT, PORT, Broker, places
from mix2fld.deploy.proxy import PROXY_PORT, SUPERLINK_PORT, Proxy
from mix2fld.deploy.templates import fill

KEYS = Path("/etc/mix2fld")
"""Where the files of ``mix2fld deploy keys`` are on each machine."""
BIN = Path("/opt/mix2fld/bin")
"""The environment with mix2fld and Flower."""
BROKER_CONFIG = "mix2fld-broker.conf"
"""The broker's configuration with the paths of its unit; ``mosquitto.conf`` has those of here."""
JOURNAL = "syslog:server=unix:/run/systemd/journal/dev-log,tag=mix2fld_proxy,nohostname"
SMALLEST_LIMIT, KEPT_EACH = 1 << 30, 16
"""Bytes that superlink.db may have, and requests of the largest size of each device beside them."""
DOORS = ("proxy", "broker", "front")
"""They only pass messages on; all others compute."""
DOORS_PERCENT, PROGRAMS_PERCENT = 50, 75
"""Of a machine's memory: a flood ends what takes more; it starts again, and runs resume."""


def unit(name: str, host: str = "", devices: int = 0, largest_body: int = 0) -> str:
    """The unit of one part of a deployment whose nodes or devices use this host."""
    hardening = fill(
        "hardening",
        restart="on-failure" if name == "server" else "always",
        memory_percent=DOORS_PERCENT if name in DOORS else PROGRAMS_PERCENT,
    )
    return fill(
        f"mix2fld-{name}.service",
        keys=KEYS,
        bin=BIN,
        host=f"[{host}]" if ":" in host else host,
        port=PORT,
        broker_port=BROKER_PORT,
        proxy_port=PROXY_PORT,
        superlink_port=SUPERLINK_PORT,
        places=places(devices),
        largest_file=SMALLEST_LIMIT + KEPT_EACH * devices * largest_body,
        hardening=hardening,
    )


def write_units(folder: Path, host: str, largest_body: int, devices: int) -> None:
    """``nginx.conf``, and a unit for each part of a deployment over Flower."""
    proxy = Proxy(
        certificate=KEYS / "server.crt",
        key=Path("/run/credentials/mix2fld-proxy.service/server.key"),
        authority=KEYS / "ca.crt",
        largest_body=largest_body,
        devices=devices,
        refused_log=JOURNAL,
    )
    (folder / "nginx.conf").write_text(proxy.nginx_config(), encoding="utf-8")
    _write(folder, ("superlink", "proxy", "node@"), host, devices, largest_body)


def write_mqtt_units(folder: Path, host: str, largest: int, devices: int) -> None:
    """The broker's configurations, and a unit for each part of a deployment over MQTT."""
    here = folder.resolve()
    state = here / "broker"
    state.mkdir()
    user = "root" if os.geteuid() == 0 else None  # the one who owns key and folder
    Broker(here, state, largest, devices, user=user).write(folder)
    private = Path("/run/credentials/mix2fld-broker.service")
    installed = Broker(KEYS, Path("/var/lib/mix2fld-broker"), largest, devices, private=private)
    installed.write(folder, BROKER_CONFIG)
    _write(folder, ("broker", "front", "server", "device@"), host, devices)


def _write(
    folder: Path, names: tuple[str, ...], host: str, devices: int, largest_body: int = 0
) -> None:
    for name in names:
        text = unit(name, host, devices, largest_body)
        (folder / f"mix2fld-{name}.service").write_text(text, encoding="utf-8")
