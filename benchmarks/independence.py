"""What it is worth that devices choose rotations and groups by themselves, and what sums cost.

``python -m benchmarks.independence``: Murmur with choices of each device, with choices that all
devices of a round share, which a sum needs, and updates in shared directions, added under masks.
Ten devices, the paper's network, ten rounds over a lossless link.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import mix2fld
from mix2fld.base.streams import stream
from mix2fld.extend import Murmur, Turn
from mix2fld.protocols.table import PROTOCOLS

SHARED = "murmur-shared"
SETTING: dict[str, Any] = {
    "rounds": 10,
    "link": "ideal",
    "local_steps": 1600,
    "evaluated_devices": 1,
}
MASKED = {"sums": "masked", "sample_weights": "ignored"}
ROWS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Murmur, own choices", "murmur:bits=1400", {}),
    ("Murmur, shared choices", f"{SHARED}:bits=1400", {}),
    ("Murmur, own choices", "murmur:bits=12544", {}),
    ("Murmur, shared choices", f"{SHARED}:bits=12544", {}),
    ("added under masks", "projected:share=0.025", {**MASKED, "sum_bits": 4, "sum_range": 0.05}),
    ("added under masks", "projected:share=0.125", {**MASKED, "sum_bits": 4, "sum_range": 0.05}),
    ("added under masks", "projected", {**MASKED, "sum_bits": 4, "sum_range": 0.05}),
    ("FL, added under masks", "fl", MASKED),
    ("FL", "fl", {"sample_weights": "ignored"}),
)


class SharedMurmur(Murmur):
    """Murmur whose devices rotate alike in a round, and look into the same groups."""

    def choices(self, turn: Turn) -> np.random.Generator:
        """The same for all devices."""
        return stream(turn.seed, "update", turn.round_number)


def measure(seeds: Sequence[int], records: Path) -> list[dict[str, Any]]:
    """Run all rows, and write the record after each."""
    PROTOCOLS[SHARED] = SharedMurmur(title="Murmur, shared")
    found: list[dict[str, Any]] = []
    for name, protocol, changes in ROWS:
        runs = []
        for seed in seeds:
            config = mix2fld.Config.of(protocol=protocol, seed=seed, **{**SETTING, **changes})
            (result,) = mix2fld.run(config)
            last = result.rounds[-1]
            runs.append(
                {
                    "seed": seed,
                    "global": last["scores"]["global"],
                    "devices": last["scores"]["reference"],
                    "bits": last["bits"]["up"] // config.data.devices,
                }
            )
        found.append({"name": name, "protocol": protocol, "runs": runs})
        records.write_text(json.dumps({"setting": SETTING, "rows": found}, indent=1) + "\n")
        print(line_of(found[-1]), flush=True)
    return found


def line_of(row: dict[str, Any]) -> str:
    """A row of a table."""
    runs = row["runs"]
    scores = [100 * one["global"] for one in runs]
    bits = f"{fmean([one['bits'] for one in runs]):,.0f}"
    spread = f"{min(scores):.1f} to {max(scores):.1f}"
    return f"| {row['name']} | `{row['protocol']}` | {bits} | {fmean(scores):.1f} | {spread} |"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records", type=Path, default=Path("results/records/independence.json"))
    given = parser.parse_args()
    print("| what | protocol | bits of an upload, with keys | server, % | seeds |")
    print("|---|---|---|---|---|")
    measure(range(given.seeds), given.records)


if __name__ == "__main__":
    main()
