"""What a link means for each protocol, worked out before anything runs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.streams import stream
from mix2fld.codecs import Size
from mix2fld.config.settings import Config
from mix2fld.engine.bit_budgets import reaches_half
from mix2fld.engine.clock import device_step_us
from mix2fld.engine.energy import Busy, Power
from mix2fld.engine.policies import make_policy
from mix2fld.engine.policies.policy import Policy
from mix2fld.engine.wire import Wire, checked_wire
from mix2fld.links import Budget, Direction, Forecast, Link
from mix2fld.links.transports import Transport
from mix2fld.protocols.parts import Arrives
from mix2fld.protocols.table import get_protocol
from mix2fld.tasks.learning import Sizes
from mix2fld.types import State

DRAWS = 100
"""Simulated transfers behind a plan, where a link has no closed form."""


@dataclass(frozen=True, eq=False)
class PlannedTransfer:
    """One kind of transfer of a protocol, with its budget."""

    protocol: str
    transfer: str  # upload, first upload, later uploads, and the same of downloads
    size: Size
    budget: Budget
    forecast: Forecast
    """Of each device on its place, of those who take part in a round."""
    slot_seconds: float
    watts: float
    """What a device draws while it sends or receives."""
    needed: int | None = None
    """Uploads that the server waits for; None: all, or those that come in time."""
    limit: float = math.inf
    """Seconds that it waits."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        named = {"protocol": self.protocol, "transfer": self.transfer}
        more = {
            "exact_bits": self.size.exact,
            "worst_delivery_probability": self.worst,
            "seconds": self.seconds,
            "median_seconds": self.median_seconds,
            "round_seconds": self.round_seconds,
            "joules": self.joules,
            "most_joules": self.most_joules,
            "standard_error": self.standard_error,
        }
        return {**named, **asdict(self.budget), **more}

    @property
    def only_first(self) -> bool:
        """Whether only the first round has it: it carries seeds, which are sent once."""
        return self.transfer.startswith("first ")

    def times_in_a_run(self, config: Config) -> float:
        """How often it happens in all rounds; updates may skip some."""
        if self.only_first:
            return 1
        times = config.rounds // config.updates.upload_every
        return times - 1 if self.transfer.startswith("later ") else times

    @property
    def worst(self) -> float:
        """Delivery probability of the device that has the worst."""
        return float(self.forecast.probability.min())

    @property
    def chance(self) -> float:
        """That the server gets what it waits for: a quorum; else that of the worst device."""
        if self.needed is None:
            return self.worst
        return chance_of(self.needed, self.budget.devices, self.forecast.probability)

    @property
    def seconds(self) -> float:
        """Mean time of one device, T_max in an outage."""
        return float(self.forecast.expected_slots.mean()) * self.slot_seconds

    @property
    def median_seconds(self) -> float:
        """Median time of those that arrive; T_max if none does."""
        return self.forecast.median_slots * self.slot_seconds

    @property
    def round_seconds(self) -> float:
        """Mean time until the slowest of all is done, T_max if any is in outage; or a quorum."""
        slots = self.forecast.round_slots
        if self.needed is not None:
            slots = self.forecast.slots_until(self.needed)
        return min(slots * self.slot_seconds, self.limit)

    @property
    def joules(self) -> float:
        """Mean energy of one device's radio while it sends or receives."""
        return float(self.forecast.on_air_slots.mean()) * self.slot_seconds * self.watts

    @property
    def most_joules(self) -> float:
        """The same of the device that spends most."""
        return float(self.forecast.on_air_slots.max()) * self.slot_seconds * self.watts

    @property
    def standard_error(self) -> float | None:
        """Of the delivery probability of one device, the largest; None is a closed form."""
        error = self.forecast.standard_error
        return None if error is None else float(error.max())

    @property
    def problem(self) -> str | None:
        """Why this transfer can never succeed, if it cannot."""
        plan, title = self.budget, get_protocol(self.protocol).title
        if plan.fits:
            return None
        what = f"{title}: {self.transfer} of {self.size} bits"
        if plan.slots_needed is None and plan.draws:
            return f"{what} did not arrive in any of {plan.draws:,} simulated transmissions"
        never = "it never arrives" if self.size.exact else "the largest never arrives"
        if plan.slots_needed is None:
            return f"{what} takes longer than max_slots = {plan.max_slots:,}: {never}"
        return f"{what} needs {plan.slots_needed:,} slots, max_slots is {plan.max_slots:,}: {never}"


@dataclass(frozen=True)
class PlannedRound:
    """What a round comes to, once seeds are uploaded."""

    protocol: str
    communication: float
    """Seconds until the slowest has uploaded, and the slowest has its download."""
    computing: float
    """Seconds of the slowest device and of the server."""
    joules: float
    """Of a device that takes part, on average."""
    most_joules: float
    """Of the device that spends most."""
    battery_rounds: float | None
    """Rounds until a full battery is empty; None if a round costs nothing."""
    least_battery_rounds: float | None
    """The same for the device that spends most."""


