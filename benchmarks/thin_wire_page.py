"""The page of MQTT on low-rate links, from its record."""

from statistics import median
from typing import Any

from mix2fld_lab.testbed import burst_bytes

NARROW_BIT_S = 60e3
FD_100_BYTES = 100 * 100 * 4
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
    return f"""\
# MQTT on a low-rate link

Devices over an MQTT broker (Mosquitto, MQTT 5, mutual TLS) instead of Flower, in network namespaces of one machine
with links shaped by `tc tbf`. Bytes are IP bytes of the device's interface: TCP, TLS, MQTT, the message's own
fields, acknowledgements, in both directions.

| | bytes |
|---|---|
{_uploads(messages["uploads"])}
| a connection: TCP, TLS with both certificates, subscriptions, presence | {total:,.0f} ({connection["up"]:,.0f} up, {connection["down"]:,.0f} down) |
| an idle device, in {messages["idle_s"]:.0f} s | {messages["idle"]["up"] + messages["idle"]["down"]:,.0f}: {idle:.1f} per second |

{_over_flower(found)}

## Rounds

3 devices with 500 MNIST samples each and the paper's network, each in its own process; medians of the rounds after the
first, which also carries the initial weights. The prediction is that of `mix2fld link --transport mqtt` or `flower`: payload
and stated overhead at the rate of the link. The load of the machine's two cores was {_loads(found["fast"])} on the fast link and
{_loads(found["narrow"])} on the narrow one.

| link, kbit/s up / down | protocol | s besides computing | predicted | difference, % | s of computing |
|---|---|---|---|---|---|
{_rounds(found)}

The bucket of `tc tbf` must hold a packet and lets {burst_bytes(NARROW_BIT_S):,} bytes pass at once on the narrow link,
so a message that fits into one packet, such as FD's with ten labels, arrives sooner than the stated rate allows, and
its prediction cannot be tested here. With 100 labels the same message is {FD_100_BYTES:,} bytes long.

The same narrow link over Flower, measured by `mix2fld deploy testbed` with Flower's own node program, which starts
a process for every message. The load was {_loads(found["flower"])} on two cores, which shows in the seconds of a whole
round. The bytes include what a node requests from its server during a transfer.

| protocol | transfer | bytes on the wire | s | predicted | s of a round |
|---|---|---|---|---|---|
{_flower_rounds(found["flower"])}

A device uses at most {memory:.0f} MB while it trains, in one process without JAX and SciPy. From the start of that process to
the end of its first round of FD, training included, it takes {spent} s of processor time and {starts} s of
wall-clock time on this machine, with a load of {start["load"]:.1f} on two cores.

## {many["clients"]:,} clients on one broker

One load generator holds all connections and answers every order with an upload of the right size, without training;
server, broker and clients share the machine. Two rounds.

| protocol | payload bytes | uploads used | s of a round | s until all connected | broker memory, MB |
|---|---|---|---|---|---|
{_many(many)}

Made by `make bench-wire` (root, Linux, iproute2, Mosquitto) from the record
[thin_wire.json](../results/thin_wire/thin_wire.json).
"""


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


def _over_flower(found: dict[str, Any]) -> str:
    flower = found["flower"]
    upload = flower["fd"]["transfers"]["upload"]
    idle = flower["idle_bytes_s"]["up"] + flower["idle_bytes_s"]["down"]
    memory = sum(
        flower["memory_mb"].get(name, 0)
        for name in ("flower-supernode", "flower-superexec", "flwr-clientapp")
    )
    return f"""\
Over Flower, on the narrow link below, an upload of {upload["payload_bytes"]:,} bytes takes {upload["wire_bytes"]:,.0f}
bytes in the uplink alone, an idle node {idle:,.0f} bytes per second, and the processes of a node {memory:,} MB of memory
(more in [a real asymmetric link](asymmetric_link.md))."""


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
