"""``docs/many_devices.md``, made from the record of ``benchmarks.many`` alone."""

from pathlib import Path
from typing import Any

from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "many_devices.md"
HEADER = ("", "devices", "taking part", "round, s", "local steps, %", "peak memory, GB")
GOALS = ("target", "measured", "")
SHARES = ("fl", "mix2fld", "murmur-200", "murmur-1400")
"""Rows that are to spend most of a round in steps."""


def render(record: dict[str, Any]) -> str:
    """The page; rows that were not measured are left out."""
    rows, steps = record["rows"], record["steps"]
    table = markdown_table(HEADER, [_row(one) for one in rows.values()])
    machine = record["machine"]
    return f"""# Many devices, few at a time

Made by `make bench-many` from `results/bench/many.json`; do not edit it. Machine: {machine["cpu"]},
{machine["cores"]} cores, {machine["memory_gb"]} GB. {said_of(record)} In a round, each device that takes part
trains the paper's network for {steps} local steps, over an ideal link. The table shows the seconds of a round without
evaluation (median, smallest and largest), the share of them spent in local steps, and the peak memory of the process.
The frameworks run the same round of federated averaging, without evaluation. The load of the machine before a
measurement was {_load(rows)}: on a busy machine everything takes longer, above all local steps, which use all cores.

{table}

{markdown_table(GOALS, _goals(rows))}

{_states(rows)}
"""


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    share = f"{100 * one['share']:.0f}" if "share" in one else "–"
    peak = f"{one['peak_gb']:.2f}" if "peak_gb" in one else "–"
    seconds = f"{one['seconds']:.3f}"
    if one["seconds_least"] < one["seconds_most"]:
        seconds += f" ({one['seconds_least']:.3f}–{one['seconds_most']:.3f})"
    return one["title"], f"{one['devices']:,}", f"{one['participants']:,}", seconds, share, peak


def _goals(rows: dict[str, dict[str, Any]]) -> list[tuple[str, str, str]]:
    """What is to be reached, and whether it is."""
    goals: list[tuple[str, str, str]] = []

    def goal(title: str, value: float, text: str, *, met: bool) -> None:
        goals.append((title, text.format(value), "met" if met else "**not met**"))

    for name in SHARES:
        if name in rows:
            share, title = rows[name]["share"], rows[name]["title"]
            goal(f"{title}: local steps at least 80 % of a round", 100 * share, "{:.0f} %",
                 met=share >= 0.8)  # fmt: skip
    for name, most in (("fl", 2.5), ("mix2fld", 2.5), ("fl-100k", 4), ("mix2fld-100k", 4)):
        if name in rows:
            one, peak = rows[name], rows[name]["peak_gb"]
            title = f"{one['title']}, {one['devices']:,} devices: below {most} GB"
            goal(title, peak, "{:.2f} GB", met=peak < most)
    for name in ("flower", "pfl"):
        if name in rows and "fl" in rows:
            times = rows[name]["seconds"] / rows["fl"]["seconds"]
            goal(f"{name}: at least 10 × slower than FL here", times, "{:.0f} ×", met=times >= 10)
    return goals


def _states(rows: dict[str, dict[str, Any]]) -> str:
    """What FD keeps of each device."""
    if not {"fd-100k", "fd-100k-disk"} <= set(rows):
        return ""
    memory, disk = rows["fd-100k"], rows["fd-100k-disk"]
    whole = memory["devices"] * memory["state_bytes"] / 1e9
    return (
        f"FD keeps the weights of every device that took part, {memory['state_bytes'] / 1e3:.0f} kB each: "
        f"{whole:.1f} GB once all\n{memory['devices']:,} have taken part. With `device_states = disk` they are in files, "
        f"written when they change and\nmapped into memory while they are read: "
        f"{disk['peak_gb']:.2f} GB after {1 + disk['rounds']} rounds, against {memory['peak_gb']:.2f} GB, in "
        f"{disk['seconds'] / memory['seconds']:.2f} times the\ntime."
    )


def _load(rows: dict[str, dict[str, Any]]) -> str:
    loads = [one["load_before"] for one in rows.values()]
    return f"{min(loads):.1f} to {max(loads):.1f}"
