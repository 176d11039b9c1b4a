"""Units for systemd: the broker, the front of it, the server, and a device."""

import os
from pathlib import Path

from mix2fld.deploy.broker import BROKER_PORT, PORT, Broker, places
from mix2fld.deploy.units import BIN, HARDENING, KEYS, OF_DOORS, OF_PROGRAMS, limits

CONFIG = "mix2fld-broker.conf"
"""The broker's configuration with the paths of its unit; ``mosquitto.conf`` has those of here."""


def broker_unit() -> str:
    """Listens on loopback."""
    return f"""\
[Unit]
Description=mix2fld: MQTT broker
After=network.target

[Service]
ExecStart=/usr/sbin/mosquitto -c {KEYS}/{CONFIG}
LoadCredential=broker.key:{KEYS}/broker.key
LoadCredential=access.acl:{KEYS}/access.acl
StateDirectory=mix2fld-broker
MemoryDenyWriteExecute=yes
{HARDENING}{limits(OF_DOORS)}
[Install]
WantedBy=multi-user.target
"""


def front_unit(devices: int) -> str:
    """The one part that listens to the network."""
    return f"""\
[Unit]
Description=mix2fld: front of the MQTT broker
After=network.target mix2fld-broker.service

[Service]
ExecStart={BIN}/python -P -m mix2fld.deploy.front --listen {PORT} \\
  --broker 127.0.0.1:{BROKER_PORT} --places {places(devices)}
MemoryDenyWriteExecute=yes
{HARDENING}{limits(OF_DOORS)}
[Install]
WantedBy=multi-user.target
"""


def server_unit(host: str) -> str:
    """Runs what ``run.toml`` says; it can be stopped and started at any time."""
    return f"""\
[Unit]
Description=mix2fld: server
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={BIN}/mix2fld deploy server {host}:{PORT} --keys %d --config {KEYS}/run.toml \\
  --out %S/mix2fld-server/runs
LoadCredential=ca.crt:{KEYS}/ca.crt
LoadCredential=server.crt:{KEYS}/server.crt
LoadCredential=server.key:{KEYS}/server.key
StateDirectory=mix2fld-server
WorkingDirectory=%S/mix2fld-server
Environment=MIX2FLD_CACHE=%S/mix2fld-server/cache PATH={BIN}:/usr/bin:/bin
{HARDENING.replace("Restart=always", "Restart=on-failure")}{limits(OF_PROGRAMS)}
[Install]
WantedBy=multi-user.target
"""


def device_unit(host: str) -> str:
    """A template: ``mix2fld-device@3`` is device 3."""
    return f"""\
[Unit]
Description=mix2fld: device %i
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={BIN}/mix2fld-device --device %i --broker {host}:{PORT} --keys %d \\
  --data /srv/mix2fld/samples.npz --state %S/mix2fld-device-%i/state
LoadCredential=ca.crt:{KEYS}/ca.crt
LoadCredential=device-%i.crt:{KEYS}/device-%i.crt
LoadCredential=device-%i.key:{KEYS}/device-%i.key
StateDirectory=mix2fld-device-%i
WorkingDirectory=%S/mix2fld-device-%i
BindReadOnlyPaths=/srv/mix2fld
Environment=MIX2FLD_CACHE=%S/mix2fld-device-%i/cache PATH={BIN}:/usr/bin:/bin
{HARDENING}{limits(OF_PROGRAMS)}
[Install]
WantedBy=multi-user.target
"""


def write_mqtt_units(folder: Path, host: str, largest: int, devices: int) -> None:
    """The broker's configurations, and a unit for each part of a deployment at this host."""
    here = folder.resolve()
    state = here / "broker"
    state.mkdir()
    user = "root" if os.geteuid() == 0 else None  # the one who owns key and folder
    Broker(here, state, largest, devices, user=user).write(folder)
    broker = Broker(
        keys=KEYS,
        state=Path("/var/lib/mix2fld-broker"),
        largest_message=largest,
        devices=devices,
        private=Path("/run/credentials/mix2fld-broker.service"),
    )
    broker.write(folder, CONFIG)
    named = f"[{host}]" if ":" in host else host
    for name, text in {
        "mix2fld-broker.service": broker_unit(),
        "mix2fld-front.service": front_unit(devices),
        "mix2fld-server.service": server_unit(named),
        "mix2fld-device@.service": device_unit(named),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
