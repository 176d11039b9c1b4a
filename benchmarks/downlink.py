"""Few bits in both directions: what training comes to if devices take the server's steps.

``python -m benchmarks.downlink`` runs what ``results/downlink/runs.jsonl`` lacks, a line for each
run as it ends, and writes ``docs/downlink.md``. ``--page`` writes the page alone.

The settings are those of the comparison (``results/records``), tuned there on validation data; only
the downlink differs, and the uploads of EDEN where its title says so. Seeds are those of the
comparison.
"""

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import mix2fld
from benchmarks.both_directions import (
    budgets_table,
    contender,
    costs_table,
    draw,
    of_records,
)
from benchmarks.downlink_trials import TRIALS
from mix2fld.codecs import rotation
from mix2fld.codecs.global_steps import GlobalState, RelayedUpload, Step
from mix2fld.config.settings import PRESETS
from mix2fld.engine.wire import Wire
from mix2fld.links import IdealLink
from mix2fld.protocols.downlink import KNOWN
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.runs.link_plan import plan_link
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning
from mix2fld.types import SampleFormat, State
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.pages import render
from mix2fld_lab.reproduction.cell_records import CellRecord, load_records

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "results" / "records" / "frontier-mnist-non-iid.json"
RUNS = ROOT / "results" / "downlink" / "runs.jsonl"
PAGE = ROOT / "docs" / "downlink.md"
FIGURE = ROOT / "docs" / "images" / "both_directions.png"
SEEDS = range(5)
TEMPLATE = ROOT / "benchmarks" / "templates" / "downlink.md.j2"
LINKS = {
    "the paper's": None, "NB-IoT": "nb-iot", "LTE-M": "lte-m", "RedCap": "redcap",
    "LEO satellite": "leo", "LoRaWAN DR5": "lorawan-dr5",
}  # fmt: skip
MURMUR: dict[str, Any] = {"protocols": ("murmur",), "update_bits": 200}
PLANNED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("FL 8-bit", {"protocols": ("fl8",), "downlink": "weights"}),
    ("Mix2FLD", {"protocols": ("mix2fld",), "downlink": "weights"}),
    ("Murmur 200", {**MURMUR, "downlink": "weights"}),
    ("Murmur 200", {**MURMUR, "downlink": "relay"}),
    ("Murmur 1,400", {**MURMUR, "update_bits": 1400, "downlink": "relay"}),
)
TWENTY: dict[str, Any] = {
    "devices": 100, "participants": 20, "samples_per_device": 20, "partition": "iid",
    "local_steps": 1, "evaluated_devices": 1, "curve_points": 1,
}  # fmt: skip
ROUNDS_AWAY = 10
NEAR = 0.5
"""Points of accuracy that count as close."""
LIKE = "murmur-1400-edges"
AWAY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Murmur 200, relayed", {**MURMUR, "downlink": "relay"}),
    ("coded in 2,000 bits", {**MURMUR, "downlink": "coded", "downlink_step_bits": 2000}),
)
DECODED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("weights", {**MURMUR, "downlink": "weights"}),
    ("relay of ten uploads of 200 bits", {**MURMUR, "downlink": "relay"}),
    (
        "relay of ten uploads of 1,400 bits",
        {**MURMUR, "update_bits": 1400, "downlink": "relay"},
    ),
)


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page alone")
    if not parser.parse_args().page:
        run_missing()
    PAGE.write_text(page(), encoding="utf-8")


def run_missing() -> None:
    """One line for each run, as it ends."""
    done = {(run["key"], run["seed"]) for run in recorded()}
    cells = contenders()
    for seed in SEEDS:
        for trial in TRIALS:
            cell = cells.get(trial.contender)
            if cell is None or (trial.key, seed) in done:
                continue
            (result,) = mix2fld.run(config_of(cell, trial.changes, seed))
            scores, bits = result.summary["scores"], result.summary["bits"]
            line = {
                "key": trial.key, "seed": seed, "mean": scores["mean"], "server": scores["global"],
                "devices": result.rounds[-1]["scores"]["devices"],
                "up": bits["up"], "down": bits["down"],
            }  # fmt: skip
            RUNS.parent.mkdir(parents=True, exist_ok=True)
            with RUNS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(trial.key, seed, f"{100 * line['mean']:.2f}", line["down"], flush=True)


def config_of(cell: CellRecord, changes: dict[str, Any], seed: int) -> Any:
    """A run of a cell with some settings changed."""
    fields = {**cell.changes, **changes, "protocols": (cell.protocol,), "seed": (seed,)}
    return mix2fld.Grid.of(**fields)


def contenders() -> dict[str, CellRecord]:
    """The cells of the comparison, by the key of their contender."""
    return {key.rsplit("/", 1)[1]: cell for key, cell in load_records(RECORDS).items()}


