"""The ledger beyond the figures: sample privacy, the paper's open questions, other readings."""

from mix2fld.reproduction import paper, reasons
from mix2fld.reproduction.evidence import Evidence
from mix2fld.reproduction.experiments import (
    INVERSE_COUNTS,
    MIXING_RATIOS,
    READINGS,
    RELAXED_SLOTS,
    SETTINGS,
)
from mix2fld.reproduction.figures import distinct_per_device
from mix2fld.reproduction.markdown import numbers, server_accuracy, signed, table
from mix2fld.reproduction.privacy_records import closest_pair_row, off_by, row
from mix2fld.reproduction.statistics import Spread, accuracy, downloaded_gain, gain


def privacy_tables(evidence: Evidence) -> str:
    """Tables II and III, by every definition that could be meant."""
    parts = ["## Tables II and III: sample privacy"]
    printed, inferred = paper.TABLE_COLUMNS, paper.INFERRED_COLUMNS
    for title, kind, papers_table in (
        ("Table II: Mixup", "mixup", paper.TABLE_2),
        ("Table III: Mix2up", "mix2up", paper.TABLE_3),
    ):
        rows = []
        for name, papers in papers_table.items():
            rows.append((f"**{name}**", "the paper's", *numbers(papers), ""))
            if name not in evidence.privacy:
                rows.append(("", "not at hand", *("–" for _ in papers), ""))
                continue
            runs = evidence.privacy[name]
            readings = {
                statistic: row(runs, kind, statistic, inferred)
                for statistic in ("min", "q05", "median", "mean", "q95")
            }
            if kind == "mixup":
                for pool in (500, 1000, 2000):
                    readings[f"closest pair of {pool:,}"] = closest_pair_row(runs, pool, inferred)
            best = min(readings, key=lambda each: off_by(readings[each], papers))
            for reading, values in readings.items():
                bold = "**" if reading == best else ""
                off = f"{bold}{off_by(values, papers):.2f}{bold}"
                rows.append(("", reading, *numbers(values), off))
            ends = row(runs, kind, "min", (printed[0], printed[-1]))
            rows.append(
                ("", f"min at λ = {printed[0]:g} and {printed[-1]:g}", f"{ends[0]:.3f}",
                 *("" for _ in papers[2:]), f"{ends[1]:.3f}", "")
            )  # fmt: skip
        heads = ("dataset", "value", *(f"λ = {ratio:g}" for ratio in inferred), "off by")
        parts += [f"### {title}", table(heads, rows)]
    parts.append(
        "Natural logarithm of the smallest L2 distance, on pixels 0 to 255, between a sample that "
        "the server has and the raw samples that it was made of: two for a mixed-up sample, four "
        "for an inversely mixed-up one. Two devices with 500 IID samples each, N_S = 100, mean "
        "over seeds. The columns are those that the paper's values follow; it prints 0.001 and "
        "0.499 for the first and the last (decision 18), and the last row of each dataset has our "
        "values there. *Closest pair*: the mix of the two nearest samples of different labels "
        "among so many. *Off by*: root mean square difference from the paper's row, the smallest "
        "in bold. CIFAR-100 is measured when it is in the cache "
        "(`mix2fld data get cifar100 --data-folder DIR`). `mix2fld reproduce table2 table3`"
    )
    return "\n\n".join(parts)


def privacy_accuracy(evidence: Evidence) -> str:
    """What the paper leaves to future work: accuracy at every mixing ratio."""
    rows = []
    runs = evidence.privacy["mnist"]
    for place, ratio in enumerate(MIXING_RATIOS):
        line = [f"{ratio:g}"]
        for protocol, kind in (("mixfld", "mixup"), ("mix2fld", "mix2up")):
            line.append(f"{row(runs, kind, 'min', MIXING_RATIOS)[place]:.2f}")
            for bits in (8, 32):
                cell = evidence.cells[f"privacy-accuracy/{protocol}-{ratio:g}-{bits}bit"]
                line += [str(accuracy(cell, "mean")), server_accuracy(cell)]
        rows.append(tuple(line))
    heads = ["λ"]
    for name in ("MixFLD", "Mix2FLD"):
        heads.append(f"{name}: privacy")
        heads += [f"{bits}-bit: {what}" for bits in (8, 32) for what in ("devices", "server")]
    return f"""
## Open question: privacy against accuracy

![Accuracy against sample privacy](figures/privacy-accuracy.png)

{table(heads, rows)}

Accuracy in % after five rounds, non-IID, N_S = 50, N_I = 100, on an ideal link, because 32-bit seeds
would not fit the slots; privacy is the minimum of Tables II and III. {reasons.privacy_accuracy(evidence)}
`mix2fld reproduce privacy-accuracy`"""


