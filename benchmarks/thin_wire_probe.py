"""Inside a device's namespace: counts the bytes of a connection, of uploads, and of silence."""

import json
import sys
import time
from pathlib import Path

from benchmarks import usage
from mix2fld.deploy.edge import topics
from mix2fld.deploy.edge.__main__ import broker_address
from mix2fld.deploy.edge.line import Line
from mix2fld.deploy.edge.messages import Trained, pack
from mix2fld.deploy.edge.mqtt_line import MqttLine

ETHERNET, UPLOADS = 14, 20
SIZES = (169, 400, 50_176)


class Probe:
    """Subscribes as a device does, and does nothing else."""

    def connected(self, line: Line, resumed: bool) -> None:
        del resumed
        line.subscribe(topics.SETTINGS, qos=1)
        line.subscribe(topics.orders(0), qos=1)
        line.subscribe(topics.DOWNLOAD, qos=0)
        line.publish(topics.presence(0), topics.HERE, qos=1, retain=True)

    def hear(self, line: Line, topic: str, payload: bytes) -> None:
        """Nothing is asked of it."""


def counts() -> tuple[int, int]:
    """IP bytes sent and received so far."""
    folder = Path("/sys/class/net/uplink/statistics")
    sent, received = (
        int((folder / f"{way}_bytes").read_text())
        - ETHERNET * int((folder / f"{way}_packets").read_text())
        for way in ("tx", "rx")
    )
    return sent, received


def main() -> None:
    broker, keys, idle_s = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    before = counts()
    line = MqttLine("0", broker_address(broker, keys, "device-0"), Probe(), topics.presence(0))
    line.start()
    line.run(10)
    time.sleep(2)
    found: dict[str, object] = {"connection": _since(before, 1), "uploads": {}}
    uploads: dict[int, object] = {}
    for size in SIZES:
        message = pack(Trained("00" * 8, 3, 500, 0, 0.3, [0.5], bytes(size)))
        time.sleep(1)
        before = counts()
        for _ in range(UPLOADS):
            line.publish(topics.uploads(0), message, qos=1)
            time.sleep(0.2)
        time.sleep(1)
        uploads[size] = _since(before, UPLOADS)
    found["uploads"] = uploads
    before = counts()
    time.sleep(idle_s)
    found["idle_s"], found["idle"] = idle_s, _since(before, 1)
    line.stop()
    print(json.dumps(found))


def _since(before: tuple[int, int], times: int) -> dict[str, float]:
    sent, received = (after - start for after, start in zip(counts(), before, strict=True))
    return {"up": sent / times, "down": received / times}


if __name__ == "__main__":
    usage.arguments(__doc__, "<BROKER KEYS SECONDS>")
    main()
