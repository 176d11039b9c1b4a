"""What waiting costs: servers that wait and servers that do not, over NB-IoT, at unequal speeds.

``mix2fld reproduce waiting``: every run into its folder, so that the same command resumes; then
records, a figure and a page.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from mix2fld.base.files import write_atomic
from mix2fld.config.settings import PRESETS, Config
from mix2fld.protocols.table import get_protocol
from mix2fld.runs.loop import Watcher
from mix2fld.runs.results import RunResult
from mix2fld.runs.simulation import run
from mix2fld_lab.made_with import made_with, said_of
from mix2fld_lab.pages import render as filled

TEMPLATE = Path(__file__).parent / "templates" / "waiting.md.j2"
DEVICES, ROUNDS = 100, 6
SETTING: dict[str, Any] = {
    "devices": DEVICES,
    "samples_per_device": 300,
    "local_steps": 200,
    "device_step_spread": 1.0,
    "max_slots": 75_000,
    "evaluated_devices": 1,
    "test_samples": 2000,
    "curve_points": 1,
}
"""What all runs share, beside the link: 20 minutes for a transfer, or FL never arrives."""
SCALED_DOWN = {"devices": 10, "samples_per_device": 100, "local_steps": 20, "test_samples": 500}
PROTOCOLS = ("murmur:bits=1400", "fl8")
SHARES = (0.9, 0.95)
"""Of the accuracy that waiting for everyone reaches."""
POINTS = 200
"""Most points of a run that are recorded."""
KINDS = ("transmit", "receive", "computing", "idle")


@dataclass(frozen=True)
class Server:
    """One that waits in some way."""

    wait: str
    title: str
    uploads: int
    """For which a run has one step, of a fleet of 100."""
    style: dict[str, Any]
    downlink: dict[str, Any] = field(default_factory=lambda: {"downlink": "coded"})
    """What it multicasts: a coded step, or weights in a few bits."""

    def config(self, protocol: str, seed: int, changes: dict[str, Any]) -> Config:
        """A run with as many uploads as all others."""
        config = Config.of(**PRESETS["nb-iot"]).replace(**{**SETTING, **self.downlink, **changes})
        devices = config.data.devices
        uploads = max(1, self.uploads * devices // DEVICES)
        name, _, more = self.wait.partition(":")
        if name == "buffered":
            more = ",".join([str(uploads), *more.split(",")[1:]])
        wait = f"{name}:{more}" if more else name
        rounds = changes.get("rounds", ROUNDS) * devices // uploads
        return config.replace(protocol=protocol, seed=seed, wait=wait, rounds=rounds)


EIGHT_BITS = {"downlink": "weights", "downlink_bits": 8}
SERVERS = (
    Server("quorum:1", "waits", 100, {"color": "#000000"}),
    Server("buffered:10", "buffered, 10", 10, {"color": "#0072b2"}),
    Server("asynchronous:0.6", "asynchronous", 1, {"color": "#d55e00"}, EIGHT_BITS),
    Server("quorum:0.8", "waits for 80 %", 100, {"color": "#e69f00", "linestyle": "--"}),
    Server("all", "waits, all transmit at once", 100, {"color": "#7f7f7f", "linestyle": ":"}),
)


def measure(
    out: Path, records: Path, seeds: Sequence[int], *, quick: bool, watcher: Watcher
) -> None:
    """Run what is missing, and write the records after every run."""
    changes = {**SCALED_DOWN, "rounds": 2} if quick else {}
    found: list[dict[str, Any]] = []
    for seed in seeds:
        for protocol in PROTOCOLS:
            for server in SERVERS:
                config = server.config(protocol, seed, changes)
                folder = out / server.wait.translate(str.maketrans(":,=", "---"))
                (result,) = run(config, folder, watcher=watcher)
                found.append({**record(server, result), "made_with": made_with()})
                text = json.dumps({"setting": {**SETTING, **changes}, "runs": found}, indent=1)
                records.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(records, (text + "\n").encode())


def record(server: Server, result: RunResult) -> dict[str, Any]:
    """What is kept of a run: its server's accuracy over time and energy, and what it sent."""
    seconds = np.cumsum([sum(info["seconds"].values()) for info in result.rounds])
    joules = np.cumsum([sum(info["joules"][kind] for kind in KINDS) for info in result.rounds])
    scores = [info["scores"]["global"] for info in result.rounds]
    shown = np.unique(np.linspace(0, len(scores) - 1, min(POINTS, len(scores))).round().astype(int))
    waiting = [info["waiting"] for info in result.rounds]
    staleness = [steps for one in waiting for steps in one.get("staleness", {}).values()]
    devices = result.config.data.devices
    return {
        "protocol": result.config.protocol,
        "server": server.wait,
        "wait": result.config.availability.wait,
        "seed": result.config.seed,
        "rounds": len(scores),
        "points": [
            [round(float(seconds[n]), 3), round(float(joules[n]) / devices, 4), scores[n]]
            for n in shown.tolist()
        ],
        "uploads": sum(info["uploads"]["attempted"] for info in result.rounds),
        "used": sum(info["uploads"]["delivered"] for info in result.rounds),
        "idle": float(sum(one["idle"] for one in waiting) / seconds[-1]),
        "download": float(np.median([info["slots"]["down"] for info in result.rounds]))
        * result.config.channel.slot_ms
        / 1000,
        "staleness": float(np.mean(staleness)) if staleness else 0.0,
    }


