"""Why claims did not hold, in words; each conclusion follows from the records."""

import numpy as np

from mix2fld.base.spread import Spread
from mix2fld.config.settings import Config
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.conclusions import (
    against,
    change,
    listed,
    out_of,
    share_of_paper,
)
from mix2fld_lab.reproduction.evidence import BEST_PAIR, SYMMETRIC, Evidence
from mix2fld_lab.reproduction.experiments import READINGS, RELAXED_SLOTS
from mix2fld_lab.reproduction.ledger_summary import privacy_ranges
from mix2fld_lab.reproduction.number_text import delivery
from mix2fld_lab.reproduction.privacy_records import above_mixup
from mix2fld_lab.reproduction.statistics import accuracy, downloaded_gain, gain, relative_gain
from mix2fld_lab.reproduction.times import converged_rounds, steps_per_round, times_longer

HARD = "asymmetric-non-iid"


def reasons(evidence: Evidence) -> str:
    """Half a page on what was not reproduced."""
    paragraphs = {
        "MixFLD against FD and Mix2FLD (C5)": f"{_mixed(evidence)} {_labels(evidence)}",
        "Size of the gain (C1, C2)": f"{_size(evidence)} {_distillation(evidence)}",
        "FL and T_max (C1, C3, C4)": _slots(evidence),
        "Times (C1 to C3)": _times(evidence),
        "Sample privacy (C10)": _privacy(evidence),
    }
    return "\n\n".join(paragraph(f"**{title}.** {text}") for title, text in paragraphs.items())


def _mean(evidence: Evidence, reading: str, protocol: str) -> float:
    return accuracy(evidence.reading(reading, protocol), "mean").mean


def _mixed(evidence: Evidence) -> str:
    """Whether a reading of the paper, or of its curves, puts MixFLD below FD."""
    fd = evidence.reading("decided", "fd")
    names = [name for name, (_, _, protocols) in READINGS.items() if "mixfld" in protocols]
    below = [gain(evidence.reading(n, "mixfld"), fd, "mean").below_zero for n in names]
    lowest = min(names, key=lambda name: _mean(evidence, name, "mixfld"))
    cells = ["fd", *(f"mixfld-{n}" for n in (10, 50)), *(f"mix2fld-{n}-{2 * n}" for n in (10, 50))]
    places = [(s, n) for s in evidence.distinct(cells) for n in (10, 50)]
    over_fd = [
        downloaded_gain(evidence.at(s, f"mixfld-{n}"), evidence.at(s, "fd")) for s, n in places
    ]
    over_ours = [
        downloaded_gain(evidence.at(s, f"mixfld-{n}"), evidence.at(s, f"mix2fld-{n}-{2 * n}"))
        for s, n in places
    ]
    return (
        f"At the end of a local phase {out_of(below)} readings in the table below put MixFLD under "
        f"FD: FD has {accuracy(fd, 'mean').mean:.1f} %, the lowest MixFLD "
        f"{_mean(evidence, lowest, 'mixfld'):.1f} % ({READINGS[lowest][0]}). Right after a "
        f"download, when the device holds the server's model, MixFLD is below FD in "
        f"{out_of([g.below_zero for g in over_fd])} comparisons{_by_up_to(over_fd)} and below "
        f"Mix2FLD in {out_of([g.below_zero for g in over_ours])}. "
        f"{_closer(below, [g.below_zero for g in over_fd])}"
    )


def _by_up_to(found: list[Spread]) -> str:
    largest = -min(each.mean for each in found)
    return f" (by up to {largest:.1f} points)" if any(g.below_zero for g in found) else ""


def _closer(end: list[bool], after: list[bool]) -> str:
    """Which way of reading the curves comes closer to the paper's order."""
    if np.mean(after) > np.mean(end):
        return (
            "Curves read right after a download come closer to the paper than curves read at the "
            "end of a local phase; the paper's figure may include these drops."
        )
    if np.mean(after) < np.mean(end):
        return "Curves read at the end of a local phase come closer to the paper."
    return "Where the curves are read makes no difference to this order."


def _labels(evidence: Evidence) -> str:
    """How much of the noise of mixed samples is their soft labels."""
    hard, raw = evidence.reading("hard-labels", "mixfld"), evidence.reading("decided", "fld")
    soft, ours = (evidence.reading("decided", name) for name in ("mixfld", "mix2fld"))
    over_soft, over_raw = gain(hard, soft, "mean"), gain(hard, raw, "mean")
    text = (
        f"With the label of the larger part, MixFLD reaches {accuracy(hard, 'mean').mean:.1f} %: "
        f"{against(over_soft, 'MixFLD with soft labels')}, "
        f"{against(over_raw, 'FLD with raw samples')} and "
        f"{against(gain(hard, ours, 'mean'), 'Mix2FLD')}."
    )
    if over_soft.above_zero and not over_raw.below_zero:
        text += ' So the "noise" of mixed samples is mostly their soft labels.'
    return text


def _size(evidence: Evidence) -> str:
    fl, ours = evidence.at(HARD, "fl"), evidence.at(HARD, BEST_PAIR)
    alone = evidence.at(HARD, "isolated")
    raw, mixed = (evidence.reading("decided", name) for name in ("fld", "mix2fld"))
    config = Config()
    seeds = raw.devices * config.seeding.seed_samples
    after, end, of_all = downloaded_gain(ours, fl), gain(ours, fl), gain(ours, fl, "mean")
    return (
        f"Devices that learn alone reach {accuracy(alone, 'mean').mean:.1f} %, and FL is "
        f"{against(gain(fl, alone, 'mean'), 'them')}. {seeds} raw seeds (FLD) carry the devices "
        f"to {accuracy(raw, 'mean').mean:.1f} %; Mix2FLD is {against(gain(mixed, raw, 'mean'), 'FLD')}. "
        f"By the reference device, Mix2FLD is {against(after, 'FL')} right after a download, and "
        f"{against(end, 'FL')} at the end of a local phase "
        f"({share_of_paper(end, relative_gain(ours, fl), paper.MORE_ACCURATE_THAN_FL)}). By all "
        f"devices it is {against(of_all, 'FL')} there "
        f"({share_of_paper(of_all, relative_gain(ours, fl, 'mean'), paper.MORE_ACCURATE_THAN_FL)})."
    )


