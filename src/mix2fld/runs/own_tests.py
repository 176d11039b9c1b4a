"""Devices on test samples of their own: what runs say of it, beside training alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

from mix2fld.config.settings import Config
from mix2fld.tasks.metric import Metric, metric_of

ALONE = "isolated"
APART = {"personal": "none"}
"""What makes no difference to devices that train alone."""


class TestedRun(Protocol):
    """Its settings and its summary."""

    @property
    def config(self) -> Config:
        """Of one run."""

    @property
    def summary(self) -> dict[str, Any]:
        """Of its last round, or as it is so far."""


@dataclass(frozen=True)
class OwnScores:
    """Scores of devices on samples of their own, over all runs of a row."""

    mean: float
    worst_decile: float
    gain: float | None
    """Mean over devices and runs, over training alone; None where no such run is known."""
    worse_off: int | None
    """Devices that are worse than alone, of all runs."""
    compared: int
    """Of so many."""


def own_scores(
    runs: Sequence[TestedRun], others: Iterable[TestedRun], tuned: bool = False
) -> OwnScores | None:
    """Of the runs of one row, with those among ``others`` that train alone; None: not tested.

    With ``tuned``, of the models after the steps that follow the last round.
    """
    found = [own for run in runs if (own := _own(run.summary, tuned)) is not None]
    if not found:
        return None
    alone = {_case(run.config): run.summary for run in others if run.config.protocol == ALONE}
    metric, gains = metric_of(runs[0].summary["scores"]), list[float]()
    for run in runs:
        before = alone.get(_case(run.config))
        if before is not None and run.config.protocol != ALONE:
            gains += _gains(metric, _own(run.summary, tuned), _own(before, tuned))
    return OwnScores(
        fmean(own["mean"] for own in found),
        fmean(own["worst_decile"] for own in found),
        fmean(gains) if gains else None,
        sum(gain < 0 for gain in gains) if gains else None,
        len(gains),
    )


def _own(summary: Mapping[str, Any], tuned: bool) -> dict[str, Any] | None:
    found = summary.get("finetuned", {}) if tuned else summary
    own: dict[str, Any] | None = found.get("own")
    return own


def _gains(metric: Metric, own: dict[str, Any] | None, alone: dict[str, Any] | None) -> list[float]:
    if own is None or alone is None:
        return []
    pairs = zip(own["devices"], alone["devices"], strict=True)
    return [metric.gain(score) - metric.gain(before) for score, before in pairs]


def _case(config: Config) -> tuple[Any, ...]:
    """What a run has in common with that of devices alone."""
    learning = config.learning.model_copy(update=APART)
    return config.seed, config.rounds, config.data, learning
