"""The tables of attacks, from the stages of records."""

import re

from mix2fld.protocols.parts import EVERYTHING
from mix2fld.protocols.table import get_protocol
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.findings import (
    HIGH,
    LOW,
    Stages,
    attacked_uploads,
    budgets,
    matching,
    mean,
    mixing_ratios,
    pooled,
    statistics_with_noise,
    uploads_samples,
    values,
)
from mix2fld_lab.audit.sections import AuditSection, Row
from mix2fld_lab.markdown import markdown_table

PARTS = ("minor", "dominant")
AVERAGES = {
    "statistics": "statistics of a device",
    "ten": "means of ten samples of a label",
}
LEARNED_ON = {"recovery": "samples of the same kind", "foreign": "another dataset"}


def known_others_table(stages: Stages) -> str:
    """Rates of the attack beside what the budget allows."""
    rows = []
    for name in sorted({stage.split("/")[1] for stage in stages if stage.startswith("noise/")}):
        where = rf"noise/{re.escape(name)}/s\d+"
        nearness = mean(stages, where, "part_of_bound")
        for rate, shown in ((LOW, "0.1 %"), (HIGH, "1 %")):
            true, false = (pooled(stages, where, rate, kind) for kind in ("true", "false"))
            allowed = mean(stages, where, rate, "allowed")
            bounds = [mean(stages, where, rate, n) for n in ("epsilon", "gaussian_epsilon")]
            rows.append((
                get_protocol(name).title, shown, f"{number(nearness, 100)} %", percent(false),
                percent(true), f"{number(allowed, 100)} %",
                *(number(bound, places=2) for bound in bounds),
            ))  # fmt: skip
    heads = (
        "upload of", "threshold at", "distance of the uploads", "false positives", "found",
        "allowed by the budget",
        "ε at least", "ε at least, if noise is Gaussian",
    )  # fmt: skip
    return markdown_table(heads, rows)


def budget_table(section: AuditSection) -> str:
    """Rows with a budget: accuracy and bits by ε and k, and how runs differ."""
    stages, found = section.stages, []
    for name, epsilon, side in budgets(stages):
        found.append((name, epsilon, side, rf"budget/{re.escape(name)}/{epsilon:g}:{side}/s\d+"))
    for name in dict.fromkeys(name for name, *_ in found):
        config, where = section.config_of(name), rf"accuracy/{re.escape(name)}/s\d+"
        own = (name, config.privacy.epsilon, config.statistics.feature_side)
        if matching(stages, where):  # the same budget may have been asked for twice
            found = [one for one in found if one[:3] != own]
            found.append((*own, where))
    rows = []
    for name, epsilon, side, where in sorted(found, key=lambda one: (one[0], -one[1], -one[2])):
        accuracies = values(stages, where, "accuracy")
        bits = mean(stages, where, "uplink_bits")
        spread = f"{100 * min(accuracies):.1f} to {100 * max(accuracies):.1f}"
        figures = (number(mean(stages, where, "accuracy"), 100), spread, number(bits, 1e-3))
        runs, row = str(len(accuracies)), get_protocol(name)
        frequencies = str(side) if statistics_with_noise(row) else "–"
        rows.append((row.title, f"{epsilon:g}", frequencies, *figures, runs))
    heads = (
        "protocol", "ε", "k", "mean device accuracy, %", "runs from", "uplink of a device, kbit",
        "runs",
    )  # fmt: skip
    return markdown_table(heads, rows)


def inversion_table(stages: Stages) -> str:
    """How many uploads come back."""
    rows = []
    for ratio in mixing_ratios(stages):
        share = pooled(stages, rf"seeds/mixed/{re.escape(ratio)}/s\d+/inversion")
        rows.append((ratio, f"{share.found:,} of {share.of:,}"))
    return markdown_table(("λ", "uploads given back byte for byte"), rows)


def membership_table(stages: Stages) -> str:
    """Members found in seeds, by ratio and attack."""
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


def separation_table(stages: Stages) -> str:
    """What networks re-identify, by mixing ratio and by what they learned on."""
    rows = []
    tried = [(ratio, kind) for kind in LEARNED_ON for ratio in mixing_ratios(stages, kind)]
    for ratio, kind in tried:
        where = rf"{kind}/{re.escape(ratio)}/s\d+"
        cells: list[str] = []
        for part in PARTS:
            among = (pooled(stages, where, part, name) for name in ("among_all", "among_own"))
            cells += map(percent, among)
            cells.append(number(mean(stages, where, part, "psnr_db")))
            cells.append(number(mean(stages, where, part, "ssim"), places=2))
        rows.append((ratio, LEARNED_ON[kind], *cells))
    columns = ("among 5,000", "among the device's own", "PSNR, dB", "SSIM")
    heads = ("λ", "learned on", *(f"{part}: {c}" for part in PARTS for c in columns))
    return markdown_table(heads, rows)


