"""The paper's claims C1 to C10, each judged by the rules that ``ledger.RULES`` states."""

from collections.abc import Callable, Sequence

import numpy as np

from mix2fld.base.spread import sample_variance
from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.attacked_mixes import attacks_on_mixes
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.claims_on_seeds import mixing_costs, more_seeds
from mix2fld_lab.reproduction.conclusions import in_points, out_of
from mix2fld_lab.reproduction.evidence import (
    ASYMMETRIC,
    BEST_PAIR,
    MARKS,
    MEASURES,
    SYMMETRIC,
    Claim,
    Evidence,
    Holds,
    Statement,
    in_how_many,
    sized,
)
from mix2fld_lab.reproduction.experiments import DEVICE_COUNTS, SEED_PAIRS, SETTINGS
from mix2fld_lab.reproduction.number_text import delivery
from mix2fld_lab.reproduction.privacy_records import above_mixup, row
from mix2fld_lab.reproduction.statistics import (
    Measure,
    accuracy,
    device_accuracies,
    gain,
    relative_gain,
)
from mix2fld_lab.reproduction.times import Ratio, converged_rounds, jumps, times_longer
from mix2fld_lab.reproduction.uplink import UPDATES, uplink_payloads

AS_ACCURATE = 1.0
UPDATED = ("fl", "mixfld-50", BEST_PAIR)
"""Protocols whose devices take over weights, judged by C9."""
PAIRS = tuple(f"mix2fld-{sent}-{made}" for sent, made in SEED_PAIRS)
OF_THE_PAPER = ("fl", "fd", "mixfld-10", "mixfld-50", *PAIRS)


def judge(evidence: Evidence) -> list[Claim]:
    """All claims, in the order of the reading guide."""
    return [
        Claim(name, tuple(parts(evidence)), f"mix2fld reproduce {experiments}")
        for name, (parts, experiments) in CLAIMS.items()
    ]


def _more_accurate(evidence: Evidence, other: str, wanted: float, measure: Measure) -> Statement:
    """Mix2FLD above a protocol in asymmetric channels, at its best; points and relative."""
    s, pair = max(
        ((s, pair) for s in ASYMMETRIC for pair in PAIRS),
        key=lambda place: gain(evidence.at(*place), evidence.at(place[0], other), measure).mean,
    )
    found = gain(evidence.at(s, pair), evidence.at(s, other), measure)
    relative = relative_gain(evidence.at(s, pair), evidence.at(s, other), measure)
    return Statement(
        f"asymmetric: Mix2FLD more accurate than {other.upper()}, up to",
        f"{wanted} %",
        f"{MEASURES[measure]}: {in_points(found)} (relative: {relative.mean:+.1f} %, "
        f"{MARKS[sized(relative, wanted)]}) with {_pair(pair)}, {SETTINGS[s].title}",
        sized(found, wanted),
        measure,
    )


def _pair(name: str) -> str:
    _, sent, made = name.split("-")
    return f"({sent}, {made})"


def _faster(evidence: Evidence, settings: Sequence[str], wanted: float) -> Statement:
    """FL's time to converge over Mix2FLD's, at every cost; without such a time, no verdict."""
    text, paper_says = f"Mix2FLD {_pair(BEST_PAIR)} converges faster than FL", f"{wanted}×"
    slow = [evidence.at(setting, "fl") for setting in settings]
    fired = [number is not None for cell in slow for number in converged_rounds(cell)]
    if not all(any(converged_rounds(cell)) for cell in slow):
        why = (
            f"FL has no time to converge: its stopping rule fires in {out_of(fired)} runs "
            f"({delivery(*slow)} of its uploads are delivered)"
        )
        return Statement(text, paper_says, why, "unknown")
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
    return Statement(text, paper_says, "; ".join(lines), holds)


def _at_costs(setting: str, ratios: Sequence[Ratio]) -> str:
    """One ratio for each cost of a step, in the order of the ledger's table."""
    split = "IID" if setting.endswith("metric-iid") else "non-IID"
    return f"{split} " + ", ".join(f"{ratio}×" for ratio in ratios)


