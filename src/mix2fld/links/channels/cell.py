"""A cell: devices at their own distances, composed of geometry, fading, rate, sharing and packets.

With the paper's choices for each of them it is the paper's link, draw for draw.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.radio import RadioConfig
from mix2fld.config.settings import ChannelConfig, Config
from mix2fld.links.budget import (
    Bits,
    Direction,
    Forecast,
    Simulated,
    immediate,
    mean_arrivals,
    mean_slowest,
)
from mix2fld.links.channels.channel import Link
from mix2fld.links.channels.fading import Fading
from mix2fld.links.channels.geometry import Geometry
from mix2fld.links.channels.packets import Law, Packets, blocks_needed, whole
from mix2fld.links.channels.path_loss import Floats, from_db
from mix2fld.links.channels.rate import (
    AdaptiveScheme,
    MulticastScheme,
    OptimalTarget,
    Rate,
    TargetSnr,
)
from mix2fld.links.channels.rayleigh import check_channel, watts
from mix2fld.links.channels.sharing import (
    Aloha,
    Dedicated,
    Fdma,
    ProportionalFair,
    RoundRobin,
    Sharing,
    Tdma,
)
from mix2fld.links.channels.transfer import Side, TransferProgress, progress, simulate
from mix2fld.types import Delivery, State

NODES, NODES_WITHOUT_FADING = 41, 801
"""Values of shadowing at which a forecast over all of it looks; without fading, chances are steps
and more are needed."""
CELL_DRAWS = 400
"""Simulated transfers behind a forecast that has no closed form."""

LARGEST_PROGRESS = 20_000_000
"""Numbers that are kept of a progress, from which forecasts of all payloads follow."""


@dataclass(frozen=True)
class CellLink(Link):
    """Devices at their own places, over a link put together from a config."""

    uplink: Side
    downlink: Side
    geometry: Geometry
    slot_seconds: float
    max_slots: int
    delay_slots: int = 0
    """Slots that any transfer takes before its first one is on the air."""

    @classmethod
    def from_config(cls, config: Config, devices: int) -> Self:
        """The link that a config describes, for any number of devices."""
        channel, radio = config.channel, config.radio
        check_channel(channel, devices=1)
        delay = math.ceil(radio.delay_ms / channel.slot_ms)
        if delay >= channel.max_slots:
            raise InputError(
                field="delay_ms",
                value=f"{radio.delay_ms:g}",
                hint=f"must be below T_max, max_slots x slot_ms = "
                f"{channel.max_slots * channel.slot_ms:g} ms",
            )
        return cls(
            uplink=_side(config, "uplink", delay),
            downlink=_side(config, "downlink", delay),
            geometry=Geometry.from_config(config),
            slot_seconds=channel.slot_ms / 1000,
            max_slots=channel.max_slots,
            delay_slots=delay,
        )

    def start(self, devices: int, rng: np.random.Generator) -> State:
        return self.geometry.place(devices, rng)

    def begin_round(
        self, state: State, seconds: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_] | None, State]:
        """Everyone can be reached; shadowing has changed since the round before."""
        return None, self.geometry.wander(state, rng) if seconds else state

    def lasting(self, state: State) -> State:
        return {name: value for name, value in state.items() if name != "shadowing_db"}

    def transmit(
        self, direction: Direction, bits: Bits, rng: np.random.Generator, state: State
    ) -> tuple[Delivery, State]:
        """What happens to ``bits[d]`` bits of each device, over one draw of the channel."""
        sending = np.flatnonzero(bits)
        delivered, slots = np.ones(len(bits), np.bool_), np.zeros(len(bits), np.int64)
        on_air = np.zeros(len(bits))
        if sending.size:
            side = self._side(direction)
            gain = self.gain(state)[sending] * from_db(state["shadowing_db"][sending])
            sent = simulate(side, gain[None], bits[None, sending], rng)
            elapsed = side.turns(len(sending)).elapsed(sent.turns[0]) + self.delay_slots
            delivered[sending] = sent.delivered[0]
            slots[sending] = np.where(sent.delivered[0], elapsed, self.max_slots)
            on_air[sending] = sent.on_air[0]
        return Delivery(delivered, slots, on_air), state

    def gain(self, state: State) -> Floats:
        """Mean power that arrives of what is sent, [D], before shadowing."""
        return self.geometry.gain(state)

    def forecast(
        self,
        direction: Direction,
        bits: Bits,
        state: State,
        *,
        transmitting: int | None = None,
        draws: int = CELL_DRAWS,
    ) -> Forecast:
        """In closed form where turns are alike and independent, otherwise simulated.

        For a state without shadowing, over all that it can be.
        """
        sending = np.flatnonzero(bits)
        count = len(sending) if transmitting is None else min(transmitting, len(sending))
        if not count:
            return immediate(direction, bits, self.max_slots)
        if self._side(direction).has_law(count):
            places = tuple((name, Exact(np.asarray(state[name]))) for name in sorted(state))
            return _kept_law(self, direction, Exact(bits), places, count)
        return self._by_simulation(direction, bits, state, count, draws)

    def _side(self, direction: Direction) -> Side:
        return self.uplink if direction == "uplink" else self.downlink

    def _shadowing(
        self, side: Side, state: State, devices: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Gains by shadowing of some devices, [nodes, n], and the weight of each node."""
        if "shadowing_db" in state:
            return from_db(state["shadowing_db"][devices])[None], np.ones(1)
        spread = self.geometry.spread(state["distance_m"], state["in_sight"])[devices]
        if not spread.any():
            return np.ones((1, len(devices))), np.ones(1)
        deviations = np.linspace(-4, 4, NODES_WITHOUT_FADING if side.fading.steady else NODES)
        weights = np.exp(-(deviations**2) / 2)
        return from_db(deviations[:, None] * spread), weights / weights.sum()

    def by_law(self, direction: Direction, bits: Bits, state: State, count: int) -> Forecast:
        """In closed form, over all that the shadowing of a state without any can be."""
        side, sending = self._side(direction), np.flatnonzero(bits)
        shadowing, weights = self._shadowing(side, state, sending)
        gain = self.gain(state)[sending] * shadowing
        demand = side.demand(gain, np.broadcast_to(bits[sending], gain.shape), count)
        kept = side.rate.keep(demand, side.fading)
        needed = blocks_needed(demand.bits, whole(kept.per_symbol * demand.symbols))
        law = _mean_law(side, needed, kept.success, weights, demand.turns)
        turns = side.turns(count)
        ends = turns.elapsed(np.arange(demand.turns + 1)) + self.delay_slots
        ends[0] = 0
        steps = np.diff(ends, append=self.max_slots)  # slots from k turns to the next

        def spread_out(values: Floats, missing: float) -> Floats:
            out = np.full(len(bits), missing)
            out[sending] = values
            return out

        return Forecast(
            direction=direction,
            bits=bits,
            max_slots=self.max_slots,
            probability=spread_out(law.arrived[:, -1], 1.0),
            expected_slots=spread_out((1 - law.arrived) @ steps, 0.0),
            on_air_slots=spread_out(law.active[:, :-1].sum(axis=1), 0.0),
            round_slots=mean_slowest(law.arrived, count, steps),
            arrivals=mean_arrivals(law.arrived, count, ends, self.max_slots),
        )

    def _by_simulation(
        self, direction: Direction, bits: Bits, state: State, count: int, draws: int
    ) -> Forecast:
        side, sending = self._side(direction), np.flatnonzero(bits)
        rng = np.random.default_rng(0)
        chosen = np.broadcast_to(sending, (draws, len(sending)))
        if count < len(sending):
            chosen = sending[np.argsort(rng.random(chosen.shape), axis=1)[:, :count]]
        gain = self._drawn_gain(state, chosen, rng)
        room = gain.size * side.turns(count).most(side.max_slots)
        if side.sharing.steady and side.rate.adapts and room <= LARGEST_PROGRESS:
            sent = self._progress(side, gain, rng).of(side.demand(gain, bits[chosen], count).bits)
        else:
            sent = simulate(side, gain, bits[chosen], rng)
        elapsed = side.turns(count).elapsed(sent.turns) + self.delay_slots
        slots = np.where(sent.delivered, elapsed, self.max_slots)

        def by_device(values: NDArray[Any]) -> NDArray[Any]:
            """[draws, D] from those of the devices that took part."""
            spread_out = np.zeros((draws, len(bits)), values.dtype)
            np.put_along_axis(spread_out, chosen, values, axis=1)
            return spread_out

        took_part = by_device(np.ones(chosen.shape, np.bool_))
        found = Simulated(took_part, *map(by_device, (sent.delivered, slots, sent.on_air)))
        return found.as_forecast(direction, bits, self.max_slots)

    def _drawn_gain(
        self, state: State, chosen: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats:
        """Gains of some devices, [draws, n], with the shadowing of the state or a drawn one."""
        gain = self.gain(state)[chosen]
        if "shadowing_db" in state:
            return gain * from_db(state["shadowing_db"][chosen])
        spread = self.geometry.spread(state["distance_m"], state["in_sight"])[chosen]
        return gain * from_db(spread * rng.standard_normal(chosen.shape))

    def _progress(self, side: Side, gain: Floats, rng: np.random.Generator) -> TransferProgress:
        """The same for every payload, and simulated once."""
        key = gain.tobytes()
        if self._kept.get("gain") != key:
            self._kept.update(gain=key, progress=progress(side, gain, rng))
        kept: TransferProgress = self._kept["progress"]
        return kept

    @cached_property
    def _kept(self) -> dict[str, Any]:
        """The progress that was simulated last, of the uplink, and the gains behind it."""
        return {}


@dataclass(frozen=True, eq=False)
class Exact:
    """An array that equals another to the bit, or does not."""

    array: NDArray[Any]

    def __hash__(self) -> int:
        return hash(self.array.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and (
            (self.array.dtype, self.array.shape, self.array.tobytes())
            == (other.array.dtype, other.array.shape, other.array.tobytes())
        )


@lru_cache(maxsize=32)
def _kept_law(
    link: CellLink,
    direction: Direction,
    bits: Exact,
    state: tuple[tuple[str, Exact], ...],
    count: int,
) -> Forecast:
    """An adviser asks the same of equal links for one protocol after the other."""
    return link.by_law(direction, bits.array, {name: held.array for name, held in state}, count)


def _mean_law(
    side: Side, needed: NDArray[np.int64], success: Floats, weights: Floats, turns: int
) -> Law:
    """The law of each device, [n, K + 1], over all nodes of its shadowing."""
    cache: dict[tuple[int, float], Law] = {}
    arrived = np.zeros((needed.shape[1], turns + 1))
    active = np.zeros_like(arrived)
    for node, weight in enumerate(weights):
        for device in range(needed.shape[1]):
            key = int(needed[node, device]), float(success[node, device])
            if key not in cache:
                cache[key] = side.packets.law(*key, turns)
            arrived[device] += weight * cache[key].arrived
            active[device] += weight * cache[key].active
    return Law(arrived, active)


def _side(config: Config, direction: Direction, delay: int) -> Side:
    channel, radio, cell = config.channel, config.radio, config.cell
    up = direction == "uplink"
    total_hz = channel.bandwidth_hz * (channel.uplink_channels if up else 1)
    figure = cell.uplink_noise_figure_db if up else cell.downlink_noise_figure_db
    packets = Packets(radio.header_bytes, radio.packet_bytes, radio.retransmissions if up else None)
    duty = radio.uplink_duty_cycle if up else radio.downlink_duty_cycle
    return Side(
        power_w=watts(channel.uplink_power_dbm if up else channel.downlink_power_dbm),
        bandwidth_hz=total_hz,
        noise_w_per_hz=watts(channel.noise_dbm_per_hz) * float(from_db(figure)),
        slot_seconds=channel.slot_ms / 1000,
        max_slots=channel.max_slots - delay,
        silence=math.ceil(1 / duty - 1e-9),
        sharing=_sharing(channel, radio) if up else Dedicated(),
        rate=_rate(config, direction, total_hz, packets),
        fading=_fading(radio),
        packets=packets,
        common=not up,
    )


def _sharing(channel: ChannelConfig, radio: RadioConfig) -> Sharing:
    every: dict[str, Any] = {
        "fdma": Fdma,
        "tdma": Tdma,
        "dedicated": Dedicated,
        "round-robin": lambda: RoundRobin(radio.resource_blocks),
        "proportional-fair": ProportionalFair,
        "aloha": lambda: Aloha(max(1, round(channel.uplink_channels))),
    }
    chosen: Sharing = every[radio.sharing]()
    return chosen


def _fading(radio: RadioConfig) -> Fading:
    factor = {"rayleigh": 0.0, "rician": float(from_db(radio.rician_k_db)), "none": math.inf}
    return Fading(factor[radio.fading], radio.doppler_hz)


def _rate(config: Config, direction: Direction, total_hz: float, packets: Packets) -> Rate:
    channel, radio = config.channel, config.radio
    up = direction == "uplink"
    threshold = channel.uplink_snr_threshold if up else channel.downlink_snr_threshold
    match radio.rate:
        case "target":
            return TargetSnr(threshold)
        case "given":
            return TargetSnr(threshold, (radio.uplink_bps if up else radio.downlink_bps) / total_hz)
        case "optimal":
            return OptimalTarget(packets)
    table = radio.uplink_mcs if up else radio.downlink_mcs
    if up:
        return AdaptiveScheme(table, radio.harq, radio.uplink_block_bits)
    return MulticastScheme(table, radio.downlink_block_bits)
