"""A line over MQTT 5 with mutual TLS; messages are heard in the thread that calls ``run``."""

import re
import socket
import ssl
import sys
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any, NamedTuple

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from mix2fld.base.errors import InputError
from mix2fld.deploy.edge.line import Listener, Say, no_log

SESSION_S = 7 * 24 * 3600
"""How long a broker keeps the session of someone who is away."""
KEEP_ALIVE_S = 300
FIRST_DELAY_S, LONGEST_DELAY_S = 1, 30
TAKEN_OVER = 0x8E
"""A broker's reason: someone else has connected under this name."""
SHORT_S, MOST_SHORT = 10.0, 5
"""So many connections of at most so many seconds in a row are a namesake's doing."""
MOST_WAITING = 16
"""Messages of one topic that may wait to be heard: more are a flood, and lost."""
UNSPECIFIED, NOT_AUTHORIZED = 0x80, 0x87
REFUSED = frozenset({0x84, 0x85, 0x86, NOT_AUTHORIZED, 0x8A, 0x8C})
"""Reasons why connecting again would not help."""


READING_FAILED = "failed to receive on socket: "
"""How the client library begins to log why a connection broke."""
Happened = bool | None | tuple[str, bytes]
"""A connection, resumed or not; None for the loss of one; or topic and payload of a message."""


class Address(NamedTuple):
    """Where the broker is, and what this end proves itself with."""

    host: str
    port: int
    authority: Path
    certificate: Path
    key: Path

    def __str__(self) -> str:
        return f"broker {self.host}:{self.port}"


