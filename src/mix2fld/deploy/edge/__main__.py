"""The program of a device: ``python -m mix2fld.deploy.edge``, or ``mix2fld-device``."""

import argparse
import re
import signal
import sys
from pathlib import Path

import mix2fld
from mix2fld.base.errors import InputError, Mix2fldError
from mix2fld.deploy.edge.device import EdgeDevice
from mix2fld.deploy.edge.learning import make_learning
from mix2fld.deploy.edge.mqtt_line import KEEP_ALIVE_S, Address, MqttLine
from mix2fld.deploy.edge.predict import predict
from mix2fld.deploy.edge.sources import make_source
from mix2fld.deploy.edge.topics import presence

PORT = 8883
MOST_DEVICES, LONGEST_KEEP_ALIVE_S = 10**9, 3600
"""The latter is the broker's limit (``max_keepalive``)."""


def main() -> None:
    """Connect, answer orders, and never end by oneself."""
    try:
        if sys.argv[1:2] == ["predict"]:
            predict(sys.argv[2:])
            return
        chosen = _arguments()
        check_distributions()
        _run(chosen)
    except Mix2fldError as error:
        sys.exit(f"mix2fld-device: {error}")
    except KeyboardInterrupt:
        sys.exit(0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mix2fld-device",
        description="Take part in federated runs over an MQTT broker.",
        epilog="mix2fld-device predict labels samples with the device's current model.",
    )
    add = parser.add_argument
    add("--version", action="version", version=f"mix2fld-device {mix2fld.__version__}")
    add("--device", type=int, required=True, metavar="N", help="number of this device")
    words = f"host or host:port of the broker; the port is {PORT} by default"
    add("--broker", required=True, metavar="ADDRESS", help=words)
    words = "folder with ca.crt, device-N.crt and device-N.key"
    add("--keys", type=Path, required=True, metavar="FOLDER", help=words)
    words = "folder in which the device stores its weights between rounds"
    add("--state", type=Path, required=True, metavar="FOLDER", help=words)
    data = parser.add_mutually_exclusive_group(required=True)
    words = ".npz file with the samples, or a folder to which such files are added"
    data.add_argument("--data", type=Path, metavar="PATH", help=words)
    words = "package.module:function that returns inputs and labels"
    data.add_argument("--source", metavar="FUNCTION", help=words)
    words = "how many of the newest samples in a folder are used (default: %(default)s)"
    add("--newest", type=int, default=500, metavar="N", help=words)
    words = ".npz file with test samples, if the samples come from a folder or a function"
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

    device = EdgeDevice(chosen.device, source, chosen.state, make_learning, say)
    will = presence(chosen.device)
    line = MqttLine(str(chosen.device), address, device, will, chosen.keep_alive_s, say)
    line.start()
    try:
        while True:
            line.run()
    finally:
        line.stop()


def check_distributions(folder: Path = Path(mix2fld.__file__).parents[1]) -> None:
    """Refuse to run a mixture: the whole package and the small one install into one folder."""
    installed = sorted(found.stem for found in folder.glob("mix2fld*-*.dist-info"))
    if len({name.rpartition("-")[2] for name in installed}) > 1:
        raise InputError(
            f"{' and '.join(installed)} are installed in one folder; remove both with pip "
            "uninstall mix2fld mix2fld-device, and install one of them"
        )


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InputError(f"{name} = {value}: must be from {least} to {most}")


def broker_address(broker: str, keys: Path, name: str) -> Address:
    """Where the broker is, and the files with which ``name`` proves itself to it."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[^\s:\[\]/]+)(?::(\d{1,5}))?", broker)
    port = int(found[2] or PORT) if found else 0
    if not found or not 0 < port < 1 << 16:
        raise InputError(
            field="broker",
            value=f"{broker!r}",
            hint="must be host:port, such as broker.example.org:8883 or [::1]:8883",
        )
    for file in ("ca.crt", f"{name}.crt", f"{name}.key"):
        if not (keys / file).is_file():
            raise InputError(
                field="keys", value=keys, hint=f"has no {file}; mix2fld deploy keys makes them"
            )
    files = (keys / "ca.crt", keys / f"{name}.crt", keys / f"{name}.key")
    return Address(found[1].strip("[]"), port, *files)


if __name__ == "__main__":
    main()