def inverse_count(evidence: Evidence) -> str:
    """What the paper leaves to future work: how many samples pay."""
    rows, ends = [], []
    for sent in (10, 50):
        cells = [evidence.cells[f"inverse-count/{sent}-{made}"] for made in INVERSE_COUNTS]
        ends.append(f"{distinct_per_device(cells):.0f} for N_S = {sent}")
        for made, cell in zip(INVERSE_COUNTS, cells, strict=True):
            step = "" if made == INVERSE_COUNTS[0] else signed(gain(cell, cells[0], "mean").mean)
            rows.append(
                (str(sent), str(made), str(accuracy(cell, "mean")), server_accuracy(cell), step)
            )
    heads = ("N_S", "N_I", "all devices", "server's model", f"against N_I = {INVERSE_COUNTS[0]}")
    return f"""
## Open question: how many inversely mixed-up samples

![Accuracy against N_I](figures/inverse-count.png)

{table(heads, rows)}

Accuracy in % after five rounds, non-IID, asymmetric. Distinct pairs last for this many samples per
device: {", ".join(ends)}; beyond, the same pairs come again. {reasons.inverse_count(evidence)}
`mix2fld reproduce inverse-count`"""


def why(evidence: Evidence) -> str:
    """What else the paper could mean, and what that gives."""
    return f"""
## Why: other readings of the paper

{reasons.why(evidence).strip()}

### What the decisions change

{_readings(evidence)}

Mean accuracy of all devices after five rounds, asymmetric channel, non-IID, in %, ± standard deviation
over seeds; in brackets that of the server's model. N_S = 50, N_I = 100.

### What reading the curves right after a download changes

{_after_download(evidence)}

Differences in points: the server's model, as a device has it right after a download, against FD's and
FL's reference device at the end of its local phase. The tables above read all of them at the end of a
local phase.

### What T_max changes for FL

{_relaxed(evidence)}

Asymmetric channel, five rounds, mean accuracy of all devices. `mix2fld reproduce why`"""


def _readings(evidence: Evidence) -> str:
    columns = ("fd", "fld", "mixfld", "mix2fld")
    rows = []
    for name, (label, _, protocols) in READINGS.items():
        cells = {p: evidence.at("asymmetric-non-iid", f"why/{name}/{p}") for p in protocols}
        line = [
            f"{accuracy(cells[p], 'mean')} [{server_accuracy(cells[p])}]" if p in cells else ""
            for p in columns
        ]
        rows.append((label, *line))
    return table(("reading", "FD", "FLD", "MixFLD", "Mix2FLD"), rows)


def _after_download(evidence: Evidence) -> str:
    rows = []
    for setting in SETTINGS.values():
        of = {
            name: evidence.at(setting.key, name)
            for name in ("fl", "fd", "mixfld-10", "mixfld-50", "mix2fld-10-20", "mix2fld-50-100")
        }
        pairs = [
            ("mixfld-10", "fd"), ("mixfld-50", "fd"), ("mixfld-10", "mix2fld-10-20"),
            ("mixfld-50", "mix2fld-50-100"), ("mix2fld-10-20", "fl"), ("mix2fld-50-100", "fl"),
        ]  # fmt: skip
        rows.append((setting.title, *(_points(downloaded_gain(of[a], of[b])) for a, b in pairs)))
    heads = (
        "setting", "MixFLD (10) over FD", "MixFLD (50) over FD", "MixFLD (10) over Mix2FLD (10, 20)",
        "MixFLD (50) over Mix2FLD (50, 100)", "Mix2FLD (10, 20) over FL", "Mix2FLD (50, 100) over FL",
    )  # fmt: skip
    return table(heads, rows)


def _points(found: Spread) -> str:
    return f"{found.mean:+.2f} ± {found.std:.2f}"


def _relaxed(evidence: Evidence) -> str:
    rows = []
    for slots in RELAXED_SLOTS:
        cells = [
            evidence.at(f"asymmetric-{s}", f"why/slots-{slots}/fl") for s in ("iid", "non-iid")
        ]
        sent = cells[0].values("summary", "uploads", "attempted").sum()
        here = cells[0].values("summary", "uploads", "delivered").sum()
        rows.append(
            (str(slots), f"{100 * here / sent:.1f} %", *(str(accuracy(c, "mean")) for c in cells))
        )
    return table(("T_max", "uploads delivered", "FL, IID", "FL, non-IID"), rows)
