"""Weights that stay on their device, each device judged on samples of its own that it holds out.

python -m benchmarks.personal: a line for each run that the file lacks, as it is done. Fixed before
any run: settings as in the comparison (smartwatch) and in ``missing_labels`` (machines); nothing is
tuned here. The
rate is 0.01 for all (``same_training``). Noise 2.0 was added when 0.6 was seen to leave no errors.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import mix2fld
from benchmarks.missing_labels import machines, two_of_four
from mix2fld.data import load_dataset
from mix2fld.extend import PARTITIONS
from mix2fld_lab.made_with import made_with

OWN_TESTS = 0.3
CONTENDERS: tuple[dict[str, Any], ...] = (
    {"protocol": "isolated"},
    {"protocol": "fl"},
    {"protocol": "fl", "personal": "head"},
    {"protocol": "fl", "personal": "FIRST"},
    {"protocol": "murmur", "update_bits": 500},
    {"protocol": "murmur", "update_bits": 500, "personal": "head"},
    {"protocol": "isolated", "finetune_steps": 600},
    {"protocol": "fl", "finetune_steps": 600},
    {"protocol": "murmur", "update_bits": 500, "finetune_steps": 600},
)
"""FIRST: all but the head, which alone is shared (LG-FedAvg)."""
NAMES = {"isolated": "training alone", "fl": "FL", "murmur": "Murmur, 500 bits"}
Case = tuple[str, dict[str, Any], Any]


def cases(seeds: range) -> Iterator[Case]:
    """Machines that see 2 of 4 faults; people with a smartwatch."""
    PARTITIONS["two-of-four"] = two_of_four
    common = {"rounds": 5, "link": "ideal", "own_tests": OWN_TESTS, "same_training": True}
    for seed in seeds:
        settings = {
            **common, "model": "mlp", "devices": 30, "samples_per_device": 60,
            "partition": "two-of-four", "local_steps": 600, "first": "linear1*",
        }  # fmt: skip
        for noise in (0.6, 1.0, 2.0):
            yield f"machines, noise {noise}", {**settings, "seed": seed}, machines(noise, seed)
    watch = {**common, "dataset": "smartwatch", "partition": "by-source", "local_steps": 1600}
    for seed in seeds:
        data = load_dataset(mix2fld.Config.of(dataset="smartwatch").data)
        yield "smartwatch", {**watch, "seed": seed, "first": "conv*"}, data


def measured(case: Case, contender: dict[str, Any]) -> dict[str, Any]:
    """What devices reach on their own held-out samples, after the last download."""
    name, settings, data = case
    first = settings["first"]
    own = {**{k: v for k, v in settings.items() if k != "first"}, **contender}
    if own.get("personal") == "FIRST":
        own["personal"] = first
    (result,) = mix2fld.run(mix2fld.Config.of(**own), dataset=data, progress=False)
    tuned = result.summary.get("finetuned", result.summary)
    reached = tuned["own"]
    return {
        "data": name,
        "seed": settings["seed"],
        **contender,
        "own": round(reached["mean"], 4),
        "worst decile": round(reached["worst_decile"], 4),
        "bits": result.rounds[-1]["bits"]["up"],
    }


def table(path: Path) -> str:
    """The table of docs/howto/models.md, from a file of runs."""
    runs: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        run = json.loads(line)
        runs.setdefault((*_key(run), run["data"]), []).append(run)
    data = list(dict.fromkeys(key[-1] for key in runs))
    lines = [f"| | {' | '.join(data)} | bits: machines | smartwatch |"]
    lines.append("|---|" + "---|" * len(data) + "---:|---:|")
    for one in CONTENDERS:
        own = [runs[*_key(one), name] for name in data]
        cells = [_cell(cell) for cell in own] + [f"{own[n][0]['bits']:,}" for n in (0, -1)]
        name = NAMES[one["protocol"]] + {"": "", "head": ", personal head"}.get(
            one.get("personal", ""), ", all personal but the head"
        )
        steps = one.get("finetune_steps")
        name += f", then {steps} steps alone" if steps else ""
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    """What tells contenders apart."""
    return run["protocol"], run.get("personal", ""), run.get("finetune_steps", 0)


def _cell(runs: Sequence[dict[str, Any]]) -> str:
    """Mean and deviation over seeds; in brackets, the worst tenth of the devices."""
    own, worst = [100 * run["own"] for run in runs], [100 * run["worst decile"] for run in runs]
    return f"{fmean(own):.1f} ± {stdev(own):.1f} ({fmean(worst):.1f})"


def main() -> None:
    """A line for each run, as it is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["machines", "smartwatch"])
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 10")
    parser.add_argument("--out", type=Path, default=Path("personal.jsonl"))
    parser.add_argument("--table", type=Path, help="print the table of such a file instead")
    given = parser.parse_args()
    if given.table:
        print(table(given.table))
        return
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {(*_key(run), run["data"], run["seed"]) for run in map(json.loads, lines)}
    with given.out.open("a") as file:
        every = cases(range(10, 10 + given.seeds))
        for case in (one for one in every if one[0].split(",")[0] in given.names):
            missing = [c for c in CONTENDERS if (*_key(c), case[0], case[1]["seed"]) not in done]
            for contender in missing:
                line = json.dumps({**measured(case, contender), "made_with": made_with()})
                print(line, flush=True)
                file.write(line + "\n")


if __name__ == "__main__":
    main()
