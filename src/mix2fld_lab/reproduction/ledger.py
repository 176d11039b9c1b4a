"""``REPORT.md``: which claims of the paper hold up, written from records alone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mix2fld.base.spread import sample_variance
from mix2fld_lab.made_with import said_of
from mix2fld_lab.markdown import paragraph
from mix2fld_lab.pages import render
from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.attacked_mixes import attack_rows
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.claims import OF_THE_PAPER, judge
from mix2fld_lab.reproduction.conclusions import listed
from mix2fld_lab.reproduction.evidence import (
    ASYMMETRIC,
    BEST_PAIR,
    MARKS,
    MEASURES,
    SYMMETRIC,
    Claim,
    Evidence,
)
from mix2fld_lab.reproduction.experiments import (
    DEVICE_COUNTS,
    INVERSE_COUNTS,
    MIXING_RATIOS,
    PANELS,
    QUICK,
    SETTINGS,
)
from mix2fld_lab.reproduction.ledger_answers import enough_inverse_samples, privacy_against_accuracy
from mix2fld_lab.reproduction.ledger_privacy import privacy_tables
from mix2fld_lab.reproduction.ledger_questions import (
    after_download,
    inverse_count,
    pairs_last,
    privacy_accuracy,
    readings,
    relaxed,
)
from mix2fld_lab.reproduction.ledger_reasons import reasons
from mix2fld_lab.reproduction.ledger_summary import findings, in_short, numbered
from mix2fld_lab.reproduction.number_text import delivery, server_accuracy, signed
from mix2fld_lab.reproduction.statistics import accuracy, device_accuracies, gain
from mix2fld_lab.reproduction.times import converged_rounds, jumps, rounds_to_final

TEMPLATE = Path(__file__).parent / "templates" / "report.md.j2"
VERDICTS = ("reproduced", "partly reproduced", "not reproduced", "cannot be judged")
SEEDS_THAT_FIT = (
    "With 50 devices each has 0.4 MHz: ten seeds need 83 of 105 slots, fifty would need 397 "
    "(decision 21)."
)
FIGURE_CELLS = (*OF_THE_PAPER, "fl8", "fl4", "isolated", "fl-literal", "mix2fld-50-100-literal")


def write_ledger(evidence: Evidence, seeds: int) -> str:
    """The whole report."""
    claims, cells = judge(evidence), evidence.cells
    return render(
        TEMPLATE,
        seeds=seeds,
        paper=paper,
        verdict_counts=verdict_counts(claims),
        findings=numbered(findings(evidence)),
        details=in_short(evidence),
        made_with=said_of(*(run for cell in cells.values() for run in cell.runs)),
        preview_rounds=QUICK.most_rounds,
        verdicts=[
            (claim.name, claim.parts[0].text.removesuffix(", up to"), _verdict(claim))
            for claim in claims
        ],
        glance=_glance(claims),
        measures_apart=_apart(claims),
        costs=[
            (cost.name, f"{cost.device_us:g}", f"{cost.server_us:g}") for cost in evidence.costs
        ],
        panels=_panels(evidence),
        fl_rounds=evidence.at(SYMMETRIC[0], "fl").rounds,
        slots=_slots(evidence),
        literal=_literal(evidence),
        first_point=evidence.at(SYMMETRIC[0], "fd").runs[0]["curve"]["step"][1],
        jumps=_jumps(evidence),
        distributions=_distributions(evidence),
        device_rounds=cells[f"symmetric-iid/devices-{DEVICE_COUNTS[0]}"].rounds,
        seeds_that_fit=SEEDS_THAT_FIT,
        privacy=privacy_tables(evidence),
        attacks=attack_rows(evidence.attacked),
        privacy_accuracy=privacy_accuracy(evidence),
        privacy_rounds=cells[f"privacy-accuracy/mix2fld-{MIXING_RATIOS[-1]:g}-32bit"].rounds,
        privacy_against_accuracy=privacy_against_accuracy(evidence),
        inverse_count=inverse_count(evidence),
        fewest_inverse=INVERSE_COUNTS[0],
        inverse_rounds=cells[f"inverse-count/50-{INVERSE_COUNTS[0]}"].rounds,
        pairs_last=pairs_last(evidence),
        enough_inverse_samples=enough_inverse_samples(evidence),
        reasons=reasons(evidence),
        readings=readings(evidence),
        reading_rounds=evidence.reading("decided", "mix2fld").rounds,
        after_download=after_download(evidence),
        relaxed=relaxed(evidence),
    )


def _glance(claims: Sequence[Claim]) -> list[Sequence[str]]:
    return [
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


def verdict_counts(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict, in a sentence."""
    return f"Of {len(claims)} claims, {_counted(claims)}."


def all_evaluated(claims: Sequence[Claim]) -> str:
    """The same, for the README."""
    words = f"Of the paper's {len(claims)} claims: {_counted(claims)}"
    return paragraph(f"{words} ([the ledger](results/REPORT.md)).", 120)


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
    return (
        f"Judged by both measures: {listed(both)}. The reference device and the mean of all "
        f"devices {where}."
    )


def _panels(evidence: Evidence) -> list[tuple[str, str, list[Sequence[str]]]]:
    """The name, title and rows of each panel of Fig. 2."""
    return [
        (name, SETTINGS[setting].title, [_row(evidence.at(setting, key)) for key in FIGURE_CELLS])
        for name, setting in PANELS.items()
    ]


def _row(cell: CellRecord) -> Sequence[str]:
    return (
        cell.label,
        str(accuracy(cell)),
        str(accuracy(cell, "mean")),
        server_accuracy(cell),
        delivery(cell),
        f"{cell.values('summary', 'seconds', 'communication').mean():.2f}",
        _rounds(converged_rounds(cell)),
        f"{np.median(rounds_to_final(cell)):g}",
    )


def _rounds(fired: Sequence[int | None]) -> str:
    known = [number for number in fired if number is not None]
    if not known:
        return "never"
    share = "" if len(known) == len(fired) else f" ({len(known)} of {len(fired)} seeds)"
    return f"{np.median(known):g}{share}"


def _literal(evidence: Evidence) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for setting in SETTINGS.values():
        at = evidence.at
        fl, fl_100 = at(setting.key, "fl"), at(setting.key, "fl-literal")
        ours = at(setting.key, BEST_PAIR)
        ours_100 = at(setting.key, "mix2fld-50-100-literal")
        rows.append(
            (setting.title, str(accuracy(fl_100)), str(accuracy(fl)), str(accuracy(ours_100)),
             str(accuracy(ours)), signed(gain(ours_100, fl_100).mean), signed(gain(ours, fl).mean))
        )  # fmt: skip
    return rows


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


def _jumps(evidence: Evidence) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for setting in SETTINGS.values():
        for key in ("fl", "fd", "mixfld-10", "mixfld-50", "mix2fld-10-20", BEST_PAIR):
            cell = evidence.at(setting.key, key)
            jump = jumps(cell)
            if jump.count:
                rows.append(
                    (setting.title, cell.label, str(jump.count), signed(jump.at_update),
                     signed(jump.after_next_phase))
                )  # fmt: skip
    return rows


def _distributions(evidence: Evidence) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for count in DEVICE_COUNTS:
        cells = [evidence.cells[f"symmetric-{s}/devices-{count}"] for s in ("iid", "non-iid")]
        rows.append((str(count), *(text for cell in cells for text in _distribution(cell))))
    return rows


def _distribution(cell: CellRecord) -> tuple[str, str]:
    values = device_accuracies(cell)
    return f"{values.mean():.2f}", f"{sample_variance(values):.2f}"
