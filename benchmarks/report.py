"""The page ``docs/benchmarks.md``, made from the record alone: ``python -m benchmarks.report``."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import ordinary_page, other_page, usage
from benchmarks.passes import ratios, spread, values
from benchmarks.table import BY_NAME, CHECK_STEPS, CONTENDERS, Contender
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.pages import render as filled

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results" / "bench" / "bench.json"
PAGE = ROOT / "docs" / "benchmarks.md"
TEMPLATE = ROOT / "benchmarks" / "templates" / "benchmarks.md.j2"
Record = dict[str, Any]
Row = tuple[str, ...]

PAPER_STEPS = 6400
PARTS = ("total", "local", "conversion", "evaluation", "rest")


def main() -> None:
    """Write the page."""
    write_page()


def write_page() -> None:
    """Make the page from the record on disk."""
    PAGE.write_text(render(json.loads(RECORD.read_text())))


def render(record: Record) -> str:
    """The whole page."""
    return filled(
        TEMPLATE,
        made_with=said_of(record),
        findings=findings(record),
        summary=summary(record),
        left_out=left_out(record),
        checks=checks(record),
        rounds=rounds(record),
        growth=growth(record),
        other_models=other_page.section(),
        ordinary=ordinary_page.section(),
        targets=targets(record),
        machine=machine(record),
    )


def findings(record: Record) -> tuple[str, ...]:
    """How far the simulator is from the limit, and others from it."""

    def middle(slow: str, fast: str) -> str:
        return f"{statistics.median(ratios(record, slow, fast)):.2f}"

    slower = {
        one.title: statistics.median(found)
        for one in of_kind(record, "local")
        if one.framework and (found := ratios(record, one.name, "engine"))
    }
    nearest = min(slower, key=lambda title: slower[title])
    return (
        f"A local step takes {middle('engine', 'limit')} times as long as in a kernel written by "
        "hand for this network.",
        f"PyTorch at its best takes {middle('torch-best', 'engine')} times as long as the "
        "simulator.",
        f"Of other frameworks the nearest, {nearest}, takes {slower[nearest]:.1f} times as long.",
    )


def of_kind(record: Record, kind: str) -> list[Contender]:
    """Contenders of a kind that were measured."""
    there = {row["name"] for row in record["records"]}
    return [c for c in CONTENDERS if c.kind == kind and c.name in there]


def summary(record: Record) -> str:
    """The table of ratios."""
    head = ("", "µs per device-step", "× limit", "× mix2fld", "K", "warm-up, s")
    rows = []
    for contender in of_kind(record, "local"):
        name = contender.name
        steps = next(row["steps"] for row in record["records"] if row["name"] == name)
        warm_up = statistics.median(values(record, name, "warm_up_seconds").values())
        rows.append(
            (
                contender.title,
                spread(values(record, name).values()),
                spread(ratios(record, name, "limit"), 2),
                spread(ratios(record, name, "engine"), 2),
                f"{steps:,}",
                f"{warm_up:.1f}",
            )
        )
    note = (
        f"Median of {record['passes']} passes, smallest and largest in brackets. Where K is below "
        f"{PAPER_STEPS:,}, the local phase was cut short to save time; the figure is per step."
    )
    return markdown_table(head, rows) + "\n\n" + note


def left_out(record: Record) -> str:
    """The contenders that could not be measured."""
    lines = [
        f"- {BY_NAME[name].title}: `{reason}`" for name, reason in record["unavailable"].items()
    ]
    return "Could not run here:\n" + "\n".join(lines) if lines else ""


def checks(record: Record) -> str:
    """How far the weights of the contenders differ."""
    local = [c.name for c in of_kind(record, "local") if c.name in record["checks"]]
    largest = max((record["checks"][name] for name in local), default=0.0)
    text = (
        f"Same work: the mean weights of all contenders after {CHECK_STEPS} steps differ "
        f"from those of the package's `sgd_steps` by at most {largest:.0e}."
    )
    if found := record.get("limit_check"):
        text += (
            f" After {found['steps']:,} steps the limit's weights differ by {found['median']:.0e} "
            f"in the median device and by {found['largest']:.0e} in the one that differs most: "
            "a value within rounding of a kink of ReLU falls on the other side of it."
        )
    return text


def rounds(record: Record) -> str:
    """Seconds of a round of every protocol, part by part."""
    found = [row for row in record["records"] if row["name"] == "rounds"]
    if not found:
        return "Not measured."

    def row(protocol: str) -> Row:
        passes = [one["rounds"][protocol] for one in found]
        parts = [spread((one[part] for one in passes), 2) for part in PARTS]
        share = spread(map(evaluation_share, passes), 0)
        return (protocol, *parts, share)

    head = (
        "protocol",
        "round, s",
        "local phase",
        "conversion",
        "evaluation",
        "rest",
        "evaluation, %",
    )
    text = (
        f"Seconds of a whole round with K = {found[0]['steps']:,} and K_s = "
        f"{found[0]['server_steps']:,} over an ideal link, after a first round that compiles. "
        "Evaluation is the accuracy of all devices, of the points of the learning curve and of "
        "the server on the 10,000 test samples.\n\n"
    )
    return text + markdown_table(head, [row(protocol) for protocol in found[0]["rounds"]])


def growth(record: Record) -> str:
    """Cost per device-step and memory with more devices."""
    rows = [
        (
            c.title,
            spread(values(record, c.name).values()),
            spread(ratios(record, c.name, "engine"), 2),
        )
        for c in of_kind(record, "growth")
    ]
    text = (
        markdown_table(("", "µs per device-step", "× 10 devices"), rows)
        if rows
        else "Not measured."
    )
    if peak := values(record, "memory", "peak_gb"):
        text += (
            "\n\nPeak memory of a whole Mix2FLD round with 1,000 devices of 500 samples: "
            f"{spread(peak.values(), 2)} GB."
        )
    return text


def targets(record: Record) -> str:
    """Targets and measured medians."""
    rows = []

    def add(aim: str, figures: list[float], met: Callable[[float], bool], unit: str = "×") -> None:
        if figures:
            middle = statistics.median(figures)
            rows.append((aim, f"{middle:.2f} {unit}", "met" if met(middle) else "**not met**"))

    add("at most 2 × the limit", ratios(record, "engine", "limit"), lambda x: x <= 2)
    add(
        "PyTorch at its best: at least 3 × slower",
        ratios(record, "torch-best", "engine"),
        lambda x: x >= 3,
    )
    for contender in of_kind(record, "local"):
        if contender.framework:
            aim = f"{contender.title}: at least 15 × slower"
            add(aim, ratios(record, contender.name, "engine"), lambda x: x >= 15)
    add(
        "conversion step at most the cost of a local step",
        conversion_ratios(record),
        lambda x: x <= 1,
    )
    for contender in of_kind(record, "growth"):
        aim = f"{contender.title}: within 15 % of 10 devices"
        add(aim, ratios(record, contender.name, "engine"), lambda x: abs(x - 1) <= 0.15)
    peak = list(values(record, "memory", "peak_gb").values())
    add("1,000 devices in under 2.5 GB", peak, lambda x: x < 2.5, "GB")
    for aim, worst, met, unit in (*ordinary_page.targets(), *other_page.targets()):
        rows.append((aim, f"{worst:.2f} {unit}", "met" if met else "**not met**"))
    rows.sort(key=lambda row: row[-1] == "met")  # what is not met stands first
    return markdown_table(("target", "median", ""), rows)


def evaluation_share(parts: dict[str, float]) -> float:
    """Per cent of a round that evaluation takes."""
    return 100 * parts["evaluation"] / parts["total"]


def conversion_ratios(record: Record) -> list[float]:
    """A conversion step over a local step, both on one core; the slowest protocol of a pass."""
    local = values(record, "engine")
    return [
        max(parts["conversion"] for parts in row["rounds"].values())
        / (row["server_steps"] * local[row["pass"]] * 1e-6)
        for row in record["records"]
        if row["name"] == "rounds" and row["pass"] in local
    ]


def machine(record: Record) -> str:
    """The machine."""
    found = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    loads = [row["load_before"] for row in record["records"]]
    return (
        f"{found['cpu']}, {found['cores']} cores ({', '.join(found['flags'])}), "
        f"{found['memory_gb']} GB, {found['system']}, {found['compiler']}; {versions}. "
        f"Load average before a measurement (the one before it included): {spread(loads, 1)}."
    )


if __name__ == "__main__":
    usage.arguments(__doc__)
    main()
