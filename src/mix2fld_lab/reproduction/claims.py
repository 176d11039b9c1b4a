"""The paper's claims C1 to C10, each judged by the rules that ``ledger.RULES`` states."""

from collections.abc import Callable, Sequence

import numpy as np

from mix2fld.base.spread import Spread, sample_variance
from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.attacked_mixes import attacks_on_mixes
from mix2fld_lab.reproduction.claims_on_seeds import mixing_costs, more_seeds
from mix2fld_lab.reproduction.conclusions import in_points, out_of
from mix2fld_lab.reproduction.evidence import (
    ASYMMETRIC,
    BEST_PAIR,
    SYMMETRIC,
    Claim,
    Evidence,
    Holds,
    Part,
    in_how_many,
    sized,
)
from mix2fld_lab.reproduction.experiments import DEVICE_COUNTS, SEED_PAIRS, SETTINGS
from mix2fld_lab.reproduction.number_text import delivery
from mix2fld_lab.reproduction.privacy_records import above_mixup, row
from mix2fld_lab.reproduction.statistics import accuracy, device_accuracies, gain
from mix2fld_lab.reproduction.times import Ratio, converged_rounds, jumps, times_longer
from mix2fld_lab.reproduction.uplink import UPDATES, uplink_payloads

AS_ACCURATE = 1.0
PAIRS = tuple(f"mix2fld-{sent}-{made}" for sent, made in SEED_PAIRS)
OF_THE_PAPER = ("fl", "fd", "mixfld-10", "mixfld-50", *PAIRS)


def judge(evidence: Evidence) -> list[Claim]:
    """All claims, in the order of the reading guide."""
    return [
        Claim(name, tuple(parts(evidence)), f"mix2fld reproduce {experiments}")
        for name, (parts, experiments) in CLAIMS.items()
    ]


def _best_gain(evidence: Evidence, settings: Sequence[str], other: str) -> tuple[Spread, str]:
    """The largest mean gain of Mix2FLD over a protocol, and how to show it."""
    s, pair = max(
        ((s, pair) for s in settings for pair in PAIRS),
        key=lambda place: gain(evidence.at(*place), evidence.at(place[0], other)).mean,
    )
    found = gain(evidence.at(s, pair), evidence.at(s, other))
    relative = 100 * found.mean / accuracy(evidence.at(s, other)).mean
    where = f"{_pair(pair)}, {SETTINGS[s].title}"
    return found, f"{in_points(found)} (relative: {relative:+.1f} %) with {where}"


def _pair(name: str) -> str:
    _, sent, made = name.split("-")
    return f"({sent}, {made})"


def _faster(evidence: Evidence, settings: Sequence[str], wanted: float) -> Part:
    """FL's time to converge over Mix2FLD's, at every cost; without such a time, no verdict."""
    text, paper_says = f"Mix2FLD {_pair(BEST_PAIR)} converges faster than FL", f"{wanted}×"
    slow = [evidence.at(setting, "fl") for setting in settings]
    fired = [number is not None for cell in slow for number in converged_rounds(cell)]
    if not all(any(converged_rounds(cell)) for cell in slow):
        why = (
            f"FL has no time to converge: its stopping rule fires in {out_of(fired)} runs "
            f"({delivery(*slow)} of its uploads are delivered)"
        )
        return Part(text, paper_says, why, "unknown")
    lines, ratios = [], []
    for setting, cell in zip(settings, slow, strict=True):
        found = [times_longer(cell, evidence.at(setting, BEST_PAIR), c) for c in evidence.costs]
        ratios += [ratio.value for ratio in found]
        lines.append(_at_costs(setting, found))
    needed = 1 + (wanted - 1) / 2
    least = min(ratios)
    holds: Holds = "yes" if least >= needed else "weaker" if least > 1 else "no"
    if holds == "no" and max(ratios) >= needed:
        holds = "weaker"
    return Part(text, paper_says, "; ".join(lines), holds)


def _at_costs(setting: str, ratios: Sequence[Ratio]) -> str:
    """One ratio for each cost of a step, in the order of the ledger's table."""
    split = "IID" if setting.endswith("metric-iid") else "non-IID"
    return f"{split} " + ", ".join(f"{ratio}×" for ratio in ratios)


