"""What the report needs of a protocol: the only module of the report that reads the table.

Runs are shown by the name of their protocol, which need not be in the table: a run may be older
than the table, or its protocol a custom one.
"""

from collections.abc import Iterable

from mix2fld.codecs import Payload
from mix2fld.codecs.weights import FULL_PRECISION
from mix2fld.config.settings import Config
from mix2fld.engine.wire import Wire
from mix2fld.protocols.base import Protocol
from mix2fld.protocols.parts import Seeding
from mix2fld.protocols.table import PROTOCOLS, find_protocol, split_name
from mix2fld.tasks.learning import Sizes
from mix2fld.tasks.of_settings import sizes_for
from mix2fld.tasks.table import task_for
from mix2fld.types import Dataset


def seeding_of(protocol: str) -> Seeding | None:
    """What becomes of seed samples; None for a protocol without, or one that is not known."""
    row = row_of(protocol)
    return None if row is None else row.seeds


def could_charge(config: Config, dataset: Dataset, bits: float) -> bool:
    """Whether a first upload of a run with this dataset could have had so many bits.

    Weights are not counted, since nothing in a report depends on the model: an upload of weights
    may have any size.
    """
    row = row_of(config.protocol)
    if row is None:
        return False
    wire = Wire(row, sizes_of(config, dataset))
    body, first = wire.upload_size(with_seeds=False), wire.upload_size(with_seeds=True)
    if body.bits and body.exact:
        return bits == first.bits
    return bits >= first.bits - body.bits


def payload_names(protocol: str, config: Config | None = None) -> tuple[str, str]:
    """What an upload and a download carry, in words; with the downlink of ``config``."""
    row = row_of(protocol)
    if row is None:
        return ("unknown payload", "unknown payload")
    down = words_of(row.download_codec)
    if config is not None:
        asked = config.updates.downlink
        chosen = row.downlinks[0] if asked == "default" else asked
        whole = asked == "default" and config.updates.downlink_bits != FULL_PRECISION
        if chosen == "coded":
            down = "coded step"
        elif chosen in ("auto", "relay") and "relay" in row.downlinks and not whole:
            down = "relayed uploads" if chosen == "relay" else f"relayed uploads or {down}"
    return words_of(row.upload_codec), down


def words_of(codec: Payload) -> str:
    """What a codec carries: its ``words``, where its name says too little by itself."""
    return str(getattr(codec, "words", codec.name))


def title_of(protocol: str) -> str:
    """A protocol's title; its name where the table does not have it."""
    row = row_of(protocol)
    return protocol if row is None else row.title


def in_table_order(protocols: Iterable[str]) -> list[str]:
    """Each once: in the order of the table, then those that it does not have, then isolated."""
    names = set(protocols)
    known = [
        spelled
        for name in PROTOCOLS
        for spelled in sorted(names)
        if split_name(spelled)[0] == name != "isolated"
    ]
    return [*known, *sorted(names - set(known))]


def own_look(protocol: str) -> bool:
    """Whether no other protocol of the table had its colour and line first.

    A custom protocol may be made of another.
    """
    name, _ = split_name(protocol)
    looks = {(row.colour, row.line): other for other, row in reversed(PROTOCOLS.items())}
    row = PROTOCOLS.get(name)
    return row is not None and looks.get((row.colour, row.line)) == name


def row_of(protocol: str) -> Protocol | None:
    """The row of a protocol; None if the table does not have it."""
    return find_protocol(protocol)


def sizes_of(config: Config, dataset: Dataset) -> Sizes:
    """All sizes but those of a model."""
    task = task_for(dataset, None, config)
    return sizes_for(task, config, dataset.samples)


def round_steps(protocol: str, config: Config) -> dict[str, str]:
    """What happens on a device, on the uplink, at the server and on the downlink."""
    row = row_of(protocol)
    up, down = payload_names(protocol, config)
    steps = f"{config.learning.local_steps:,} local steps"
    if row is None:
        return {
            "device": f"Each device takes {steps}.",
            "uplink": f"It uploads: {up}.",
            "server": "The server takes its step.",
            "downlink": f"It multicasts: {down}.",
        }
    return {
        "device": f"Each device takes {steps} on its own samples{_seeds_made(protocol, config)}.",
        "uplink": _sent("Devices upload", up, protocol, config),
        "server": row.server_words + _seeds_used(protocol),
        "downlink": "Nothing is downloaded." if down == "nothing" else _multicast(down),
    }


def _multicast(payload: str) -> str:
    what = f"the {payload}" if payload == "mean outputs" else f"its {payload}"
    return f"The server multicasts {what} to all devices."


def _sent(who: str, payload: str, protocol: str, config: Config) -> str:
    seeds = seeding_of(protocol)
    once = ""
    if seeds is not None:
        kind = "mixed-up" if seeds.mixed else "raw"
        once = f", and with the first upload {config.seeding.seed_samples} {kind} samples"
    if payload == "nothing":
        return f"{who} nothing{once}." if once else "Nothing is uploaded."
    return f"{who} their {payload}{once}."


def _seeds_made(protocol: str, config: Config) -> str:
    seeds = seeding_of(protocol)
    if seeds is None or not seeds.mixed:
        return ""
    ratios = " : ".join(f"{ratio:g}" for ratio in config.seeding.ratios)
    return f", and mixes samples of different labels in the ratio {ratios}"


def _seeds_used(protocol: str) -> str:
    seeds = seeding_of(protocol)
    if seeds is None or not seeds.unmixed:
        return ""
    return " Before that, inverse-Mixup turns mixes of different devices into samples of one label."
