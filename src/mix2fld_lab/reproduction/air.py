"""The air against digital uploads: which fleet is large enough for a channel that adds?

``mix2fld reproduce air``: fleets of several sizes, at equal bandwidth and power; every run into its
folder, so that the same command resumes; then records, a figure and a page.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from mix2fld.base.files import write_atomic
from mix2fld.config.settings import Config
from mix2fld.protocols.table import get_protocol
from mix2fld.runs.loop import Watcher
from mix2fld.runs.results import RunResult
from mix2fld.runs.simulation import run
from mix2fld_lab.made_with import made_with, said_of
from mix2fld_lab.pages import render as filled

TEMPLATE = Path(__file__).parent / "templates" / "air.md.j2"
FLEETS = (5, 20, 100, 200)
SETTING: dict[str, Any] = {
    "samples_per_device": 100,
    "local_steps": 200,
    "rounds": 10,
    "max_slots": 2000,
    "evaluated_devices": 1,
    "test_samples": 2000,
    "curve_points": 1,
    "downlink": "weights",
}
"""What all runs share, beside the paper's asymmetric radio: 2 s for a transfer."""
SCALED_DOWN = {"local_steps": 20, "rounds": 2, "test_samples": 500}
SCALED_FLEETS = (5, 10)
CONTENDERS: tuple[tuple[str, str], ...] = (
    ("air", "projected"),
    ("air", "projected:share=0.25"),
    ("air", "vote"),
    ("rayleigh", "fl8"),
    ("rayleigh", "vote"),
    ("rayleigh", "murmur:bits=1400"),
    ("rayleigh", "murmur:bits=200"),
)
"""A link and a protocol."""
STYLES = ("-", "--", ":", "-", ":", "--", "-.")
COLOURS = ("#332288", "#332288", "#332288", "#56b4e9", "#117733", "#aa4499", "#aa4499")


def measure(
    out: Path, records: Path, seeds: Sequence[int], *, quick: bool, watcher: Watcher
) -> None:
    """Run what is missing, and write the records after every run."""
    changes, found = (SCALED_DOWN if quick else {}), list[dict[str, Any]]()
    for seed in seeds:
        for devices in SCALED_FLEETS if quick else FLEETS:
            for link, protocol in CONTENDERS:
                config = Config.of(**{**SETTING, **changes}).replace(
                    link=link, protocol=protocol, seed=seed, devices=devices
                )
                (result,) = run(config, out / f"{link}-{devices}", watcher=watcher)
                found.append(record(result))
                kept = {"made_with": made_with(), "setting": {**SETTING, **changes}, "runs": found}
                records.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(records, (json.dumps(kept, indent=1) + "\n").encode())


def record(result: RunResult) -> dict[str, Any]:
    """What is kept of a run: accuracy at the end, and what its uplink took."""
    config, last = result.config, result.rounds[-1]
    slot = config.channel.slot_ms / 1000
    return {
        "link": config.channel.link,
        "protocol": config.protocol,
        "devices": config.data.devices,
        "seed": config.seed,
        "accuracy": last["scores"]["global"],
        "seconds": sum(info["slots"]["up"] for info in result.rounds) * slot,
        "joules": sum(info["joules"]["transmit"] for info in result.rounds) / config.data.devices,
        "delivered": float(
            np.mean([i["uploads"]["delivered"] / i["uploads"]["attempted"] for i in result.rounds])
        ),
    }


def load(records: Path) -> dict[str, Any]:
    """The records."""
    found: dict[str, Any] = json.loads(records.read_text())
    return found


def _runs(records: dict[str, Any], link: str, protocol: str, devices: int) -> list[dict[str, Any]]:
    known = {"link": link, "protocol": protocol, "devices": devices}
    return [one for one in records["runs"] if known.items() <= one.items()]


def _fleets(records: dict[str, Any]) -> list[int]:
    return sorted({one["devices"] for one in records["runs"]})


def _mean(own: Sequence[dict[str, Any]], name: str) -> float | None:
    values = [one[name] for one in own]
    return None if not values or None in values else float(np.mean(values))


def title_of(link: str, protocol: str) -> str:
    """A contender in words."""
    return f"{get_protocol(protocol).title}, {'air' if link == 'air' else 'digital'}"


def rows(records: dict[str, Any]) -> list[list[str]]:
    """A row for each fleet and contender: means over seeds."""
    found = []
    for devices in _fleets(records):
        for link, protocol in CONTENDERS:
            own = _runs(records, link, protocol, devices)
            score, seconds = _mean(own, "accuracy"), _mean(own, "seconds")
            joules, delivered = _mean(own, "joules"), _mean(own, "delivered")
            if seconds is None or joules is None or delivered is None:
                continue
            found.append(
                [
                    str(devices),
                    title_of(link, protocol),
                    "–" if score is None else f"{100 * score:.1f}",
                    f"{1000 * seconds:,.0f}",
                    f"{1000 * joules:,.1f}",
                    f"{100 * delivered:.1f}",
                ]
            )
    return found


def verdicts(records: dict[str, Any]) -> list[str]:
    """From which fleet on the air's first row takes less time than each digital one."""
    of_air = CONTENDERS[0]
    found = []
    for link, protocol in CONTENDERS:
        if link == "air":
            continue
        faster = [
            devices
            for devices in _fleets(records)
            if (_mean(_runs(records, *of_air, devices), "seconds") or np.inf)
            < (_mean(_runs(records, link, protocol, devices), "seconds") or 0)
        ]
        title = title_of(link, protocol)
        found.append(
            f"{title}: the air takes less time with {', '.join(map(str, faster))} devices"
            if faster
            else f"{title}: the air takes less time with none of these fleets"
        )
    return found


def draw(records: dict[str, Any], path: Path) -> None:
    """Seconds, joules and accuracy over the size of the fleet."""
    figure, grid = plt.subplots(1, 3, figsize=(11.5, 3.8), layout="constrained")
    fleets = _fleets(records)
    quantities = (("seconds", 1000.0), ("joules", 1000.0), ("accuracy", 100.0))
    names = ("uplink of the run, ms", "transmitting, mJ a device", "accuracy of the server, %")
    for axes, (name, unit), label in zip(grid, quantities, names, strict=True):
        for (link, protocol), line, colour in zip(CONTENDERS, STYLES, COLOURS, strict=True):
            means = [_mean(_runs(records, link, protocol, devices), name) for devices in fleets]
            axes.plot(
                fleets, [np.nan if mean is None else unit * mean for mean in means],
                line, color=colour, marker="o", markersize=3, label=title_of(link, protocol),
            )  # fmt: skip
        axes.set(xlabel="devices", ylabel=label, xscale="log")
        axes.grid(alpha=0.3)
        if name != "accuracy":
            axes.set_yscale("log")
    figure.legend(
        *grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def render(records: dict[str, Any]) -> str:
    """The page, in Markdown."""
    return filled(
        TEMPLATE,
        figure="figures/air.png",
        setting=records["setting"],
        seeds=sorted({one["seed"] for one in records["runs"]}),
        fleets=_fleets(records),
        rows=rows(records),
        verdicts=verdicts(records),
        said=said_of(records),
    )