def recurring_table(stages: Stages) -> str:
    """What recurring samples give away without any network."""
    rows = []
    for ratio in mixing_ratios(stages, "recurring"):
        where = rf"recurring/{re.escape(ratio)}/s\d+"
        kinds = ("recurring", "determined", "linked", "false_links")
        shares = [pooled(stages, where, kind) for kind in kinds]
        cells = [percent(share) for share in shares]
        for part in ("dominant alone", "dominant", "minor"):
            cells.append(percent(pooled(stages, where, part, "among_all")))
            cells.append(number(mean(stages, where, part, "psnr_db")))
        rows.append((ratio, *cells))
    heads = (
        "λ", "constituents that recur", "determined if it is known where", "links found",
        "links that are wrong", "dominant, each alone: among 5,000", "PSNR, dB",
        "dominant, together: among 5,000", "PSNR, dB", "minor: among 5,000", "PSNR, dB",
    )  # fmt: skip
    return markdown_table(heads, rows)


def rounds_table(stages: Stages) -> str:
    """LiRA on 1, 2, .. uploads of a device together."""
    rows = []
    names = dict.fromkeys(stage.split("/")[1] for stage in matching(stages, "rounds/.*"))
    for name in names:
        where = rf"rounds/{re.escape(name)}/s\d+"
        counts = {count for stage in matching(stages, where) for count in stages[stage]}
        for count in sorted(counts, key=int):
            cells = [
                pooled(stages, where, count, rate, kind)
                for rate in (LOW, HIGH)
                for kind in ("device", "null")
            ]
            rows.append((get_protocol(name).title, count, *map(percent, cells)))
    heads = ("uploads of", "rounds", "found at 0.1 %", "null", "found at 1 %", "null")
    return markdown_table(heads, rows)


def averages_table(stages: Stages) -> str:
    """Members found in averages without noise."""
    rows = []
    for name, shown in AVERAGES.items():
        where = rf"averages/{name}/s\d+"
        cells = [
            pooled(stages, where, rate, kind) for rate in (LOW, HIGH) for kind in ("device", "null")
        ]
        rows.append((shown, *map(percent, cells)))
    return markdown_table(("of", "found at 0.1 %", "null", "found at 1 %", "null"), rows)


def lira_table(stages: Stages) -> str:
    """LiRA on first uploads."""
    rows = []
    for name in attacked_uploads(stages):
        where = stages, r"uploads/s\d+", name
        cells = []
        for rate in (LOW, HIGH):
            cells += [pooled(*where, rate, kind) for kind in ("device", "null")]
            cells += [pooled(*where, "by margin", rate, kind) for kind in ("device", "null")]
        rows.append((get_protocol(name).title, *map(percent, cells)))
    kinds = ("found", "null", "by margin alone", "its null")
    heads = ("upload of", *(f"{kind} at {rate} %" for rate in ("0.1", "1") for kind in kinds))
    return markdown_table(heads, rows)


def number(value: float | None, factor: float = 1, places: int = 1) -> str:
    """With so many places; a dash where there is none."""
    return "–" if value is None else f"{factor * value:,.{places}f}"


def percent(share: Share) -> str:
    """A share with its 95 % interval, in per cent."""
    if not share.of:
        return "–"
    low, high = share.interval()
    return f"{100 * share.rate:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def own_samples(section: AuditSection, row: Row) -> str:
    """Whether the server has samples of a device, or can tell them from what it has."""
    protocol, config = get_protocol(row.name), section.config_of(row.name)
    if protocol.seeds is None or not uploads_samples(protocol.seeds):
        return "–"
    number_of = config.seeding.seed_samples
    if not protocol.seeds.mixed:
        return f"handed over: {number_of} of a device"
    ratio = ",".join(f"{value:g}" for value in config.seeding.mixing_ratio)
    where = rf"recovery/{re.escape(ratio)}/s\d+"
    parts = [pooled(section.stages, where, part, "among_all") for part in PARTS]
    if not all(part.of for part in parts):
        return f"in mixes: {number_of} of a device; separation not tried"
    minor, dominant = (f"{100 * part.rate:.1f} %" for part in parts)
    return f"in mixes, re-identified: minor part {minor}, dominant part {dominant}"


def leak_words(row: Row) -> str:
    """What the uploads of a protocol give away, or what is guaranteed about them."""
    if not row.sends:
        return "nothing is sent"
    said = [f"{kind} {percent(share)}" for kind, share in row.leaks.items()]
    if row.guarantee is not None:
        budget = f"ε = {row.guarantee.epsilon:g}, δ = {row.guarantee.delta:g}"
        whole = " for a whole device" if row.guarantee.protects == EVERYTHING else ""
        said.insert(0, f"guaranteed: {budget}{whole}")
    if row.known_others.of:
        said.append(f"knowing all samples but one {percent(row.known_others)}")
    return "; ".join(said) or "not attacked"
