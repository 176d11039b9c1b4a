"""``docs/sensors.md``, made from the record of ``benchmarks.sensors`` alone."""

from pathlib import Path
from typing import Any

from mix2fld.report.markdown import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "sensors.md"
HEADER = (
    "protocol",
    "devices",
    "worst device",
    "global model",
    "uploaded by a device in a round",
    "uploads delivered",
    "time on the link",
)


def render(record: dict[str, Any]) -> str:
    """The page."""
    settings, held = record["settings"], record["held"]
    rows = [_row(one) for one in record["rows"].values()]
    seeds = len(settings["seed"])
    return f"""# Real sensors: a person is a device

Ten people did seven shoulder exercises with a smartwatch on one arm
([arXiv:1802.01489](https://arxiv.org/abs/1802.01489); the data comes with the Python package seglearn, BSD
licence). A sample is a window of 2 s of its accelerometer and gyroscope, 100 steps × 6 channels, about one
repetition of an exercise. Nobody partitioned anything: a device holds what its person recorded, {held[0]} to
{held[-1]} windows, some people being faster than others. Odd persons wear the watch on the right arm and even
ones on the left; accuracy is measured on {record["tests"]:,} windows of everybody's other arm. A device that learns
alone has never seen that arm, other people have.

```
mix2fld run --dataset smartwatch --partition by-source --local-steps {settings["local_steps"]} --server-steps {settings["server_steps"]} --rounds {settings["rounds"]} --seed 0 1 2
```

Samples are {record["samples"]}; the network is signal-cnn, {record["weights"]:,} weights; the link is the paper's asymmetric
one. Accuracy after {settings["rounds"]} rounds, mean and standard deviation over {seeds} seeds: of the devices at the end of their
local phase (mean over devices), of the worst device, and of the server's model. Guessing one of {record["labels"]} labels
is right in {100 / record["labels"]:.1f} % of all cases. Bits include seed samples ({SEEDS}), spread over all rounds.

{markdown_table(HEADER, rows)}

`make sensors` runs all rows and writes this page; the record is
[sensors.json](../results/bench/sensors.json). [own_sensors.py](../examples/own_sensors.py) shows how to use
your own sensors and your own 1-D CNN.
"""


SEEDS = "50 of 8 bits a value, uploaded once"


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    delivered = one["delivered"]
    return (
        one["title"],
        _percent(one["devices"]),
        f"{100 * one['worst']:.1f} %",
        "–" if one["model"] is None else _percent(one["model"]),
        f"{one['bits'] / 1000:,.1f} kbit" if one["bits"] else "–",
        "–" if delivered is None else f"{100 * delivered:.1f} %",
        f"{one['seconds']:.2f} s",
    )


def _percent(value: list[float]) -> str:
    return f"{100 * value[0]:.1f} ± {100 * value[1]:.1f} %"