def _c1(evidence: Evidence) -> list[Part]:
    found, shown = _best_gain(evidence, ASYMMETRIC, "fl")
    return [
        Part(
            "asymmetric: Mix2FLD more accurate than FL, up to",
            f"{paper.MORE_ACCURATE_THAN_FL} %",
            shown,
            sized(found, paper.MORE_ACCURATE_THAN_FL),
        ),
        _faster(evidence, ASYMMETRIC, paper.FASTER_THAN_FL_ASYMMETRIC),
    ]


def _c2(evidence: Evidence) -> list[Part]:
    found, shown = _best_gain(evidence, ASYMMETRIC, "fd")
    more = [
        [times_longer(evidence.at(s, BEST_PAIR), evidence.at(s, "fd"), c) for c in evidence.costs]
        for s in ASYMMETRIC
    ]
    values = [ratio.value for ratios in more for ratio in ratios]
    most = 1 + 2 * (paper.SLOWER_THAN_FD - 1)
    within: Holds = "yes" if max(values) <= most else "weaker" if min(values) <= most else "no"
    times = "; ".join(_at_costs(s, ratios) for s, ratios in zip(ASYMMETRIC, more, strict=True))
    return [
        Part(
            "asymmetric: Mix2FLD more accurate than FD, up to",
            f"{paper.MORE_ACCURATE_THAN_FD} %",
            shown,
            sized(found, paper.MORE_ACCURATE_THAN_FD),
        ),
        Part(
            f"at little more time to converge ({_pair(BEST_PAIR)}; holds up to twice the excess)",
            f"{paper.SLOWER_THAN_FD}×",
            times,
            within,
        ),
    ]


def _c3(evidence: Evidence) -> list[Part]:
    return [
        *(_fl_is_best(evidence, setting) for setting in SYMMETRIC),
        _faster(evidence, SYMMETRIC, paper.FASTER_THAN_FL_SYMMETRIC),
    ]


def _fl_is_best(evidence: Evidence, setting: str) -> Part:
    others = [name for name in OF_THE_PAPER if name != "fl"]
    second = max(others, key=lambda name: accuracy(evidence.at(setting, name)).mean)
    lead = gain(evidence.at(setting, "fl"), evidence.at(setting, second))
    return Part(
        f"{SETTINGS[setting].title}: FL most accurate",
        "yes",
        f"FL {accuracy(evidence.at(setting, 'fl'))} %, next "
        f"{evidence.at(setting, second).label} {accuracy(evidence.at(setting, second))} %",
        "yes" if lead.above_zero else "no",
    )


def _c4(evidence: Evidence) -> list[Part]:
    setting = "symmetric-non-iid"
    found = [(gain(evidence.at(setting, p), evidence.at(setting, "fl")), p) for p in PAIRS]
    best, pair = max(found, key=lambda each: each[0].mean)
    return [
        Part(
            "symmetric, non-IID: Mix2FLD as accurate as FL",
            "as high as FL",
            f"{in_points(best)} with {_pair(pair)}",
            "yes" if best.mean >= -AS_ACCURATE else "no",
        )
    ]


def _c6(evidence: Evidence) -> list[Part]:
    bits = uplink_payloads(evidence)
    sum_of = f"{bits.outputs:,.0f} + {bits.seeds:,.0f} / {UPDATES}"
    return [
        Part(
            "uplink payload smaller than FL's, up to (N_S = 10, seeds spread over "
            f"{UPDATES} updates)",
            f"{paper.SMALLER_UPLINK}×",
            f"{bits.weights:,.0f} / ({sum_of}) = {bits.ratio:.2f}× (the labels of the seeds are "
            f"charged too); without seeds {bits.weights / bits.outputs:.0f}×",
            "yes" if abs(bits.ratio / paper.SMALLER_UPLINK - 1) < 0.01 else "no",
        )
    ]


def _c7(evidence: Evidence) -> list[Part]:
    few, many = DEVICE_COUNTS[0], DEVICE_COUNTS[-1]
    gains, variances = {}, {}
    for split in ("iid", "non-iid"):
        cells = [evidence.cells[f"symmetric-{split}/devices-{n}"] for n in (few, many)]
        gains[split] = gain(cells[1], cells[0], "mean")
        least, most = (sample_variance(device_accuracies(cell)) for cell in cells)
        variances[split] = most / least
    smaller = gains["iid"].mean - gains["non-iid"].mean
    left, enough = variances["iid"], (1 + paper.VARIANCE_LEFT_WITH_DEVICES) / 2
    return [
        Part(f"IID: mean accuracy grows from {few} to {many} devices",
             f"+{paper.GAIN_WITH_DEVICES} %", in_points(gains["iid"]),
             sized(gains["iid"], paper.GAIN_WITH_DEVICES)),
        Part("IID: sample variance over devices shrinks",
             f"{100 * (paper.VARIANCE_LEFT_WITH_DEVICES - 1):+.0f} %",
             f"{100 * (left - 1):+.0f} % (non-IID {100 * (variances['non-iid'] - 1):+.0f} %)",
             "yes" if left <= enough else "weaker" if left < 1 else "no"),
        Part("non-IID: a smaller gain, of the same tendency", "smaller",
             in_points(gains["non-iid"]),
             "yes" if smaller > 0 and gains["non-iid"].above_zero else "no"),
    ]  # fmt: skip


