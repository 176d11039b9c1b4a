"""The page about privacy, written from the records of audits alone."""

import re
from collections.abc import Mapping
from typing import Any

from mix2fld.audit.findings import (
    HIGH,
    KINDS,
    LOW,
    Stages,
    budgets,
    distinct_uplinks,
    leak_of,
    mean,
    mixing_ratios,
    pooled,
)
from mix2fld.audit.page_text import (
    BUDGETS,
    HEAD,
    INVERSION,
    LIRA,
    NOISE,
    NOT_TRIED,
    SEEDS,
    SEPARATION,
    conclude,
)
from mix2fld.config import Config
from mix2fld.privacy.rates import Share
from mix2fld.protocol import get_protocol, guarantee_of
from mix2fld.report.markdown import markdown_table

PARTS = ("minor", "dominant")


def privacy_page(records: Mapping[str, dict[str, Any]]) -> str:
    """The whole page; every figure is from a record."""
    parts = [HEAD.format(names=" ".join(records))]
    for record in records.values():
        config, stages = record["about"]["config"], record["stages"]
        parts += [f"## {config['data']['dataset']}", _setting(record), _missing(stages)]
        parts.append(_protocols(record))
        parts += _attacks(stages)
    parts += [conclude([record["stages"] for record in records.values()]), NOT_TRIED]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def summary_table(stages: Stages) -> str:
    """What a finished audit prints."""
    return "\n\n".join(part for part in _attacks(stages) if part.startswith("|"))


def _setting(record: dict[str, Any]) -> str:
    config, effort = record["about"]["config"], record["about"]["effort"]
    data, seeds = config["data"], config["seed"]
    devices = min(effort["devices"], data["devices"])
    return (
        f"{data['devices']} devices with {data['samples_per_device']} samples each, partition "
        f"{data['partition']}, N_S = {config['seeding']['seed_samples']}, "
        f"{config['seeding']['seed_bits']}-bit seeds, seeds of the runs {_listed(seeds)}; "
        f"{devices} devices attacked, {effort['shadows']} shadow models for each, "
        f"{effort['outsiders']:,} outsiders."
    )


def _missing(stages: Stages) -> str:
    """Which attacks a record that is not finished does not hold yet."""
    begun = {name.split("/")[0] for name in stages}
    kinds = [what for kind, what in KINDS.items() if kind not in begun]
    return f"Not in this record: {_listed(kinds)}." if kinds else ""


def _listed(values: list[Any]) -> str:
    return ", ".join(map(str, values))


def _protocols(record: dict[str, Any]) -> str:
    """Protocols by leaks, accuracy and bits."""
    config, stages = record["about"]["config"], record["stages"]
    single = Config(**config)
    ratio = ",".join(f"{value:g}" for value in config["seeding"]["mixing_ratio"])
    rows = []
    for name in config["protocols"]:
        leaks = leak_of(stages, config["protocols"], name, ratio)
        shown = "; ".join(f"{kind} {percent(share)}" for kind, share in leaks.items() if share.of)
        accuracy = mean(stages, rf"accuracy/{name}/s\d+", "accuracy")
        bits = mean(stages, rf"accuracy/{name}/s\d+", "uplink_bits")
        figures = (_number(accuracy, 100), _number(bits, 1e-3))
        row, promise = get_protocol(name), guarantee_of(single.replace(protocols=name))
        if promise is not None:
            bound = f"guaranteed: ε = {promise.epsilon:g}, δ = {promise.delta:g}"
            shown = f"{bound}; {shown}" if shown else bound
        silent = row.seeds is None and name not in distinct_uplinks(config["protocols"])
        nothing = "nothing is sent" if silent else "not attacked"
        rows.append((row.title, shown or nothing, *figures))
    heads = (
        "protocol",
        "share of a device's samples found at 0.1 % false positives",
        f"mean device accuracy after {record['about']['effort']['rounds']} rounds, %",
        "uplink of a device, kbit",
    )
    return markdown_table(heads, rows)


def _attacks(stages: Stages) -> list[str]:
    """Each attack in a paragraph, with its table."""
    found = []
    if mixing_ratios(stages):
        found += ["### Inverse-Mixup undone", INVERSION, _inversion(stages)]
    if any(name.startswith("seeds/") for name in stages):
        found += ["### Membership in seeds", SEEDS, _membership(stages)]
    if any(name.startswith("recovery/") for name in stages):
        found += ["### Separation", SEPARATION, _separation(stages)]
    if any(name.startswith("uploads/") for name in stages):
        found += ["### Membership in weights and outputs", LIRA, _lira(stages)]
    if any(name.startswith("noise/") for name in stages):
        found += ["### Who knows all other samples", NOISE, _known_others(stages)]
    if budgets(stages):
        found += ["### What a budget costs", BUDGETS, _budgets(stages)]
    return found


