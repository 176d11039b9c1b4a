"""Everything is killed at random, by a seeded timetable; the record then says what happened."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.lab import assert_same_as_engine, diary, rounds_of
from deploy.mqtt_lab import fleet_of, needs_mosquitto, toy_run
from deploy.relay import Relay
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.folder import RunFolder
from mix2fld_lab.trials.mqtt import MqttFleet
from mix2fld_lab.trials.processes import HOST
from places import ROOT

ROUNDS = int(os.environ.get("MIX2FLD_CHAOS_ROUNDS", "24"))
SEED = int(os.environ.get("MIX2FLD_CHAOS_SEED", "0"))
PAUSE_S = (1.0, 6.0)
"""Between two events; a broker, a front or a device is away, and a link cut, for as long."""
VICTIMS = ("server", "server", "broker", "front", "device-0", "device-1", "device-2", "link")
TIMEOUT_S, PATIENCE_S = 20.0, 60.0


class Chaos:
    """A fleet whose parts are killed with -9 and started again; device 3 has a link of its own."""

    def __init__(self, fleet: MqttFleet, relay: Relay, command: list[str]) -> None:
        self.fleet, self.relay, self.command = fleet, relay, command
        self.starts = {
            "server": lambda: fleet.start("server", command),
            "broker": fleet.start_broker,
            "front": fleet.start_front,
            **{f"device-{n}": lambda n=n: fleet.start_device(n) for n in range(3)},
        }

    def begin(self) -> None:
        for name in ("device-0", "device-1", "device-2", "server"):
            self.starts[name]()
        self.fleet.start_device(3, port=self.relay.port)

    def strike(self, victim: str, seconds: float) -> None:
        if victim == "link":
            self.relay.go_down()
            time.sleep(seconds)
            self.relay.come_back(broken=seconds > sum(PAUSE_S) / 2)
            return
        self.fleet.kill(victim)
        if victim != "server":
            time.sleep(seconds)
        self.starts[victim]()

    def keep_server(self) -> None:
        """As its unit does: a server that has lost its devices for too long is started again."""
        if not self.fleet.alive("server"):
            self.fleet.kill("server")
            self.starts["server"]()


@needs_mosquitto
@pytest.mark.long
def test_a_fleet_outlives_random_kills(tmp_path: Path) -> None:
    """No round without an upload is recorded, none is lost, and the numbers are the simulator's."""
    config = toy_run(tmp_path, protocol="topk", rounds=ROUNDS, local_steps=200_000)
    file, drawn = tmp_path / "run.toml", random.Random(SEED)
    file.write_text(dump_config(config))
    struck: list[str] = []
    with fleet_of(tmp_path, config, front=True) as fleet, Relay(fleet.port) as relay:
        path = fleet.folder / "runs" / config.run_name
        command = [sys.executable, "-P", "-m", "mix2fld", "deploy", "server"]
        command += [f"{HOST}:{fleet.port}", "--keys", str(fleet.keys), "--config", str(file)]
        command += ["--out", str(path.parent), "--timeout-s", str(TIMEOUT_S)]
        chaos = Chaos(fleet, relay, [*command, "--wait-s", str(TIMEOUT_S)])
        chaos.begin()
        deadline = time.monotonic() + PATIENCE_S * ROUNDS
        while not (path / "summary.json").exists():
            assert time.monotonic() < deadline, diary(path)[-3000:]
            time.sleep(drawn.uniform(*PAUSE_S))
            chaos.keep_server()
            struck.append(drawn.choice(VICTIMS))
            chaos.strike(struck[-1], drawn.uniform(*PAUSE_S))
    print(f"{len(struck)} events:", {name: struck.count(name) for name in sorted(set(struck))})
    found = rounds_of(path)
    assert [info["round"] for info in found] == list(range(1, ROUNDS + 1))
    assert all(info["uploads"]["delivered"] for info in found)
    assert RunFolder(path).finished() is not None
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")


@needs_mosquitto
@pytest.mark.long
@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "iptables", "unshare", "cc"))),
    reason="needs root, iproute2, iptables and a C compiler",
)
def test_the_record_says_what_happened(tmp_path: Path) -> None:
    """The short form of ``make chaos``."""
    command = [sys.executable, "-m", "reliability.chaos", "--rounds", "12", "--seed", "5"]
    subprocess.run([*command, "--folder", str(tmp_path / "chaos")], cwd=ROOT, check=True)
