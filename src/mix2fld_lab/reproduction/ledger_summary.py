"""The ledger's summary: a few sentences, each concluded from the records."""

import textwrap
from collections.abc import Sequence

from mix2fld.base.spread import Spread
from mix2fld.config.settings import Config
from mix2fld.links import make_link
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.conclusions import (
    against,
    by_both,
    listed,
    out_of,
    outcome,
    standing,
)
from mix2fld_lab.reproduction.evidence import (
    ASYMMETRIC,
    BEST_PAIR,
    MEASURES,
    SMALL_PAIR,
    SYMMETRIC,
    Evidence,
)
from mix2fld_lab.reproduction.experiments import MIXING_RATIOS, SETTINGS
from mix2fld_lab.reproduction.number_text import delivery
from mix2fld_lab.reproduction.privacy_records import above_mixup, row
from mix2fld_lab.reproduction.statistics import accuracy, downloaded_gain, gain
from mix2fld_lab.reproduction.uplink import uplink_payloads


def findings(evidence: Evidence) -> tuple[str, ...]:
    """What a reader should know first."""
    return _asymmetric(evidence), _symmetric(evidence), _outputs(evidence)


def in_short(evidence: Evidence) -> str:
    """What else there is to say, for a reader in a hurry."""
    others = (_eight_bits(evidence), _mixed_samples(evidence), _sample_privacy(evidence))
    return _bullets(others)


def numbered(sentences: Sequence[str]) -> str:
    """A list of findings."""
    return "\n".join(paragraph(f"{n}. {text}") for n, text in enumerate(sentences, 1))


def by_channels(evidence: Evidence) -> str:
    """The same of non-IID data alone, and shorter, for the README."""
    setting, other = ASYMMETRIC[1], SYMMETRIC[1]
    paper_has = f"{paper.MORE_ACCURATE_THAN_FL:g} and {paper.MORE_ACCURATE_THAN_FD:g} %"
    return _bullets(
        (
            f"**Asymmetric channels: Mix2FLD {_outcome(evidence, setting, BEST_PAIR, ('fl', 'fd'))}**, "
            f"{_by_both(evidence, setting, BEST_PAIR, 'fl', 'FL')} and "
            f"{_by_both(evidence, setting, BEST_PAIR, 'fd', 'FD')}; the paper has {paper_has}. "
            f"{fl_delivery(evidence, setting)}.",
            f"**Symmetric channels: FL {_outcome(evidence, other, 'fl', (BEST_PAIR,))}**, "
            f"{_by_both(evidence, other, 'fl', BEST_PAIR, 'Mix2FLD')}; the paper has the two level.",
            f"**FL with 8-bit weights**, not in the paper, is "
            f"{_by_both(evidence, setting, 'fl8', BEST_PAIR, 'Mix2FLD')} with asymmetric channels.",
        ),
        width=120,
    )


def _bullets(sentences: Sequence[str], width: int = 102) -> str:
    return "\n".join(
        textwrap.indent(paragraph(sentence, width - 2), "  ").replace("  ", "- ", 1)
        for sentence in sentences
    )


def _by_both(evidence: Evidence, setting: str, ours: str, other: str, title: str) -> str:
    found = {
        measure: gain(evidence.at(setting, ours), evidence.at(setting, other), measure)
        for measure in MEASURES
    }
    return by_both(found["reference"], found["mean"], title)


def _outcome(evidence: Evidence, setting: str, ours: str, others: Sequence[str]) -> str:
    """Who wins, by all devices; by the reference device, too, if that says something else."""
    of_all, of_one = (
        outcome([gain(evidence.at(setting, ours), evidence.at(setting, o), m) for o in others])
        for m in ("mean", "reference")
    )
    return of_all if of_all == of_one else f"{of_all} (by the reference device: {of_one})"


def _asymmetric(evidence: Evidence) -> str:
    iid, non_iid = ASYMMETRIC
    over = {
        (setting, other): _by_both(evidence, setting, BEST_PAIR, other, other.upper())
        for setting in ASYMMETRIC
        for other in ("fl", "fd")
    }
    return (
        f"**Asymmetric channels** ({fl_delivery(evidence, non_iid)}): **Mix2FLD "
        f"{_outcome(evidence, non_iid, BEST_PAIR, ('fl', 'fd'))}** with non-IID data, "
        f"{over[non_iid, 'fl']} and {over[non_iid, 'fd']}; the paper has "
        f"{paper.MORE_ACCURATE_THAN_FL:g} and {paper.MORE_ACCURATE_THAN_FD:g} %. With IID data it "
        f"is {over[iid, 'fl']} and {over[iid, 'fd']}."
    )


def _symmetric(evidence: Evidence) -> str:
    iid, non_iid = SYMMETRIC
    lead = {s: _by_both(evidence, s, "fl", BEST_PAIR, "Mix2FLD") for s in SYMMETRIC}
    return (
        f"**Symmetric channels** ({fl_delivery(evidence, non_iid)}): **FL "
        f"{_outcome(evidence, non_iid, 'fl', (BEST_PAIR,))}** with non-IID data, {lead[non_iid]}; "
        f"the paper has the two level. With IID data FL is {lead[iid]}."
    )


def fl_delivery(evidence: Evidence, setting: str) -> str:
    """How many of FL's uploads were delivered, and how many are expected to be."""
    fl = evidence.at(setting, "fl")
    config = Config.of(protocol="fl", **SETTINGS[setting].changes)
    bits = round(uplink_payloads(evidence).weights)
    budget = make_link(config, fl.devices).budget("uplink", bits, fl.devices)
    measured, expected = delivery(fl), f"{100 * budget.delivery_probability:.1f} %"
    also = "" if measured == expected else f", {expected} are expected"
    return f"{measured} of FL's uploads were delivered{also}"


