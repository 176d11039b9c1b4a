"""The ledger beyond the figures: the paper's open questions, and other readings of it."""

from collections.abc import Sequence

from mix2fld.base.spread import Spread
from mix2fld_lab.reproduction.evidence import Evidence
from mix2fld_lab.reproduction.experiments import (
    INVERSE_COUNTS,
    MIXING_RATIOS,
    READINGS,
    RELAXED_SLOTS,
    SETTINGS,
)
from mix2fld_lab.reproduction.number_text import delivery, server_accuracy, signed
from mix2fld_lab.reproduction.privacy_records import row
from mix2fld_lab.reproduction.statistics import accuracy, distinct_per_device, downloaded_gain, gain


def privacy_accuracy(evidence: Evidence) -> list[Sequence[str]]:
    """What the paper leaves to future work: accuracy at every mixing ratio."""
    rows: list[Sequence[str]] = []
    runs = evidence.privacy["mnist"]
    for place, ratio in enumerate(MIXING_RATIOS):
        line = [f"{ratio:g}"]
        for protocol, kind in (("mixfld", "mixup"), ("mix2fld", "mix2up")):
            line.append(f"{row(runs, kind, 'min', MIXING_RATIOS)[place]:.2f}")
            for bits in (8, 32):
                cell = evidence.cells[f"privacy-accuracy/{protocol}-{ratio:g}-{bits}bit"]
                line += [str(accuracy(cell, "mean")), server_accuracy(cell)]
        rows.append(tuple(line))
    return rows


def inverse_count(evidence: Evidence) -> list[Sequence[str]]:
    """What the paper leaves to future work: how many samples pay."""
    rows: list[Sequence[str]] = []
    for sent in (10, 50):
        cells = [evidence.cells[f"inverse-count/{sent}-{made}"] for made in INVERSE_COUNTS]
        for made, cell in zip(INVERSE_COUNTS, cells, strict=True):
            step = "" if made == INVERSE_COUNTS[0] else signed(gain(cell, cells[0], "mean").mean)
            rows.append(
                (str(sent), str(made), str(accuracy(cell, "mean")), server_accuracy(cell), step)
            )
    return rows


def pairs_last(evidence: Evidence) -> str:
    """For how many samples per device distinct pairs last."""
    most = {n: evidence.cells[f"inverse-count/{n}-{INVERSE_COUNTS[-1]}"] for n in (10, 50)}
    return ", ".join(f"{distinct_per_device(cell):.0f} for N_S = {n}" for n, cell in most.items())


def readings(evidence: Evidence) -> list[Sequence[str]]:
    """What else the paper could mean, and what follows."""
    columns = ("fd", "fld", "mixfld", "mix2fld")
    rows: list[Sequence[str]] = []
    for name, (label, _, protocols) in READINGS.items():
        cells = {p: evidence.reading(name, p) for p in protocols}
        line = [
            f"{accuracy(cells[p], 'mean')} [{server_accuracy(cells[p])}]" if p in cells else ""
            for p in columns
        ]
        rows.append((label, *line))
    return rows


def after_download(evidence: Evidence) -> list[Sequence[str]]:
    """Accuracies right after a download, against those of FD and FL."""
    rows: list[Sequence[str]] = []
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
    return rows


def _points(found: Spread) -> str:
    return f"{found.mean:+.2f} ± {found.std:.2f}"


def relaxed(evidence: Evidence) -> list[Sequence[str]]:
    """FL with more slots for an upload."""
    rows: list[Sequence[str]] = []
    for slots in RELAXED_SLOTS:
        cells = [
            evidence.at(f"asymmetric-{s}", f"why/slots-{slots}/fl") for s in ("iid", "non-iid")
        ]
        rows.append((str(slots), delivery(*cells), *(str(accuracy(c, "mean")) for c in cells)))
    return rows
