"""The user's case, the measured settings near it, what contenders would cost and gain there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mix2fld.advice.measured import Kind, MeasuredPoint, MeasuredSetting
from mix2fld.advice.scarcity import Resource, cost, scarce_of
from mix2fld.base.errors import Mix2fldError
from mix2fld.base.spread import Spread, spread
from mix2fld.config.settings import Config
from mix2fld.data.partition import OF_SOURCES
from mix2fld.engine.checks import check_learns
from mix2fld.engine.energy import Power
from mix2fld.engine.plan import PlannedTransfer, plan_transfers
from mix2fld.engine.policies import make_policy
from mix2fld.links import Link, make_link
from mix2fld.protocols.base import parameters_of
from mix2fld.protocols.table import PROTOCOLS, as_spelled, get_protocol, split_name
from mix2fld.report.units import in_bits, in_time, percent
from mix2fld.tasks.edges import has_edges
from mix2fld.tasks.learning import Sizes
from mix2fld.tasks.of_settings import sizes_for

FAR_SKEW = 0.15
"""A difference in label skew beyond which nothing close was measured."""
FAR_FACTOR = 3.0
"""A ratio of weights, devices or samples beyond which nothing close was measured."""

NO_FEATURES = "none"
CLOSE_TO_FL = 0.01
"""How much less accurate than FL a contender is that does as well, as a fraction."""
STEP = 1.0
"""Points of accuracy within which the cost decides."""
OTHER_DATA = 1.5
"""How far a setting with other data is."""


@dataclass(frozen=True)
class Case:
    """The user's case: settings, sizes, and how much the devices' data differ."""

    sizes: Sizes
    kind: Kind
    skew: float
    deadline_s: float | None = None
    """Longest time on the air that a round may take."""

    @property
    def config(self) -> Config:
        """The settings of the case."""
        return self.sizes.config

    def distance(self, setting: MeasuredSetting) -> float:
        """How far a measured setting is: one for each limit of closeness that is used up."""
        return math.fsum(self._parts(setting).values())

    def outside(self, setting: MeasuredSetting) -> list[str]:
        """In what the case lies further from a measured setting than what counts as close."""
        data = self.config.data
        found = {name for name, part in self._parts(setting).items() if part > 1}
        mine = {
            "data": f"{data.dataset}, measured: {setting.dataset}",
            "how devices differ": f"{self.kind}, measured: {setting.kind}",
            "label skew": f"{self.skew:.2f}, measured: {setting.skew:.2f}",
            "weights": f"{self.sizes.dims.num_weights:,}, measured: {setting.weights:,}",
            "devices": f"{data.devices:,}, measured: {setting.devices:,}",
            "devices of a round": (
                f"{self.config.participants_per_round:,}, measured: {setting.taking_part:,}"
            ),
            "samples of a device": f"{data.samples_per_device:,}, measured: {setting.samples:,}",
        }
        return [f"{name}: {text}" for name, text in mine.items() if name in found]

    def _parts(self, setting: MeasuredSetting) -> dict[str, float]:
        def factor(one: float, other: float) -> float:
            return abs(math.log(one / other)) / math.log(FAR_FACTOR)

        data = self.config.data
        parts = {
            "data": 0.0 if data.dataset == setting.dataset else OTHER_DATA,
            "how devices differ": 0.0 if self.kind == setting.kind else 10.0,
            "label skew": abs(self.skew - setting.skew) / FAR_SKEW,
            "weights": factor(self.sizes.dims.num_weights, setting.weights),
            "devices": factor(data.devices, setting.devices),
        }
        asked = self.config.participants_per_round
        if (asked, setting.taking_part) != (data.devices, setting.devices):
            parts["devices of a round"] = factor(asked, setting.taking_part)
        if self.kind == "labels":
            parts["samples of a device"] = factor(data.samples_per_device, setting.samples)
        return parts


def nearest(case: Case, measured: Mapping[str, MeasuredSetting]) -> list[MeasuredSetting]:
    """All settings that were measured over an ideal link, the nearest first.

    What a link loses is worked out for the user's own. With features, those with features. All had
    labels: for numbers there is one setting, in which nothing was measured.
    """
    if not case.sizes.task.by_label:
        return [_unmeasured(case)]
    frozen = case.config.data.features != NO_FEATURES
    ideal = [
        setting
        for setting in measured.values()
        if setting.ideal_link and (setting.features != NO_FEATURES) == frozen
    ]
    return sorted(ideal, key=case.distance)


def _unmeasured(case: Case) -> MeasuredSetting:
    """The user's own setting: every protocol as it is by default, and nothing known of any."""
    data = case.config.data
    points = [_unknown(name) for name in PROTOCOLS]
    return MeasuredSetting(
        "", case.sizes.task.name, data.dataset, True, case.kind, case.skew, data.devices,
        case.config.participants_per_round, data.samples_per_device, case.sizes.dims.num_weights,
        case.config.rounds, tuple(points),
    )  # fmt: skip


