"""``REPORT.md``: which claims of the paper hold up, written from records alone."""

from collections.abc import Sequence

import numpy as np

from mix2fld.report.markdown import markdown_table
from mix2fld.reproduction.cell_records import CellRecord
from mix2fld.reproduction.claims import OF_THE_PAPER, judge
from mix2fld.reproduction.conclusions import listed
from mix2fld.reproduction.evidence import (
    ASYMMETRIC,
    BEST_PAIR,
    MEASURES,
    SYMMETRIC,
    Claim,
    Evidence,
)
from mix2fld.reproduction.experiments import DEVICE_COUNTS, PANELS, QUICK, SETTINGS
from mix2fld.reproduction.ledger_privacy import privacy_tables
from mix2fld.reproduction.ledger_questions import inverse_count, privacy_accuracy, why
from mix2fld.reproduction.ledger_summary import in_short
from mix2fld.reproduction.number_text import delivery, paragraph, server_accuracy, signed
from mix2fld.reproduction.statistics import (
    accuracy,
    device_accuracies,
    gain,
    sample_variance,
)
from mix2fld.reproduction.times import converged_rounds, jumps, rounds_to_final

PREVIEW = f"""
**A preview.** One seed has no spread, so no direction counts and the verdicts below mean nothing; at
most {QUICK.most_rounds} short rounds are not the paper's setting."""
MARKS = {
    "yes": "holds",
    "weaker": "weaker",
    "no": "does not hold",
    "unknown": "cannot be judged",
}
RULES = """\
Accuracies are those that the paper plots: of a randomly chosen reference device, at the end of its
last local phase, in per cent. C5 and C8, whose differences are small, are judged by the mean of all
devices as well. The paper does not say whether its gains are points or relative; here
they are judged as points. Differences are taken seed by seed; brackets hold the 95 %
interval of their mean (Student's t). A direction counts when that interval excludes zero. A part of
a claim *holds* when its direction counts and its size is at least half the paper's; it is *weaker*
when only the direction counts, or only in some of the settings; otherwise it *does not hold*. It
*cannot be judged* when the records lack what it compares: FL has no time to converge where hardly
anything arrives, because the stopping rule compares two downloads. A claim is *reproduced* when all
its parts hold, *not reproduced* when none holds and none is weaker, and *partly reproduced* in
between. Runs that are the same in asymmetric and symmetric channels are counted once ("both
channels"). "As accurate" means at most one point below. Ratios of times have
to hold at every listed cost of a step. "Up to" is the largest of several means, as in the paper, and
so is biased upward. Standard deviations (±) and variances are those of the sample (n − 1)."""
VERDICTS = ("reproduced", "partly reproduced", "not reproduced", "cannot be judged")
SEEDS_THAT_FIT = (
    "With 50 devices each has 0.4 MHz: ten seeds need 83 of 105 slots, fifty would need 397 "
    "(decision 21)."
)
FIGURE_CELLS = (*OF_THE_PAPER, "fl8", "fl4", "isolated", "fl-literal", "mix2fld-50-100-literal")


