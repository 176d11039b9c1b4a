"""The page of the thin wire, from its record."""

from statistics import median
from typing import Any

BURST = 4096
TITLES = {"fd": "FD", "murmur": "Murmur", "fl": "FL"}


def render(found: dict[str, Any]) -> str:
    """The whole page."""
    messages, many = found["messages"], found["many"]
    idle = (messages["idle"]["up"] + messages["idle"]["down"]) / messages["idle_s"]
    connection = messages["connection"]
    total = connection["up"] + connection["down"]
    memory = max(found[kind][name]["device_mb"] for kind in ("fast", "narrow") for name in TITLES)
    lean = max(found[kind]["fd"]["device_mb"] for kind in ("fast", "narrow"))
    start = found["start"]
    starts = ", ".join(f"{seconds:.1f}" for seconds in start["s"])
    spent = ", ".join(f"{seconds:.1f}" for seconds in start["processor_s"])
    return f"""\
# The thin wire

Devices over an MQTT broker (Mosquitto, MQTT 5, mutual TLS) instead of Flower, in network namespaces of one machine
with links shaped by `tc tbf`. Bytes are IP bytes of the device's interface: TCP, TLS, MQTT, the message's own
fields, acknowledgements, both directions.

| what | bytes |
|---|---|
{_uploads(messages["uploads"])}
| a connection: TCP, TLS with both certificates, subscriptions, presence | {total:,.0f} ({connection["up"]:,.0f} up, {connection["down"]:,.0f} down) |
| an idle device, in {messages["idle_s"]:.0f} s | {messages["idle"]["up"] + messages["idle"]["down"]:,.0f}: {idle:.1f} a second |

Over Flower an upload of 400 bytes takes 4,775 bytes in its own direction alone, and an idle node 556 bytes a second
([a real asymmetric link](asymmetric_link.md)).

## Rounds

3 devices with 500 MNIST samples each and the paper's network, a process each; medians of the rounds after the first,
which also brings initial weights. Predicted is what `mix2fld link --transport mqtt` says: payload and stated overhead
at the rate of the link.

| link, kbit/s up / down | protocol | s beside computing | predicted | s of computing |
|---|---|---|---|---|
{_rounds(found)}

A device has at most {memory:.0f} MB while it trains ({lean:.0f} MB where no SciPy is needed), in one process without
JAX. From starting that process to the end of its first round of FD, training included, it spends {spent} s of processor
time; {starts} s pass on this machine, which then had a load of {start["load"]:.1f} on two cores.

The bucket of `tc tbf` lets {BURST:,} bytes pass at once, so that messages of a few hundred bytes are faster here than
at the stated rate.

## {many["clients"]:,} clients on one broker

One load generator holds all connections and answers every order with an upload of the right size, without training;
server, broker and clients share the machine. Two rounds.

| protocol | payload bytes | uploads taken | s of a round | all connected after s | broker memory, MB |
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


def _rounds(found: dict[str, Any]) -> str:
    rows = []
    for kind in ("fast", "narrow"):
        rates = found[kind]["kbit_s"]
        for name, title in TITLES.items():
            run = found[kind][name]
            rows.append(
                f"| {rates['up']:,.0f} / {rates['down']:,.0f} | {title} | "
                f"{median(run['communication_s']):.2f} | {sum(run['predicted'].values()):.2f} | "
                f"{median(run['computing_s']):.2f} |"
            )
    return "\n".join(rows)


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
