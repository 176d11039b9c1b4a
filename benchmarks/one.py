"""Measure one contender: ``python -m benchmarks.one NAME DEVICES STEPS [ROW] [check]``.

Prints the record as the last line, in JSON. A row is a model of ``other_models``.
"""

import importlib
import json

from benchmarks import other_models, usage, work
from benchmarks.work import CORES


def main(name: str, devices: int, steps: int, options: list[str]) -> None:
    """Run the contender; with ``check`` compare its weights with those of a plain reference."""
    rows = [option for option in options if option != "check"]
    measure = importlib.import_module(f"benchmarks.contenders.{name}").measure
    record = measure(devices, steps, *rows)
    weights = record.pop("weights", None)
    if "check" in options and weights is not None:
        record["deviation"] = deviation(devices, steps, weights, *rows)
    if "seconds" in record:
        record["us_per_step"] = record["seconds"] / (devices * steps) * CORES * 1e6
    print(json.dumps({"devices": devices, "steps": steps, **record}), flush=True)


def deviation(devices: int, steps: int, weights: work.Tensors, row: str | None = None) -> float:
    """Largest difference of any mean weight from that of the reference."""
    if row is None:
        return work.deviation(work.paper_work(devices, steps), weights)
    expected = other_models.reference(other_models.BY_NAME[row], devices, steps)
    return work.difference(weights, expected)


if __name__ == "__main__":
    contender, devices, steps, *options = usage.arguments(
        __doc__, "<CONTENDER DEVICES STEPS [OPTION ...]>"
    )
    main(contender, int(devices), int(steps), options)
