"""The program of a device: ``python -m mix2fld.edge``, or ``mix2fld-device``."""

import argparse
import signal
import sys
from pathlib import Path

from mix2fld.edge.device import Device
from mix2fld.edge.mqtt_line import KEEP_ALIVE_S, Address, MqttLine
from mix2fld.edge.sources import make_source
from mix2fld.edge.tasks import make_task
from mix2fld.edge.topics import presence
from mix2fld.errors import InputError

PORT = 8883
MOST_DEVICES, LONGEST_KEEP_ALIVE_S = 10**9, 3600
"""The latter is the broker's limit (``max_keepalive``)."""


def main() -> None:
    """Connect, answer orders, and never end by oneself."""
    try:
        _run(_arguments())
    except InputError as error:
        sys.exit(f"mix2fld-device: {error}")
    except KeyboardInterrupt:
        sys.exit(0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mix2fld-device", description="Take part in federated runs over an MQTT broker."
    )
    for name, kind, words in (
        ("--device", int, "number of this device"),
        ("--broker", str, f"host or host:port of the broker; the port is {PORT} by default"),
        ("--keys", Path, "folder with ca.crt, device-<n>.crt and device-<n>.key"),
        ("--state", Path, "folder for what the device keeps"),
    ):
        parser.add_argument(name, type=kind, required=True, help=words)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--data", type=Path, help=".npz file with the samples, or a growing folder")
    data.add_argument("--source", help="package.module:function that returns inputs and labels")
    words = "of a growing folder: the newest so many samples are used"
    parser.add_argument("--newest", type=int, default=500, help=words)
    words = ".npz file with test samples, for a growing folder or a function"
    parser.add_argument("--tests", type=Path, help=words)
    words = "seconds of silence after which the connection is checked"
    parser.add_argument("--keep-alive-s", type=int, default=KEEP_ALIVE_S, help=words)
    return parser.parse_args()


def _run(chosen: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _check_range("device", chosen.device, 0, MOST_DEVICES)
    _check_range("keep_alive_s", chosen.keep_alive_s, 1, LONGEST_KEEP_ALIVE_S)
    source = make_source(chosen.data, chosen.source, chosen.newest, chosen.tests)
    device = Device(chosen.device, source, chosen.state, make_task)
    name = f"device-{chosen.device}"
    address = broker_address(chosen.broker, chosen.keys, name)
    line = MqttLine(
        str(chosen.device), address, device, presence(chosen.device), chosen.keep_alive_s
    )
    line.start()
    try:
        while True:
            line.run()
    finally:
        line.stop()


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InputError(f"{name} = {value}: must be from {least} to {most}")


def broker_address(broker: str, keys: Path, name: str) -> Address:
    """Where the broker is, and the files with which ``name`` proves itself to it."""
    host, colon, port = broker.rpartition(":")
    if not colon:
        host, port = broker, str(PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(f"broker = {broker!r}: must be host:port, such as broker.example.org:8883")
    for file in ("ca.crt", f"{name}.crt", f"{name}.key"):
        if not (keys / file).is_file():
            raise InputError(f"keys = {keys}: has no {file}; mix2fld deploy keys makes them")
    files = (keys / "ca.crt", keys / f"{name}.crt", keys / f"{name}.key")
    return Address(host.strip("[]"), int(port), *files)


if __name__ == "__main__":
    main()