class MqttLine:
    """One client of a broker."""

    def __init__(
        self, name: str, address: Address, listener: Listener,
        will: str | None = None, keep_alive_s: int = KEEP_ALIVE_S, say: Say = no_log,
    ) -> None:  # fmt: skip
        """``will`` is a topic whose retained message the broker clears when this end is gone."""
        self._address, self._listener, self._keep_alive_s = address, listener, keep_alive_s
        self._inbox: deque[Happened] = deque()
        self._waiting: Counter[str] = Counter()
        self._arrived, self._resumed = threading.Condition(), False
        self._fault: str | None = None
        self._since, self._short = 0.0, 0
        self._say, self._said, self._reason, self._trouble = say, "", "", ""
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv5
        )
        try:
            client.tls_set(
                str(address.authority), str(address.certificate), str(address.key),
                cert_reqs=ssl.CERT_REQUIRED,
            )  # fmt: skip
        except (OSError, ssl.SSLError) as error:
            folder = address.certificate.parent
            raise InputError(
                field="keys", value=folder, hint=f"cannot be used ({_plain(error)})"
            ) from None
        client.reconnect_delay_set(FIRST_DELAY_S, LONGEST_DELAY_S)
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_message, client.on_socket_open = self._on_message, _without_delay
        client.on_connect_fail, client.on_log = self._on_connect_fail, self._on_log
        client.on_publish = self._on_publish
        if will is not None:
            client.will_set(will, b"", qos=1, retain=True)
        self._client = client

    def start(self) -> None:
        """Connect, and from now on again whenever the connection breaks."""
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = SESSION_S
        self._client.connect_async(
            self._address.host, self._address.port, self._keep_alive_s,
            clean_start=False, properties=properties,
        )  # fmt: skip
        self._client.loop_start()

    def wait(self, seconds: float) -> None:
        """Return as soon as there was a connection; if there is none in that time, say why."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._resumed or self._fault, seconds)
        if not self._resumed:
            raise InputError(self._fault or self._trouble or f"no answer from {self._address}")

    def stop(self) -> None:
        """Leave, and let the will be done; the session stays with what is queued in it."""
        self._say = no_log
        self._client.disconnect(ReasonCode(PacketTypes.DISCONNECT, "Disconnect with will message"))
        self._client.loop_stop()
        self._client._reset_sockets(sockpair_only=True)  # or they stay open until it is collected

    def run(self, timeout_s: float | None = None) -> bool:
        """Tell the listener the next thing that happens; False if nothing does in that time."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._inbox, timeout_s):
                return False
            happened = self._inbox.popleft()
        if self._fault is not None:
            raise InputError(self._fault)
        if happened is None:
            self._listener.lost(self)
        elif isinstance(happened, bool):
            self._listener.connected(self, happened)
        else:
            self._listener.hear(self, *happened)
            with self._arrived:  # a copy that came in meanwhile says nothing new
                self._inbox = deque(other for other in self._inbox if other != happened)
                messages = [other for other in self._inbox if isinstance(other, tuple)]
                self._waiting = Counter(topic for topic, _ in messages)
        return True

    def publish(
        self, topic: str, payload: bytes, *, qos: int, retain: bool = False,
        expires_s: float | None = None,
    ) -> None:  # fmt: skip
        """Send a message; of guarantee 1, when there is a connection again."""
        properties = None
        if expires_s is not None:
            properties = Properties(PacketTypes.PUBLISH)
            properties.MessageExpiryInterval = max(1, int(expires_s))
        self._client.publish(topic, payload, qos, retain, properties)

    def subscribe(self, topic: str, *, qos: int, again: bool = False) -> None:
        """Hear a topic; its retained message comes if the subscription is new, or ``again``."""
        handling = (
            SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE
            if again
            else SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        )
        self._client.subscribe(topic, options=SubscribeOptions(qos=qos, retainHandling=handling))

    def unsubscribe(self, topic: str) -> None:
        """Stop receiving the messages of a topic."""
        self._client.unsubscribe(topic)

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._reason = str(reason)
            self._stop_if_refused(reason)
        else:
            self._since = time.monotonic()
            self._say_once(f"connected to {self._address}")
            again, self._resumed = self._resumed, True
            self._put(again and flags.session_present)

    def _on_connect_fail(self, client: Any, data: Any) -> None:
        self._say_trouble(f"cannot connect to {self._address}: {_plain(sys.exception())}")

    def _on_log(self, client: Any, data: Any, level: int, words: str) -> None:
        """Why a connection broke is said nowhere else."""
        if level == mqtt.MQTT_LOG_ERR and words.startswith(READING_FAILED):
            self._reason = _plain(words.removeprefix(READING_FAILED))

    def _on_disconnect(
        self, client: Any, data: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        lasted = time.monotonic() - self._since
        self._short = self._short + 1 if self._since and lasted < SHORT_S else 0
        trouble = "lost the connection to" if self._since else "cannot connect to"
        told = str(reason) if reason.value != UNSPECIFIED else "it was closed"
        self._say_trouble(f"{trouble} {self._address}: {self._reason or told}")
        if self._since:
            self._put(None)
        self._since, self._reason = 0.0, ""
        self._stop_if_refused(reason)

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        with self._arrived:
            self._waiting[message.topic] += 1
            if self._waiting[message.topic] > MOST_WAITING:
                return
        self._put((message.topic, message.payload))

    def _stop_if_refused(self, reason: Any) -> None:
        """Connecting again would not help, or would throw out a namesake who does the same."""
        if reason.value == TAKEN_OVER or self._short >= MOST_SHORT:
            self._stop("another client connects under this name; each needs its own key")
        elif reason.value in REFUSED:
            self._stop(f"the broker refuses the connection: {reason}")

    def _stop(self, fault: str) -> None:
        """For the next call of ``run``."""
        self._fault, self._say = fault, no_log
        self._client.disconnect()
        self._put(False)

    def _on_publish(self, client: Any, data: Any, mid: int, reason: Any, properties: Any) -> None:
        if reason.value == NOT_AUTHORIZED:
            self._stop(
                "the broker refuses what this client publishes: the key belongs to another client"
            )

    def _say_trouble(self, words: str) -> None:
        self._trouble = words
        self._say_once(f"{words}; trying again")

    def _say_once(self, words: str) -> None:
        """Not with every attempt."""
        if words != self._said:
            self._said = words
            self._say(words)

    def _put(self, happened: Happened) -> None:
        with self._arrived:
            self._inbox.append(happened)
            self._arrived.notify()


def _plain(error: object) -> str:
    """What an operator needs of an error: not where in the source of OpenSSL it came up."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted here ({error.verify_message})"
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    words = re.sub(r"^\[.*?\] | \(_ssl\.c:\d+\)$", "", words)
    alert = re.fullmatch(r"(?:tlsv1|tlsv13|sslv3) alert (.*)", words)
    return f"it does not accept the certificate of this end ({alert[1]})" if alert else words


def _without_delay(client: Any, data: Any, opened: Any) -> None:
    """Small messages are not held back for more to come."""
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
