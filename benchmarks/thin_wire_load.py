"""Many clients of one broker in one process: each answers orders with an upload of the right size.

They do not train: what is measured is broker, server and wire.
"""

import json
import selectors
import shutil
import ssl
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from benchmarks import usage
from benchmarks.thin_wire import PORT, broker_at, config_of
from mix2fld.config.settings import Config
from mix2fld.data import dataset_sizes
from mix2fld.deploy.edge import topics
from mix2fld.deploy.edge.__main__ import broker_address
from mix2fld.deploy.edge.messages import Download, Taken, Trained, TrainOrder, pack, unpack
from mix2fld.deploy.mqtt_server import serve_mqtt
from mix2fld.deploy.settings import Settings
from mix2fld.engine.wire import Wire
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning

HOST = "127.0.0.1"


class Crowd:
    """Clients that share a thread."""

    def __init__(self, keys: Path, count: int, upload: bytes, bits: int) -> None:
        self._selector, self._upload = selectors.DefaultSelector(), upload
        self._padding = 8 * len(upload) - bits
        self.ready = 0
        for number in range(count):
            self._connect(keys, number)

    def _connect(self, keys: Path, number: int) -> None:
        version = MQTTProtocolVersion.MQTTv5
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=str(number), protocol=version)
        name = f"device-{number}"
        client.tls_set(
            str(keys / "ca.crt"), str(keys / f"{name}.crt"), str(keys / f"{name}.key"),
            cert_reqs=ssl.CERT_REQUIRED,
        )  # fmt: skip
        client.on_connect = lambda *_: self._begin(client, number)
        client.on_message = lambda _c, _d, message: self._hear(client, number, message.payload)
        client.connect(HOST, PORT, keepalive=600)
        self._selector.register(client.socket(), selectors.EVENT_READ, client)

    def _begin(self, client: Any, number: int) -> None:
        client.subscribe([(topics.orders(number), 1), (topics.DOWNLOAD, 0)])
        client.publish(topics.presence(number), topics.HERE, qos=1, retain=True)
        self.ready += 1

    def _hear(self, client: Any, number: int, payload: bytes) -> None:
        message = unpack(payload) if payload else None
        if isinstance(message, TrainOrder):
            answer = pack(Trained(
                message.run, message.round, 500, self._padding, 0.0, [0.5], self._upload
            ))  # fmt: skip
        elif isinstance(message, Download):
            answer = pack(Taken(message.run, message.round))
        else:
            return
        client.publish(topics.uploads(number), answer, qos=1)

    def run(self, over: threading.Event) -> None:
        """Serve all of them until it is over."""
        while not over.is_set():
            for key, _ in self._selector.select(timeout=0.2):
                key.data.loop_read()
                while key.data.socket() is not None and key.data.socket().pending():
                    key.data.loop_read()
                while key.data.want_write():
                    key.data.loop_write()


def an_upload(config: Config) -> tuple[bytes, int]:
    """Bytes that a server can read, and how many bits they are."""
    samples, num_labels = dataset_sizes(config.data)
    wire = Wire(
        get_protocol(config.protocol),
        make_learning(config, samples, Classification(num_labels)),
    )
    bits = wire.upload_size(with_seeds=False).bits
    if config.protocol == "fd":
        return np.full((num_labels, num_labels), 1 / num_labels, "<f4").tobytes(), bits
    return np.random.default_rng(0).bytes(-(-bits // 8)), bits


def main() -> None:
    folder, protocol, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    shutil.rmtree(folder, ignore_errors=True)
    config = config_of(protocol, count, 2).replace(
        samples_per_device=10, evaluated_devices=1, reuse_samples=True
    )
    upload, bits = an_upload(config)
    with broker_at(HOST, folder, config) as broker:
        over = threading.Event()
        started = time.monotonic()
        crowd = Crowd(folder / "keys", count, upload, bits)
        thread = threading.Thread(target=crowd.run, args=(over,), daemon=True)
        thread.start()
        while crowd.ready < count:
            time.sleep(0.05)
        connected_s = time.monotonic() - started
        address = broker_address(f"{HOST}:{PORT}", folder / "keys", "server")
        result = serve_mqtt(Settings(config, folder / "runs", 120.0, 60.0), address)
        status = Path(f"/proc/{broker.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        over.set()
        thread.join()
    print(json.dumps({
        "connected_s": connected_s,
        "payload_bytes": len(upload),
        "uploads": [info["uploads"]["delivered"] for info in result.rounds],
        "downloads": [info["downloads"]["delivered"] for info in result.rounds],
        "communication_s": [info["seconds"]["communication"] for info in result.rounds],
        "broker_mb": int(peak.split()[1]) / 1024,
    }))  # fmt: skip


if __name__ == "__main__":
    usage.arguments(__doc__, "<FOLDER PROTOCOL DEVICES>")
    main()
