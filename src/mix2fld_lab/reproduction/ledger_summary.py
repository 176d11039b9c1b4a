"""The ledger's summary: a few sentences, each concluded from the records."""

import textwrap
from collections.abc import Sequence

from mix2fld.base.spread import Spread
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.conclusions import (
    against,
    listed,
    out_of,
    outcome,
    share_of_paper,
    standing,
)
from mix2fld_lab.reproduction.evidence import ASYMMETRIC, BEST_PAIR, MEASURES, SYMMETRIC, Evidence
from mix2fld_lab.reproduction.experiments import MIXING_RATIOS
from mix2fld_lab.reproduction.number_text import delivery
from mix2fld_lab.reproduction.privacy_records import above_mixup, row
from mix2fld_lab.reproduction.statistics import accuracy, downloaded_gain, gain
from mix2fld_lab.reproduction.uplink import uplink_payloads


def in_short(evidence: Evidence) -> str:
    """The points for a reader in a hurry."""
    sentences = (
        _asymmetric(evidence),
        _symmetric(evidence),
        _eight_bits(evidence),
        _outputs(evidence),
        _mixed_samples(evidence),
        _sample_privacy(evidence),
    )
    return f"\n{_bullets(sentences)}"


def by_channels(evidence: Evidence) -> str:
    """Who is more accurate in which channels, for the README."""
    return _bullets((_asymmetric(evidence), _symmetric(evidence), _eight_bits(evidence)))


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(
        textwrap.indent(paragraph(sentence), "  ").replace("  ", "- ", 1) for sentence in sentences
    )


def _asymmetric(evidence: Evidence) -> str:
    iid, non_iid = ASYMMETRIC
    over = {
        (setting, other): gain(evidence.at(setting, BEST_PAIR), evidence.at(setting, other))
        for setting in ASYMMETRIC
        for other in ("fl", "fd")
    }
    won = outcome([over[non_iid, "fl"], over[non_iid, "fd"]])
    return (
        f"**Asymmetric channels** ({delivery(evidence.at(non_iid, 'fl'))} of FL's uploads are "
        f"delivered): **Mix2FLD {won}** with non-IID data, {against(over[non_iid, 'fl'], 'FL')} "
        f"({share_of_paper(over[non_iid, 'fl'], paper.MORE_ACCURATE_THAN_FL)}) and "
        f"{against(over[non_iid, 'fd'], 'FD')} "
        f"({share_of_paper(over[non_iid, 'fd'], paper.MORE_ACCURATE_THAN_FD)}). With IID data it "
        f"is {against(over[iid, 'fl'], 'FL')} and {against(over[iid, 'fd'], 'FD')}."
    )


def _symmetric(evidence: Evidence) -> str:
    iid, non_iid = SYMMETRIC
    lead = {s: gain(evidence.at(s, "fl"), evidence.at(s, BEST_PAIR)) for s in SYMMETRIC}
    return (
        f"**Symmetric channels** ({delivery(evidence.at(non_iid, 'fl'))} of FL's uploads are "
        f"delivered): **FL {outcome([lead[non_iid]])}** with non-IID data, "
        f"{against(lead[non_iid], 'Mix2FLD')}; the paper has the two level. With IID data FL is "
        f"{against(lead[iid], 'Mix2FLD')}."
    )


def _eight_bits(evidence: Evidence) -> str:
    setting, other = ASYMMETRIC[1], SYMMETRIC[1]
    lead = gain(evidence.at(setting, "fl8"), evidence.at(setting, BEST_PAIR))
    return (
        "**FL with 8-bit weights**, which the paper does not consider, delivers "
        f"{delivery(evidence.at(setting, 'fl8'))} of its uploads in the asymmetric and "
        f"{delivery(evidence.at(other, 'fl8'))} in the symmetric channels, and ends "
        f"{against(lead, 'Mix2FLD')} with asymmetric channels and non-IID data."
    )


def _outputs(evidence: Evidence) -> str:
    """What distillation adds to Mix2FLD (as decided against β = 0), and what the seeds do."""
    ours = evidence.reading("decided", "mix2fld")
    added = gain(ours, evidence.reading("beta-0", "mix2fld"), "mean")
    whole = gain(ours, evidence.at(ASYMMETRIC[1], "isolated"), "mean")
    return (
        f"**{_source(added, whole)}**: with distillation its devices are "
        f"{against(added, 'those without')} (β = 0), and {against(whole, 'isolated devices')}. An "
        f"upload has {uplink_payloads(evidence).ratio:.1f} times fewer bits than FL's, seeds "
        "included."
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
        "Mix2up protects better than Mixup at every λ" if all(everywhere)
        else "Mix2up protects no better than Mixup" if not any(everywhere)
        else "Mix2up protects better than Mixup only at some λ"
    )  # fmt: skip
    return f"**{headline}**: {privacy_ranges(evidence)}. {_price(evidence)}"


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
        f"At λ = {last:g} on mnist its sample privacy is {mix2up - mixup:+.1f} against Mixup's, "
        f"and the server's model {verb} from {means[0]:.1f} to {means[1]:.1f} %."
    )
