"""Somebody with the key of a device: says that it is there, and sends as much as it can."""

import sys
import time
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

MESSAGE = bytes(500)
QUEUE = 200


def main() -> None:
    broker, keys, device, seconds = sys.argv[1:]
    host, port = broker.split(":")
    key = Path(keys) / f"device-{device}"
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2, client_id=device, protocol=MQTTProtocolVersion.MQTTv5
    )
    client.tls_set(str(Path(keys) / "ca.crt"), f"{key}.crt", f"{key}.key")
    client.max_queued_messages_set(QUEUE)
    client.connect(host, int(port), keepalive=15)
    client.loop_start()
    client.publish(f"p/{device}", b"1", qos=1, retain=True)
    until, sent = time.monotonic() + float(seconds), 0
    while time.monotonic() < until:
        done = client.publish(f"u/{device}", MESSAGE, qos=0)
        sent += done.rc == mqtt.MQTT_ERR_SUCCESS
        time.sleep(0.001)
    client.publish(f"p/{device}", b"", qos=1, retain=True)
    time.sleep(1)
    client.disconnect()
    print(f"sent {sent} messages", flush=True)


if __name__ == "__main__":
    main()
