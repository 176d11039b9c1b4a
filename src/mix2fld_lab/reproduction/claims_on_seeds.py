"""C5 and C8, on mixed-up samples and their number: judged by both measures of accuracy."""

from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.conclusions import in_points
from mix2fld_lab.reproduction.evidence import (
    BEST_PAIR,
    MEASURES,
    SMALL_PAIR,
    Evidence,
    Statement,
    in_how_many,
    sized,
)
from mix2fld_lab.reproduction.experiments import SETTINGS
from mix2fld_lab.reproduction.statistics import Measure, gain
from mix2fld_lab.reproduction.times import times_longer

MIXED = {"mixfld-10": SMALL_PAIR, "mixfld-50": BEST_PAIR}
"""MixFLD, and the Mix2FLD with as many seeds."""


def mixing_costs(evidence: Evidence) -> list[Statement]:
    """C5: MixFLD is less accurate than Mix2FLD, and than FD."""
    pairs = list(MIXED.items())
    against_fd = [(name, "fd") for name in MIXED]
    return [
        *(
            _below(evidence, pairs, "MixFLD less accurate than Mix2FLD", "in all of Fig. 2", each)
            for each in MEASURES
        ),
        *(
            _below(evidence, against_fd, "MixFLD less accurate than FD", "yes", each)
            for each in MEASURES
        ),
    ]


def _below(
    evidence: Evidence, pairs: list[tuple[str, str]], text: str, said: str, measure: Measure
) -> Statement:
    settings = evidence.distinct([name for pair in pairs for name in pair])
    found = [
        gain(evidence.at(setting, mixed), evidence.at(setting, other), measure)
        for setting in settings
        for mixed, other in pairs
    ]
    below = [each.below_zero for each in found]
    clearest = min(found, key=lambda each: each.high)
    shown = ", ".join(f"{each.mean:+.2f}" for each in found)
    most = f"; {in_points(clearest)}" if any(below) else ""
    return Statement(
        text,
        said,
        f"{MEASURES[measure]}: {sum(below)} of {len(below)} (N_S 10 and 50 in "
        f"{_places(settings)}: {shown} points{most})",
        in_how_many(below),
        measure,
    )


def more_seeds(evidence: Evidence) -> list[Statement]:
    """C8: fewer seeds converge faster and are less accurate; more inverse samples help."""
    slower = [
        times_longer(evidence.at(s, BEST_PAIR), evidence.at(s, SMALL_PAIR), evidence.costs[0]).value
        for s in SETTINGS
    ]
    return [
        Statement(
            "fewer seeds converge faster (communication alone)",
            "N_S 10 faster than 50",
            "N_S = 50 takes " + ", ".join(f"{ratio:.2f}×" for ratio in slower) + " as long",
            "yes" if min(slower) > 1 else "no",
        ),
        *(_fewer_are_worse(evidence, measure) for measure in MEASURES),
        *(_augmented(evidence, measure) for measure in MEASURES),
    ]


def _fewer_are_worse(evidence: Evidence, measure: Measure) -> Statement:
    settings = evidence.distinct([BEST_PAIR, SMALL_PAIR])
    better = [
        gain(evidence.at(s, BEST_PAIR), evidence.at(s, SMALL_PAIR), measure) for s in settings
    ]
    shown = ", ".join(f"{each.mean:+.2f}" for each in better)
    return Statement(
        "fewer seeds are less accurate",
        "N_S 10 below 50",
        f"{MEASURES[measure]}: N_S = 50 gains {shown} points ({_places(settings)})",
        in_how_many([each.above_zero for each in better]),
        measure,
    )


def _augmented(evidence: Evidence, measure: Measure) -> Statement:
    names = [f"mix2fld-{n}-{n * more}" for n in (10, 50) for more in (1, 2)]
    settings = evidence.distinct(names)
    found = [
        (
            gain(
                evidence.at(s, f"mix2fld-{n}-{2 * n}"), evidence.at(s, f"mix2fld-{n}-{n}"), measure
            ),
            s,
            n,
        )
        for s in settings
        for n in (10, 50)
    ]
    most, where, sent = max(found, key=lambda each: each[0].mean)
    shown = ", ".join(f"{each.mean:+.2f}" for each, _, _ in found)
    return Statement(
        "more inverse-Mixup samples at equal N_S, up to",
        f"+{paper.GAIN_WITH_INVERSE_SAMPLES} %",
        f"{MEASURES[measure]}: {in_points(most)} with N_S = {sent}, {_place(where, settings)}; "
        f"all {len(found)}: {shown}",
        sized(most, paper.GAIN_WITH_INVERSE_SAMPLES),
        measure,
    )


def _places(settings: list[str]) -> str:
    return "; ".join(_place(setting, settings) for setting in settings)


def _place(setting: str, settings: list[str]) -> str:
    """The name of a setting; if its runs are those of both channels, of both."""
    title = SETTINGS[setting].title
    both = setting.replace("asymmetric", "symmetric") not in settings
    return title.replace("asymmetric", "both") if both else title
