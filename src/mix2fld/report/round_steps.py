"""A round of a protocol in four steps, in words: what devices and the server do, what is sent."""

from mix2fld.config.settings import Config
from mix2fld.protocols.seed_samples import as_collected
from mix2fld.report.protocol_view import payload_names, row_of, seeding_of


def round_steps(protocol: str, config: Config) -> dict[str, str]:
    """What happens on a device, on the uplink, at the server and on the downlink."""
    row = row_of(protocol)
    up, down = payload_names(protocol)
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
    if seeds is None or seeds.prepare is as_collected:
        return ""
    return " Before that, inverse-Mixup turns mixes of different devices into samples of one label."
