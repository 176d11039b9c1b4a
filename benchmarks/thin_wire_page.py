"""The page of MQTT on low-rate links, from its record."""

from pathlib import Path
from statistics import median
from typing import Any

from mix2fld_lab.made_with import said_of
from mix2fld_lab.pages import render as filled
from mix2fld_lab.testbed import burst_bytes

TEMPLATE = Path(__file__).parent / "templates" / "thin_wire.md.j2"
NARROW_BIT_S = 60e3
FD_100_BYTES = 100 * 100 * 4
PROCESSES_OF_A_NODE = ("flower-supernode", "flower-superexec", "flwr-clientapp")
TITLES = {"fd": "FD", "fd-100": "FD, 100 labels", "murmur": "Murmur", "fl": "FL"}


def render(found: dict[str, Any]) -> str:
    """The whole page."""
    messages, many = found["messages"], found["many"]
    idle = (messages["idle"]["up"] + messages["idle"]["down"]) / messages["idle_s"]
    connection = messages["connection"]
    total = connection["up"] + connection["down"]
    memory = max(run["device_mb"] for run in _runs(found["fast"]).values())
    start = found["start"]
    starts = ", ".join(f"{seconds:.1f}" for seconds in start["s"])
    spent = ", ".join(f"{seconds:.1f}" for seconds in start["processor_s"])
    flower = found["flower"]
    return filled(
        TEMPLATE,
        messages=messages,
        made_with=said_of(*(found[part] for part in found if part != "relay")),
        connection=connection,
        total=total,
        idle=idle,
        uploads=_uploads(messages["uploads"]),
        upload=flower["fd"]["transfers"]["upload"],
        flower_idle=flower["idle_bytes_s"]["up"] + flower["idle_bytes_s"]["down"],
        flower_memory=sum(flower["memory_mb"].get(name, 0) for name in PROCESSES_OF_A_NODE),
        loads={kind: _loads(found[kind]) for kind in ("fast", "narrow", "flower")},
        rounds=_rounds(found),
        burst=burst_bytes(NARROW_BIT_S),
        long_message=FD_100_BYTES,
        flower_rounds=_flower_rounds(flower),
        memory=memory,
        start=start,
        starts=starts,
        spent=spent,
        many=many,
        many_rows=_many(many),
        **_relay(found["relay"]),
    )


def _relay(relay: dict[str, Any]) -> dict[str, Any]:
    """What decoding takes, by the number of uploads."""
    every = [own for both in relay["uploads"].values() for own in both.values()]
    rows = [
        f"| {count} | {both['kernel']['bytes']:,} | "
        + " | ".join(
            f"{1000 * own['s']:.1f} | {(own['peak_kb'] - own['before_kb']) / 1024:.1f}"
            for own in (both["kernel"], both["numpy"])
        )
        + " |"
        for count, both in relay["uploads"].items()
    ]
    return {
        "relay": relay,
        "relay_rows": "\n".join(rows),
        "relay_made_with": said_of(relay),
        "process_mb": max(own["before_kb"] for own in every) / 1024,
    }


def _uploads(uploads: dict[str, Any]) -> str:
    rows = []
    for size, moved in uploads.items():
        both = moved["up"] + moved["down"]
        rows.append(
            f"| an upload of {int(size):,} bytes | {both:,.0f}: {both - int(size):,.0f} more than "
            f"its payload ({moved['up']:,.0f} up, {moved['down']:,.0f} down) |"
        )
    return "\n".join(rows)


def _runs(part: dict[str, Any]) -> dict[str, Any]:
    """The runs of a part, by their names."""
    return {name: part[name] for name in TITLES if name in part}


def _loads(part: dict[str, Any]) -> str:
    loads = [run["load"] for run in _runs(part).values()]
    return f"{min(loads):.1f} to {max(loads):.1f}"


def _rounds(found: dict[str, Any]) -> str:
    rows = []
    for kind in ("fast", "narrow"):
        rates = found[kind]["kbit_s"]
        for name, run in _runs(found[kind]).items():
            seconds, predicted = median(run["communication_s"]), sum(run["predicted"].values())
            rows.append(
                f"| {rates['up']:,.0f} / {rates['down']:,.0f} | {TITLES[name]} | {seconds:.2f} | "
                f"{predicted:.2f} | {_off(kind, name, seconds, predicted)} | "
                f"{median(run['computing_s']):.2f} |"
            )
    return "\n".join(rows)


def _flower_rounds(flower: dict[str, Any]) -> str:
    rows = []
    for name, run in _runs(flower).items():
        for transfer, way in (("upload", "uplink"), ("download", "downlink")):
            moved = run["transfers"][transfer]
            rows.append(
                f"| {TITLES[name]} | {transfer} | {moved['wire_bytes']:,.0f} | "
                f"{moved['measured_s']:.2f} | {run['predicted'][way]:.2f} | {run['round_s']:.0f} |"
            )
    return "\n".join(rows)


def _off(kind: str, name: str, seconds: float, predicted: float) -> str:
    """Only where transfers are what takes the time."""
    if kind == "fast" or name == "fd":
        return ""
    return f"{100 * (seconds / predicted - 1):+.1f}"


def _many(many: dict[str, Any]) -> str:
    rows = []
    for name in ("fd", "murmur"):
        run = many[name]
        taken = ", ".join(f"{count:,}" for count in run["uploads"])
        seconds = ", ".join(f"{one:.1f}" for one in run["communication_s"])
        rows.append(
            f"| {TITLES[name]} | {run['payload_bytes']:,} | {taken} | {seconds} | "
            f"{run['connected_s']:.1f} | {run['broker_mb']:.0f} |"
        )
    return "\n".join(rows)
