"""What waiting costs: servers that wait and servers that do not, at unequal speeds.

Over NB-IoT, where devices share the band, and by a trace, in which each has a rate that wanders and
is away at times.

``mix2fld reproduce waiting``: every run into its folder, so that the same command resumes; then
records, a figure and a page.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from mix2fld.base.files import write_atomic
from mix2fld.base.streams import stream
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
LINKS = ("nb-iot", "trace")
LINK_WORDS = {"nb-iot": "NB-IoT", "trace": "by trace"}
TRACE_STEP_S, TRACE_STEPS = 10, 720
TRACE_KBPS, TRACE_SPREAD, TRACE_MEMORY = 20.0, 1.0, 0.95
"""Of an uplink: its median rate, the standard deviation of its logarithm, and how much of that is
left after a step; a downlink has twice the rate."""
TRACE_LEAVES, TRACE_RETURNS = 0.03, 0.1
"""Probabilities in each step; devices are away for a quarter of the time."""
SCALED_DOWN = {"devices": 10, "samples_per_device": 100, "local_steps": 20, "test_samples": 500}
PROTOCOLS = ("murmur:bits=1400", "fl8")
SHARES = (0.9, 0.95)
"""Of the accuracy that waiting for everyone reaches."""
POINTS = 200
"""Most points of a run that are recorded."""
KINDS = ("transmit", "receive", "computing", "idle")


@dataclass(frozen=True)
class WaitingServer:
    """One that waits in some way."""

    wait: str
    title: str
    uploads: int
    """For which a run has one step, of a fleet of 100."""
    style: dict[str, Any]
    downlink: dict[str, Any] = field(default_factory=lambda: {"downlink": "coded"})
    """What it multicasts: a coded step, or weights in a few bits."""

    def config(
        self, protocol: str, seed: int, changes: dict[str, Any], trace: Path | None = None
    ) -> Config:
        """A run with as many uploads as all others, over NB-IoT or by a trace."""
        config = Config.of(**PRESETS["nb-iot"]).replace(**{**SETTING, **self.downlink, **changes})
        if trace is not None:
            config = config.replace(link="trace", trace=trace)
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
    WaitingServer("quorum:1", "waits", 100, {"color": "#000000"}),
    WaitingServer("buffered:10", "buffered, 10", 10, {"color": "#0072b2"}),
    WaitingServer("asynchronous:0.6", "asynchronous", 1, {"color": "#d55e00"}, EIGHT_BITS),
    WaitingServer("quorum:0.8", "waits for 80 %", 100, {"color": "#e69f00", "linestyle": "--"}),
    WaitingServer(
        "all", "waits, all transmit at once", 100, {"color": "#7f7f7f", "linestyle": ":"}
    ),
)


def measure(
    out: Path, records: Path, seeds: Sequence[int], *, quick: bool, watcher: Watcher
) -> None:
    """Run what is missing, and write the records after every run."""
    changes = {**SCALED_DOWN, "rounds": 2} if quick else {}
    devices = changes.get("devices", DEVICES)
    found: list[dict[str, Any]] = []
    for link, seed, protocol, server in product(LINKS, seeds, PROTOCOLS, SERVERS):
        name = server.wait.translate(str.maketrans(":,=", "---"))
        folder, trace = out / name, None
        if link == "trace":
            folder, trace = (
                out / link / name,
                write_trace(out / link / f"{seed}.csv", devices, seed),
            )
        config = server.config(protocol, seed, changes, trace)
        (result,) = run(config, folder, watcher=watcher)
        found.append({"link": link, **record(server, result), "made_with": made_with()})
        text = json.dumps({"setting": {**SETTING, **changes}, "runs": found}, indent=1)
        records.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(records, (text + "\n").encode())


def write_trace(path: Path, devices: int, seed: int) -> Path:
    """An invented trace of two hours: rates that wander, and devices that come and go."""
    rng = stream(seed, "trace of waiting")
    place, here = rng.normal(size=devices), np.ones(devices, np.bool_)
    lines = ["time_s,device,uplink_kbps,downlink_kbps,available"]
    for step in range(TRACE_STEPS):
        rates = TRACE_KBPS * np.exp(TRACE_SPREAD * place)
        lines += [
            f"{TRACE_STEP_S * step},{device},{rate:.3f},{2 * rate:.3f},{int(here[device])}"
            for device, rate in enumerate(rates.tolist())
        ]
        moved = math.sqrt(1 - TRACE_MEMORY**2) * rng.normal(size=devices)
        place, chance = TRACE_MEMORY * place + moved, rng.random(devices)
        here = np.where(here, chance >= TRACE_LEAVES, chance < TRACE_RETURNS)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, ("\n".join(lines) + "\n").encode())
    return path


def record(server: WaitingServer, result: RunResult) -> dict[str, Any]:
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


def _runs(
    records: dict[str, Any], protocol: str, server: WaitingServer, link: str = LINKS[0]
) -> list[dict[str, Any]]:
    known = {"protocol": protocol, "server": server.wait, "link": link}
    runs = ({"link": LINKS[0], **one} for one in records["runs"])
    return [one for one in runs if known.items() <= one.items()]


def _reached(one: dict[str, Any], score: float) -> tuple[float, float] | None:
    """Seconds and joules of a device when the server's model first has that accuracy."""
    for seconds, joules, now in one["points"]:
        if now is not None and now >= score:
            return seconds, joules
    return None


