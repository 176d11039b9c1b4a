"""The page of the Ray fleet, from its record."""

from pathlib import Path
from typing import Any

from benchmarks.cluster_sizes import fit
from mix2fld_lab.markdown import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "cluster_scaling.md"
TITLES = {
    "paper-fl": "FL", "paper-mix2fld": "Mix2FLD", "many-fl": "FL", "many-fl8": "FL 8-bit", "many-mix2fld": "Mix2FLD",
}  # fmt: skip
PEERS = {"fl": "FL on the Ray fleet", "pfl": "pfl under torchrun", "flower": "Flower's simulation on Ray"}  # fmt: skip
NETWORK_BYTES_PER_S = 10e9 / 8
NAMES = {"fl": "FL", "fl8": "FL 8-bit"}
UPLOAD_BYTES = {"FL": 50_176, "FL 8-bit": 12_544}
CASES = ((100, 100_000, 6400), (1000, 100_000, 6400), (1000, 1_000_000, 6400), (1000, 1_000_000, 20))  # fmt: skip
"""Cores, devices that take part in a round, local steps of each."""


def render(record: dict[str, Any]) -> str:
    """The text of the page."""
    rows, machine = record["rows"], record.get("machine", {})
    cores, memory = machine.get("cores", "?"), machine.get("memory_gb", "?")
    return f"""# The Ray fleet, measured

Made by `make bench-cluster` from `results/bench/cluster.json`; do not edit it. Machine: {machine.get("cpu", "?")},
{cores} cores, {memory} GB, driver and hosts on the same cores. "Busy before" is the share of all cores that other work used
in the three seconds before a measurement. {_when(record)}

## Overhead on the paper's work

Ten devices, 6,400 local steps each, all accuracies measured. Both fleets run the same rounds in turn, in one process;
the first round, which compiles, is not counted; medians, smallest and largest in brackets. Target: at most 10 %.

{_overhead(rows)}

## 100,000 devices, 1,000 taking part

Twenty local steps each, ideal link, 100 devices measured. Bytes are those between driver and hosts in a round, of
which the uploads are the largest part. Memory is the peak of a process, in three rounds of the Ray fleet alone.

{_many(rows)}

## Other frameworks on that round

{_peers(rows)}

## What the driver keeps

{_states(rows)}

## A model of many cores

{_model(rows)}
"""


def _when(record: dict[str, Any]) -> str:
    if not record["again"]:
        return "All rows were measured one after the other by that one command."
    return f"Measured again since, by `python -m benchmarks.cluster --only`: {', '.join(record['again'])}."


def _timed(row: dict[str, Any], name: str) -> str:
    least, most = row[f"{name}_range"]
    return f"{row[name]:.3f} ({least:.3f}–{most:.3f})"


def _busy(row: dict[str, Any]) -> str:
    return f"{row['busy_before']} %"


def _overhead(rows: dict[str, Any]) -> str:
    found = [(TITLES[n], rows[n]) for n in ("paper-fl", "paper-mix2fld") if n in rows]
    table = [
        (t, _timed(r, "local"), _timed(r, "ray"), f"{100 * (r['ray'] / r['local'] - 1):+.1f} %", _busy(r))
        for t, r in found
    ]  # fmt: skip
    heads = ("", "this process, s a round", "Ray, s a round", "overhead", "busy before")
    return markdown_table(heads, table)


def _many(rows: dict[str, Any]) -> str:
    names = [
        name
        for name in ("fl", "fl8", "mix2fld")
        if {f"many-{name}", f"memory-{name}"} <= rows.keys()
    ]
    found = [(TITLES[f"many-{n}"], rows[f"many-{n}"], rows[f"memory-{n}"]) for n in names]
    table = [
        (t, _timed(r, "local"), _timed(r, "ray"), f"{m['driver_gb']:.2f}", f"{m['host_gb']:.2f}",
         f"{r['bytes'] / 1e6:.1f}", _busy(r))
        for t, r, m in found
    ]  # fmt: skip
    heads = (
        "", "this process, s a round", "Ray, s a round", "driver, GB", "largest host, GB",
        "MB a round", "busy before",
    )  # fmt: skip
    return markdown_table(heads, table)


