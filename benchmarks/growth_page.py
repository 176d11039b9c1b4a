"""``docs/scaling.md`` and its picture, made from the record of ``benchmarks.growth`` alone."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter

from mix2fld_lab.made_with import said_of
from mix2fld_lab.pages import render as filled

mpl.use("Agg")

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "scaling.md"
TEMPLATE = ROOT / "benchmarks" / "templates" / "scaling.md.j2"
PICTURE = ROOT / "docs" / "images" / "growth.png"
TITLES = {
    "devices": "devices",
    "samples": "samples of each device",
    "weights": "weights of the model",
    "cores": "cores",
}
HEADER = ("axis", "from", "to", "core time per device-step in µs", "peak memory in GB")
MILLION = 1_000_000
STEPS = 6400


def write_page(record: dict[str, Any]) -> None:
    """Draw the picture and write the page."""
    draw(record["points"])
    PAGE.write_text(render(record))


def draw(points: dict[str, list[dict[str, float]]]) -> None:
    """Time above, memory below, one column for each axis."""
    figure, axes = plt.subplots(2, 4, figsize=(11, 5), sharex="col", layout="constrained")
    for column, (name, title) in enumerate(TITLES.items()):
        values = [point["value"] for point in points[name]]
        time, memory = axes[0][column], axes[1][column]
        middle = np.array([point["us_per_step"] for point in points[name]])
        low = middle - [point["least"] for point in points[name]]
        high = [point["most"] for point in points[name]] - middle
        time.errorbar(values, middle, yerr=[low, high], marker="o", color="#0072b2", capsize=3)
        memory.plot(values, [p["peak_gb"] for p in points[name]], marker="s", color="#d55e00")
        memory.set_xlabel(title)
        for axis in (time, memory):
            axis.set_xscale("log", base=2 if name == "cores" else 10)
            axis.set_yscale("log" if name == "weights" else "linear")
            axis.xaxis.set_major_formatter(FuncFormatter(_short))
            axis.yaxis.set_major_formatter(FuncFormatter(_short))
            axis.minorticks_off()
            if name != "weights":
                axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
            axis.grid(alpha=0.3)
        if name == "cores":
            memory.set_xticks(values)
        if name == "weights":
            memory.set_yticks([0.5, 1, 2, 4])
    axes[0][0].set_ylabel("core time per\ndevice-step in µs")
    axes[1][0].set_ylabel("peak memory in GB")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def _short(value: float, _place: int | None = None) -> str:
    """A tick as people say it: 300, 10 k, 1 M."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def render(record: dict[str, Any]) -> str:
    """The page, with every number taken or computed from the record."""
    points = record["points"]
    return filled(
        TEMPLATE,
        machine=record["machine"],
        made_with=said_of(record),
        header=HEADER,
        rows=[_row(name, points[name]) for name in TITLES],
        flatness=_flatness(points["devices"]),
        megabytes=_memory_per_device(points["devices"]),
        copies=_copies(points["devices"]),
        change=_change(points["samples"]),
        slope=_slope(points["weights"]),
        cores=_cores(points["cores"]),
        steps=STEPS,
        million=_million(points),
    )


def _row(name: str, points: list[dict[str, float]]) -> tuple[str, ...]:
    first, last = points[0], points[-1]
    return (
        TITLES[name],
        f"{first['value']:,.0f}",
        f"{last['value']:,.0f}",
        f"{first['us_per_step']:.1f} → {last['us_per_step']:.1f}",
        f"{first['peak_gb']:.2f} → {last['peak_gb']:.2f}",
    )


def _flatness(points: list[dict[str, float]]) -> str:
    times = [point["us_per_step"] for point in points]
    apart = max(times) / min(times) - 1
    return (
        f"From {points[0]['value']:,.0f} to {points[-1]['value']:,.0f} devices the cost of a "
        f"device-step stays within {100 * apart:.1f} %."
    )


def _change(points: list[dict[str, float]]) -> str:
    """How the time of a step changes from the first to the last point."""
    apart = 100 * (points[-1]["us_per_step"] / points[0]["us_per_step"] - 1)
    return f"{apart:+.1f} % with {points[-1]['value'] / points[0]['value']:,.0f} times the samples"


def _memory_per_device(points: list[dict[str, float]]) -> float:
    devices = [point["value"] for point in points]
    return float(np.polyfit(devices, [point["peak_gb"] * 1e3 for point in points], 1)[0])


def _copies(points: list[dict[str, float]]) -> float:
    """Memory of a device over the size of its weights."""
    last = points[-1]
    return _memory_per_device(points) * last["value"] / last["weights_mb"]


def _slope(points: list[dict[str, float]]) -> float:
    values = np.log([point["value"] for point in points])
    return float(np.polyfit(values, np.log([point["us_per_step"] for point in points]), 1)[0])


def _cores(points: list[dict[str, float]]) -> str:
    one, all_of_them = points[0], points[-1]
    faster = one["seconds_of_a_round"] / all_of_them["seconds_of_a_round"]
    return (
        f"{all_of_them['value']:.0f} cores finish a local phase {faster:.2f} times as fast as one: "
        "devices are independent until they upload."
    )


def _million(points: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """What a million devices would need, by the cost of a step here."""
    step = points["devices"][-1]["us_per_step"] * 1e-6
    training = MILLION * STEPS * step / 3600
    testing = MILLION * 10_000 * points["devices"][-1]["us_per_test_image"] * 1e-6 / 3600
    weights_gb = MILLION * 12_544 * 4 / 1e9
    outputs_gb = MILLION * 400 / 1e9
    seeds_gb = MILLION * 50 * 785 / 1e9
    unmixed_gb = MILLION * 100 * 784 * 4 / 1e9
    own_gb = MILLION * 500 * 784 / 1e9
    slot_bits = 2 * 10e6 / MILLION * 2 * 1e-3
    rows = (
        ("local phases", f"{training:,.0f} core-hours", f"{training * 3.6:,.0f} s"),
        ("accuracy of every device on 10,000 images", f"{testing:,.0f} core-hours", f"{testing * 3.6:,.0f} s"),
        ("weights of all devices", f"{weights_gb:,.0f} GB", f"{weights_gb:,.0f} MB a core"),
        ("samples, if each device has its own", f"{own_gb:,.0f} GB", f"{own_gb:,.0f} MB a core"),
        ("FL uploads to one server", f"{weights_gb:,.0f} GB", f"{weights_gb * 0.8:,.0f} s over 10 Gbit/s"),
        ("Mix2FLD outputs to one server", f"{outputs_gb:.1f} GB", f"{outputs_gb * 0.8:.1f} s over 10 Gbit/s"),
        ("Mix2FLD seeds, once", f"{seeds_gb:,.0f} GB", f"{seeds_gb * 0.8:,.0f} s over 10 Gbit/s"),
        ("inverse-Mixup samples at the server", f"{unmixed_gb:,.0f} GB", "too large for one machine"),
    )  # fmt: skip
    return {
        "rows": rows,
        "slot_bits": slot_bits,
        "uplink_seconds": weights_gb * 0.8,
        "times_smaller": weights_gb / outputs_gb,
        "testing_percent": 100 * testing / training,
    }
