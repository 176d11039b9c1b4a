"""What the uploads of a run reveal, and to whom, in words."""

from mix2fld.config.settings import Config
from mix2fld.protocols.parts import Seeding
from mix2fld.protocols.table import get_protocol, guarantee_of
from mix2fld.report.protocol_view import payload_names
from mix2fld.report.units import in_a_row
from mix2fld.tasks.training import resolve

RELAYING = ("auto", "relay")


def uploads_samples(config: Config) -> bool:
    """Whether samples leave a device, as they are or mixed."""
    return get_protocol(config.protocol).seeds is not None


def reveals(config: Config) -> str:
    """What leaves a device in a run with these settings, who sees it, and what is guaranteed."""
    seen = seen_of(config)
    words = [f"nothing beyond {seen}"] if seen else ["nothing: devices upload nothing"]
    guarantee = guarantee_of(config)
    if guarantee is not None:
        words.append(f"{guarantee}")
    return "; ".join(words)


def seen_of(config: Config) -> str:
    """What leaves a device, and who sees it; empty if nothing does."""
    row, shown = get_protocol(config.protocol), kinds_seen(config)
    if not shown:
        return ""
    words = [f"{shown}, to the server"]
    asked = config.updates.downlink
    downlink = row.downlinks[0] if asked == "default" else asked
    if downlink in RELAYING and "relay" in row.downlinks:
        words.append("its relay shows each device's codes to the other devices")
    if row.seeds is not None and resolve(config, row.training).replay:
        words.append(f"the {_samples_of(row.seeds)} are multicast to all devices")
    return "; ".join(words)


def kinds_seen(config: Config) -> str:
    """What leaves a device; empty if nothing does."""
    row = get_protocol(config.protocol)
    uploaded, _ = payload_names(config.protocol)
    shown = [] if uploaded == "nothing" else [uploaded]
    shown += [_samples_of(row.seeds)] if row.seeds is not None else []
    shown += ["statistics"] if row.statistics is not None else []
    if not shown:
        return ""
    return f"{'the sum of ' if row.trusted_sum else ''}{in_a_row(shown)}"


def _samples_of(seeds: Seeding) -> str:
    return "mixed samples" if seeds.mixed else "samples"