def _peers(rows: dict[str, Any]) -> str:
    if "peers" not in rows:
        return "Not measured yet."
    turns = rows["peers"]["turns"]
    table = []
    for place, turn in enumerate(turns):
        beside = [t for t in (*turns[:place][-1:], *turns[place + 1 : place + 2]) if t["name"] == "fl"]  # fmt: skip
        own = [min(t["rounds"]) for t in beside if t["rounds"]]
        spent = _spent(turn)
        times = "" if turn["name"] == "fl" or not own or spent is None else _times(spent, sum(own) / len(own), turn)  # fmt: skip
        ready = "" if turn["ready_s"] is None else f"{turn['ready_s']:.0f}"
        table.append(
            (PEERS[turn["name"]], f"{turn['participants']:,}", ready, _round_text(turn), times, _busy(turn))
        )  # fmt: skip
    heads = ("in this order", "taking part", "s until the first round", "s a round", "times FL here", "busy before")  # fmt: skip
    return f"""Federated averaging of the same network over 100,000 devices with 20 local steps, without evaluation of devices, on
two cores; each in its own environment, Flower with the Ray that it asks for. Every row is a process of its own, bounded
to {rows["peers"]["limit_s"]:.0f} s; the fastest round that was finished counts, and a framework is compared with the rows of this fleet just before
and after it. Where no round was finished, what is given is a lower bound,
of a first round, in which Flower also starts its workers; of the other rows the first round is not counted.

{markdown_table(heads, table)}"""


def _spent(turn: dict[str, Any]) -> float | None:
    """Seconds of its best round; of none, how long the first had taken when it was stopped."""
    if turn["rounds"]:
        return float(min(turn["rounds"]))
    if turn["stopped_after_s"] is None:
        return None
    return float(turn["stopped_after_s"] - (turn["ready_s"] or turn["stopped_after_s"]))


def _round_text(turn: dict[str, Any]) -> str:
    if turn["rounds"]:
        return f"{min(turn['rounds']):.2f}" + (" (then stopped)" if turn["stopped_after_s"] else "")
    if turn["failed"]:
        return "failed"
    if turn["ready_s"] is None:
        return f"not begun after {turn['stopped_after_s']:.0f} s, stopped"
    return f"≥ {_spent(turn):.0f}, stopped"


def _times(spent: float, own: float, turn: dict[str, Any]) -> str:
    if not turn["rounds"] and turn["ready_s"] is None:
        return ""
    return f"{'' if turn['rounds'] else '≥ '}{spent / own:.0f}"


def _states(rows: dict[str, Any]) -> str:
    names = {"fd": "FD (weights)", "stc": "STC (residuals)"}
    table = []
    for protocol, title in names.items():
        for where in ("memory", "disk"):
            row = rows.get(f"states-{protocol}-{where}")
            if row is None:
                continue
            rounds = row["rounds"]
            grown = (rounds[-1]["driver_bytes"] - rounds[1]["driver_bytes"]) / (len(rounds) - 2)
            last = rounds[-1]
            table.append((
                title, where, f"{row['driver_peak_bytes'] / 1e9:.2f}", f"{grown / 1e6:+.0f}", f"{last['written_bytes'] / 1e6:.0f}",
                f"{rounds[1]['written_bytes'] / 1e6:.0f}", f"{last['folder_bytes'] / 1e6:.0f}", f"{row['host_bytes'] / 1e9:.2f}",
                _busy(row),
            ))  # fmt: skip
    if not table:
        return "Not measured yet."
    count = len(next(row for name, row in rows.items() if name.startswith("states-"))["rounds"])
    heads = (
        "", "device_states", "driver, peak GB", "driver, MB more in each round", f"written in round {count}, MB",
        "in round 2, MB", "folder, MB", "largest host, GB", "busy before",
    )  # fmt: skip
    return f"""{count} rounds of protocols whose devices keep something of their own, 100,000 devices of which 1,000 take part, on two hosts,
with a run folder (`--out`). In memory, driver and checkpoint grow with all devices that have ever taken part; with
`--device-states disk` a round writes what it changed ([decision 32](decisions/32-device-states.md)).

{markdown_table(heads, table)}"""


