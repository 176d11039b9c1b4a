"""Measure all contenders, each in a separate process, one after another, in several passes.

The order within a pass is fixed, so that whatever the machine does over time meets all of them.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import other_page, report
from benchmarks.machine import describe
from benchmarks.other_models import OTHER_MODELS
from benchmarks.table import BY_NAME, CONTENDERS, OTHER_CONTENDERS, QUICK_STEPS, Contender

ROOT = Path(__file__).parent.parent
TRIAL_RECORD = ROOT / "runs" / "bench" / "bench.json"
LONGEST_SECONDS = 3600


class ContenderError(Exception):
    """With the last line that the contender wrote."""


def main() -> None:
    """Check, measure, record, and write the page."""
    options = parse()
    trial = options.quick or options.only is not None
    if options.models is None:
        chosen = [BY_NAME[name] for name in options.only or [c.name for c in CONTENDERS]]
        if options.quick:
            chosen = [replace(c, steps=min(c.steps, QUICK_STEPS)) for c in chosen]
        record = measure_all(chosen, options.passes, TRIAL_RECORD if trial else report.RECORD)
        print("\n" + report.summary(record))
    if trial:
        print(f"\nrecord: {TRIAL_RECORD.relative_to(ROOT)}; docs are written by a full run only")
        return
    rows = options.models or [model.name for model in OTHER_MODELS]
    chosen = [c for c in OTHER_CONTENDERS if c.row in rows]
    measure_all(chosen, options.passes, other_page.RECORD, keep_others=bool(options.models))
    report.write_page()


def measure_all(
    chosen: list[Contender], passes: int, target: Path, keep_others: bool = False
) -> dict[str, Any]:
    """Check and measure everyone, saving the record as it grows."""
    record: dict[str, Any] = {"checks": {}, "unavailable": {}, "records": []}
    if keep_others and target.exists():
        names = {contender.name for contender in chosen}
        record = json.loads(target.read_text())
        record["records"] = [row for row in record["records"] if row["name"] not in names]
    record |= {"machine": describe(), "passes": passes}
    able = check_all(chosen, record, target)
    for number in range(1, passes + 1):
        for contender in able:
            try:
                measured = measure(contender)
            except ContenderError as error:
                record["unavailable"][contender.name] = f"pass {number}: {error}"
                print(f"pass {number}: {contender.name:12} failed: {error}", flush=True)
            else:
                record["records"].append({"pass": number, "name": contender.name, **measured})
                print(f"pass {number}: {contender.name:12} {shown(measured)}", flush=True)
            save(record, target)
    return record


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(BY_NAME), metavar="NAME")
    parser.add_argument(
        "--models",
        nargs="*",
        choices=[model.name for model in OTHER_MODELS],
        metavar="ROW",
        help="measure other models only, all or these rows",
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps, to try it out")
    return parser.parse_args()


def check_all(chosen: list[Contender], record: dict[str, Any], target: Path) -> list[Contender]:
    """Compare everyone's weights with the package's; who cannot run here is left out, with why."""
    able = []
    for contender in chosen:
        if contender.check_steps:
            try:
                checked = measure(replace(contender, steps=contender.check_steps), "check")
            except ContenderError as error:
                record["unavailable"][contender.name] = str(error)
                print(f"left out: {contender.name}: {error}", flush=True)
                continue
            record["checks"][contender.name] = checked["deviation"]
            print(f"check: {contender.name:12} {checked['deviation']:.1e}", flush=True)
        able.append(contender)
    if "limit" in record["checks"]:
        record["limit_check"] = in_own_process("benchmarks.check_limit")
        print(f"check: limit after 1,000 steps {record['limit_check']}", flush=True)
    save(record, target)
    return able


def measure(contender: Contender, *options: str) -> dict[str, Any]:
    """One measurement in a fresh interpreter, with the load of the machine before it."""
    load = os.getloadavg()[0]
    size = (str(contender.devices), str(contender.steps))
    row = [contender.row] if contender.row else []
    found = in_own_process("benchmarks.one", contender.module, *size, *row, *options)
    return {**found, "load_before": round(load, 2)}


def in_own_process(*module_and_args: str) -> dict[str, Any]:
    """What ``python -m`` prints as its last line, read as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *module_and_args],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or "no message"
        raise ContenderError(said.splitlines()[-1][:300])
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def shown(measured: dict[str, Any]) -> str:
    """One measurement in a few words."""
    if "us_per_step" in measured:
        return f"{measured['us_per_step']:9.1f} us per device-step"
    if "peak_gb" in measured:
        return f"{measured['peak_gb']:9.2f} GB"
    totals = [f"{name} {parts['total']:.2f} s" for name, parts in measured["rounds"].items()]
    return ", ".join(totals)


def save(record: dict[str, Any], target: Path) -> None:
    """Write the record as far as it has come."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
