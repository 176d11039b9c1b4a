"""The server of a fleet behind an MQTT broker: it is a client of the broker, as devices are."""

import threading

from mix2fld.base.errors import Mix2fldError
from mix2fld.deploy.diary import Say
from mix2fld.deploy.edge.mqtt_line import Address, MqttLine
from mix2fld.deploy.identity import next_epoch
from mix2fld.deploy.mqtt_nodes import MqttNodes
from mix2fld.deploy.serving import serve_run
from mix2fld.deploy.settings import Settings, check_deployable
from mix2fld.engine.scenario import Scenario
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.loop import Watcher
from mix2fld.runs.results import RunResult

NAME = "server"
"""Of the server's certificate, which the broker's access list knows."""
CONNECT_S = 20.0
"""Seconds that the broker may take to be reached at first."""
KEEP_ALIVE_S = 30
"""A broker that is silent is given up within twice that, well before a round is over."""


def serve_mqtt(settings: Settings, address: Address, watcher: Watcher | None = None) -> RunResult:
    """Run a run with the devices of a broker, or what is missing of it in its folder."""
    check_deployable(settings.config)
    lines: list[MqttLine] = []

    def connect(scenario: Scenario, run: str, say: Say) -> MqttNodes:
        path = settings.out / settings.config.run_name
        nodes = MqttNodes(scenario, settings.timeout_s, run, say, next_epoch(path))
        keep_alive = max(1, min(KEEP_ALIVE_S, int(settings.timeout_s / 4)))
        line = MqttLine(NAME, address, nodes, keep_alive_s=keep_alive, say=say)
        lines.append(line)
        line.start()
        line.wait(min(CONNECT_S, settings.wait_s))
        nodes.begin(line, first=not RunFiles(path).rounds.exists())
        threading.Thread(target=_listen, args=(line, nodes), daemon=True).start()
        return nodes

    try:
        return serve_run(settings, connect, watcher)
    finally:
        for line in lines:
            line.stop()


def _listen(line: MqttLine, nodes: MqttNodes) -> None:
    """Pass on what happens, in a thread of its own."""
    try:
        while True:
            line.run()
    except Mix2fldError as error:
        nodes.fail(error)
