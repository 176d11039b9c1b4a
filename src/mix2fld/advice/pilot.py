"""A pilot: candidates are simulated seed by seed until their order is clear."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mix2fld.advice.ranking import ALONE, CLOSE_TO_FL, Option
from mix2fld.advice.scarcity import Resource, cost
from mix2fld.base.spread import Spread, spread
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.metric import Metric

OURS = "murmur"
"""Takes part in every pilot, though others of its family may rank before it."""
FIRST_SEEDS, MOST_SEEDS = 3, 5
LEVEL = 0.05
"""Of the paired test, shared by all comparisons and by all looks (Bonferroni)."""


def family_of(protocol: str) -> str:
    """The file of a protocol: one for each family."""
    return type(get_protocol(protocol)).__module__


def candidates(options: Sequence[Option], everybody: Sequence[Option], named: bool) -> list[Option]:
    """Whom a pilot compares: the best of each family, or all that were named; and devices alone.

    Murmur takes part wherever it suits. ``everybody`` is ranked, too: the first that uploads
    nothing is the baseline.
    """
    suitable = [each for each in options if each.suits and each.point.protocol not in ALONE]
    first: dict[str, Option] = {}
    for each in suitable:
        name = each.point.protocol
        first.setdefault(name if named else family_of(name), each)
    found = list(first.values())
    found += [each for each in suitable if each.point.protocol == OURS and each not in found]
    alone = [each for each in (*options, *everybody) if each.point.protocol in ALONE]
    return [*found, *alone[:1]]


@dataclass
class PilotTrial:
    """A candidate and its scores, one for each seed; of the metric's gain, more is better."""

    option: Option
    gains: list[float]

    @property
    def mean(self) -> float:
        """Mean score over its seeds."""
        return spread(self.gains).mean

    def lead_over(self, other: "PilotTrial") -> Spread:
        """Paired, over the seeds that both have."""
        pairs = zip(self.gains, other.gains, strict=False)
        return spread([mine - theirs for mine, theirs in pairs])


@dataclass(frozen=True)
class Pilot:
    """The simulated candidates, with their metric and the level of the paired tests."""

    trials: tuple[PilotTrial, ...]
    metric: Metric
    level: float
    """Of one paired test."""

    @property
    def most_accurate(self) -> PilotTrial:
        """The best mean, of those that were simulated with all seeds."""
        seeds = max(len(trial.gains) for trial in self.trials)
        return max(
            (one for one in self.trials if len(one.gains) == seeds), key=lambda one: one.mean
        )

    @property
    def unclear(self) -> list[PilotTrial]:
        """Who is not clearly behind the most accurate."""
        first = self.most_accurate
        return [one for one in self.trials if one is not first and not self._behind(one, first)]

    def _behind(self, trial: PilotTrial, first: PilotTrial) -> bool:
        lead = first.lead_over(trial)
        return lead.mean > 0 and lead.p_value < self.level

    @property
    def alone(self) -> PilotTrial | None:
        """Devices that train alone."""
        return next((one for one in self.trials if one.option.point.protocol in ALONE), None)

    @property
    def close(self) -> float:
        """A difference that is not worth its cost: a point, or 1 % of what is no percentage."""
        return CLOSE_TO_FL if self.metric.is_share else CLOSE_TO_FL * abs(self.most_accurate.mean)

    def chosen(
        self, scarce: Resource, among: Callable[[PilotTrial], bool] | None = None
    ) -> PilotTrial | None:
        """The least of what is scarce, of those close to the best and not clearly behind it."""
        trials = [one for one in self.trials if among is None or among(one)]
        if not trials:
            return None
        seeds = max(len(one.gains) for one in trials)
        first = max((one for one in trials if len(one.gains) == seeds), key=lambda one: one.mean)
        tied = [
            one
            for one in trials
            if first.lead_over(one).mean <= self.close and not self._behind(one, first)
        ]

        def price(one: PilotTrial) -> tuple[float, float, float]:
            return cost(one.option, scarce), one.option.bits_per_round, -one.mean

        return min(tied, key=price)


def run_pilot(
    options: Sequence[Option],
    seeds: Sequence[int],
    simulate: Callable[[Option, int], float],
    metric: Callable[[], Metric],
) -> Pilot:
    """Simulate every option with the first seeds; then those whose order is open, seed by seed.

    A seed gives all options the same partition, channel and order of samples.
    """
    looks = range(min(FIRST_SEEDS, len(seeds)), len(seeds) + 1)
    level = LEVEL / (len(looks) * max(1, len(options) - 1))
    trials = tuple(PilotTrial(option, []) for option in options)
    pending: Sequence[PilotTrial] = trials
    for look in looks:
        for seed in seeds[len(pending[0].gains) : look]:
            for trial in pending:
                score = simulate(trial.option, seed)
                trial.gains.append(metric().gain(score))
        pilot = Pilot(trials, metric(), level)
        pending = [pilot.most_accurate, *pilot.unclear]
        pending = [one for one in pending if len(one.gains) == look]
        if len(pending) < 2:
            break
    return pilot
