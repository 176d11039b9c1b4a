"""The privacy panel of a report, with what audits say about protocols."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from mix2fld.runs.reader import FoundRuns
from mix2fld_lab.attacks.empirical import most_true_positives
from mix2fld_lab.attacks.rates import FALSE_POSITIVES
from mix2fld_lab.audit.page_tables import leak_words
from mix2fld_lab.audit.privacy_panel import LeakPoint, privacy_panel
from mix2fld_lab.audit.records import load_audit
from mix2fld_lab.audit.sections import Row, sections


def panel_of(found: FoundRuns, audits: Sequence[Path]) -> str:
    """The section of the page about these runs and these records of audits."""
    return privacy_panel(found, leak_points(audits))


def leak_points(paths: Iterable[Path]) -> list[LeakPoint]:
    """Every protocol of these records whose uploads were attacked, or that guarantees something."""
    found = sections({str(path): load_audit(path) for path in paths})
    return [
        point
        for section in found
        for row in section.rows()
        for point in _points(section.dataset, row)
    ]


def _points(dataset: str, row: Row) -> Iterable[LeakPoint]:
    if row.guarantee is not None:
        budget = row.guarantee.epsilon, row.guarantee.delta
        share, bound = most_true_positives(min(FALSE_POSITIVES), *budget), True
    elif row.leaks:
        share, bound = max(leak.rate for leak in row.leaks.values()), False
    elif not row.sends:
        share, bound = 0.0, False
    else:
        return
    yield LeakPoint(
        dataset, row.title, leak_words(row), share, bound, row.accuracy, row.uplink_bits
    )