def _known_others(stages: Stages) -> str:
    rows = []
    for name in sorted({stage.split("/")[1] for stage in stages if stage.startswith("noise/")}):
        where = rf"noise/{re.escape(name)}/s\d+"
        for rate, shown in ((LOW, "0.1 %"), (HIGH, "1 %")):
            true, false = (pooled(stages, where, rate, kind) for kind in ("true", "false"))
            allowed = mean(stages, where, rate, "allowed")
            bounds = [mean(stages, where, rate, n) for n in ("epsilon", "gaussian_epsilon")]
            rows.append((
                get_protocol(name).title, shown, percent(false), percent(true),
                f"{_number(allowed, 100)} %", *(_number(bound, places=2) for bound in bounds),
            ))  # fmt: skip
    heads = (
        "upload of", "threshold at", "false positives", "found", "allowed by the budget",
        "ε at least", "ε at least, if noise is Gaussian",
    )  # fmt: skip
    return markdown_table(heads, rows)


def _budgets(stages: Stages) -> str:
    rows = []
    for name, epsilon, side in budgets(stages):
        where = rf"budget/{re.escape(name)}/{epsilon:g}:{side}/s\d+"
        accuracy, bits = (mean(stages, where, kind) for kind in ("accuracy", "uplink_bits"))
        figures = (_number(accuracy, 100), _number(bits, 1e-3))
        runs = sum(re.fullmatch(where, stage) is not None for stage in stages)
        rows.append((get_protocol(name).title, f"{epsilon:g}", str(side), *figures, str(runs)))
    heads = ("protocol", "ε", "k", "mean device accuracy, %", "uplink of a device, kbit", "runs")
    return markdown_table(heads, rows)


def _inversion(stages: Stages) -> str:
    rows = []
    for ratio in mixing_ratios(stages):
        share = pooled(stages, rf"seeds/mixed/{re.escape(ratio)}/s\d+/inversion")
        rows.append((ratio, f"{share.found:,} of {share.of:,}"))
    return markdown_table(("λ", "uploads given back byte for byte"), rows)


def _membership(stages: Stages) -> str:
    rows = []
    for ratio in mixing_ratios(stages):
        for attack in ("box", "residual"):
            where = rf"seeds/mixed/{re.escape(ratio)}/s\d+/{attack}"
            shares = [pooled(stages, where, LOW, name) for name in (*PARTS, "device")]
            null = [pooled(stages, where, rate, "null") for rate in (LOW, HIGH)]
            rows.append((f"mixed, λ = {ratio}", attack, *map(percent, (*shares, *null))))
    share = pooled(stages, r"seeds/raw/1/s\d+/box", LOW, "device")
    if share.of:
        kept = pooled(stages, r"seeds/raw/1/s\d+/box", LOW, "seed")
        null = [pooled(stages, r"seeds/raw/1/s\d+/box", rate, "null") for rate in (LOW, HIGH)]
        rows.append(("raw", "box", "–", percent(kept), *map(percent, (share, *null))))
    heads = (
        "seeds", "attack", "minor part found", "dominant part found",
        "share of the device's samples", "null at 0.1 %", "null at 1 %",
    )  # fmt: skip
    return markdown_table(heads, rows)


def _separation(stages: Stages) -> str:
    rows = []
    for ratio in mixing_ratios(stages):
        where = rf"recovery/{re.escape(ratio)}/s\d+"
        cells: list[str] = []
        for part in PARTS:
            among = (pooled(stages, where, part, name) for name in ("among_all", "among_own"))
            cells += map(percent, among)
            cells.append(_number(mean(stages, where, part, "psnr_db")))
            cells.append(_number(mean(stages, where, part, "ssim"), places=2))
        rows.append((ratio, *cells))
    columns = ("among 5,000", "among the device's own", "PSNR, dB", "SSIM")
    return markdown_table(("λ", *(f"{part}: {c}" for part in PARTS for c in columns)), rows)


def _lira(stages: Stages) -> str:
    names = dict.fromkeys(
        name for stage in stages if stage.startswith("uploads/") for name in stages[stage]
    )
    rows = []
    for name in distinct_uplinks(list(names)):
        cells = [
            pooled(stages, r"uploads/s\d+", name, rate, kind)
            for rate in (LOW, HIGH)
            for kind in ("device", "null", "by_outsiders")
        ]
        rows.append((get_protocol(name).title, *map(percent, cells)))
    kinds = ("found", "null", "found by outsiders")
    heads = ("upload of", *(f"{kind} at {rate} %" for rate in ("0.1", "1") for kind in kinds))
    return markdown_table(heads, rows)


def _number(value: float | None, factor: float = 1, places: int = 1) -> str:
    return "–" if value is None else f"{factor * value:,.{places}f}"


def percent(share: Share) -> str:
    """A share with its 95 % interval, in per cent."""
    if not share.of:
        return "–"
    low, high = share.interval()
    return f"{100 * share.rate:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