def _c1(evidence: Evidence) -> list[Statement]:
    return [
        *(_more_accurate(evidence, "fl", paper.MORE_ACCURATE_THAN_FL, m) for m in MEASURES),
        _faster(evidence, ASYMMETRIC, paper.FASTER_THAN_FL_ASYMMETRIC),
    ]


def _c2(evidence: Evidence) -> list[Statement]:
    more = [
        [times_longer(evidence.at(s, BEST_PAIR), evidence.at(s, "fd"), c) for c in evidence.costs]
        for s in ASYMMETRIC
    ]
    values = [ratio.value for ratios in more for ratio in ratios]
    most = 1 + 2 * (paper.SLOWER_THAN_FD - 1)
    within: Holds = "yes" if max(values) <= most else "weaker" if min(values) <= most else "no"
    times = "; ".join(_at_costs(s, ratios) for s, ratios in zip(ASYMMETRIC, more, strict=True))
    return [
        *(_more_accurate(evidence, "fd", paper.MORE_ACCURATE_THAN_FD, m) for m in MEASURES),
        Statement(
            f"at little more time to converge ({_pair(BEST_PAIR)}; holds up to twice the excess)",
            f"{paper.SLOWER_THAN_FD}×",
            times,
            within,
        ),
    ]


def _c3(evidence: Evidence) -> list[Statement]:
    return [
        *(_fl_is_best(evidence, setting, m) for setting in SYMMETRIC for m in MEASURES),
        _faster(evidence, SYMMETRIC, paper.FASTER_THAN_FL_SYMMETRIC),
    ]


def _fl_is_best(evidence: Evidence, setting: str, measure: Measure) -> Statement:
    others = [name for name in OF_THE_PAPER if name != "fl"]
    second = max(others, key=lambda name: accuracy(evidence.at(setting, name), measure).mean)
    fl, best_other = evidence.at(setting, "fl"), evidence.at(setting, second)
    return Statement(
        f"{SETTINGS[setting].title}: FL most accurate",
        "yes",
        f"{MEASURES[measure]}: FL {accuracy(fl, measure)} %, next {best_other.label} "
        f"{accuracy(best_other, measure)} %",
        "yes" if gain(fl, best_other, measure).above_zero else "no",
        measure,
    )


def _c4(evidence: Evidence) -> list[Statement]:
    return [_as_accurate(evidence, "symmetric-non-iid", measure) for measure in MEASURES]


def _as_accurate(evidence: Evidence, setting: str, measure: Measure) -> Statement:
    fl = evidence.at(setting, "fl")
    found = [(gain(evidence.at(setting, pair), fl, measure), pair) for pair in PAIRS]
    best, pair = max(found, key=lambda each: each[0].mean)
    return Statement(
        "symmetric, non-IID: Mix2FLD as accurate as FL",
        "as high as FL",
        f"{MEASURES[measure]}: {in_points(best)} with {_pair(pair)}",
        "yes" if best.mean >= -AS_ACCURATE else "no",
        measure,
    )


def _c6(evidence: Evidence) -> list[Statement]:
    bits = uplink_payloads(evidence)
    sum_of = f"{bits.outputs:,.0f} + {bits.seeds:,.0f} / {UPDATES}"
    return [
        Statement(
            "uplink payload smaller than FL's, up to (N_S = 10, seeds spread over "
            f"{UPDATES} updates)",
            f"{paper.SMALLER_UPLINK}×",
            f"{bits.weights:,.0f} / ({sum_of}) = {bits.ratio:.2f}× (the labels of the seeds are "
            f"charged too); without seeds {bits.weights / bits.outputs:.0f}×",
            "yes" if abs(bits.ratio / paper.SMALLER_UPLINK - 1) < 0.01 else "no",
        )
    ]


