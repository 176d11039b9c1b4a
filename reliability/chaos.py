"""An hour of a fleet in which everything goes wrong, by a seeded timetable.

Processes are killed, disks are full, clocks jump, wires are cut, slow or lossy, one device lies and
one floods, often several at once. At the end the record must say exactly what happened: every round
once and with an upload, who answered and who did not, and the numbers of the simulator.
"""

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mix2fld_lab.testbed import Rates, check_possible
from reliability.chaos_check import TOLD, Past, check, report
from reliability.chaos_fleet import CLOCKS, WIRE, ChaosFleet, private_mounts, toy_file
from reliability.records import read_records, write_record
from reliability.toy import toy_config, toy_dataset

ROUNDS, SEED = 500, 0
DEVICES = 7
PAUSE_S = 6.0
"""Mean seconds without a new event."""
LASTS_S = 1.0, 20.0
"""An event lasts so long, most often shortly."""
AT_ONCE = (1, 1, 1, 1, 2, 3)
CLOCK_S = 10.0, 7200.0
WEIGHTS = {
    "kill server": 3, "kill broker": 2, "kill front": 2, "kill device": 5, "cut wire": 4,
    "slow wire": 2, "lossy wire": 2, "full disk of server": 1, "full disk of broker": 1,
    "full disk of device": 2, "clock": 3, "flood": 2,
}  # fmt: skip
SLOW = Rates(up=10e3, down=20e3)
PATIENCE_S = 60.0
"""For each round, before it is given up."""


class Chaos:
    """Strikes a fleet until its run is over."""

    def __init__(self, fleet: ChaosFleet, seed: int) -> None:
        self.fleet, self.drawn = fleet, random.Random(seed)
        self.struck: list[dict[str, Any]] = []
        self._since = time.time()

    def until_the_end(self) -> None:
        """Raises if the run takes unreasonably long."""
        deadline = time.monotonic() + PATIENCE_S * self.fleet.config.rounds
        while not self.over():
            assert time.monotonic() < deadline, f"the run does not end; see {self.fleet.folder}"
            self.wait(self.drawn.expovariate(1 / PAUSE_S))
            if self.over():
                return
            with ExitStack() as events:
                for kind in self.kinds():
                    events.enter_context(self.event(kind))
                least, most = LASTS_S
                self.wait(least * (most / least) ** self.drawn.random())

    def over(self) -> bool:
        """Whether the server has written its last word."""
        return (self.fleet.run_folder / "summary.json").exists()

    def kinds(self) -> set[str]:
        """What happens at once."""
        count = self.drawn.choice(AT_ONCE)
        return set(self.drawn.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count))

    def wait(self, seconds: float) -> None:
        """Meanwhile, start again what ends by itself."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.over():
            self.fleet.keep()
            time.sleep(0.3)

    @contextmanager
    def event(self, kind: str) -> Iterator[None]:
        """One fault, which is over at the end of the block."""
        fleet, device = self.fleet, self.drawn.randrange(self.fleet.devices - 1)
        part = kind.rpartition(" ")[2]
        part = f"device-{device}" if part == "device" else part
        told: dict[str, Any] = {"at": round(time.time() - self._since, 1), "kind": kind}
        ways: dict[str, Callable[[], Any]] = {
            "kill": lambda: fleet.without(part),
            "full": lambda: fleet.full_disk(part),
            "cut": lambda: self.wire(lambda: fleet.set_wire(device, "down"), device),
            "slow": lambda: self.wire(lambda: fleet.shape(device, SLOW), device),
            "lossy": lambda: self.lossy(device),
            "clock": lambda: self.wrong_clock(told),
            "flood": self.flood,
        }
        if "device" in part or "wire" in kind:
            told["device"] = device
        with ways[kind.split(maxsplit=1)[0]]():
            yield
        told["seconds"] = round(time.time() - self._since - told["at"], 1)
        self.struck.append(told)

    @contextmanager
    def wire(self, change: Callable[[], None], device: int) -> Iterator[None]:
        """A wire is worse within the block."""
        change()
        yield
        self.fleet.shape(device, WIRE)
        self.fleet.set_wire(device, "up")

    @contextmanager
    def lossy(self, device: int) -> Iterator[None]:
        """A wire loses packets within the block."""
        self.fleet.lose(device, "-A")
        yield
        self.fleet.lose(device, "-D")

    @contextmanager
    def wrong_clock(self, told: dict[str, Any]) -> Iterator[None]:
        """A clock is ahead or behind within the block."""
        least, most = CLOCK_S
        off = least * (most / least) ** self.drawn.random() * self.drawn.choice((-1, 1))
        told |= {"part": (part := self.drawn.choice(CLOCKS)), "off_s": round(off)}
        self.fleet.set_clock(part, off)
        yield
        self.fleet.set_clock(part, 0)

    @contextmanager
    def flood(self) -> Iterator[None]:
        """The flooder floods within the block."""
        name = f"device-{self.fleet.flooder}"
        self.fleet.start_flooder(LASTS_S[1])
        yield
        self.fleet.kill(name)


def main() -> None:
    private_mounts(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--folder", type=Path, default=Path("runs/chaos"))
    words = "write results/reliability/chaos.json and the page"
    parser.add_argument("--record", action="store_true", help=words)
    words = "judge what is in the folder once more"
    parser.add_argument("--again", action="store_true", help=words)
    chosen = parser.parse_args()
    if not chosen.again:
        check_possible()
        if missing := [tool for tool in ("cc", "iptables") if not shutil.which(tool)]:
            sys.exit(f"not found: {', '.join(missing)}; apt-get install gcc libc6-dev iptables")
        shutil.rmtree(chosen.folder, ignore_errors=True)
        chaos(chosen.folder, chosen.rounds, chosen.seed)
    past = Past(chosen.folder)
    check(past)
    found = report(past)
    if chosen.record:
        runs = read_records().get("chaos", {}).get("runs", [])
        others = [one for one in runs if one["seed"] != found["seed"]]
        write_record("chaos", {"runs": sorted([*others, found], key=lambda one: one["seed"])})
    print(json.dumps(found, indent=1))


def chaos(folder: Path, rounds: int, seed: int) -> None:
    """Run a fleet to its end, and write down what struck it."""
    config = toy_config(
        dataset=str(toy_file(folder, toy_dataset()).resolve()), protocol="topk", kernel="native",
        rounds=rounds, devices=DEVICES, samples_per_device=30, local_steps=20, learning_rate=0.02,
        aggregation="filtered-median", sample_weights="capped", computing_time="measured",
    )  # fmt: skip
    started = time.monotonic()
    with ChaosFleet(folder, config) as fleet:
        chaos = Chaos(fleet, seed)
        chaos.until_the_end()
        minutes = (time.monotonic() - started) / 60
    told = {"seed": seed, "minutes": round(minutes, 1), "struck": chaos.struck, "ends": fleet.ends}
    (folder / TOLD).write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
