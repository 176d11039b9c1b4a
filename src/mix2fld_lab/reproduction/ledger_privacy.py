"""The ledger's Tables II and III: sample privacy by every definition that could be meant."""

from collections.abc import Sequence
from typing import Any

from mix2fld.report.markdown import markdown_table
from mix2fld_lab.paragraphs import paragraph
from mix2fld_lab.reproduction import paper_values as paper
from mix2fld_lab.reproduction.attacked_mixes import attack_table
from mix2fld_lab.reproduction.evidence import Evidence
from mix2fld_lab.reproduction.number_text import three_places
from mix2fld_lab.reproduction.privacy_records import closest_pair_row, off_by, row

TABLES = (
    ("Table II: Mixup", "mixup", paper.TABLE_2),
    ("Table III: Mix2up", "mix2up", paper.TABLE_3),
)
STATISTICS = ("min", "q05", "median", "mean", "q95")
POOLS = (500, 1000, 2000)
NOTE = (
    "Natural logarithm of the smallest L2 distance, on pixels 0 to 255, between a sample that the "
    "server has and the raw samples that it was generated from: two for a mixed-up sample, four "
    "for an inverse-Mixup one. Two devices with 500 IID samples each, N_S = "
    f"{paper.TABLE_SEED_SAMPLES}, mean over seeds. The columns are those that the paper's values "
    f"follow; it prints {paper.TABLE_COLUMNS[0]:g} and {paper.TABLE_COLUMNS[-1]:g} for the first "
    "and the last (decision 18), and the last row of each dataset has our values there. *Closest "
    "pair*: the mix of the two nearest samples of different labels among so many. *Off by*: root "
    "mean square difference from the paper's row, the smallest in bold. CIFAR-100 is measured when "
    "it is in the cache (`mix2fld data get cifar100 --data-folder DIR`). "
    "`mix2fld reproduce table2 table3`"
)

ATTACKS = (
    "A distance is not privacy. Which samples the server pairs depends on labels, device numbers and "
    "a generator, not on what samples show, so raw samples, mixes and inverse samples are a chain of "
    "processing: the last cannot tell more than the mixes do. For λ < 0.5 it does not tell less: the "
    "matrix of Eq. 8 has an inverse, which gives the uploads back byte for byte. Inverse-Mixup adds "
    "no privacy against the server; Table III grows with 1 / (1 − 2λ) because its samples do. "
    "*Found*: constituents of mixes that the better of two tests (box, residual) takes for members at "
    "0.1 % false positives, with 95 % intervals. *Re-identified*: nearest of 5,000 candidates to what "
    "a network trained on public samples separates. [Attacks and their null experiments](../docs/privacy.md), "
    "`mix2fld privacy audit`"
)


def privacy_tables(evidence: Evidence) -> str:
    """Both tables, beside the paper's numbers."""
    parts = ["## Tables II and III: sample privacy"]
    heads = ("dataset", "value", *(f"λ = {r:g}" for r in paper.INFERRED_COLUMNS), "off by")
    for title, kind, papers_table in TABLES:
        rows: list[Sequence[str]] = []
        for name, papers in papers_table.items():
            rows.append((f"**{name}**", "the paper's", *three_places(papers), ""))
            if name in evidence.privacy:
                rows += _measured(evidence.privacy[name], kind, papers)
            else:
                rows.append(("", "not available", *("–" for _ in papers), ""))
        parts += [f"### {title}", markdown_table(heads, rows)]
    parts.append(paragraph(NOTE))
    if evidence.attacked:
        parts += ["### What attacks find", paragraph(ATTACKS), attack_table(evidence.attacked)]
    return "\n\n".join(parts)


def _measured(
    runs: Sequence[dict[str, Any]], kind: str, papers: Sequence[float]
) -> list[Sequence[str]]:
    """A row for each definition, that closest to the paper's row in bold."""
    columns, printed = paper.INFERRED_COLUMNS, paper.TABLE_COLUMNS
    readings = {statistic: row(runs, kind, statistic, columns) for statistic in STATISTICS}
    if kind == "mixup":
        for pool in POOLS:
            readings[f"closest pair of {pool:,}"] = closest_pair_row(runs, pool, columns)
    off = {reading: off_by(values, papers) for reading, values in readings.items()}
    best = min(off, key=off.__getitem__)
    rows: list[Sequence[str]] = [
        ("", name, *three_places(values), f"**{off[name]:.2f}**" if name == best else f"{off[name]:.2f}")
        for name, values in readings.items()
    ]  # fmt: skip
    first, last = row(runs, kind, "min", (printed[0], printed[-1]))
    where = f"min at λ = {printed[0]:g} and {printed[-1]:g}"
    rows.append(("", where, f"{first:.3f}", *("" for _ in papers[2:]), f"{last:.3f}", ""))
    return rows
