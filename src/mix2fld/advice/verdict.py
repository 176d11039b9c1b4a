"""The verdict of a pilot: which protocol, its costs, what it reveals, what would change it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from mix2fld.advice.pilot import Pilot, PilotTrial
from mix2fld.advice.ranking import ALONE, Case, Option
from mix2fld.advice.reveals import reveals, uploads_samples
from mix2fld.advice.scarcity import WORDS, Resource, Scarce, cost
from mix2fld.base.spread import Spread, spread
from mix2fld.report.protocol_view import title_of
from mix2fld.report.units import in_a_row, in_bits, in_joules, in_time


@dataclass(frozen=True)
class Verdict:
    """The decision, in words and for programs."""

    trial: PilotTrial
    lines: tuple[str, ...]
    reveals: str
    unclear: tuple[str, ...]
    """Protocols that the paired test does not tell from the most accurate."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "protocol": self.trial.option.point.protocol,
            "settings": self.trial.option.point.changes,
            "seeds": len(self.trial.gains),
            "reveals": self.reveals,
            "unclear": self.unclear,
            "sentences": self.lines,
        }


def give_verdict(case: Case, pilot: Pilot, options: Sequence[Option], scarce: Scarce) -> Verdict:
    """Of those close to the most accurate, the one that takes the least of what is scarce."""
    trial = pilot.chosen(scarce.resource)
    assert trial is not None
    shown = reveals(trial.option.settings_in(case.config))
    unclear = tuple(_name(one) for one in pilot.unclear)
    lines = (
        f"verdict: {_name(trial)}{_settings(trial)}: {_accuracy(pilot, trial)}; "
        f"{_costs(trial.option)}; reveals {shown}",
        f"order: {_order(pilot, unclear)}",
        f"would change the verdict: {'; '.join(_changes(case, pilot, options, scarce, trial))}",
    )
    return Verdict(trial, lines, shown, unclear)


def _name(trial: PilotTrial) -> str:
    return title_of(trial.option.point.protocol)


def _settings(trial: PilotTrial) -> str:
    own = ", ".join(f"{name} {value}" for name, value in trial.option.point.changes.items())
    return f" ({own})" if own else ""


def _accuracy(pilot: Pilot, trial: PilotTrial) -> str:
    metric, found = pilot.metric, spread(trial.gains)
    told = (
        f"{metric.name} {_with_interval(pilot, found, metric.gain(found.mean))} on validation "
        f"samples (95 % interval, {len(trial.gains)} seeds)"
    )
    if pilot.alone is None or pilot.alone is trial:
        return told
    gain = trial.lead_over(pilot.alone)
    better = "better" if gain.mean >= 0 else "worse"
    half = pilot.metric.difference((gain.high - gain.low) / 2)
    mean = pilot.metric.number(abs(gain.mean))
    return f"{told}, {mean} ± {half} {better} than training alone"


def _with_interval(pilot: Pilot, found: Spread, value: float) -> str:
    half = (found.high - found.low) / 2
    return f"{pilot.metric.number(value)} ± {pilot.metric.text(half)}"


def _shows_as_zero(pilot: Pilot, value: float) -> bool:
    return float(pilot.metric.number(value)) == 0


def _costs(option: Option) -> str:
    length = option.seconds + option.computing_seconds
    told = (
        f"per round and device {in_bits(option.bits_per_round)} up and "
        f"{in_bits(option.bits_down)} down, {in_time(option.seconds)} on air and "
        f"{in_joules(option.joules)} of radio, in {_rounds_of(length)}"
    )
    if option.battery_rounds is None:
        return told
    lasts = option.battery_rounds * length
    return f"{told}; a battery lasts {option.battery_rounds:,.0f} rounds ({in_time(lasts)})"


def _rounds_of(seconds: float) -> str:
    """How long a round is: 12-hour rounds, 1.66-second rounds."""
    for unit, size in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        if seconds >= 2 * size or unit == "second":
            return f"{seconds / size:.3g}-{unit} rounds"
    raise AssertionError


def _order(pilot: Pilot, unclear: Sequence[str]) -> str:
    test = f"paired t-test over seeds, p < {pilot.level:.2g} each: 5 % over all comparisons"
    first = _name(pilot.most_accurate)
    if len(pilot.trials) < 2:
        return f"nothing to compare {first} with"
    if not unclear:
        return f"{first} is clearly {pilot.metric.superlative} ({test})"
    return f"not clear between {in_a_row([first, *unclear])} ({test})"


def _changes(
    case: Case, pilot: Pilot, options: Sequence[Option], scarce: Scarce, trial: PilotTrial
) -> list[str]:
    return [
        *_more_seeds(pilot, trial),
        *_cheaper(pilot, scarce, trial),
        *_other_resource(pilot, scarce, trial),
        *_fewer_secrets(case, pilot, scarce, trial),
        *_better_link(options, trial),
    ] or ["nothing that was tried: no other protocol comes close"]


def _more_seeds(pilot: Pilot, trial: PilotTrial) -> list[str]:
    first = pilot.most_accurate
    if trial is not first:
        lead = first.lead_over(trial).mean
        if _shows_as_zero(pilot, lead):
            return []
        return [
            f"if {pilot.metric.difference(lead)} of {pilot.metric.name} are worth their cost: "
            f"{_name(first)}"
        ]
    names = [_name(one) for one in pilot.unclear]
    return [f"more seeds may put {in_a_row(names)} ahead"] if names else []


def _cheaper(pilot: Pilot, scarce: Scarce, trial: PilotTrial) -> list[str]:
    """The best of those that take less of what is scarce, and what they are behind."""
    mine = cost(trial.option, scarce.resource)
    less = [one for one in pilot.trials if cost(one.option, scarce.resource) < mine]
    other = max(less, key=lambda one: one.mean, default=None)
    if other is None:
        return []
    theirs = cost(other.option, scarce.resource)
    times = f"{mine / theirs:.3g} times the" if theirs else "any"
    lead = trial.lead_over(other).mean
    if _shows_as_zero(pilot, lead):
        return []
    lead_words = pilot.metric.difference(lead)
    return [f"if {lead_words} are not worth {times} {WORDS[scarce.resource]}: {_name(other)}"]


def _other_resource(pilot: Pilot, scarce: Scarce, trial: PilotTrial) -> list[str]:
    found: dict[str, list[str]] = {}
    resources: tuple[Resource, ...] = get_args(Resource)
    for resource in resources:
        other = pilot.chosen(resource)
        if resource != scarce.resource and other is not None and other is not trial:
            found.setdefault(_name(other), []).append(WORDS[resource])
    return [f"if {' or '.join(words)} were scarce: {name}" for name, words in found.items()]


def _fewer_secrets(case: Case, pilot: Pilot, scarce: Scarce, trial: PilotTrial) -> list[str]:
    def keeps(one: PilotTrial) -> bool:
        return not uploads_samples(one.option.settings_in(case.config))

    if keeps(trial):
        return []
    other = pilot.chosen(scarce.resource, keeps)
    return [] if other is None else [f"if no sample may leave a device: {_name(other)}"]


def _better_link(options: Sequence[Option], trial: PilotTrial) -> list[str]:
    """The most accurate that does not suit, if it was measured to gain more."""

    def gain(option: Option) -> float:
        return -math.inf if option.over_alone is None else option.over_alone.mean

    excluded = [one for one in options if not one.suits and one.point.protocol not in ALONE]
    best = max(excluded, key=gain, default=None)
    if best is None or gain(best) <= gain(trial.option):
        return []
    return [f"if the link carried it ({best.reasons[0]}): {title_of(best.point.protocol)}"]