def recorded() -> Iterator[dict[str, Any]]:
    """The runs so far."""
    if RUNS.exists():
        yield from (json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines())


def page() -> str:
    """The page, from the records and the closed forms of the links."""
    return render(
        TEMPLATE,
        findings=findings(),
        accuracy=accuracy_table(),
        coded=coded_finding(),
        **both_directions(),
        links=link_table(),
        away=away_table(),
        decoding=decoding_table(),
    )


def accuracy_table() -> str:
    """Accuracy and bits, beside the same contender with weights."""
    cells, runs = contenders(), list(recorded())
    head = (
        "protocol",
        "seeds",
        "devices, %",
        "server, %",
        "the same with weights, %",
        "up",
        "down",
    )
    rows = []
    for trial in TRIALS:
        own = [run for run in runs if run["key"] == trial.key]
        cell = cells[trial.contender]
        compares = "bits_per_weight" not in trial.changes
        with_weights = [
            100 * run["summary"]["accuracy"]["mean"]
            for run in cell.runs
            if compares and run["seed"] in {each["seed"] for each in own}
        ]
        if own:
            up = np.mean([run["up"] for run in own]) / cell.devices
            down = np.mean([run["down"] for run in own])
            rows.append((
                trial.title, str(len(own)), _mean(100 * run["mean"] for run in own),
                _mean(100 * run["server"] for run in own), _mean(with_weights),
                f"{up:,.0f}", f"{down:,.0f}",
            ))  # fmt: skip
    return _table(head, rows)


def findings() -> str:
    """What a reader should know first: of a relay, of coded steps, and of both against weights."""
    runs, cell = list(recorded()), contenders()["murmur-200-edges"]

    def mean(key: str, of: str) -> float:
        return float(np.mean([run[of] for run in runs if run["key"] == key]))

    few, all_weights = "murmur-200-edges", cell.values("summary", "bits", "down").mean()
    coded = [
        (mean(trial.key, "down"), 100 * (mean(LIKE, "mean") - mean(trial.key, "mean")))
        for trial in TRIALS
        if trial.contender == LIKE and trial.changes["downlink"] == "coded"
    ]
    (least, most_lost), (most, least_lost) = min(coded), max(coded)
    sentences = (
        f"A relay costs no accuracy: devices hold the same weights, bit for bit. Murmur with 200 "
        f"bits an upload, initialised with edge filters, reaches {100 * mean(few, 'mean'):.1f} % "
        f"with {mean(few, 'up') / cell.devices:,.0f} bits up and {mean(few, 'down'):,.0f} down in "
        f"five rounds; weights take {all_weights:,.0f} bits down.",
        f"A coded step can be shorter than a relay and costs accuracy: Murmur with 1,400 bits an "
        f"upload loses {most_lost:.1f} points on the devices with {least:,.0f} bits down, and "
        f"{least_lost:.1f} with {most:,.0f}; its relay takes {mean(LIKE, 'down'):,.0f}.",
        "Which contender is best depends on the joules that a device may spend and on the link: "
        "see the [table by energy](#bits-seconds-and-joules-on-five-links).",
    )
    return "\n".join(paragraph(f"{n}. {text}") for n, text in enumerate(sentences, 1))


def coded_finding() -> str:
    """With how many bits down a coded step comes close to a relay."""
    runs = list(recorded())

    def mean(key: str, of: str) -> float:
        return float(np.mean([run[of] for run in runs if run["key"] == key]))

    found = []
    for trial in TRIALS:
        if trial.contender == LIKE and trial.changes["downlink"] == "coded":
            behind = max(mean(LIKE, of) - mean(trial.key, of) for of in ("mean", "server"))
            found.append((mean(trial.key, "down"), 100 * behind))
    gaps = "; ".join(f"{bits:,.0f} bits: {behind:.1f}" for bits, behind in sorted(found))
    close = [bits for bits, behind in found if behind <= NEAR]
    words = f"the fewest that come within {NEAR:g}: {min(close):,.0f}" if close else "none is close"
    return (
        "Accuracy that Murmur 1,400 from edges loses with coded steps, in points, for the devices\n"
        f"or the server, whichever loses more, by bits down in all rounds: {gaps}.\nOf these, "
        f"{words}; a relay of {mean(LIKE, 'down'):,.0f} bits loses nothing."
    )


def both_directions() -> dict[str, str]:
    """What each contender takes on five links, and who is best within so many joules."""
    cells, runs, found = contenders(), list(recorded()), []
    for trial in TRIALS:
        cell = cells[trial.contender]
        reached = [100 * run["mean"] for run in runs if run["key"] == trial.key]
        fields = {**cell.changes, **trial.changes, "protocols": (cell.protocol,)}
        found.append(contender(trial.title, float(np.mean(reached)), fields))
    found += of_records(cells)
    draw(found, FIGURE)
    head, *rows = costs_table(found)
    first, *within = budgets_table(found)
    return {"costs": _table(head, rows), "budgets": _table(first, within)}


