"""A training in LoRaWAN frames: 20 sensors, EU868, one frame up a round.

``python -m benchmarks.lorawan`` runs what ``results/downlink/lorawan.jsonl`` lacks, a line for each
run as it ends, and writes ``docs/lorawan.md``. ``--page`` writes the page alone.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mix2fld
from mix2fld.config.settings import PRESETS
from mix2fld.engine.energy import Power
from mix2fld_lab.markdown import paragraph
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
QUORUM = 16
"""Uploads of a round that the server waits for."""


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
    """The runs so far, by key: a seed, and its rounds."""
    runs: dict[str, list[dict[str, Any]]] = {key: [] for key in TRIALS}
    for line in RUNS.read_text(encoding="utf-8").splitlines() if RUNS.exists() else []:
        run = json.loads(line)
        runs[run["key"]].append(run)
    return runs


def page() -> str:
    """The page, from the records."""
    return render(
        TEMPLATE,
        findings=findings(),
        goals=goals_table(),
        waits=waits_table(),
        rounds=rounds_table(),
    )


def findings() -> str:
    """Hours and joules of the last goal, and the median round."""
    runs = recorded()
    reached = np.mean([max(r["server"] for r in run["rounds"]) for run in runs["fl8-ideal"]])
    goal = SHARES[-1] * float(reached)
    taken = {key: [rounds_until(run, goal) for run in runs[key]] for key in TRIALS}

    def hours(key: str) -> str:
        return _range([sum(r["seconds"] for r in rounds) / 3600 for rounds in taken[key]], 2)

    def joules(key: str) -> str:
        return f"{_mean_sum(taken[key], lambda r: r['joules']):.1f} J"

    def median(key: str) -> str:
        met = [r["seconds"] for run in runs[key] for r in run["rounds"] if r["uploads"] >= QUORUM]
        return f"{np.median(met):,.0f} s"

    sentences = (
        f"Until {100 * SHARES[-1]:.0f} % of FL's accuracy ({100 * goal:.1f} %), Murmur with a "
        f"relay takes {hours('relay')} hours and {joules('relay')} of a device; FL with 8-bit "
        f"weights takes {hours('fl8')} hours and {joules('fl8')}, in fewer rounds.",
        f"If weights come down instead of a relay, Murmur takes {hours('weights')} hours and "
        f"{joules('weights')}: the download decides.",
        f"The median round takes {median('relay')} with Murmur and a relay, {median('weights')} if "
        f"weights come down, {median('fl8')} with 8-bit FL and {median('fl')} with FL.",
    )
    return "\n".join(paragraph(f"{n}. {text}") for n, text in enumerate(sentences, 1))


def goals_table() -> str:
    """Rounds, hours and joules until a share of what FL reaches over an ideal link: means."""
    runs = recorded()
    reached = np.mean([max(r["server"] for r in run["rounds"]) for run in runs["fl8-ideal"]])
    power = Power.from_config(grid_of("relay").at())
    head = ("protocol", "until", "accuracy, %", "rounds", "hours", "frames of a device, up",
            "frames down", "radio, J of a device", "all, J of a device",
            "trainings of a battery")  # fmt: skip
    rows = []
    for key, (title, _) in TRIALS.items():
        if key.endswith("ideal"):
            continue
        for share in SHARES:
            goal = share * float(reached)
            words = [title, f"{100 * share:.0f} % of FL", f"{100 * goal:.1f}"]
            taken = [rounds for run in runs[key] if (rounds := rounds_until(run, goal))]
            if len(taken) < len(runs[key]):
                rows.append((*words, f"in {len(taken)} of {len(runs[key])} seeds", *["-"] * 6))
                continue
            hours = [sum(r["seconds"] for r in rounds) / 3600 for rounds in taken]
            spent = _mean_sum(taken, lambda r: r["joules"])
            batteries = power.rounds_of_battery(spent)
            rows.append((
                *words, f"{np.mean([len(rounds) for rounds in taken]):.1f}", _range(hours, 2),
                f"{_mean_sum(taken, lambda r: _frames(r['bits']['up'] / 20)):,.0f}",
                f"{_mean_sum(taken, lambda r: _frames(r['bits']['down'])):,.0f}",
                f"{_mean_sum(taken, lambda r: r['radio_joules']):.2f}",
                f"{spent:.1f}", "-" if batteries is None else f"{batteries:,.0f}",
            ))  # fmt: skip
    return _table(head, rows)


def _mean_sum(
    runs: Sequence[Sequence[dict[str, Any]]], of: Callable[[dict[str, Any]], float]
) -> float:
    """Of something in all rounds of a run, the mean over runs."""
    return float(np.mean([sum(map(of, rounds)) for rounds in runs]))


def rounds_until(run: dict[str, Any], goal: float) -> list[dict[str, Any]]:
    """The rounds up to the one in which the server reaches a goal; none if it does not."""
    rounds = run["rounds"]
    done = next((n for n, r in enumerate(rounds, 1) if (r["server"] or 0) >= goal), 0)
    return list(rounds[:done])


def waits_table() -> str:
    """How long a round takes that has its quorum, and how many have none and last for a day."""
    head = ("protocol", "rounds", "with a quorum", "s, median", "s, longest", "until the limit")
    rows = []
    for key, (title, _) in TRIALS.items():
        every = [r for run in recorded()[key] for r in run["rounds"]]
        met = [r["seconds"] for r in every if r["uploads"] >= QUORUM]
        rows.append((
            title, str(len(every)), str(len(met)), f"{np.median(met):,.0f}", f"{max(met):,.0f}",
            str(len(every) - len(met)),
        ))  # fmt: skip
    return _table(head, rows)


def rounds_table() -> str:
    """Every round of every protocol, over all seeds."""
    head = ("protocol", "round", "server, %", "uploads of 20", "s", "radio, J of a device")
    rows = []
    for key, (title, _) in TRIALS.items():
        runs = recorded()[key]
        for number, own in enumerate(zip(*(run["rounds"] for run in runs), strict=True), 1):
            rows.append((
                title, str(number), f"{100 * np.mean([r['server'] or 0 for r in own]):.1f}",
                _range([r["uploads"] for r in own], 0), _range([r["seconds"] for r in own], 0),
                f"{np.mean([r['radio_joules'] for r in own]):.3f}",
            ))  # fmt: skip
    return _table(head, rows)


def _range(values: Sequence[float], digits: int) -> str:
    """From the least to the most."""
    low, high = (f"{end:,.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _frames(bits: float) -> int:
    return int(-(-bits // FRAME_BITS))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