def _c7(evidence: Evidence) -> list[Statement]:
    few, many = DEVICE_COUNTS[0], DEVICE_COUNTS[-1]
    cells = {
        split: [evidence.cells[f"symmetric-{split}/devices-{n}"] for n in (few, many)]
        for split in ("iid", "non-iid")
    }
    left = {split: _variance_left(*pair) for split, pair in cells.items()}
    enough = (1 + paper.VARIANCE_LEFT_WITH_DEVICES) / 2
    gains = {
        (split, measure): gain(cells[split][1], cells[split][0], measure)
        for split in cells
        for measure in MEASURES
    }
    return [
        *(
            Statement(f"IID: mean accuracy grows from {few} to {many} devices",
                 f"+{paper.GAIN_WITH_DEVICES} %",
                 f"{MEASURES[measure]}: {in_points(gains['iid', measure])}",
                 sized(gains["iid", measure], paper.GAIN_WITH_DEVICES), measure)
            for measure in MEASURES
        ),
        Statement("IID: sample variance over devices shrinks",
             f"{100 * (paper.VARIANCE_LEFT_WITH_DEVICES - 1):+.0f} %",
             f"{100 * (left['iid'] - 1):+.0f} % (non-IID {100 * (left['non-iid'] - 1):+.0f} %)",
             "yes" if left["iid"] <= enough else "weaker" if left["iid"] < 1 else "no"),
        *(
            Statement("non-IID: a smaller gain, of the same tendency", "smaller",
                 f"{MEASURES[measure]}: {in_points(gains['non-iid', measure])}",
                 "yes" if gains["iid", measure].mean > gains["non-iid", measure].mean
                 and gains["non-iid", measure].above_zero else "no", measure)
            for measure in MEASURES
        ),
    ]  # fmt: skip


def _variance_left(few: CellRecord, many: CellRecord) -> float:
    """Of the sample variance over devices, with many of them."""
    return sample_variance(device_accuracies(many)) / sample_variance(device_accuracies(few))


def _c9(evidence: Evidence) -> list[Statement]:
    by_measure = [_updates(evidence, measure) for measure in MEASURES]
    places = [(s, k) for k in UPDATED for s in evidence.distinct([k])]
    sizes = [(s, jumps(evidence.at(s, k))) for s, k in places]
    smaller = [
        abs(jumps(evidence.at(s, "fd")).at_update) < abs(jump.at_update)
        for s, jump in sizes
        if jump.count
    ]
    return [
        *(drop for drop, _ in by_measure),
        *(later for _, later in by_measure),
        Statement("FD's changes are smaller", "yes",
             f"{MEASURES['reference']}: than in {sum(smaller)} of {len(smaller)} cells",
             in_how_many(smaller), "reference"),
    ]  # fmt: skip


def _updates(evidence: Evidence, measure: Measure) -> tuple[Statement, Statement]:
    """Whether accuracy drops at a download, and whether it is higher a phase later."""
    found = [
        jump
        for name in UPDATED
        for setting in evidence.distinct([name])
        if (jump := jumps(evidence.at(setting, name), measure)).count
    ]
    drops = [jump.at_update < 0 for jump in found]
    later = [jump.after_next_phase > 0 for jump in found]
    return (
        Statement("accuracy drops when weights are downloaded (FL, MixFLD, Mix2FLD)", "yes",
             f"{MEASURES[measure]}: on average in {sum(drops)} of {len(drops)} cells, see below",
             in_how_many(drops), measure),
        Statement("and is higher than before at the end of the next local phase", "yes",
             f"{MEASURES[measure]}: on average in {sum(later)} of {len(later)} cells",
             in_how_many(later), measure),
    )  # fmt: skip


CLEARLY_FOUND = 0.05
"""True-positive rate at 0.1 % false positives from which a sample does not count as hidden."""


def _c10(evidence: Evidence) -> list[Statement]:
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
        Statement("a mix hides the samples in it from the server", "yes",
             f"attacks find at least {100 * least:.1f} % of them at 0.1 % false positives",
             in_how_many(hidden))
    ]  # fmt: skip
    return [
        *(attacks if found else []),
        Statement("sample privacy grows with λ", "yes",
             f"in {sum(grows)} of {len(grows)} rows (minimum over samples)", in_how_many(grows)),
        Statement("Mix2up above Mixup", "at every λ",
             "at every λ" if all(above) else "only at " + "; ".join(shown) if any(above)
             else "at no λ", in_how_many(above)),
    ]  # fmt: skip


CLAIMS: dict[str, tuple[Callable[[Evidence], list[Statement]], str]] = {
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