def link_table() -> str:
    """Seconds and joules of a round, by the closed form of each link."""
    head = ("link", "protocol", "downlink", "bits up", "bits down", "s a round", "mJ of a device")
    rows = []
    for link, preset in LINKS.items():
        for words, fields in PLANNED:
            grid = mix2fld.Grid.of(**(PRESETS[preset] if preset else {})).replace(**fields)
            plans = [plan for plan in plan_link(grid) if not plan.only_first]
            bits = {plan.budget.direction: plan.size.bits for plan in plans}
            rows.append((
                link, words, fields["downlink"], f"{bits.get('uplink', 0):,}",
                f"{bits['downlink']:,}", f"{sum(plan.round_seconds for plan in plans):.3g}",
                f"{1000 * sum(plan.joules for plan in plans):.3g}",
            ))  # fmt: skip
    return _table(head, rows)


class OneIsAway(IdealLink):
    """A link that delivers everything, and does not reach one device for ten rounds."""

    def start(self, *_: Any) -> State:
        """Before the first round."""
        return {"number": 0}

    def begin_round(self, state: State, *_: Any) -> tuple[NDArray[np.bool_], State]:
        """All but the device, in the rounds after the first."""
        number = int(state["number"]) + 1
        reached = np.ones(TWENTY["devices"], np.bool_)
        reached[0] = not 1 < number <= 1 + ROUNDS_AWAY
        return reached, {"number": number}


def away_table() -> str:
    """What a device is sent that was away for ten rounds, in a run of 20 of 100 devices."""
    rows = []
    for words, fields in AWAY:
        grid = mix2fld.Grid.of(**TWENTY, **fields, rounds=2 + ROUNDS_AWAY)
        (result,) = mix2fld.run(grid, link=OneIsAway(), progress=False)
        *before, back = [info["bits"]["down"] for info in result.rounds]
        whole = wire_of(result.config).most_download.bits
        rows.append((
            words, f"{before[-1]:,}", f"{back:,}", f"{back - before[-1]:,}", f"{whole:,}",
            f"{100 * (back - before[-1]) / whole:.1f} %",
        ))  # fmt: skip
    return _table(
        ("steps", "bits of a round", "when it is back", "more", "bits of all weights", "share"),
        rows,
    )


def decoding_table() -> str:
    """Time and memory of taking a download on one core, with the kernel and with NumPy alone."""
    rows = []
    for words, fields in DECODED:
        config = single_runs(mix2fld.Grid.of(devices=10, **fields))[0]
        wire = wire_of(config)
        dims = wire.protocol.dims
        codec: Any = wire.downlink.download_codec
        weights = tuple(np.zeros(shape, np.float32) for shape in dims.weight_shapes)
        state = {KNOWN: {"version": np.array(1), "weights": weights}}
        if config.updates.downlink == "weights":
            data = codec.encode(weights, dims).data
        else:
            rng = np.random.default_rng(0)
            update = rng.normal(size=dims.num_weights).astype(np.float32)
            codes = codec.upload.compress(update, rng, None)
            carried = RelayedUpload(500, codec.upload.encode(codes, dims))
            steps = (Step(2, dict.fromkeys(range(10), carried)),)
            data = codec.encode(GlobalState(2, 0, None, steps), dims).data
        cells = [words, f"{len(data):,}"]
        for kernel in (True, False):
            with patch.object(rotation, "_kernel_for", rotation._kernel_for if kernel else _none):
                seconds, peak = measured(partial(wire.decode_download, data, [state]))
            cells += [f"{1000 * seconds:.1f}", f"{peak / 1024:.0f}"]
        rows.append(tuple(cells))
    head = ("download", "bytes", "ms, kernel", "kB, kernel", "ms, NumPy", "kB, NumPy")
    return _table(head, rows)


def measured(work: Callable[[], Any]) -> tuple[float, int]:
    """The least of ten times, and the most memory that is allocated at once."""
    work()
    times = []
    for _ in range(10):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return min(times), peak


def wire_of(config: mix2fld.Config) -> Wire:
    """What crosses the link with the paper's network."""
    learning = make_learning(config, SampleFormat((28, 28, 1)), Classification(10))
    return Wire(get_protocol(config.protocol), learning)


def _none(rng: np.random.Generator) -> None:
    """No kernel."""


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    return f"{np.mean(found):.1f} ± {np.std(found, ddof=1):.1f}" if len(found) > 1 else "-"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