def _eight_bits(evidence: Evidence) -> str:
    setting, other = ASYMMETRIC[1], SYMMETRIC[1]
    return (
        "**FL with 8-bit weights**, which the paper does not consider, delivers "
        f"{delivery(evidence.at(setting, 'fl8'))} of its uploads in the asymmetric and "
        f"{delivery(evidence.at(other, 'fl8'))} in the symmetric channels, and ends "
        f"{_by_both(evidence, setting, 'fl8', BEST_PAIR, 'Mix2FLD')} with asymmetric channels and "
        "non-IID data."
    )


def _outputs(evidence: Evidence) -> str:
    """What distillation adds to Mix2FLD (as decided against β = 0), and what the seeds do."""
    ours = evidence.reading("decided", "mix2fld")
    added = gain(ours, evidence.reading("beta-0", "mix2fld"), "mean")
    alone = evidence.at(ASYMMETRIC[1], "isolated")
    whole, small = (
        gain(evidence.at(ASYMMETRIC[1], pair), alone, "mean") for pair in (BEST_PAIR, SMALL_PAIR)
    )
    return (
        f"**{_source(added, whole)}**: with distillation its devices are "
        f"{against(added, 'those without')} (β = 0). With N_S = 50 they are "
        f"{against(whole, 'isolated devices')}, and an upload has "
        f"{uplink_payloads(evidence, BEST_PAIR).ratio:.1f} times fewer bits than FL's, seeds "
        f"included; with N_S = 10 they are {against(small, 'isolated devices')}, with "
        f"{uplink_payloads(evidence, SMALL_PAIR).ratio:.1f} times fewer bits."
    )


def _source(added: Spread, whole: Spread) -> str:
    """Where the gain over isolated devices comes from."""
    if not whole.above_zero:
        return "Mix2FLD gains nothing over isolated devices"
    if added.below_zero:
        return "The uploaded outputs cost Mix2FLD accuracy; its gain comes from the labelled seeds"
    if not added.above_zero:
        return "Mix2FLD's gain comes from the labelled seeds, not from the uploaded outputs"
    mostly = "the uploaded outputs" if added.mean > whole.mean / 2 else "the labelled seeds"
    return f"Mix2FLD's gain comes mostly from {mostly}"


def _mixed_samples(evidence: Evidence) -> str:
    names = ("mixfld-10", "mixfld-50")
    places = [(s, m) for s in evidence.distinct([*names, "fd"]) for m in names]
    by_device, by_mean = (
        [gain(evidence.at(s, m), evidence.at(s, "fd"), measure).below_zero for s, m in places]
        for measure in MEASURES
    )
    after = [downloaded_gain(evidence.at(s, m), evidence.at(s, "fd")).below_zero for s, m in places]
    headline = (
        "MixFLD is worse than FD" if all(by_device + by_mean)
        else "MixFLD is worse than FD in some settings" if any(by_device + by_mean)
        else "MixFLD is not worse than FD"
    )  # fmt: skip
    return (
        f"**{headline}** after a local phase: it is below in {out_of(by_device)} comparisons by the "
        f"reference device and in {out_of(by_mean)} by the mean of all devices; right after a "
        f"download in {out_of(after)}."
    )


def _sample_privacy(evidence: Evidence) -> str:
    everywhere = [flag for runs in evidence.privacy.values() for flag in above_mixup(runs)]
    headline = (
        "Mix2up's distances are above Mixup's at every λ" if all(everywhere)
        else "Mix2up's distances are not above Mixup's" if not any(everywhere)
        else "Mix2up's distances are above Mixup's only at some λ"
    )  # fmt: skip
    return (
        f"**{headline}**: {privacy_ranges(evidence)}. {_price(evidence)} Such a distance is what the "
        "paper calls sample privacy, not what an attacker finds: see *what attacks find*."
    )


def privacy_ranges(evidence: Evidence) -> str:
    """At which mixing ratios Mix2up is above Mixup, dataset by dataset."""
    parts = []
    for name, runs in evidence.privacy.items():
        higher = [
            f"{ratio:g}"
            for ratio, above in zip(paper.INFERRED_COLUMNS, above_mixup(runs), strict=True)
            if above
        ]
        parts.append(f"above at λ = {listed(higher)} on {name}" if higher else f"never on {name}")
    return "; ".join(parts)


def _price(evidence: Evidence) -> str:
    """What the ratio of the highest privacy does to the server's model."""
    last = MIXING_RATIOS[-1]
    cells = {r: evidence.cells[f"privacy-accuracy/mix2fld-{r:g}-8bit"] for r in MIXING_RATIOS}
    best = max(MIXING_RATIOS, key=lambda ratio: accuracy(cells[ratio], "global").mean)
    mixup, mix2up = (row(evidence.privacy["mnist"], kind, "min", (last,))[0]
                     for kind in ("mixup", "mix2up"))  # fmt: skip
    means = [accuracy(cells[ratio], "global").mean for ratio in (best, last)]
    lost = gain(cells[last], cells[best], "global")
    verb = {"below": "falls", "above": "rises", "level": "stays level, moving"}[standing(lost)]
    return (
        f"At λ = {last:g} on mnist the distance is {mix2up - mixup:+.1f} against Mixup's, "
        f"and the server's model {verb} from {means[0]:.1f} to {means[1]:.1f} %."
    )