def plan_transfers(
    names: Sequence[str], sizes: Sizes, link: Link, draws: int = DRAWS,
    transport: Transport | None = None,
) -> list[PlannedTransfer]:  # fmt: skip
    """Every kind of transfer that these protocols make over this link, by all participants.

    Without a transport, payloads alone.
    """
    config = sizes.config
    state, power = lasting_state(config, link), Power.from_config(config)

    @cache  # protocols share many payloads
    def found(direction: Direction, bits: int) -> tuple[Budget, Forecast]:
        return _forecast(link, direction, bits, state, config, draws)

    def arrives(bits: int) -> bool:
        return reaches_half(found("downlink", bits)[1].probability, config)

    def planned(name: str, transfer: str, direction: Direction, size: Size) -> PlannedTransfer:
        watts = power.transmit if direction == "uplink" else power.receive
        if transport is not None:
            size = transport.carried(size, direction)
        added = link.adds and direction == "uplink"  # as values, whatever their bits
        carried = wire.protocol.values if added else size.bits
        expected, slot = found(direction, carried), link.slot_seconds
        if direction == "downlink":
            return PlannedTransfer(name, transfer, size, *expected, slot, watts)
        return PlannedTransfer(
            name, transfer, size, *expected, slot, watts, *_waited_for(config, policy)
        )

    plans, policy = [], make_policy(config)
    for name in names:
        wire = checked_wire(get_protocol(name), sizes)
        plans += [planned(name, kind, "uplink", size) for kind, size in _uploads(wire)]
        plans += [planned(name, kind, "downlink", size) for kind, size in _downloads(wire, arrives)]
    return plans


def plan_round(name: str, transfers: Sequence[PlannedTransfer], config: Config) -> PlannedRound:
    """A round of a protocol with these transfers: a later one, if there is anything later."""
    own = [plan for plan in transfers if plan.protocol == name]
    mine = [plan for plan in own if not plan.only_first] or own
    step_us = device_step_us(config)
    local = step_us * config.learning.local_steps * 1e-6
    steps = get_protocol(name).configured(config).server_steps
    server = steps * config.clock.server_step_us * 1e-6
    communication = sum(plan.round_seconds for plan in mine)
    computing = float(local.max()) + server

    def on_air(direction: Direction) -> NDArray[np.float64]:
        seconds = np.zeros(len(step_us))
        for plan in mine:
            if plan.budget.direction == direction:
                seconds += plan.forecast.on_air_slots * plan.slot_seconds
        return seconds

    busy = Busy(on_air("uplink"), on_air("downlink"), local)
    power = Power.from_config(config)
    spent = power.spent(busy, communication + computing).total
    mean, most = float(spent.mean()), float(spent.max())
    return PlannedRound(
        name, communication, computing, mean, most,
        power.rounds_of_battery(mean), power.rounds_of_battery(most),
    )  # fmt: skip


def lasting_state(config: Config, link: Link) -> State:
    """The link as the run of the first seed has it in every round: devices on their places."""
    return link.lasting(link.start(config.data.devices, stream(config.seed, "link")))


def _forecast(
    link: Link, direction: Direction, bits: int, state: State, config: Config, draws: int
) -> tuple[Budget, Forecast]:
    """The budget in closed form where all devices are alike, and what each can expect."""
    taking_part = config.participants_per_round
    sizes = np.full(config.data.devices, bits, np.int64)
    found = link.forecast(direction, sizes, state, transmitting=taking_part, draws=draws)
    if state or found.draws:
        return found.as_budget(taking_part), found
    return link.budget(direction, bits, taking_part), found


def _waited_for(config: Config, policy: Policy) -> tuple[int | None, float]:
    """How many uploads the server waits for, if not for all, and how many seconds."""
    asked = config.participants_per_round
    enough = policy.enough(asked)
    return int(enough) if enough < asked else None, policy.limit


def chance_of(needed: int, asked: int, probability: NDArray[np.float64]) -> float:
    """That so many uploads of those asked arrive, who are all devices or any of them."""
    drawn = probability if asked == len(probability) else np.full(asked, probability.mean())
    counts = np.array([1.0])  # of 0, 1, ... that arrive, of the devices so far
    for chance in drawn.tolist():
        counts = np.append(counts * (1 - chance), 0) + np.append(0, counts * chance)
    return float(counts[needed:].sum())


def _uploads(wire: Wire) -> list[tuple[str, Size]]:
    plain, first = wire.upload_size(with_seeds=False), wire.upload_size(with_seeds=True)
    if not plain.bits:
        return [("first upload", first)] if first.bits else []
    if first == plain:
        return [("upload", plain)]
    return [("first upload", first), ("later uploads", plain)]


def _downloads(wire: Wire, arrives: Arrives) -> list[tuple[str, Size]]:
    plain, first = wire.download_size(), wire.download_size(arrives)
    if not plain.bits:
        return []
    if not wire.upload_size(with_seeds=False).bits:  # the server makes no other step
        return [("first download", first)]
    if first == plain:
        return [("download", plain)]
    return [("first download", first), ("later downloads", plain)]
