"""The page of the Ray fleet, from its record."""

from pathlib import Path
from typing import Any

from benchmarks.cluster_sizes import fit
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.pages import render as filled

PAGE = Path(__file__).parent.parent / "docs" / "cluster_scaling.md"
TITLES = {
    "paper-fl": "FL", "paper-mix2fld": "Mix2FLD", "many-fl": "FL", "many-fl8": "FL 8-bit", "many-mix2fld": "Mix2FLD",
}  # fmt: skip
TEMPLATE = Path(__file__).parent / "templates" / "cluster_scaling.md.j2"
PEERS = {"fl": "FL on the Ray fleet", "pfl": "pfl under torchrun", "flower": "Flower's simulation on Ray"}  # fmt: skip
NETWORK_BYTES_PER_S = 10e9 / 8
HOST_COSTS = {
    "round": (1e3, "ms a round"),
    "host": (1e3, "ms a host"),
    "device": (1e6, "µs a device"),
    "step": (1e6, "µs a step"),
}
DRIVER_COSTS = {
    "round": (1e3, "ms a round"),
    "host": (1e3, "ms a host"),
    "device": (1e6, "µs a device"),
    "byte": (1e9, "ns a byte"),
    "rounded": (1e6, "µs more for a device with 8 bits"),
}
NAMES = {"fl": "FL", "fl8": "FL 8-bit"}
UPLOAD_BYTES = {"FL": 50_176, "FL 8-bit": 12_544}
CASES = ((100, 100_000, 6400), (1000, 100_000, 6400), (1000, 1_000_000, 6400), (1000, 1_000_000, 20))  # fmt: skip
"""Cores, devices that take part in a round, local steps of each."""


def render(record: dict[str, Any]) -> str:
    """The text of the page."""
    rows, machine = record["rows"], record.get("machine", {})
    return filled(
        TEMPLATE,
        cpu=machine.get("cpu", "?"),
        cores=machine.get("cores", "?"),
        memory=machine.get("memory_gb", "?"),
        when=_when(record),
        made_with=said_of(record),
        overhead=_overhead(rows),
        many=_many(rows),
        peers=_peers(rows),
        states=_states(rows),
        model=_model(rows),
    )


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


def _peers(rows: dict[str, Any]) -> dict[str, Any] | None:
    """Every framework beside this fleet; None: not measured yet."""
    if "peers" not in rows:
        return None
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
    return {"limit_s": rows["peers"]["limit_s"], "heads": heads, "rows": table}


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


def _states(rows: dict[str, Any]) -> dict[str, Any] | None:
    """What driver and checkpoint keep of devices; None: not measured yet."""
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
        return None
    count = len(next(row for name, row in rows.items() if name.startswith("states-"))["rounds"])
    heads = (
        "", "device_states", "driver, peak GB", "driver, MB more in each round", f"written in round {count}, MB",
        "in round 2, MB", "folder, MB", "largest host, GB", "busy before",
    )  # fmt: skip
    return {"count": count, "heads": heads, "rows": table}


def _model(rows: dict[str, Any]) -> dict[str, Any] | None:
    """Costs fitted to rounds of several sizes, and what follows; None: not measured yet."""
    if "sizes" not in rows:
        return None
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
    return {
        "busy": _busy(rows["sizes"]),
        "heads": heads,
        "rows": table,
        "driver": _costs(found.driver, DRIVER_COSTS),
        "hosts": _costs(found.hosts, HOST_COSTS),
        "predicted": [row for case in CASES for row in _predict(found, *case)],
        "limits": _limits(found),
    }


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


def _limits(found: Any) -> dict[str, Any]:
    """What breaks first as cores are added, computed from the fit."""
    devices, steps, size = 1_000_000, 6400, UPLOAD_BYTES["FL"]
    one = _parts(found, 1, devices, steps, size)
    fixed = found.hosts["round"] + found.hosts["host"]
    even = (one["hosts"] - fixed) / max(one["driver"], one["network"])
    few = _parts(found, 1000, devices, steps, UPLOAD_BYTES["FL 8-bit"])
    parts = _parts(found, 1000, devices, steps, size)
    first = max(("driver", "network"), key=lambda name: parts[name])
    messages = 1000 * found.driver["host"] / parts["driver"]
    return {
        "first": first,
        "even": even,
        "messages_percent": 100 * messages,
        "gigabytes": devices * size / 1e9,
        "network_of_few_bits": few["network"] / parts["network"],
        "driver_of_few_bits": few["driver"] / parts["driver"],
    }