def load(records: Path) -> dict[str, Any]:
    """The records."""
    found: dict[str, Any] = json.loads(records.read_text())
    return found


def _runs(records: dict[str, Any], protocol: str, server: Server) -> list[dict[str, Any]]:
    known = {"protocol": protocol, "server": server.wait}
    return [one for one in records["runs"] if known.items() <= one.items()]


def _reached(one: dict[str, Any], score: float) -> tuple[float, float] | None:
    """Seconds and joules of a device when the server's model first has that accuracy."""
    for seconds, joules, now in one["points"]:
        if now is not None and now >= score:
            return seconds, joules
    return None


def rows(records: dict[str, Any]) -> list[list[str]]:
    """A row for each protocol and server: means over seeds."""
    found = []
    for protocol in PROTOCOLS:
        ends = {one["seed"]: one["points"][-1][2] for one in _runs(records, protocol, SERVERS[0])}
        for server in SERVERS:
            own = _runs(records, protocol, server)
            if not own:
                continue
            cells = [get_protocol(protocol).title, server.title]
            cells.append(f"{100 * np.mean([one['points'][-1][2] for one in own]):.1f}")
            for share in SHARES:
                when = [_reached(one, share * ends[one["seed"]]) for one in own]
                times = [at for at in when if at is not None]
                whole = len(times) == len(own)
                cells += [
                    f"{np.mean([seconds for seconds, _ in times]) / 60:.1f}" if whole else "–",
                    f"{np.mean([joules for _, joules in times]):.1f}" if whole else "–",
                ]
            cells += [
                f"{np.mean([one['points'][-1][0] for one in own]) / 3600:.2f}",
                f"{np.mean([one['rounds'] for one in own]):,.0f}",
                f"{100 * np.mean([one['used'] / one['uploads'] for one in own]):.0f}",
                f"{100 * np.mean([one['idle'] for one in own]):.0f}",
                f"{np.mean([one['staleness'] for one in own]):.1f}",
            ]
            found.append(cells)
    return found


def fastest(records: dict[str, Any]) -> list[dict[str, str]]:
    """For each protocol, who reaches the higher share first, and who last, in minutes."""
    found = []
    for protocol in PROTOCOLS:
        ends = {one["seed"]: one["points"][-1][2] for one in _runs(records, protocol, SERVERS[0])}
        times: dict[str, float] = {}
        never = []
        for server in SERVERS:
            when = [
                _reached(one, SHARES[-1] * ends[one["seed"]])
                for one in _runs(records, protocol, server)
            ]
            if when and all(at is not None for at in when):
                times[server.title] = float(np.mean([at[0] for at in when if at])) / 60
            elif when:
                never.append(server.title)
        order = sorted(times, key=times.__getitem__)
        found.append(
            {
                "protocol": get_protocol(protocol).title,
                "order": ", ".join(f"{title} {times[title]:.1f} min" for title in order),
                "never": ", ".join(never),
            }
        )
    return found


def _downloads(records: dict[str, Any]) -> list[str]:
    """The median multicast of each server, in seconds."""
    own = [(server, _runs(records, PROTOCOLS[0], server)) for server in SERVERS[:3]]
    return [
        f"{server.title} {np.mean([one['download'] for one in found]):.1f} s after each of "
        f"{found[0]['rounds']:,} steps"
        for server, found in own
        if found
    ]


def draw(records: dict[str, Any], path: Path) -> None:
    """Accuracy over hours and over joules, a row for each protocol."""
    figure, grid = plt.subplots(
        len(PROTOCOLS), 2, figsize=(9.6, 6.4), layout="constrained", sharey="row", squeeze=False
    )
    for line, protocol in zip(grid, PROTOCOLS, strict=True):
        for axes, place, unit in zip(line, (0, 1), (3600.0, 1.0), strict=True):
            for server in SERVERS:
                for number, one in enumerate(_runs(records, protocol, server)):
                    points = [point for point in one["points"] if point[2] is not None]
                    label = server.title if number == 0 else None
                    axes.plot(
                        [point[place] / unit for point in points],
                        [100 * point[2] for point in points],
                        label=label, linewidth=1.4, alpha=0.9, **server.style,
                    )  # fmt: skip
            axes.grid(alpha=0.3)
            axes.set(xlabel="simulated hours" if place == 0 else "joules of a device, mean")
        line[0].set(ylabel="test accuracy, %", title=get_protocol(protocol).title)
    grid[0][0].legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def render(records: dict[str, Any]) -> str:
    """The page, in Markdown."""
    return filled(
        TEMPLATE,
        figure="figures/waiting.png",
        setting=records["setting"],
        made_with=said_of(*records["runs"]),
        seeds=sorted({one["seed"] for one in records["runs"]}),
        rows=rows(records),
        uploads=records["setting"].get("rounds", ROUNDS) * records["setting"]["devices"],
        fastest=fastest(records),
        share=f"{100 * SHARES[-1]:.0f} %",
        downloads=_downloads(records),
        mixings=", ".join(f"`{server.wait}`" for server in SERVERS[1:3]),
    )
