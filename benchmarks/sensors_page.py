"""``docs/sensors.md``, made from the record of ``benchmarks.sensors`` alone."""

from pathlib import Path
from typing import Any

from mix2fld.advice.reveals import seen_of
from mix2fld.config.settings import Config
from mix2fld.protocols.table import PROTOCOLS
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import folded, markdown_table, paragraph
from mix2fld_lab.reproduction.conclusions import listed
from mix2fld_lab.trainings import training_words

PAGE = Path(__file__).parent.parent / "docs" / "sensors.md"
FIGURE = PAGE.parent / "images" / "sensors.png"
HEADER = (
    "protocol",
    "training",
    "reveals nothing beyond",
    "devices",
    "worst device",
    "server's model",
    "bits of an upload",
    "uploads delivered",
    "downloads delivered",
    "time on the link",
)
OWN = "/own"
"""Behind the name of a row that trains as its protocol recommends, not as all others."""
SPLIT_HEADER = ("the watch is worn", "isolated, devices", "FL, server", "Mix2FLD, server")


def render(record: dict[str, Any]) -> str:
    """The page."""
    settings, held = record["settings"], record["held"]
    seeds = " ".join(str(seed) for seed in range(record["seeds"]))
    return f"""# Real sensors: a person is a device

What federated learning gains on the data of small sensors, for those who have such devices: every protocol on
smartwatch recordings of ten people.

## Findings

{_findings(record["rows"])}

![Accuracy of the devices against the bits of an upload](images/{FIGURE.name})

Made by `make sensors` from `results/bench/sensors.json`; do not edit it. {said_of(record)}

## What was run

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

{folded("All protocols", markdown_table(HEADER, [_row(name, one) for name, one in record["rows"].items()]))}

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
    return (
        one["title"],
        "its own" if name.endswith(OWN) else "plain",
        seen_of(Config.of(protocol=name.removesuffix(OWN))) or "nothing",
        _percent(one["devices"]),
        _percent(one["worst"]),
        "–" if one["model"] is None else _percent(one["model"]),
        f"{one['bits']:,.0f}" if one["bits"] else "–",
        _share(one["delivered"]),
        _share(one["downloads"]),
        f"{one['seconds']:.2f} s",
    )


def _trainings(rows: dict[str, dict[str, Any]]) -> str:
    """What *plain* means, and what the trainings of protocols consist of."""
    parts = []
    for name, one in rows.items():
        if name.endswith(OWN):
            training = PROTOCOLS[name.removesuffix(OWN)].training
            parts.append(f"{one['title']}: {listed(training_words(training))}.")
    replayed = [one["title"] for name, one in rows.items() if _replays(name)]
    again = f" {listed(replayed)} replay seed samples in either training." if replayed else ""
    return (
        "Rows whose training is *plain* train alike: one learning rate, no logit adjustment, the "
        "trained model. Protocols that recommend something else have a second row, with *its own* "
        f"training. {' '.join(parts)}{again} Compare rows with the same training. In "
        "[the comparison](../results/FRONTIER.md#smartwatch-a-person-is-a-device) every family "
        "chooses its training among as many candidates."
    )


def _replays(name: str) -> bool:
    return not name.endswith(OWN) and PROTOCOLS[name].training.replay > 0


def _findings(rows: dict[str, dict[str, Any]]) -> str:
    """Who comes first with plain training and with any, and how far Mix2FLD is from FL."""
    plainly = {name: one for name, one in rows.items() if not name.endswith(OWN)}
    fl, seeds = rows["fl"], rows["mix2fld"]
    apart = 100 * (seeds["model"][0] - fl["model"][0])
    said = (
        f"With the same plain training for all: {_first(plainly)}",
        f"With any training: {_first(rows)}",
        f"The server's model of Mix2FLD is {apart:+.1f} points compared with that of FL, with "
        f"{seeds['bits'] / fl['bits']:.2f} times the bits.",
    )
    return "\n".join(paragraph(f"{number}. {one}") for number, one in enumerate(said, 1))


def _first(among: dict[str, dict[str, Any]]) -> str:
    """The most accurate on the devices, beside training alone, and at the server."""
    name, best = max(among.items(), key=lambda each: each[1]["devices"][0])
    gained = 100 * (best["devices"][0] - among["isolated"]["devices"][0])
    server = max((one for one in among.values() if one["model"]), key=lambda one: one["model"][0])
    own = " with its own" if name.endswith(OWN) else ""
    return (
        f"on the devices {best['title']}{own} is most accurate, {gained:+.1f} points compared with "
        f"training alone; at the server {server['title']}."
    )


def draw(record: dict[str, Any]) -> None:
    """The figure: devices' accuracy against the bits of an upload."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for name, one in record["rows"].items():
        own = name.endswith(OWN)
        if one["bits"]:
            face = PROTOCOLS[name.removesuffix(OWN)].colour
            mean, spread = (100 * value for value in one["devices"])
            axes.errorbar(one["bits"], mean, spread, fmt="s" if own else "o", color=face, ms=5)
            label = f"{one['title']}, own training" if own else one["title"]
            axes.annotate(
                label, (one["bits"], mean), (5, 3), textcoords="offset points", fontsize=7
            )
    alone = 100 * record["rows"]["isolated"]["devices"][0]
    axes.axhline(alone, color="grey", linestyle=":", linewidth=1)
    axes.annotate("isolated", (axes.get_xlim()[0], alone), (2, 3), textcoords="offset points",
                  fontsize=7)  # fmt: skip
    for marker, training in (("o", "plain training"), ("s", "its own training")):
        axes.plot([], [], marker, color="black", ms=5, label=training)
    axes.legend(fontsize=7, loc="lower center")
    axes.set_xscale("log")
    axes.set_xlabel("bits of an upload, mean over rounds")
    axes.set_ylabel("mean accuracy of the devices, %")
    axes.grid(alpha=0.3)
    figure.savefig(FIGURE, dpi=130)
    plt.close(figure)


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


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _percent(value: list[float]) -> str:
    return f"{100 * value[0]:.1f} ± {100 * value[1]:.1f} %"
