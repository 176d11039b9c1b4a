"""How long a round over Flower takes: FL with three real nodes on this machine.

``python -m benchmarks.flower_rounds`` runs ``mix2fld deploy local`` without and with the proxy,
and writes the record and its table in docs/operations.md; ``--page`` writes the table alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import percent_busy
from benchmarks.page_tables import replace_table
from mix2fld_lab.markdown import markdown_table

ROOT = Path(__file__).parent.parent
RECORD, PAGE = ROOT / "results" / "bench" / "flower_rounds.json", ROOT / "docs" / "operations.md"
COMMAND = "mix2fld deploy local --protocol fl --devices 3 --rounds 5 --local-steps 800"


def main() -> None:
    """Measure, unless told not to, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="measure nothing")
    if not parser.parse_args().page:
        runs = [measure(proxy) for proxy in (False, True)]
        RECORD.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    replace_table(PAGE, "rounds", table(json.loads(RECORD.read_text(encoding="utf-8"))))


def measure(proxy: bool) -> dict[str, Any]:
    """One run: what other work does before it, and the seconds of its rounds."""
    busy, load = percent_busy(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        command = [*COMMAND.split(), "--out", folder, *(["--proxy"] if proxy else [])]
        subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.DEVNULL)
        text = (Path(folder) / "fl-s0" / "rounds.jsonl").read_text(encoding="utf-8")
    seconds = [json.loads(line)["seconds"] for line in text.splitlines()]
    return {
        "proxy": proxy,
        "busy_before": busy,
        "load_before": round(load, 1),
        "rounds": [round(one["communication"] + one["computing"], 2) for one in seconds],
        "computing": [round(one["computing"], 2) for one in seconds],
    }


def table(runs: list[dict[str, Any]]) -> str:
    """A row for each run; in the last round a second message brings the download."""
    rows = []
    for run in runs:
        first, *middle, last = run["rounds"]
        rows.append(
            (
                "proxy" if run["proxy"] else "SuperLink itself",
                f"{run['busy_before']} %",
                f"{run['load_before']:g}",
                f"{first:.1f} s",
                f"{min(middle):.1f} to {max(middle):.1f} s",
                f"{last:.1f} s",
                f"{max(run['computing'][1:]):.1f} s",
            )
        )
    header = (
        "nodes connect to",
        "cores busy before",
        "load before",
        "first round",
        "rounds 2 to 4",
    )
    return markdown_table((*header, "last round", "computing, at most"), rows)


if __name__ == "__main__":
    main()
