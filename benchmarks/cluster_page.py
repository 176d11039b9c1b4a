"""The page of the Ray fleet, from its record."""

from pathlib import Path
from typing import Any

from mix2fld.report.markdown import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "cluster_scaling.md"
TITLES = {
    "paper-fl": "FL", "paper-mix2fld": "Mix2FLD", "many-fl": "FL", "many-fl8": "FL 8-bit", "many-mix2fld": "Mix2FLD",
}  # fmt: skip
DEVICES, CORES = 1_000_000, (100, 1_000)
NETWORK_BYTES_PER_S = 10e9 / 8
UPLOAD_BYTES = {"FL": 50_176, "FL 8-bit": 12_544}
STEP_S, STEPS = 20e-6, 6400


def render(record: dict[str, Any]) -> str:
    """The text of the page."""
    rows, machine = record["rows"], record.get("machine", {})
    cores, memory = machine.get("cores", "?"), machine.get("memory_gb", "?")
    return f"""# The Ray fleet, measured

Made by `make bench-cluster` from `results/bench/cluster.json`; do not edit it. Machine: {machine.get("cpu", "?")},
{cores} cores, {memory} GB, driver and two hosts on the same cores. Both fleets run the same rounds in turn, in one process; the
first round, which compiles, is not counted; medians, smallest and largest in brackets.

## Overhead on the paper's work

Ten devices, 6,400 local steps each, all accuracies measured. Target: at most 10 %.

{_overhead(rows)}

## 100,000 devices, 1,000 taking part

Twenty local steps each, ideal link, 100 devices measured. Bytes are those between driver and hosts in a round, of
which the uploads are the largest part. The memory of the driver includes the fleet of this process, which runs in it
for comparison.

{_many(rows)}
{_peers(rows)}
## A million devices on many cores, estimated

{_model(rows)}
"""


def _timed(row: dict[str, Any], name: str) -> str:
    least, most = row[f"{name}_range"]
    return f"{row[name]:.3f} ({least:.3f}–{most:.3f})"


def _overhead(rows: dict[str, Any]) -> str:
    found = [(TITLES[n], rows[n]) for n in ("paper-fl", "paper-mix2fld") if n in rows]
    table = [
        (t, _timed(r, "local"), _timed(r, "ray"), f"{100 * (r['ray'] / r['local'] - 1):+.1f} %", str(r["load_before"]))
        for t, r in found
    ]  # fmt: skip
    heads = ("", "this process, s a round", "Ray, s a round", "overhead", "load before")
    return markdown_table(heads, table)


def _many(rows: dict[str, Any]) -> str:
    found = [(TITLES[n], rows[n]) for n in ("many-fl", "many-fl8", "many-mix2fld") if n in rows]
    table = [
        (t, _timed(r, "local"), _timed(r, "ray"), f"{r['driver_gb']:.2f}", f"{r['host_gb']:.2f}", f"{r['bytes'] / 1e6:.1f}")
        for t, r in found
    ]  # fmt: skip
    heads = (
        "",
        "this process, s a round",
        "Ray, s a round",
        "driver, GB",
        "largest host, GB",
        "MB a round",
    )
    return markdown_table(heads, table)


def _peers(rows: dict[str, Any]) -> str:
    if "flower" not in rows or "many-fl" not in rows:
        return "\nFlower's simulation and pfl were not measured on this machine on these rounds.\n"
    times = rows["flower"]["seconds"] / rows["many-fl"]["ray"]
    return (
        f"\nFlower's simulation on Ray needs {rows['flower']['seconds']:.1f} s for the same round of FL without "
        f"evaluation: {times:.0f} times as long. pfl was not measured on this machine on this round.\n"
    )


def _model(rows: dict[str, Any]) -> str:
    if "parts" not in rows:
        return "Not measured yet."
    message, speed = rows["parts"]["message_s"], rows["parts"]["bytes_per_s"]
    share = (UPLOAD_BYTES["FL"] / speed) / (STEPS * STEP_S / CORES[-1])
    table = []
    for name, size in UPLOAD_BYTES.items():
        for cores in CORES:
            compute = DEVICES * STEPS * STEP_S / cores
            network = DEVICES * size / NETWORK_BYTES_PER_S
            driver = DEVICES * size / speed
            table.append(
                (
                    name,
                    f"{cores:,}",
                    f"{compute:.0f}",
                    f"{3 * cores * message:.2f}",
                    f"{network:.1f}",
                    f"{driver:.1f}",
                )
            )
    heads = (
        "",
        "cores",
        "local steps, s",
        "messages, s",
        "uploads over 10 Gbit/s, s",
        "uploads through the driver, s",
    )
    return f"""Measured here: {1e6 * message:.0f} µs a message (three to a host in a round), {speed / 1e9:.2f} GB/s through Ray; [before](scaling.md): 20 µs of a core for
a step. All million devices take part with 6,400 steps each; seconds of a round:

{markdown_table(heads, table)}

What breaks first: the one driver that all uploads go through. With 1,000 cores it needs {share:.1f} times as long to take in
full weights as the hosts need to compute them, and {DEVICES * UPLOAD_BYTES["FL"] / 1e9:.0f} GB of memory; payloads in few bits move that
limit by their ratio, and a mean can be computed in a tree, which this fleet does not do. Then the network; messages count last."""
