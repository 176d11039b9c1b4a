"""Hostile and careless input: each reader gets many damaged files, none may do harm.

Besides a plain mutation fuzzer, atheris searches for new code paths where it is installed.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from reliability.mutate import mutate
from reliability.records import FOLDER, write_record
from reliability.targets import TARGETS, Target

SECONDS_FOR_ONE = 10.0


class FindingError(AssertionError):
    """An input that did harm; the message quotes it."""


def fuzz(target: Target, inputs: int, seed: int) -> dict[str, Any]:
    """Try so many damaged inputs; raises at the first that is neither accepted nor refused."""
    rng, seeds = random.Random(seed), target.seeds()
    for whole in seeds:
        assert target.accepts(whole), "a sound input is refused"
    accepted, slowest, before = 0, 0.0, _peak_mb()
    for _ in range(inputs):
        data = mutate(rng.choice(seeds), rng, seeds)
        started = time.process_time()
        accepted += try_one(target, data)
        slowest = max(slowest, time.process_time() - started)
    if slowest > SECONDS_FOR_ONE:
        raise FindingError(f"{target.title}: an input took {slowest:.1f} s")
    return {
        "inputs": inputs,
        "accepted": accepted,
        "refused": inputs - accepted,
        "slowest_ms": round(1000 * slowest, 1),
        "memory_growth_mb": round(_peak_mb() - before, 1),
        "seed": seed,
    }


def try_one(target: Target, data: bytes) -> bool:
    """Whether the target accepted it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return target.accepts(data)
    except BaseException as error:
        raise FindingError(f"{target.title}: {error!r} for {data[:4000]!r}") from error


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def search(name: str, runs: int) -> dict[str, Any] | None:
    """Let atheris look for new paths; None where it is not installed."""
    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(TARGETS[name].seeds()):
            (Path(corpus) / str(number)).write_bytes(data)
        done = subprocess.run(
            [sys.executable, "-m", "reliability.search", name, f"-runs={runs}", "-seed=1", corpus],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        found = len(list(Path(corpus).iterdir())) - len(TARGETS[name].seeds())
    if "No module named 'atheris'" in done.stderr:
        return None
    if done.returncode != 0:
        raise FindingError(done.stdout[-3000:] + done.stderr[-500:])
    return {"inputs": runs, "new_paths": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="for each reader")
    parser.add_argument("--search", type=int, default=20_000, help="inputs of atheris for each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    given = parser.parse_args()
    path = FOLDER / "fuzz.json"
    record = json.loads(path.read_text()) if path.exists() else {"mutation": {}, "search": {}}
    for name in given.targets if given.inputs else ():
        found = fuzz(TARGETS[name], given.inputs, given.seed)
        print(f"{TARGETS[name].title}: {found}", flush=True)
        record["mutation"][name] = {"title": TARGETS[name].title, **found}
        write_record("fuzz", record)
    for name in given.targets if given.search else ():
        searched = search(name, given.search)
        if searched is None:
            print("atheris is not installed: pip install 'mix2fld[fuzz]'")
            break
        print(f"{TARGETS[name].title}, atheris: {searched}", flush=True)
        record["search"][name] = {"title": TARGETS[name].title, **searched}
        write_record("fuzz", record)


if __name__ == "__main__":
    main()
