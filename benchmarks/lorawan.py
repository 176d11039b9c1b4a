"""A training in LoRaWAN frames: 20 sensors, EU868, one frame up a round.

``python -m benchmarks.lorawan`` runs what ``results/downlink/lorawan.jsonl`` lacks, a line for each
run as it ends, and writes ``docs/lorawan.md``. ``--page`` writes the page alone.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mix2fld
from mix2fld.config.settings import PRESETS
from mix2fld.engine.energy import Power
from mix2fld_lab.pages import render

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "results" / "downlink" / "lorawan.jsonl"
PAGE = ROOT / "docs" / "lorawan.md"
TEMPLATE = ROOT / "benchmarks" / "templates" / "lorawan.md.j2"
FRAME_BITS = 8 * 222
"""The largest payload of a frame at DR5."""
BASE: dict[str, Any] = {
    "devices": 20, "partition": "non-iid", "initial_weights": "edges", "rounds": 8,
    "local_steps": 1600, "logit_adjustment": 2.0, "device_model": "mean", "learning_rate": 0.01,
    "final_learning_rate": 0.01, "curve_points": 1, "wait": "quorum:0.8",
}  # fmt: skip
TRIALS: dict[str, tuple[str, dict[str, Any]]] = {
    "relay": ("Murmur 200, relay", {"protocols": ("murmur",), "update_bits": 200,
                                    "downlink": "relay"}),
    "weights": ("Murmur 200, weights down", {"protocols": ("murmur",), "update_bits": 200,
                                             "downlink": "weights"}),
    "fl8": ("FL 8-bit", {"protocols": ("fl8",)}),
    "fl": ("FL", {"protocols": ("fl",)}),
    "fl8-ideal": ("FL 8-bit, an ideal link", {"protocols": ("fl8",), "link": "ideal"}),
}  # fmt: skip
SHARES = (0.90, 0.93, 0.95)
SEEDS = (0, 1, 2)
"""Each has its own samples, places and fading."""


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page alone")
    if not parser.parse_args().page:
        run_missing()
    PAGE.write_text(page(), encoding="utf-8")


def run_missing() -> None:
    """One line for each run, as it ends."""
    done = {(key, run["seed"]) for key, runs in recorded().items() for run in runs}
    for key, seed in [(key, seed) for key in TRIALS for seed in SEEDS if (key, seed) not in done]:
        (result,) = mix2fld.run(grid_of(key, seed))
        lines = [
            {
                "server": info["scores"]["global"],
                "uploads": info["uploads"]["delivered"],
                "downloads": info["downloads"]["delivered"],
                "bits": info["bits"],
                "seconds": sum(info["seconds"].values()),
                "radio_joules": (info["joules"]["transmit"] + info["joules"]["receive"]) / 20,
                "joules": float(np.mean(info["joules"]["devices"])),
            }
            for info in result.rounds
        ]
        RUNS.parent.mkdir(parents=True, exist_ok=True)
        with RUNS.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "seed": seed, "rounds": lines}) + "\n")
        print(key, seed, [round(line["server"] or 0, 3) for line in lines], flush=True)


def grid_of(key: str, seed: int = 0) -> mix2fld.Grid:
    """The settings of a trial."""
    return mix2fld.Grid.of(**PRESETS["lorawan-dr5"]).replace(**BASE, **TRIALS[key][1], seed=(seed,))


def recorded() -> dict[str, list[dict[str, Any]]]:
    """The rounds of the runs so far, by key."""
    if not RUNS.exists():
        return {}
    lines = [json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines()]
    return {line["key"]: line["rounds"] for line in lines}


def page() -> str:
    """The page, from the records."""
    return render(TEMPLATE, goals=goals_table(), rounds=rounds_table())


def goals_table() -> str:
    """Rounds, hours and joules until a share of what FL reaches over an ideal link."""
    runs = recorded()
    reached = max(round_["server"] for round_ in runs["fl8-ideal"])
    power = Power.from_config(grid_of("relay").at())
    head = ("protocol", "until", "accuracy, %", "rounds", "hours", "frames of a device, up",
            "frames down", "radio, J of a device", "all, J of a device",
            "trainings of a battery")  # fmt: skip
    rows = []
    for key, (title, _) in TRIALS.items():
        if key.endswith("ideal"):
            continue
        for share in SHARES:
            goal = share * reached
            done = next((n for n, r in enumerate(runs[key], 1) if (r["server"] or 0) >= goal), None)
            words = [title, f"{100 * share:.0f} % of FL", f"{100 * goal:.1f}"]
            if done is None:
                rows.append((*words, f"not in {len(runs[key])}", *["-"] * 6))
                continue
            taken = runs[key][:done]
            spent = sum(r["joules"] for r in taken)
            batteries = power.rounds_of_battery(spent)
            rows.append((
                *words, str(done), f"{sum(r['seconds'] for r in taken) / 3600:.2f}",
                f"{sum(_frames(r['bits']['up'] / 20) for r in taken):,}",
                f"{sum(_frames(r['bits']['down']) for r in taken):,}",
                f"{sum(r['radio_joules'] for r in taken):.2f}", f"{spent:.1f}",
                "-" if batteries is None else f"{batteries:,.0f}",
            ))  # fmt: skip
    return _table(head, rows)


def rounds_table() -> str:
    """Every round of every protocol."""
    head = ("protocol", "round", "server, %", "uploads", "downloads", "s", "radio, J of a device")
    rows = [
        (
            title, str(number), "-" if r["server"] is None else f"{100 * r['server']:.1f}",
            f"{r['uploads']} of 20", f"{r['downloads']} of 20", f"{r['seconds']:,.1f}",
            f"{r['radio_joules']:.3f}",
        )
        for key, (title, _) in TRIALS.items()
        for number, r in enumerate(recorded()[key], 1)
    ]  # fmt: skip
    return _table(head, rows)


def _frames(bits: float) -> int:
    return int(-(-bits // FRAME_BITS))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
