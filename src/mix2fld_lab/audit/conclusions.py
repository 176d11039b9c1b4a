"""What the records of audits say, in sentences."""

import re
from collections.abc import Sequence

from mix2fld.protocols.table import get_protocol
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.findings import (
    LOW,
    RAW,
    Stages,
    attacked_uploads,
    budgets,
    matching,
    mean,
    mixing_ratios,
    pooled,
    statistics_with_noise,
    strongest,
    uploads_samples,
)
from mix2fld_lab.audit.sections import AuditSection

HIDES_NOTHING = 0.99
"""If attacks find more than this share of the constituents, at every mixing ratio tried."""


def conclude(found: Sequence[AuditSection]) -> list[str]:
    """What the figures say, in sentences."""
    return [line for section in found for line in _of_dataset(section)]


def key_findings(found: Sequence[AuditSection]) -> list[str]:
    """The same of the first dataset alone: what mixing hides, who leaks most, what noise costs."""
    first = found[0]
    said = (_mixing(first.stages), _worst(first), _budget(first))
    return [f"{_capital(text)} ({first.dataset})." for text in said if text]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _of_dataset(section: AuditSection) -> list[str]:
    """Sentences about one dataset, each from its records."""
    sentences = (
        _mixing(section.stages),
        _worst(section),
        _weights(section.stages),
        _rounds(section.stages),
        _budget(section),
        _updates(section),
    )
    return [f"{section.dataset}: {sentence}" for sentence in sentences if sentence]


def _mixing(stages: Stages) -> str:
    least = [
        strongest(stages, ratio, LOW, part).rate
        for ratio in mixing_ratios(stages)
        for part in ("minor", "dominant")
    ]
    if not least:
        return ""
    if min(least) > HIDES_NOTHING:
        return (
            f"mixing does not protect samples: attacks find at least {100 * min(least):.1f} % of "
            "those in mixes, at every λ"
        )
    return (
        f"attacks find {100 * min(least):.1f} to {100 * max(least):.1f} % of the samples in mixes, "
        "depending on λ and part"
    )


def _worst(section: AuditSection) -> str:
    """Whose uploads reveal most samples, beside those that contain samples."""
    handed = [row.title for row in section.rows() if _hands_over(row.name)]
    leaks = {
        f"{row.title}: {kind}": share
        for row in section.rows()
        for kind, share in row.leaks.items()
        if not (_hands_over(row.name) and kind.startswith(RAW))
    }
    said = [f"{_listed(handed)} uploads samples as they are"] if handed else []
    order = sorted(leaks, key=lambda name: leaks[name].rate)
    shown = {name: f"{name}, {100 * leaks[name].rate:.1f} %" for name in order}
    if len(order) > 1:
        said.append(
            "of a device's samples, an attacker on its first upload finds the most with "
            f"{shown[order[-1]]}, and the fewest with {shown[order[0]]}"
        )
    elif order and handed:
        said.append(f"an attacker finds samples of a device with {shown[order[0]]}")
    said += [
        f"with {count} uploads of {get_protocol(name).title} together, {100 * last.rate:.1f} %"
        for name, count, _, last in _together(section.stages)
    ]
    return "; ".join(said) if len(said) > 1 or len(order) > 1 else ""


def _hands_over(name: str) -> bool:
    """Whether samples leave a device as they are."""
    seeds = get_protocol(name).seeds
    return seeds is not None and uploads_samples(seeds) and not seeds.mixed


def _weights(stages: Stages) -> str:
    """What reading the last layer adds to reading outputs."""
    where, parts = r"uploads/s\d+", []
    for name in attacked_uploads(stages):
        by_margin = pooled(stages, where, name, "by margin", LOW, "device")
        if by_margin.of:
            found = pooled(stages, where, name, LOW, "device")
            parts.append(
                f"{get_protocol(name).title} {100 * found.rate:.1f} % "
                f"({100 * by_margin.rate:.1f} % by margin alone)"
            )
    return "samples of a device found in its first upload: " + ", ".join(parts) if parts else ""


def _rounds(stages: Stages) -> str:
    parts = []
    for name, count, first, last in _together(stages):
        clear = last.interval()[0] > first.interval()[1]
        grows = "a clear increase" if clear else "no clear difference"
        parts.append(
            f"{get_protocol(name).title} {100 * first.rate:.1f} % in one round and "
            f"{100 * last.rate:.1f} % in {count} together, {grows}"
        )
    return "uploads of several rounds: " + "; ".join(parts) if parts else ""


def _together(stages: Stages) -> list[tuple[str, int, Share, Share]]:
    """Protocols of which several uploads were attacked: how many, and shares in one and in all."""
    found = []
    for name in dict.fromkeys(stage.split("/")[1] for stage in matching(stages, "rounds/.*")):
        where = rf"rounds/{re.escape(name)}/s\d+"
        last = max(int(n) for stage in matching(stages, where) for n in stages[stage])
        one, together = (pooled(stages, where, str(n), LOW, "device") for n in (1, last))
        found.append((name, last, one, together))
    return found


def _budget(section: AuditSection) -> str:
    """What rows with a budget gain over what needs none, on the runs that both have."""
    own = _by_run(section.stages, "own-statistics")
    gains = []
    for row in section.rows():
        accuracies = _by_run(section.stages, row.name)
        common = own.keys() & accuracies.keys()
        if row.guarantee is not None and common:
            gain = sum(accuracies[run] - own[run] for run in common) / len(common)
            gains.append(f"{row.title} {100 * gain:+.1f} (ε = {row.guarantee.epsilon:g})")
    if not gains:
        return ""
    return (
        "accuracy with a budget, in points above a device's own statistics, which need no upload: "
        f"{', '.join(gains)}"
    )


def _updates(section: AuditSection) -> str:
    """What noise on updates costs, beside devices that upload nothing."""
    alone = mean(section.stages, r"accuracy/isolated/s\d+", "accuracy")
    said = []
    for name in section.protocols:
        row = get_protocol(name)
        if row.promise is None or statistics_with_noise(row):
            continue
        by_budget = {
            epsilon: mean(section.stages, where, "accuracy")
            for epsilon, where in _budgets_of(section, name)
        }
        figures = [
            f"{100 * found:.1f} % at ε = {epsilon:g}"
            for epsilon, found in sorted(by_budget.items())
            if found is not None
        ]
        if figures:
            said.append(f"{row.title} {_listed(figures)}")
    if not said:
        return ""
    compared = "" if alone is None else f"; isolated devices reach {100 * alone:.1f} %"
    return f"noise on updates: {'; '.join(said)}{compared}"


def _budgets_of(section: AuditSection, name: str) -> list[tuple[float, str]]:
    """Every ε that a protocol was run with, and the stages of these runs."""
    own = section.config_of(name).privacy.epsilon
    others = [(epsilon, side) for known, epsilon, side in budgets(section.stages) if known == name]
    return [
        (own, rf"accuracy/{re.escape(name)}/s\d+"),
        *((e, rf"budget/{re.escape(name)}/{e:g}:{side}/s\d+") for e, side in others),
    ]


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values)


def _by_run(stages: Stages, name: str) -> dict[str, float]:
    """The accuracy of a protocol in each run."""
    found = matching(stages, rf"accuracy/{re.escape(name)}/s\d+")
    return {stage.split("/")[-1]: stages[stage]["accuracy"] for stage in found}
