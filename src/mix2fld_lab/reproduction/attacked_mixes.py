"""What privacy audits found in mixed-up samples: the ledger's second look at Tables II and III."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.audit.findings import LOW, Stages, matching, mixing_ratios, pooled, strongest
from mix2fld_lab.audit.page_tables import percent
from mix2fld_lab.audit.records import load_audit
from mix2fld_lab.audit.sections import sections

PARTS = ("minor", "dominant")
ON_MIXES = r"(seeds/mixed|recovery)/.*"
"""Stages that depend on the seeds alone, not on what is trained."""


class AttackedMixes(NamedTuple):
    """What attacks found at one mixing ratio of one dataset."""

    dataset: str
    ratio: str
    members: dict[str, Share]  # by part of a mix, at 0.1 % false positives
    inverted: Share  # uploads that inverse-Mixup samples give back
    recovered: dict[str, Share]  # by part, re-identified after separation


def audited_mixes(paths: Iterable[Path]) -> dict[str, Stages]:
    """The stages of all audits that attacked mixed-up samples, by dataset."""
    records = {str(path): load_audit(path) for path in paths}
    attacked = {path: each for path, each in records.items() if matching(each["stages"], ON_MIXES)}
    return {section.dataset: section.stages for section in sections(attacked)}


def attacks_on_mixes(attacked: Mapping[str, Stages]) -> list[AttackedMixes]:
    """What was found, dataset by dataset and ratio by ratio."""
    return [
        _found(dataset, ratio, stages)
        for dataset, stages in attacked.items()
        for ratio in mixing_ratios(stages)
    ]


def _found(dataset: str, ratio: str, stages: Stages) -> AttackedMixes:
    where = rf"seeds/mixed/{re.escape(ratio)}/s\d+"
    return AttackedMixes(
        dataset,
        ratio,
        {part: strongest(stages, ratio, LOW, part) for part in PARTS},
        pooled(stages, f"{where}/inversion"),
        {
            part: pooled(stages, rf"recovery/{re.escape(ratio)}/s\d+", part, "among_all")
            for part in PARTS
        },
    )


def attack_rows(attacked: Mapping[str, Stages]) -> list[Sequence[str]]:
    """Members found, uploads given back and samples re-identified, at every ratio attacked."""
    rows: list[Sequence[str]] = []
    for one in attacks_on_mixes(attacked):
        given_back = f"{one.inverted.found:,} of {one.inverted.of:,}"
        shares = (*one.members.values(), *one.recovered.values())
        rows.append((one.dataset, one.ratio, given_back, *map(percent, shares)))
    return rows