def write_ledger(evidence: Evidence, seeds: int) -> str:
    """The whole report."""
    claims = judge(evidence)
    sections = [
        _head(claims, seeds, evidence),
        _glance(claims),
        _costs(evidence),
        _figure_2(evidence),
        _literal(evidence),
        _jumps(evidence),
        _figure_3(evidence),
        privacy_tables(evidence),
        privacy_accuracy(evidence),
        inverse_count(evidence),
        why(evidence),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _head(claims: Sequence[Claim], seeds: int, evidence: Evidence) -> str:
    return f"""
# Which claims of the paper hold up

Every figure, table and claim of *Mix2FLD: Downlink Federated Learning After Uplink Federated
Distillation With Two-Way Mixup*, run again with {"one seed" if seeds == 1 else f"{seeds} seeds"}. {verdict_counts(claims)}
{in_short(evidence) if seeds > 1 else PREVIEW}

This page and its figures are made by `make ledger` from the records in `results/records`; the
records by `make reproduce` (`mix2fld reproduce all`, about two hours on two cores). A single figure:
`mix2fld reproduce fig2c`; scaled down: `mix2fld reproduce fig2c --quick`."""


def _glance(claims: Sequence[Claim]) -> str:
    rows = [
        (
            claim.name if first else "",
            part.text,
            part.paper,
            part.ours,
            MARKS[part.holds],
            _verdict(claim) if first else "",
            f"`{claim.command}`" if first else "",
        )
        for claim in claims
        for first, part in ((part is claim.parts[0], part) for part in claim.parts)
    ]
    shown = markdown_table(("claim", "what", "paper", "here", "part", "verdict", "command"), rows)
    return "\n\n".join(
        ("## At a glance", shown, _apart(claims), "### How a verdict is reached", RULES)
    )


def verdict_counts(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict, in a sentence."""
    return f"Of {len(claims)} claims, {_counted(claims)}."


def all_evaluated(claims: Sequence[Claim]) -> str:
    """The same, for the README."""
    return paragraph(
        f"All {len(claims)} claims of the paper are evaluated: {_counted(claims)} "
        "([the ledger](results/REPORT.md))."
    )


def _counted(claims: Sequence[Claim]) -> str:
    counts = {v: sum(claim.verdict == v for claim in claims) for v in VERDICTS}
    return listed([f"{count} {verdict}" for verdict, count in counts.items() if count])


def _verdict(claim: Claim) -> str:
    single = {name: claim.verdict_by(measure) for measure, name in MEASURES.items()}
    if len(set(single.values())) == 1:
        return f"**{claim.verdict}**"
    return f"**{claim.verdict}** ({'; '.join(f'{n}: {v}' for n, v in single.items())})"


def _apart(claims: Sequence[Claim]) -> str:
    """Where the reference device and the mean of all devices lead to different marks."""
    apart = [f'{claim.name}, "{text}"' for claim in claims for text in claim.parts_apart]
    both = [claim.name for claim in claims if any(part.measure for part in claim.parts)]
    where = f"part on {listed(apart)}" if apart else "agree on every statement"
    return paragraph(
        f"Judged by both measures: {listed(both)}. The reference device and the mean of all "
        f"devices {where}."
    )


def _costs(evidence: Evidence) -> str:
    rows = [(cost.name, f"{cost.device_us:g}", f"{cost.server_us:g}") for cost in evidence.costs]
    shown = markdown_table(("cost", "µs a step on a device", "µs a step at the server"), rows)
    return f"""
The paper's computing times were measured on a machine that it does not name. Ratios of times to
converge are therefore given at four costs of an SGD step, in this order:

{shown}"""


def _figure_2(evidence: Evidence) -> str:
    parts = ["## Fig. 2: accuracy over time"]
    for name, setting in PANELS.items():
        rows = []
        for key in FIGURE_CELLS:
            cell = evidence.at(setting, key)
            rows.append(
                (
                    cell.label,
                    str(accuracy(cell)),
                    str(accuracy(cell, "mean")),
                    server_accuracy(cell),
                    delivery(cell),
                    f"{cell.values('summary', 'seconds', 'communication').mean():.2f}",
                    _rounds(converged_rounds(cell)),
                    f"{np.median(rounds_to_final(cell)):g}",
                )
            )
        heads = (
            "system", "reference device", "all devices", "server's model", "uploads delivered",
            "s on air", "rule fired in round", "rounds to final",
        )  # fmt: skip
        parts += [
            f"### Fig. 2{name[-1]}: {SETTINGS[setting].title}",
            f"![Learning curves](figures/{name}.png)",
            markdown_table(heads, rows),
            f"`mix2fld reproduce {name}`",
        ]
    parts.append(
        paragraph(
            "Accuracies in %, mean ± sample standard deviation over seeds. *Rule fired*: the "
            "paper's stopping rule with ε = 0.05, median over the seeds in which it fired within "
            f"{evidence.at(SYMMETRIC[0], 'fl').rounds} rounds. *Rounds to final*: until the "
            "reference device stayed within a point of its last accuracy, median. Isolated devices "
            "never communicate."
        )
    )
    return "\n\n".join(parts)


def _rounds(fired: Sequence[int | None]) -> str:
    known = [number for number in fired if number is not None]
    if not known:
        return "never"
    share = "" if len(known) == len(fired) else f" ({len(known)} of {len(fired)} seeds)"
    return f"{np.median(known):g}{share}"


def _literal(evidence: Evidence) -> str:
    rows = []
    for setting in SETTINGS.values():
        at = evidence.at
        fl, fl_100 = at(setting.key, "fl"), at(setting.key, "fl-literal")
        ours = at(setting.key, BEST_PAIR)
        ours_100 = at(setting.key, "mix2fld-50-100-literal")
        rows.append(
            (setting.title, str(accuracy(fl_100)), str(accuracy(fl)), str(accuracy(ours_100)),
             str(accuracy(ours)), signed(gain(ours_100, fl_100).mean), signed(gain(ours, fl).mean))
        )  # fmt: skip
    heads = (
        "setting", "FL, 100", "FL, 105", "Mix2FLD, 100", "Mix2FLD, 105", "gain, 100", "gain, 105",
    )  # fmt: skip
    return f"""
## T_max: 100 slots as printed, 105 as used here

{paragraph(_slots(evidence))}

{markdown_table(heads, rows)}"""


def _slots(evidence: Evidence) -> str:
    """How much of FL is delivered with either number of slots."""
    printed, used = (
        [delivery(*(evidence.at(s, key) for s in both)) for both in (SYMMETRIC, ASYMMETRIC)]
        for key in ("fl-literal", "fl")
    )
    return (
        f"Of FL's uploads {printed[0]} are delivered in the symmetric and {printed[1]} in the "
        f"asymmetric channels with the printed 100 slots, {used[0]} and {used[1]} with 105 "
        "(decision 1). Mix2FLD is the (50, 100) pair; gains are Mix2FLD over FL."
    )


def _jumps(evidence: Evidence) -> str:
    rows = []
    for setting in SETTINGS.values():
        for key in ("fl", "fd", "mixfld-10", "mixfld-50", "mix2fld-10-20", BEST_PAIR):
            cell = evidence.at(setting.key, key)
            jump = jumps(cell)
            if jump.count:
                rows.append(
                    (setting.title, cell.label, str(jump.count), signed(jump.at_update),
                     signed(jump.after_next_phase))
                )  # fmt: skip
    heads = ("setting", "system", "updates", "at the update", "after the next local phase")
    first = evidence.at(SYMMETRIC[0], "fd").runs[0]["curve"]["step"][1]
    text = (
        "Mean change of the reference device's accuracy, in points, against its accuracy just "
        "before. For FD, whose devices keep their weights, the first column is the change up to "
        f"the first point of the next local phase ({first:,} steps)."
    )
    return f"""
## What a global update does (C9)

{paragraph(text)}

{markdown_table(heads, rows)}"""


def _figure_3(evidence: Evidence) -> str:
    rows = []
    for count in DEVICE_COUNTS:
        cells = [evidence.cells[f"symmetric-{s}/devices-{count}"] for s in ("iid", "non-iid")]
        rows.append((str(count), *(text for cell in cells for text in _distribution(cell))))
    heads = ("devices", "IID: mean", "sample variance", "non-IID: mean", "sample variance")
    rounds = evidence.cells[f"symmetric-iid/devices-{DEVICE_COUNTS[0]}"].rounds
    text = (
        f"Mix2FLD (10, 20), symmetric channels, {rounds} rounds; over all devices of all seeds, in "
        f"% and in squared points. {SEEDS_THAT_FIT} `mix2fld reproduce fig3`"
    )
    return f"""
## Fig. 3: accuracy against the number of devices

![Accuracy distributions](figures/fig3.png)

{markdown_table(heads, rows)}

{paragraph(text)}"""


def _distribution(cell: CellRecord) -> tuple[str, str]:
    values = device_accuracies(cell)
    return f"{values.mean():.2f}", f"{sample_variance(values):.2f}"
