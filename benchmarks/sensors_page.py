"""``docs/sensors.md``, made from the record of ``benchmarks.sensors`` alone."""

from pathlib import Path
from typing import Any

from mix2fld.protocols.table import PROTOCOLS
from mix2fld.tasks.training import Training
from mix2fld_lab.markdown import markdown_table, paragraph
from mix2fld_lab.reproduction.conclusions import listed

PAGE = Path(__file__).parent.parent / "docs" / "sensors.md"
HEADER = (
    "protocol",
    "training",
    "devices",
    "worst device",
    "server's model",
    "bits of an upload",
    "uploads delivered",
    "time on the link",
)
SPLIT_HEADER = ("the watch is worn", "isolated, devices", "FL, server", "Mix2FLD, server")


def render(record: dict[str, Any]) -> str:
    """The page."""
    settings, held = record["settings"], record["held"]
    seeds = " ".join(str(seed) for seed in range(record["seeds"]))
    return f"""# Real sensors: a person is a device

Made by `make sensors` from `results/bench/sensors.json`; do not edit it.

Ten people did seven shoulder exercises with a smartwatch, with each arm
([arXiv:1802.01489](https://arxiv.org/abs/1802.01489); the recordings come with the Python package seglearn, BSD
licence). A sample is a window of 2 s of its accelerometer and gyroscope, 100 steps × 6 channels, about one
repetition of an exercise. With the partition `by-source` a device holds what its person recorded: {held[0]} to
{held[-1]} windows, because some people are faster than others. Everyone did all exercises, so labels are balanced;
what differs is the people.

```
mix2fld run --dataset smartwatch --partition by-source --local-steps {settings["local_steps"]} --server-steps {settings["server_steps"]} --seed {seeds}
```

Samples are {record["samples"]}; the network is signal-cnn, {record["weights"]:,} weights; the link is the paper's asymmetric
one. Devices take a tenth of the paper's steps in a round, so that this page can be regenerated in minutes, and the
server half as many, as in the paper; all other settings have their defaults.

{paragraph(_trainings(record["rows"]))}

Accuracy on {record["tests"]:,} windows after {record["rounds"]} rounds, mean and standard deviation over {record["seeds"]} seeds: of the devices at
the end of their local phase (mean over devices), of the worst device, and of the server's model. Guessing one
of {record["labels"]} labels is right {100 / record["labels"]:.1f} % of the time. The {record["seed_samples"]} seed samples of a device, with 8 bits per value, are
included in its uploads.

{markdown_table(HEADER, [_row(name, one) for name, one in record["rows"].items()])}

{_best(record["rows"])}

## How it is split

There is one recording of each person, exercise and arm. No recording may be in both the training and the test set,
and everyone must train and be tested on all exercises, so the split has to be by arm: a person wears the watch on one
arm and is tested on the recordings of the other. Which arm is a choice: people with odd numbers wear the watch on the
right arm, those with even numbers on the left. The movements that a device is tested on are then in the training data
of others, though not in its own, which is the question of federated learning: can a device learn what only others have
seen? With the same arm for everyone, no device has seen anything like the test data, and the question would be how well
a model extrapolates to mirrored movements. Accuracies of some splits were known when this one was chosen, so
`make sensors` also measures the others.

{_splits(record)}

## Your own sensors

[own_sensors.py](../examples/own_sensors.py) is a complete example: windows of a signal with the range that the
sensor can measure, the person who recorded each window, and your own 1-D CNN as a Flax module.
"""


def _row(name: str, one: dict[str, Any]) -> tuple[str, ...]:
    delivered = one["delivered"]
    return (
        one["title"],
        "plain" if _is_plain(name) else "its own",
        _percent(one["devices"]),
        _percent(one["worst"]),
        "–" if one["model"] is None else _percent(one["model"]),
        f"{one['bits']:,.0f}" if one["bits"] else "–",
        "–" if delivered is None else f"{100 * delivered:.1f} %",
        f"{one['seconds']:.2f} s",
    )


def _is_plain(name: str) -> bool:
    """Whether devices train as the paper's do: constant rate, no adjustment, no averaging."""
    return PROTOCOLS[name].training == Training()


def _trainings(rows: dict[str, dict[str, Any]]) -> str:
    """Which rows bring a training of their own, and what it consists of."""
    own = [name for name in rows if not _is_plain(name)]
    parts = []
    for name in own:
        training = PROTOCOLS[name].training
        first, last = training.rate_factors
        words = [
            f"logit adjustment with τ = {training.logit_adjustment:g}",
            f"a learning rate from {first:g} to {last:g} times the default",
            "the mean of downloaded and trained weights on the device",
        ]
        words += [f"replay of seed samples ({training.replay:g})"] if training.replay else []
        parts.append(f"{rows[name]['title']} uses {listed(words)}.")
    return (
        f"**The rows do not all train alike.** {' '.join(parts)} All other rows train plainly, with "
        "one learning rate and no adjustment. So a row shows a protocol together with its training, "
        "and a lead of Murmur over plain rows does not say that its uploads are better. In "
        "[the comparison](../results/FRONTIER.md#smartwatch-a-person-is-a-device) every family "
        "chooses its training among as many candidates."
    )


def _best(rows: dict[str, dict[str, Any]]) -> str:
    """Who comes first, at the devices and at the server, and what sharing adds to learning alone."""
    devices = max(rows.values(), key=lambda one: one["devices"][0])
    plain = max(
        (one for name, one in rows.items() if _is_plain(name)), key=lambda one: one["devices"][0]
    )
    server = max((one for one in rows.values() if one["model"]), key=lambda one: one["model"][0])
    alone, fl, seeds = (rows[name] for name in ("isolated", "fl", "mix2fld"))
    gained, plainly = (100 * (one["devices"][0] - alone["devices"][0]) for one in (devices, plain))
    apart = 100 * (seeds["model"][0] - fl["model"][0])
    own = ", with a training of its own" if devices is not plain else ""
    return paragraph(
        f"Most accurate on the devices: {devices['title']}{own}, {gained:+.1f} points compared with "
        f"training alone; of the rows that train plainly {plain['title']}, {plainly:+.1f} points. "
        f"Most accurate at the server: {server['title']}. The server's model of Mix2FLD is "
        f"{apart:+.1f} points compared with that of FL, with {seeds['bits'] / fl['bits']:.2f} "
        "times the bits."
    )


def _splits(record: dict[str, Any]) -> str:
    if len(record["splits"]) < 2:
        return ""
    rows = [
        (
            split,
            _percent(found["isolated"]["devices"]),
            _percent(found["fl"]["model"]),
            _percent(found["mix2fld"]["model"]),
        )
        for split, found in record["splits"].items()
    ]
    table = markdown_table(SPLIT_HEADER, rows)
    return f"How much depends on that choice, over {record['split_seeds']} seeds:\n\n{table}"


def _percent(value: list[float]) -> str:
    return f"{100 * value[0]:.1f} ± {100 * value[1]:.1f} %"