def _unknown(spelled: str) -> MeasuredPoint:
    return MeasuredPoint(spelled, get_protocol(spelled).title, spelled, {}, math.nan, [], None)


def cheapest_like_fl(setting: MeasuredSetting) -> MeasuredPoint | None:
    """The contender with the fewest bits that comes close to FL; None without FL."""
    reference = setting.point(IDEAL_FL)
    if reference is None:
        return None
    enough = float(np.mean(reference.devices)) - CLOSE_TO_FL
    close = [point for point in setting.points if float(np.mean(point.devices)) >= enough]
    return min(close, key=lambda point: point.bits)


IDEAL_FL = "fl"
ALONE = ("isolated", "own-statistics")
"""Rows that upload nothing."""


@dataclass(frozen=True)
class Option:
    """A contender, on the user's link."""

    point: MeasuredPoint
    bits_per_round: float
    """Uplink bits of a device, mean over the rounds."""
    bits_down: float
    """The same of its downlink."""
    chance: float
    """That the least likely transfer of the worst device is delivered, in either direction."""
    seconds: float
    """On the air, of a mean round."""
    joules: float
    """Of a device's radio in a mean round."""
    computing_seconds: float
    """Of the local steps of a round, on a mean device."""
    computing_joules: float
    """Of these steps."""
    battery_rounds: float | None
    """Rounds until a full battery is empty, computing included; None if a round costs nothing."""
    over_alone: Spread | None
    """Points of accuracy above devices that train alone, where it was measured; None: nowhere."""
    over_fl: Spread | None
    """Points above 32-bit FL over an ideal link with the same training."""
    reasons: tuple[str, ...]
    """Why it does not suit; empty if it does."""

    @property
    def suits(self) -> bool:
        """Whether the link carries it."""
        return not self.reasons

    def settings_in(self, config: Config) -> Config:
        """The user's settings with those of this contender."""
        return as_spelled(config.replace(protocol=self.point.protocol, **self.point.changes))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = (
            "bits_per_round", "bits_down", "chance", "seconds", "joules", "battery_rounds",
            "reasons",
        )  # fmt: skip
        return {
            "contender": self.point.title,
            "protocol": self.point.protocol,
            "settings": self.point.changes,
            **{name: getattr(self, name) for name in names},
            "suits": self.suits,
            "points_over_alone": asdict(self.over_alone) if self.over_alone else None,
            "points_over_ideal_fl": asdict(self.over_fl) if self.over_fl else None,
        }


def rank(
    case: Case,
    setting: MeasuredSetting,
    points: Sequence[MeasuredPoint] | None = None,
    resource: Resource | None = None,
) -> list[Option]:
    """Contenders, by default all of a setting: who suits first, the most accurate first.

    Of those within a point of accuracy, in steps below the best, the one that takes the least of
    what is scarce, by default of what the link makes scarce. Who was not measured comes last, and
    of those who uploads nothing.
    """
    make_policy(case.config)
    link = make_link(case.config, case.config.data.devices)
    options = [
        option
        for point in (setting.points if points is None else points)
        if (option := _option(case, setting, point, link))
    ]
    scarce = resource or scarce_of(options, case.deadline_s).resource
    gains = [one.over_alone.mean for one in options if one.suits and one.over_alone]
    best = max(gains, default=0.0)

    def place(one: Option) -> tuple[float, ...]:
        price = cost(one, scarce)
        if one.over_alone is None:
            return not one.suits, True, one.point.protocol in ALONE, price, one.bits_per_round
        gain = one.over_alone.mean
        return not one.suits, False, math.floor(max(0.0, best - gain) / STEP), price, -gain

    return sorted(options, key=place)


def points_named(
    case: Case, setting: MeasuredSetting, spelled: Sequence[str]
) -> list[MeasuredPoint]:
    """What was measured of these protocols; one that was not has no accuracies.

    Parameters spelled with a name pick what was measured with them.
    """
    points: list[MeasuredPoint] = []
    for name in spelled:
        found = [point for point in setting.points if _is_spelled(case.config, point, name)]
        points += found or [_unknown(name)]
    return points


def _is_spelled(config: Config, point: MeasuredPoint, spelled: str) -> bool:
    name, given = split_name(spelled)
    if point.protocol != name:
        return False
    known = parameters_of(get_protocol(name))
    own = config.replace(protocol=name, **point.changes)
    asked = as_spelled(own.replace(protocol=spelled)).replace(protocol=name)
    return all(known[key] is not None for key in given) and asked == own


