"""What a device must know of a run before it can take part in it."""

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge.messages import FORMAT, MessageError
from mix2fld.tasks.base import Task
from mix2fld.tasks.table import as_record, from_record

IDENTITY_BYTES = 8
LARGEST = 1 << 16
"""Bytes that settings may have when they are unpacked."""


class DeviceRun(NamedTuple):
    """What a device knows of the run that it is part of."""

    identity: str
    config: Mapping[str, Any]
    """The settings that devices read; over Flower, whose nodes have them already, none."""
    samples: SampleFormat
    task: Task
    digest: str = ""
    """Of all settings, over Flower: both sides must have made the same of them."""


def pack_run(run: DeviceRun) -> bytes:
    """The bytes that a device is sent: JSON, compressed."""
    fields = {
        "format": FORMAT,
        "run": run.identity,
        "config": run.config,
        "samples": run.samples.record(),
        "task": as_record(run.task),
        "digest": run.digest,
    }
    return zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), 9)


def unpack_run(data: bytes) -> DeviceRun:
    """The run; raises ``MessageError`` for what cannot be read, or is of another version."""
    try:
        unpacker = zlib.decompressobj()
        fields = json.loads(unpacker.decompress(data, LARGEST))
        spoken = fields.get("format")
    except (zlib.error, ValueError, AttributeError) as error:
        raise MessageError(f"settings cannot be read ({error})") from None
    check_format(spoken)
    try:
        identity = bytes.fromhex(fields["run"])
        if len(identity) != IDENTITY_BYTES:
            raise ValueError(f"run is {len(identity)} bytes; must be {IDENTITY_BYTES}")
        samples, task = SampleFormat.of(fields["samples"]), from_record(fields["task"])
        return DeviceRun(identity.hex(), fields["config"], samples, task, fields["digest"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise MessageError(f"settings are not those of a run ({error})") from None


def check_format(spoken: Any) -> None:
    """Refuse messages of another version, which are not to be read as those of this one."""
    if spoken != FORMAT:
        raise MessageError(
            f"the other side uses message format {spoken!r}, this one {FORMAT}: install the same "
            "version of mix2fld on both"
        )