def _model(rows: dict[str, Any]) -> str:
    if "sizes" not in rows:
        return "Not measured yet."
    rounds = rows["sizes"]["rounds"]
    found = fit(rounds)
    of_hosts = iter(found.hosts_s)
    table = [
        (f"{NAMES[r['protocol']]}, {r['model']}", f"{r['hosts']}", f"{r['participants']:,}", f"{r['steps']}",
         f"{r['bytes'] / 1e6:.1f}", *_beside(r["driver_s"], driver),
         *(_beside(r["hosts_s"], next(of_hosts)) if r["model"] == "paper-cnn" else ("", "", "")))
        for r, driver in zip(rounds, found.driver_s, strict=True)
    ]  # fmt: skip
    heads = (
        "", "hosts", "taking part", "steps", "MB", "driver, s", "fitted", "error", "hosts, s", "fitted", "error",
    )  # fmt: skip
    predicted = [_predict(found, *case) for case in CASES]
    return f"""Rounds of FL and FL 8-bit of several sizes ({_busy(rows["sizes"])} of the cores busy before). Of each the seconds of
processors, which other work on the machine changes less than the time on the wall: of the driver with Ray's own processes, and of all hosts together.
Two sums are fitted to them, each cost at least 0, by least squares of relative errors.

{markdown_table(heads, table)}

- Driver: {_costs(found.driver, {"round": (1e3, "ms a round"), "host": (1e3, "ms a host"), "device": (1e6, "µs a device"), "byte": (1e9, "ns a byte"), "rounded": (1e6, "µs more for a device with 8 bits")})}.
- Hosts: {_costs(found.hosts, {"round": (1e3, "ms a round"), "host": (1e3, "ms a host"), "device": (1e6, "µs a device"), "step": (1e6, "µs a step")})}.

With these costs, and 10 Gbit/s into the driver's machine, a round of FL (50,176 bytes an upload) and of FL 8-bit (12,544 bytes):

{markdown_table(("", "cores", "taking part", "steps", "hosts, s", "network, s", "driver, s", "first limit"), [row for case in predicted for row in case])}

{_conclusion(found)}"""


def _beside(measured: float, fitted: float) -> tuple[str, str, str]:
    return f"{measured:.3f}", f"{fitted:.3f}", f"{100 * (fitted / measured - 1):+.0f} %"


def _costs(costs: dict[str, float], units: dict[str, tuple[float, str]]) -> str:
    return ", ".join(f"{costs[name] * factor:.3g} {unit}" for name, (factor, unit) in units.items())


def _parts(found: Any, cores: int, devices: int, steps: int, size: int) -> dict[str, float]:
    """Seconds of a round by what takes them, one host to a core."""
    driver, hosts = found.driver, found.hosts
    return {
        "hosts": hosts["round"]
        + hosts["host"]
        + devices / cores * (hosts["device"] + steps * hosts["step"]),
        "network": devices * size / NETWORK_BYTES_PER_S,
        "driver": driver["round"]
        + cores * driver["host"]
        + devices * (driver["device"] + size * driver["byte"])
        + (devices * driver["rounded"] if size == UPLOAD_BYTES["FL 8-bit"] else 0.0),
    }


def _predict(found: Any, cores: int, devices: int, steps: int) -> list[tuple[str, ...]]:
    table = []
    for name, size in UPLOAD_BYTES.items():
        parts = _parts(found, cores, devices, steps, size)
        seconds = [f"{value:.3g}" for value in parts.values()]
        limit = max(parts, key=parts.__getitem__)
        table.append((name, f"{cores:,}", f"{devices:,}", f"{steps:,}", *seconds, limit))
    return table


def _conclusion(found: Any) -> str:
    """What breaks first as cores are added, computed from the fit."""
    devices, steps, size = 1_000_000, 6400, UPLOAD_BYTES["FL"]
    one = _parts(found, 1, devices, steps, size)
    fixed = found.hosts["round"] + found.hosts["host"]
    even = (one["hosts"] - fixed) / max(one["driver"], one["network"])
    few = _parts(found, 1000, devices, steps, UPLOAD_BYTES["FL 8-bit"])
    parts = _parts(found, 1000, devices, steps, size)
    first = max(("driver", "network"), key=lambda name: parts[name])
    messages = 1000 * found.driver["host"] / parts["driver"]
    return f"""What breaks first is the {first}, through which all uploads go: with a million devices of 6,400 steps and full weights it takes
longer than the hosts from {even:,.0f} cores on. Messages to 1,000 hosts are {100 * messages:.1f} % of the driver's time in that round. The driver
holds the uploads of a round, {devices * size / 1e9:.0f} GB of them. Eight bits a weight need {few["network"] / parts["network"]:.2f} times the network and
{few["driver"] / parts["driver"]:.1f} times the driver, which turns them back into full weights, one upload after the other. What would move the limit: decoding on
several cores, and a mean computed in a tree of hosts; this fleet does neither. The model leaves out stragglers, several
switches between machines, and memory bandwidth that cores share."""
