"""The best of ours against the best of the others, setting by setting, and how sure that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mix2fld.base.spread import Spread
from mix2fld_lab.reproduction.frontier.contenders import FROM_EDGES, OURS, Contender
from mix2fld_lab.reproduction.frontier.points import FrontierPoint, best
from mix2fld_lab.reproduction.statistics import holm

LEVEL = 0.05
"""Of the paired test, for all settings together."""
WITH_STATISTICS = ("own-statistics", "statistics", "murmur-stat")


@dataclass(frozen=True)
class Lead:
    """How far the devices of the best of ours are ahead of those of the best of the others."""

    settings: tuple[str, ...]
    """Where these very runs were compared; more than one where a link delivers everything."""
    ours: FrontierPoint
    other: FrontierPoint
    points: Spread
    """Of accuracy, seed by seed; below zero where ours is behind."""
    clear: bool = False
    """Whether the paired t test still rejects "no difference" after Holm's correction."""

    @property
    def ahead(self) -> bool:
        """Whether ours is, or level."""
        return self.points.mean >= 0


def distinct_leads(points: Mapping[str, Sequence[FrontierPoint]]) -> list[Lead]:
    """A lead for every setting; settings that repeat the compared runs of another count once."""
    found: dict[tuple[float, ...], Lead] = {}
    for key, each in points.items():
        lead = _lead(key, each)
        if lead is None:
            continue
        runs = tuple(_accuracies(lead.ours) + _accuracies(lead.other))
        first = found.get(runs)
        found[runs] = replace(first, settings=(*first.settings, key)) if first else lead
    return _tested(list(found.values()))


def leads_among(
    points: Mapping[str, Sequence[FrontierPoint]], entered: Callable[[Contender], bool]
) -> list[Lead]:
    """The same comparison with some contenders alone, in settings that are counted already."""
    some = {
        key: [point for point in each if entered(point.contender)] for key, each in points.items()
    }
    return _tested([lead for key, each in some.items() if (lead := _lead(key, each))])


def from_random_weights(contender: Contender) -> bool:
    """Whether it starts as networks usually do, without edges and without fixed features."""
    return not (contender.key.endswith(FROM_EDGES) or contender.protocol in WITH_STATISTICS)


def _lead(key: str, points: Sequence[FrontierPoint]) -> Lead | None:
    ours = best([point for point in points if point.contender.protocol in OURS])
    other = best([point for point in points if point.contender.protocol not in OURS])
    if ours is None or other is None:
        return None
    return Lead((key,), ours, other, ours.lead_over(other))


def _tested(leads: list[Lead]) -> list[Lead]:
    rejected = holm([lead.points.p_value for lead in leads], LEVEL)
    return [replace(lead, clear=clear) for lead, clear in zip(leads, rejected, strict=True)]


def _accuracies(point: FrontierPoint) -> list[float]:
    return [float(value) for value in point.cell.values("summary", "accuracy", "mean")]
