"""The program of a device: ``python -m mix2fld.edge``, or ``mix2fld-device``."""

import argparse
import signal
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mix2fld import __version__
from mix2fld.edge.device import Device
from mix2fld.edge.mqtt_line import KEEP_ALIVE_S, Address, MqttLine
from mix2fld.edge.sources import make_source
from mix2fld.edge.tasks import make_task
from mix2fld.edge.topics import presence
from mix2fld.errors import InputError

PORT = 8883
MOST_DEVICES, LONGEST_KEEP_ALIVE_S = 10**9, 3600
"""The latter is the broker's limit (``max_keepalive``)."""


DISTRIBUTIONS = ("mix2fld", "mix2fld-device")
"""The whole package, and the small one: both install into the same folder."""


def main() -> None:
    """Connect, answer orders, and never end by oneself."""
    try:
        chosen = _arguments()
        check_distributions()
        _run(chosen)
    except InputError as error:
        sys.exit(f"mix2fld-device: {error}")
    except KeyboardInterrupt:
        sys.exit(0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mix2fld-device", description="Take part in federated runs over an MQTT broker."
    )
    add = parser.add_argument
    add("--version", action="version", version=f"mix2fld-device {__version__}")
    add("--device", type=int, required=True, metavar="N", help="number of this device")
    words = f"host or host:port of the broker; the port is {PORT} by default"
    add("--broker", required=True, metavar="ADDRESS", help=words)
    words = "folder with ca.crt, device-N.crt and device-N.key"
    add("--keys", type=Path, required=True, metavar="FOLDER", help=words)
    words = "folder that the device stores its weights in between rounds"
    add("--state", type=Path, required=True, metavar="FOLDER", help=words)
    data = parser.add_mutually_exclusive_group(required=True)
    words = ".npz file with the samples, or a folder that grows"
    data.add_argument("--data", type=Path, metavar="PATH", help=words)
    words = "package.module:function that returns inputs and labels"
    data.add_argument("--source", metavar="FUNCTION", help=words)
    words = "samples that are used of a folder that grows, the newest (default: %(default)s)"
    add("--newest", type=int, default=500, metavar="N", help=words)
    words = ".npz file with test samples, for a folder that grows or a function"
    add("--tests", type=Path, metavar="FILE", help=words)
    words = "seconds of silence after which the connection is checked (default: %(default)s)"
    add("--keep-alive-s", type=int, default=KEEP_ALIVE_S, metavar="S", help=words)
    return parser.parse_args()


def _run(chosen: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _check_range("device", chosen.device, 0, MOST_DEVICES)
    _check_range("keep_alive_s", chosen.keep_alive_s, 1, LONGEST_KEEP_ALIVE_S)
    name = f"device-{chosen.device}"
    address = broker_address(chosen.broker, chosen.keys, name)
    source = make_source(chosen.data, chosen.source, chosen.newest, chosen.tests)

    def say(line: str) -> None:
        print(f"{name}: {line}", file=sys.stderr, flush=True)

    device = Device(chosen.device, source, chosen.state, make_task, say)
    will = presence(chosen.device)
    line = MqttLine(str(chosen.device), address, device, will, chosen.keep_alive_s, say)
    line.start()
    try:
        while True:
            line.run()
    finally:
        line.stop()


def check_distributions() -> None:
    """Refuse to run a mixture of two versions."""
    found = {name: known for name in DISTRIBUTIONS if (known := _version_of(name))}
    if len(set(found.values())) > 1:
        held = " and ".join(f"{name} {known}" for name, known in found.items())
        raise InputError(
            f"{held} are installed in one folder; remove both with pip uninstall "
            f"{' '.join(found)}, and install one of them"
        )


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


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
