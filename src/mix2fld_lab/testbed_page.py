"""The page of a test bed's record: ``mix2fld deploy testbed --record FILE --page FILE``."""

from pathlib import Path
from typing import Any

from mix2fld.protocols.table import get_protocol
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import markdown_table
from mix2fld_lab.pages import render as filled

TEMPLATE = Path(__file__).parent / "templates" / "testbed.md.j2"
PROCESSES = {
    "flower-supernode": "on each device",
    "flower-superexec": "on each device, and on the server",
    "flwr-clientapp": "on each device, while it works on a message",
    "flower-superlink": "on the server",
    "flwr-serverapp": "on the server, while a run lasts",
}


def render(record: dict[str, Any]) -> str:
    """The page, in Markdown."""
    return filled(
        TEMPLATE,
        **record,
        transfers=table(record),
        recorded=said_of(record),
        title=lambda name: get_protocol(name).title,
        processes=PROCESSES,
        verdict=_verdict(record),
    )


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