def _distillation(evidence: Evidence) -> str:
    """What the weight of the distillation term does."""
    off = {
        name: gain(evidence.reading("beta-0", name), evidence.reading("decided", name), "mean")
        for name in ("mixfld", "mix2fld")
    }
    most = max(abs(found.mean) for found in off.values())
    decided = Config().learning.distillation_weight
    more = gain(evidence.reading("beta-1", "mix2fld"), evidence.reading("decided", "mix2fld"),
                "mean")  # fmt: skip
    text = (
        f"At β = {decided:g} the distillation term moves accuracy by {most:.1f} points at most: with "
        f"β = 0 MixFLD {change(off['mixfld'])} and Mix2FLD {change(off['mix2fld'])}. With β = 1 Mix2FLD "
        f"{change(more)}"
    )
    if more.above_zero:
        return f"{text}: a β of {1 / decided:g} times the paper's suits it better."
    return text + "."


def _slots(evidence: Evidence) -> str:
    """How FL and the advantage over it depend on the slots of an upload."""
    setting = SYMMETRIC[1]
    literal_fl = evidence.at(setting, "fl-literal")
    literal = gain(evidence.at(setting, f"{BEST_PAIR}-literal"), literal_fl)
    used = gain(evidence.at(setting, BEST_PAIR), evidence.at(setting, "fl"))
    few = RELAXED_SLOTS[0]
    relaxed = evidence.at(HARD, f"why/slots-{few}/fl")
    lead = gain(relaxed, evidence.reading("decided", "mix2fld"), "mean")
    text = (
        f"In symmetric channels with non-IID data, with the printed 100 slots, "
        f"{delivery(literal_fl)} of FL's uploads are delivered and Mix2FLD is "
        f"{against(literal, 'FL')}; with the slots used here it is {against(used, 'FL')}."
    )
    if literal.above_zero and used.below_zero:
        text += ' "As accurate as FL" lies between these two readings of T_max.'
    text += (
        f" In the asymmetric channels, with {few} slots {delivery(relaxed)} of FL's uploads are "
        f"delivered, and FL reaches {accuracy(relaxed, 'mean').mean:.1f} % after "
        f"{relaxed.rounds} rounds, {against(lead, 'Mix2FLD')}."
    )
    fl = evidence.at(HARD, "fl")
    if lead.above_zero and gain(evidence.at(HARD, BEST_PAIR), fl).above_zero:
        text += (
            f" So Mix2FLD is ahead of FL where {delivery(fl)} of FL's uploads are delivered, and "
            f"already behind where {delivery(relaxed)} are."
        )
    return text


def _times(evidence: Evidence) -> str:
    """What the ratios of times depend on."""
    cost = evidence.costs[-1]
    fl, ours = evidence.at(SYMMETRIC[1], "fl"), evidence.at(SYMMETRIC[1], BEST_PAIR)
    over_fd = times_longer(evidence.at(HARD, BEST_PAIR), evidence.at(HARD, "fd"), cost)
    over_ours = times_longer(fl, ours, cost)
    device, server = steps_per_round(ours)
    allowed = paper.SLOWER_THAN_FD - 1
    within = "within" if over_fd.value <= paper.SLOWER_THAN_FD else "outside"
    return (
        f"The conversion takes {server:,.0f} steps a round beside the devices' {device:,.0f}. In "
        f"as many rounds as FD and without communication, Mix2FLD stays within the paper's "
        f"{100 * allowed:.1f} % only if a step at the server is at least "
        f"{server / (allowed * device):.0f} times faster than on a device. With devices at "
        f"{cost.device_us:,g} µs and the server at {cost.server_us:,g} µs a step it takes {over_fd} "
        f"times as long as FD, {within} the paper's {paper.SLOWER_THAN_FD:g}. At the same costs FL "
        f"takes {over_ours} times as long as Mix2FLD in the symmetric channels (paper: "
        f"{paper.FASTER_THAN_FL_SYMMETRIC:g}): the stopping rule fires {_fired(fl)} for FL and "
        f"{_fired(ours)} for Mix2FLD (median)."
    )


def _fired(cell: CellRecord) -> str:
    known = [number for number in converged_rounds(cell) if number is not None]
    return f"in round {np.median(known):g}" if known else "never"


def _privacy(evidence: Evidence) -> str:
    """What Eqs. 6 to 8 predict, and whether the records agree."""
    as_predicted = [
        name
        for name, runs in evidence.privacy.items()
        if not (above := above_mixup(runs))[0] and above[-1]
    ]
    agrees = len(as_predicted) == len(evidence.privacy)
    measured = "agree" if agrees else f"agree on {listed(as_predicted) if as_predicted else 'none'}"
    return (
        "From Eqs. 6 to 8, an inverse-Mixup sample differs from the raw one that dominates it by "
        "λ²/(1−2λ) times one difference of two samples *of the same label* and λ(1−λ)/(1−2λ) times "
        "another. For small λ that is λ times a distance within a label, while Mixup has λ times a "
        "distance between labels, which is usually larger. This predicts Mix2up above Mixup only "
        f"where 1/(1−2λ) has grown enough. The records {measured}: {privacy_ranges(evidence)}."
    )