def _c9(evidence: Evidence) -> list[Part]:
    places = [(s, k) for k in ("fl", "mixfld-50", BEST_PAIR) for s in evidence.distinct([k])]
    found = {place: jumps(evidence.at(*place)) for place in places}
    updated = {place: jump for place, jump in found.items() if jump.count}
    drops = [jump.at_update < 0 for jump in updated.values()]
    later = [jump.after_next_phase > 0 for jump in updated.values()]
    smaller = [
        abs(jumps(evidence.at(s, "fd")).at_update) < abs(jump.at_update)
        for (s, _), jump in updated.items()
    ]
    return [
        Part("accuracy drops when weights are downloaded (FL, MixFLD, Mix2FLD)", "yes",
             f"on average in {sum(drops)} of {len(drops)} cells, see below", in_how_many(drops)),
        Part("and is higher than before at the end of the next local phase", "yes",
             f"on average in {sum(later)} of {len(later)} cells", in_how_many(later)),
        Part("FD's changes are smaller", "yes",
             f"than in {sum(smaller)} of {len(smaller)} cells", in_how_many(smaller)),
    ]  # fmt: skip


CLEARLY_FOUND = 0.05
"""True-positive rate at 0.1 % false positives from which a sample does not count as hidden."""


def _c10(evidence: Evidence) -> list[Part]:
    grows, above, shown = [], [], []
    for name, runs in evidence.privacy.items():
        mixup, mix2up = (
            row(runs, kind, "min", paper.INFERRED_COLUMNS) for kind in ("mixup", "mix2up")
        )
        grows += [bool((np.diff(values) > 0).all()) for values in (mixup, mix2up)]
        higher_at = above_mixup(runs)
        above += higher_at
        higher = [f"{r:g}" for r, m in zip(paper.INFERRED_COLUMNS, higher_at, strict=True) if m]
        shown.append(f"{name}: λ = {', '.join(higher) or 'none'}")
    of_its_tables = {name: s for name, s in evidence.attacked.items() if name in paper.TABLE_2}
    found = attacks_on_mixes(of_its_tables)
    hidden = [share.rate < CLEARLY_FOUND for one in found for share in one.members.values()]
    least = min((s.rate for one in found for s in one.members.values()), default=0.0)
    attacks = [
        Part("a mix hides the samples in it from the server", "yes",
             f"attacks find at least {100 * least:.1f} % of them at 0.1 % false positives",
             in_how_many(hidden))
    ]  # fmt: skip
    return [
        *(attacks if found else []),
        Part("sample privacy grows with λ", "yes",
             f"in {sum(grows)} of {len(grows)} rows (minimum over samples)", in_how_many(grows)),
        Part("Mix2up above Mixup", "at every λ",
             "at every λ" if all(above) else "only at " + "; ".join(shown) if any(above)
             else "at no λ", in_how_many(above)),
    ]  # fmt: skip


CLAIMS: dict[str, tuple[Callable[[Evidence], list[Part]], str]] = {
    "C1": (_c1, "fig2a fig2c"),
    "C2": (_c2, "fig2a fig2c"),
    "C3": (_c3, "fig2b fig2d"),
    "C4": (_c4, "fig2d"),
    "C5": (mixing_costs, "fig2a fig2b fig2c fig2d"),
    "C6": (_c6, "fig2b"),
    "C7": (_c7, "fig3"),
    "C8": (more_seeds, "fig2a fig2b fig2c fig2d"),
    "C9": (_c9, "fig2a fig2b fig2c fig2d"),
    "C10": (_c10, "table2 table3"),
}
"""How each claim is judged, and the experiments that ``mix2fld reproduce`` has to run for it."""
