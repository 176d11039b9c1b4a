"""``docs/sensors.md``, made from the record of ``benchmarks.sensors`` alone."""

from pathlib import Path
from typing import Any

from mix2fld.advice.reveals import seen_of
from mix2fld.config.settings import Config
from mix2fld.protocols.table import PROTOCOLS
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table, paragraph
from mix2fld_lab.pages import render as filled
from mix2fld_lab.reproduction.conclusions import listed
from mix2fld_lab.trainings import training_words

PAGE = Path(__file__).parent.parent / "docs" / "sensors.md"
TEMPLATE = Path(__file__).parent / "templates" / "sensors.md.j2"
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
    return filled(
        TEMPLATE,
        record=record,
        figure=FIGURE.name,
        findings=_findings(record["rows"]),
        made_with=said_of(record),
        seeds=" ".join(str(seed) for seed in range(record["seeds"])),
        trainings=_trainings(record["rows"]),
        header=HEADER,
        rows=[_row(name, one) for name, one in record["rows"].items()],
        splits=_splits(record),
    )


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
