"""Measure one contender in this process: ``python -m benchmarks.one NAME DEVICES STEPS [check]``.

Prints the record as the last line, in JSON.
"""

import importlib
import json
import sys

from benchmarks.work import CORES, deviation, paper_work


def main(name: str, devices: int, steps: int, check: bool) -> None:
    """Run the contender; with ``check`` compare its weights with the package's."""
    record = importlib.import_module(f"benchmarks.contenders.{name}").measure(devices, steps)
    weights = record.pop("weights", None)
    if check and weights is not None:
        record["deviation"] = deviation(paper_work(devices, steps), weights)
    if "seconds" in record:
        record["us_per_step"] = record["seconds"] / (devices * steps) * CORES * 1e6
    print(json.dumps({"devices": devices, "steps": steps, **record}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["check"])
