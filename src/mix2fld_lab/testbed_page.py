"""The page of a test bed's record: ``mix2fld deploy testbed --record FILE --page FILE``."""

from typing import Any

from mix2fld.protocols.table import get_protocol
from mix2fld.report.markdown import markdown_table

HEAD = """# A real asymmetric link

{devices} devices with {samples_per_device} {dataset} samples each, in network namespaces of one
machine, run {rounds} rounds over Flower with TLS. `tc tbf` lets {up:g} kbit/s up and {down:g}
kbit/s down on each wire. A transfer's bytes and seconds are those of the device's network
interface, from the line in which its SuperNode begins to send or receive to the line in which it is
done: message, objects, HTTP, TLS and TCP. Predicted is what `mix2fld link` says of the payload
alone at these rates. Medians over devices and rounds.

"""

TAIL = """
{verdict}A node that is asked for nothing sends {up:.0f} and receives {down:.0f} bytes a second.

Made by `make testbed` (root, Linux, iproute2) from the record
[testbed.json](../results/testbed/testbed.json). Where it cannot run it says what is missing.
"""


PROCESSES = {
    "flower-supernode": "on each device",
    "flower-superexec": "on each device, and on the server",
    "flwr-clientapp": "on each device, while it works on a message",
    "flower-superlink": "on the server",
    "flwr-serverapp": "on the server, while a run lasts",
}


def render(record: dict[str, Any]) -> str:
    """The page, in Markdown."""
    rates = record["kbit_s"]
    head = HEAD.format(**record, up=rates["up"], down=rates["down"])
    parts = [table(record), _rounds(record), _memory(record)]
    idle = record["idle_bytes_s"]
    tail = TAIL.format(verdict=_verdict(record), up=idle["up"], down=idle["down"])
    return head + "\n".join(parts) + tail + _load(record)


def table(record: dict[str, Any]) -> str:
    """A row for each kind of transfer of each protocol."""
    header = (
        "protocol", "transfer", "payload bytes", "bytes on the wire", "predicted s", "measured s",
    )  # fmt: skip
    rows = [
        (
            get_protocol(name).title,
            kind,
            f"{one['payload_bytes']:,}",
            f"{one['wire_bytes']:,.0f}",
            f"{one['predicted_s']:.3f}",
            f"{one['measured_s']:.3f}",
        )
        for name, measured in record["protocols"].items()
        for kind, one in measured["transfers"].items()
    ]
    return markdown_table(header, rows) + "\n"


def _rounds(record: dict[str, Any]) -> str:
    header = ("protocol", "s a round", "of these computing", "uploads", "mean accuracy of devices")
    rows = [
        (
            get_protocol(name).title,
            f"{measured['round_s']:.1f}",
            f"{measured['computing_s']:.1f}",
            f"{measured['uploads']['delivered']}/{measured['uploads']['attempted']}",
            f"{100 * measured['accuracy']:.2f} %",
        )
        for name, measured in record["protocols"].items()
    ]
    return markdown_table(header, rows) + "\n"


def _memory(record: dict[str, Any]) -> str:
    rows = [
        (f"`{kind}`", str(record["memory_mb"][kind]), when)
        for kind, when in PROCESSES.items()
        if kind in record["memory_mb"]
    ]
    return markdown_table(("process", "most memory, MB", "runs"), rows) + "\n"


def _load(record: dict[str, Any]) -> str:
    load = record["load_before"]
    return (
        f"\nBefore it began the machine had a load of {load['average']:g} on {load['cores']} "
        "cores: other work makes the measured seconds longer.\n"
    )


def _verdict(record: dict[str, Any]) -> str:
    """What the table shows, in a sentence."""
    known = {
        (name, kind): one
        for name, measured in record["protocols"].items()
        for kind, one in measured["transfers"].items()
    }
    weights, outputs = known.get(("fl", "upload")), known.get(("mix2fld", "later uploads"))
    if weights is None or outputs is None:
        return ""
    payload = weights["payload_bytes"] / outputs["payload_bytes"]
    wire = weights["wire_bytes"] / outputs["wire_bytes"]
    seconds = weights["measured_s"] / outputs["measured_s"]
    extra = outputs["wire_bytes"] - outputs["payload_bytes"]
    return (
        f"An upload of FL has {payload:.0f} times the payload of a later upload of Mix2FLD, but "
        f"only {wire:.1f} times its bytes on the wire and {seconds:.1f} times its seconds: a "
        f"message of Flower costs about {extra:,.0f} bytes whatever it carries. "
    )
