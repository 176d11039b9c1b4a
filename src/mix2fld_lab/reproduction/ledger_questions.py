"""The ledger beyond the figures: the paper's open questions, and other readings of it."""

from mix2fld.base.spread import Spread
from mix2fld.report.markdown import markdown_table
from mix2fld_lab.paragraphs import paragraph
from mix2fld_lab.reproduction.evidence import Evidence
from mix2fld_lab.reproduction.experiments import (
    INVERSE_COUNTS,
    MIXING_RATIOS,
    READINGS,
    RELAXED_SLOTS,
    SETTINGS,
)
from mix2fld_lab.reproduction.ledger_answers import enough_inverse_samples, privacy_against_accuracy
from mix2fld_lab.reproduction.ledger_reasons import reasons
from mix2fld_lab.reproduction.number_text import delivery, server_accuracy, signed
from mix2fld_lab.reproduction.privacy_records import row
from mix2fld_lab.reproduction.statistics import accuracy, distinct_per_device, downloaded_gain, gain


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
    text = (
        f"Accuracy in % after {cell.rounds} rounds, non-IID, N_S = 50, N_I = 100, on an ideal link, "
        "because 32-bit seeds would not fit the slots; privacy is the minimum of Tables II and III. "
        f"{privacy_against_accuracy(evidence)} `mix2fld reproduce privacy-accuracy`"
    )
    return f"""
## Open question: privacy against accuracy

![Accuracy against sample privacy](figures/privacy-accuracy.png)

{markdown_table(heads, rows)}

{paragraph(text)}"""


def inverse_count(evidence: Evidence) -> str:
    """What the paper leaves to future work: how many samples pay."""
    rows, ends = [], []
    for sent in (10, 50):
        cells = [evidence.cells[f"inverse-count/{sent}-{made}"] for made in INVERSE_COUNTS]
        ends.append(f"{distinct_per_device(cells[-1]):.0f} for N_S = {sent}")
        for made, cell in zip(INVERSE_COUNTS, cells, strict=True):
            step = "" if made == INVERSE_COUNTS[0] else signed(gain(cell, cells[0], "mean").mean)
            rows.append(
                (str(sent), str(made), str(accuracy(cell, "mean")), server_accuracy(cell), step)
            )
    heads = ("N_S", "N_I", "all devices", "server's model", f"against N_I = {INVERSE_COUNTS[0]}")
    text = (
        f"Accuracy in % after {cells[0].rounds} rounds, non-IID, asymmetric. Distinct pairs last for "
        f"this many samples per device: {', '.join(ends)}; beyond, the same pairs are reused. "
        f"{enough_inverse_samples(evidence)} `mix2fld reproduce inverse-count`"
    )
    return f"""
## Open question: how many inverse-Mixup samples

![Accuracy against N_I](figures/inverse-count.png)

{markdown_table(heads, rows)}

{paragraph(text)}"""


def why(evidence: Evidence) -> str:
    """What else the paper could mean, and what follows."""
    rounds = evidence.reading("decided", "mix2fld").rounds
    return f"""
## Why: other readings of the paper

{reasons(evidence)}

### What the decisions change

{_readings(evidence)}

Mean accuracy of all devices after {rounds} rounds, asymmetric channels, non-IID, in %, ± sample standard
deviation over seeds; in brackets that of the server's model. N_S = 50, N_I = 100.

### What reading the curves right after a download changes

{_after_download(evidence)}

Differences in points, ± sample standard deviation over seeds: the server's model, as a device has it
right after a download, against FD's and FL's reference device at the end of its local phase. The tables
above read all of them at the end of a local phase.

### What T_max changes for FL

{_relaxed(evidence)}

Asymmetric channels, {rounds} rounds, mean accuracy of all devices. `mix2fld reproduce why`"""


def _readings(evidence: Evidence) -> str:
    columns = ("fd", "fld", "mixfld", "mix2fld")
    rows = []
    for name, (label, _, protocols) in READINGS.items():
        cells = {p: evidence.reading(name, p) for p in protocols}
        line = [
            f"{accuracy(cells[p], 'mean')} [{server_accuracy(cells[p])}]" if p in cells else ""
            for p in columns
        ]
        rows.append((label, *line))
    return markdown_table(("reading", "FD", "FLD", "MixFLD", "Mix2FLD"), rows)


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
    return markdown_table(heads, rows)


def _points(found: Spread) -> str:
    return f"{found.mean:+.2f} ± {found.std:.2f}"


def _relaxed(evidence: Evidence) -> str:
    rows = []
    for slots in RELAXED_SLOTS:
        cells = [
            evidence.at(f"asymmetric-{s}", f"why/slots-{slots}/fl") for s in ("iid", "non-iid")
        ]
        rows.append((str(slots), delivery(*cells), *(str(accuracy(c, "mean")) for c in cells)))
    return markdown_table(("T_max", "uploads delivered", "FL, IID", "FL, non-IID"), rows)