def rows(records: dict[str, Any], link: str = LINKS[0]) -> list[list[str]]:
    """A row for each protocol and server: means over seeds."""
    found = []
    for protocol in PROTOCOLS:
        ends = {
            one["seed"]: one["points"][-1][2] for one in _runs(records, protocol, SERVERS[0], link)
        }
        for server in SERVERS:
            own = _runs(records, protocol, server, link)
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


def fastest(records: dict[str, Any], link: str = LINKS[0]) -> list[dict[str, str]]:
    """For each protocol, who reaches the higher share first, and who last, in minutes."""
    found = []
    for protocol in PROTOCOLS:
        ends = {
            one["seed"]: one["points"][-1][2] for one in _runs(records, protocol, SERVERS[0], link)
        }
        times: dict[str, float] = {}
        never = []
        for server in SERVERS:
            when = [
                _reached(one, SHARES[-1] * ends[one["seed"]])
                for one in _runs(records, protocol, server, link)
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
                "seeds": ", ".join(str(seed) for seed in sorted(ends)),
            }
        )
    return found


def end_losses(records: dict[str, Any], link: str = LINKS[0]) -> list[str]:
    """By what the servers that do not wait are worse than one that does, in sentences."""
    found = []
    for protocol in PROTOCOLS:
        own = {server.title: _runs(records, protocol, server, link) for server in SERVERS}
        waits = own[SERVERS[0].title]
        measures: dict[str, Callable[[dict[str, Any]], float]] = {
            "points of accuracy at the end": lambda one: -100 * one["points"][-1][2],
            "hours for as many uploads": lambda one: one["points"][-1][0] / 3600,
            "joules for as many uploads": lambda one: one["points"][-1][1],
        }
        for server in SERVERS[1:3]:
            for words, of in measures.items():
                if not own[server.title] or not waits:
                    continue
                more = np.mean([of(one) for one in own[server.title]])
                more -= np.mean([of(one) for one in waits])
                if more > 0:
                    title = get_protocol(protocol).title
                    loses = "fewer" if words.startswith("points") else "more"
                    found.append(f"{title}, {server.title}: {more:.2f} {loses} {words}")
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


def links_of(records: dict[str, Any]) -> list[str]:
    """Of which there are runs."""
    known = {one.get("link", LINKS[0]) for one in records["runs"]}
    return [link for link in LINKS if link in known]


def draw(records: dict[str, Any], path: Path) -> None:
    """Accuracy over hours and over joules, a row for each link and protocol."""
    shown = [(link, protocol) for link in links_of(records) for protocol in PROTOCOLS]
    figure, grid = plt.subplots(
        len(shown), 2, figsize=(9.6, 3.2 * len(shown)), layout="constrained", sharey="row",
        squeeze=False,
    )  # fmt: skip
    for line, (link, protocol) in zip(grid, shown, strict=True):
        for axes, place, unit in zip(line, (0, 1), (3600.0, 1.0), strict=True):
            for server in SERVERS:
                for number, one in enumerate(_runs(records, protocol, server, link)):
                    points = [point for point in one["points"] if point[2] is not None]
                    label = server.title if number == 0 else None
                    axes.plot(
                        [point[place] / unit for point in points],
                        [100 * point[2] for point in points],
                        label=label, linewidth=1.4, alpha=0.9, **server.style,
                    )  # fmt: skip
            axes.grid(alpha=0.3)
            axes.set(xlabel="simulated hours" if place == 0 else "joules of a device, mean")
        line[0].set(
            ylabel="test accuracy, %", title=f"{get_protocol(protocol).title}, {LINK_WORDS[link]}"
        )
    grid[0][0].legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def render(records: dict[str, Any]) -> str:
    """The page, in Markdown."""
    return filled(
        TEMPLATE,
        figure="figures/waiting.png",
        setting=records["setting"],
        made_with=said_of(*records["runs"]),
        seeds=sorted({one["seed"] for one in records["runs"]}),
        links=[
            (
                LINK_WORDS[link],
                fastest(records, link),
                rows(records, link),
                end_losses(records, link),
            )
            for link in links_of(records)
        ],
        trace={
            "hours": TRACE_STEP_S * TRACE_STEPS / 3600,
            "kbps": TRACE_KBPS,
            "spread": TRACE_SPREAD,
            "away": 1 / (1 + TRACE_RETURNS / TRACE_LEAVES),
            "seconds": TRACE_STEP_S,
        },
        first=rows(records)[0][0],
        uploads=records["setting"].get("rounds", ROUNDS) * records["setting"]["devices"],
        share=f"{100 * SHARES[-1]:.0f} %",
        downloads=_downloads(records),
        mixings=", ".join(f"`{server.wait}`" for server in SERVERS[1:3]),
    )
