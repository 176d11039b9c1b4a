"""A broker in memory: what MQTT does for a fleet, without a process, a socket or a thread."""

from collections import deque
from pathlib import Path

from mix2fld.config.settings import Config
from mix2fld.data import load_dataset
from mix2fld.data.own_file import read_device_file
from mix2fld.deploy.diary import Say
from mix2fld.deploy.edge.device import EdgeDevice, MakeLearning
from mix2fld.deploy.edge.full import full_learning
from mix2fld.deploy.edge.line import Listener
from mix2fld.deploy.edge.sources import value_format
from mix2fld.deploy.identity import next_epoch
from mix2fld.deploy.mqtt_nodes import MqttNodes
from mix2fld.deploy.serving import serve_run
from mix2fld.deploy.settings import Settings
from mix2fld.engine.scenario import Scenario
from mix2fld.runs.loop import Watcher
from mix2fld_lab.trials.trial import write_device_files


class MemoryLine:
    """One client; what it hears can be changed, lost or doubled by a subclass of the broker."""

    def __init__(self, broker: "MemoryBroker", name: str, listener: Listener) -> None:
        self.broker, self.name, self.listener = broker, name, listener
        self.topics: set[str] = set()

    def publish(self, topic, payload, *, qos, retain=False, expires_s=None) -> None:
        self.broker.send(topic, payload, qos, retain)

    def unsubscribe(self, topic) -> None:
        self.topics.discard(topic)

    def subscribe(self, topic, *, qos, again=False) -> None:
        new = topic not in self.topics
        self.topics.add(topic)
        for name, payload in list(self.broker.retained.items()):
            if _matches(topic, name) and (new or again):
                self.broker.pending.append((self, name, payload))
        self.broker.pump()


class MemoryBroker:
    """Delivers messages one after another, in the order in which they were sent."""

    def __init__(self) -> None:
        self.clients: dict[str, MemoryLine] = {}
        self.retained: dict[str, bytes] = {}
        self.pending: deque[tuple[MemoryLine, str, bytes]] = deque()
        self.sent: list[tuple[str, bytes, int]] = []
        self._pumping = False

    def connect(self, name: str, listener: Listener) -> MemoryLine:
        line = self.clients[name] = MemoryLine(self, name, listener)
        listener.connected(line, False)
        return line

    def send(self, topic: str, payload: bytes, qos: int = 1, retain: bool = False) -> None:
        self.sent.append((topic, payload, qos))
        if retain:
            self.retained[topic] = payload
            if not payload:
                del self.retained[topic]
        for line in list(self.clients.values()):
            if any(_matches(wanted, topic) for wanted in line.topics):
                self.pending.extend(self.deliveries(line, topic, payload))
        self.pump()

    def deliveries(
        self, line: MemoryLine, topic: str, payload: bytes
    ) -> list[tuple[MemoryLine, str, bytes]]:
        """What becomes of one message to one client."""
        return [(line, topic, payload)]

    def pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        try:
            while self.pending:
                line, topic, payload = self.pending.popleft()
                line.listener.hear(line, topic, payload)
        finally:
            self._pumping = False


def _matches(wanted: str, topic: str) -> bool:
    return wanted == topic or (wanted.endswith("/+") and topic.startswith(wanted[:-1]))


def run_in_memory(
    folder: Path,
    config: Config,
    broker: MemoryBroker | None = None,
    make_learning: MakeLearning = full_learning,
    timeout_s: float = 20,
    watcher: Watcher | None = None,
) -> Path:
    """Run a run with devices in this process; returns its folder.

    Devices that a broker knows already are those of before.
    """
    broker = broker or MemoryBroker()
    files = write_device_files(folder, config, load_dataset(config.data))
    for number, file in enumerate(files):
        if str(number) in broker.clients:
            continue

        def source(samples, task, file=file):
            return read_device_file(file, samples, value_format(task))

        device = EdgeDevice(number, source, file.parent / "state", make_learning)
        broker.connect(str(number), device)

    def connect(scenario: Scenario, run: str, say: Say) -> MqttNodes:
        nodes = MqttNodes(scenario, timeout_s, run, say, next_epoch(path))
        line = broker.connect("server", nodes)
        nodes.begin(line, first=not (path / "rounds.jsonl").exists())
        return nodes

    settings = Settings(config, folder / "runs", timeout_s, wait_s=1)
    path = settings.out / config.run_name
    serve_run(settings, connect, watcher)
    return path