def _option(
    case: Case, setting: MeasuredSetting, point: MeasuredPoint, link: Link
) -> Option | None:
    config = as_spelled(case.config.replace(protocol=point.protocol, **point.changes))
    dims = case.sizes.dims
    if config.learning.initial_weights == "edges" and not has_edges(dims):
        return None
    try:
        check_learns(point.protocol, get_protocol(point.protocol), case.sizes.task)
        waits = _needs_waiting(config)
        planned = config.replace(wait="all") if waits else config
        sizes = sizes_for(case.sizes.task, planned, dims.samples, dims.weight_shapes)
        plans = plan_transfers([point.protocol], sizes, link)
    except Mix2fldError:
        return None  # for example, small seeds of samples that cannot be pooled
    share = {plan: plan.times_in_a_run(config) / config.rounds for plan in plans}
    uploads = [plan for plan in plans if plan.budget.direction == "uplink"]
    chance = min((plan.chance for plan in plans), default=1.0)
    seconds = sum(part * plan.round_seconds for plan, part in share.items())
    joules = sum(part * plan.joules for plan, part in share.items())
    power = Power.from_config(config)
    downloads = [plan for plan in plans if plan.budget.direction == "downlink"]
    computing = _computing_seconds(config)
    return Option(
        point,
        sum(share[plan] * plan.size.bits for plan in uploads),
        sum(share[plan] * plan.size.bits for plan in downloads),
        chance,
        seconds,
        joules,
        computing,
        power.computing * computing,
        power.rounds_of_battery(joules + power.computing * computing),
        *_gains(point, setting),
        (
            *_nobody_else(config),
            *_too_few_samples(config),
            *waits,
            *_reasons(case, plans, seconds),
        ),
    )


def _nobody_else(config: Config) -> list[str]:
    uploads = config.protocol not in ALONE
    return ["there is no other device to learn from"] if uploads and config.data.devices < 2 else []


def _needs_waiting(config: Config) -> list[str]:
    """Uploads of a round that belong together, and a server that does not wait for them."""
    if not make_policy(config).uses_late or get_protocol(config.protocol).late_uploads:
        return []
    return [f"needs the uploads of a round together, wait is {config.availability.wait}"]


def _computing_seconds(config: Config) -> float:
    """Of the local steps of a round, on a mean device."""
    return float(np.mean(config.clock.device_step_us)) * 1e-6 * config.learning.local_steps


def _too_few_samples(config: Config) -> list[str]:
    """A device cannot make more seeds than it has samples."""
    needed, held = config.seeding.seed_samples, config.data.samples_per_device
    seeding = get_protocol(config.protocol).seeds
    sends_samples = seeding is not None
    if not sends_samples or config.data.partition in OF_SOURCES or needed <= held:
        return []
    return [f"needs {needed} samples on each device, and there are {held}"]


def _reasons(case: Case, plans: Sequence[PlannedTransfer], seconds: float) -> list[str]:
    target = case.config.updates.delivery_target
    found = []
    unlikely = [plan for plan in plans if plan.chance < target]
    if unlikely:
        least = min(unlikely, key=lambda plan: plan.chance)
        transfer = "download" if least.budget.direction == "downlink" else "upload"
        what = "delivery probability"
        if least.needed is not None:
            what = f"probability that {least.needed} of {least.budget.devices} arrive"
        found.append(
            f"{transfer} of {in_bits(least.size.bits)}: {what} "
            f"{percent(least.chance)}, required: {percent(target)}"
        )
    if case.deadline_s is not None and seconds > case.deadline_s:
        found.append(f"a round takes {in_time(seconds)}, allowed: {in_time(case.deadline_s)}")
    return found


def _gains(point: MeasuredPoint, setting: MeasuredSetting) -> tuple[Spread | None, Spread | None]:
    """Over training alone, and over FL on an ideal link, as far as they were measured."""
    if not point.devices:
        return None, None
    fl = setting.point(IDEAL_FL)
    over_fl = None if fl is None else _points_above(point, fl)
    return _points_above(point, setting.alone), over_fl


def _points_above(point: MeasuredPoint, other: MeasuredPoint) -> Spread:
    ours, theirs = np.array(point.devices), np.array(other.devices)
    count = min(len(ours), len(theirs))
    return spread(100 * (ours[:count] - theirs[:count]))


def best_by_protocol(options: Sequence[Option]) -> list[Option]:
    """The first option of each protocol, in the given order."""
    first: dict[str, Option] = {}
    for option in options:
        first.setdefault(option.point.protocol, option)
    return list(first.values())
