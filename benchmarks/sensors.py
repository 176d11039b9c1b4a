"""Every protocol on real sensors: smartwatch, where a person is a device.

``python -m benchmarks.sensors`` (``make sensors``) runs it and writes the record and the page.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

import mix2fld
from benchmarks.sensors_page import PAGE, render
from mix2fld.data import device_parts, load_dataset
from mix2fld.learning.make_task import make_task
from mix2fld.protocol import PROTOCOLS

RECORD = Path(__file__).parent.parent / "results" / "bench" / "sensors.json"
SETTINGS: dict[str, Any] = {
    "dataset": "smartwatch",
    "partition": "by-source",
    "local_steps": 320,
    "server_steps": 320,
    "rounds": 10,
    "seed": (0, 1, 2),
    "curve_points": 1,
}


def main() -> None:
    """Run every row of the protocol table; the record is written as runs come in."""
    config = mix2fld.Config.of(**SETTINGS)
    dataset = load_dataset(config.data)
    task = make_task(config.single_runs()[0], dataset.samples, dataset.num_labels)
    record: dict[str, Any] = {
        "settings": SETTINGS,
        "samples": str(dataset.samples),
        "weights": task.dims.num_weights,
        "held": sorted(len(part) for part in device_parts(dataset, config)),
        "tests": len(dataset.test_labels),
        "labels": dataset.num_labels,
        "rows": {},
    }
    for name, row in PROTOCOLS.items():
        results = mix2fld.run(config.replace(protocols=name), dataset=dataset)
        record["rows"][name] = {"title": row.title, **_numbers([one.summary for one in results])}
        print(name, record["rows"][name], flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(render(json.loads(RECORD.read_text())))


def _numbers(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    accuracies = [one["accuracy"] for one in summaries]
    models = [one["global"] for one in accuracies if one["global"] is not None]
    attempted = sum(one["uploads"]["attempted"] for one in summaries)
    delivered = sum(one["uploads"]["delivered"] for one in summaries)
    devices = [one["mean"] for one in accuracies]
    return {
        "devices": [float(np.mean(devices)), float(np.std(devices, ddof=1))],
        "worst": float(np.mean([one["min"] for one in accuracies])),
        "model": [float(np.mean(models)), float(np.std(models, ddof=1))] if models else None,
        "bits": sum(one["bits"]["up"] for one in summaries) / attempted if attempted else 0,
        "delivered": delivered / attempted if attempted else None,
        "seconds": float(np.mean([one["seconds"]["communication"] for one in summaries])),
    }


if __name__ == "__main__":
    main()
