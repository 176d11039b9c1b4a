"""A link whose rates come from a trace: what each device could send and receive, second by second.

A rate holds until the next row of its device; after the last row the trace begins anew. Rates are
those that a device measured for itself, so that devices do not share them.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.links.budget import Bits, Direction, Forecast, Simulated
from mix2fld.links.channels.channel import Link
from mix2fld.links.channels.trace_files import DeviceTrace, read_traces
from mix2fld.types import Delivery, State

START_DRAWS = 400
"""Times of the trace at which a forecast over all of it begins."""
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class TraceLink(Link):
    """The traces of all devices, one each."""

    traces: tuple[DeviceTrace, ...]
    slot_seconds: float
    max_slots: int

    @classmethod
    def from_config(cls, config: Config, devices: int) -> Self:
        """The traces that a config names, for at most ``devices`` devices."""
        radio, channel = config.radio, config.channel
        if radio.trace is None:
            raise InputError(
                field="trace", hint="must name a file or a folder of rates for link = trace"
            )
        traces = read_traces(radio.trace, radio.trace_layout, radio.trace_uplink_share)
        if len(traces) < devices:
            raise InputError(
                field="trace",
                value=radio.trace,
                hint=f"holds {len(traces)} devices; must hold at least devices = {devices}",
            )
        return cls(tuple(traces[:devices]), channel.slot_ms / 1000, channel.max_slots)

    def start(self, devices: int, rng: np.random.Generator) -> State:
        if devices > len(self.traces):
            raise InputError(
                field="devices", value=devices, hint=f"the trace holds {len(self.traces)}"
            )
        return {"seconds": np.array(0.0)}

    def begin_round(
        self, state: State, seconds: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_] | None, State]:
        """Who is available at this second of the trace."""
        here = np.array([trace.available_at(seconds) for trace in self.traces])
        return here, {"seconds": np.array(seconds)}

    def at(self, state: State, seconds: float) -> State:
        """At this second of the trace."""
        return {**state, "seconds": np.array(seconds)}

    def lasting(self, state: State) -> State:
        return {name: value for name, value in state.items() if name != "seconds"}

    def transmit(
        self, direction: Direction, bits: Bits, rng: np.random.Generator, state: State
    ) -> tuple[Delivery, State]:
        """What the trace lets through from now on; nothing is drawn."""
        begins = float(state["seconds"])
        delivery = self._deliver(direction, bits, begins)
        ends = begins + float(delivery.slots.max(initial=0)) * self.slot_seconds
        return delivery, {**state, "seconds": np.array(ends)}

    def forecast(
        self,
        direction: Direction,
        bits: Bits,
        state: State,
        *,
        transmitting: int | None = None,
        draws: int = START_DRAWS,
    ) -> Forecast:
        """What the trace lets through from now on; for a state without a time, from any time on."""
        begins = np.random.default_rng(0).random(draws) * max(t.length for t in self.traces)
        if "seconds" in state:
            begins = np.array([float(state["seconds"])])
        sent = [self._deliver(direction, bits, begin) for begin in begins.tolist()]
        found = Simulated.of([bits > 0] * len(sent), sent)
        return found.as_forecast(direction, bits, self.max_slots)

    def _deliver(self, direction: Direction, bits: Bits, begins: float) -> Delivery:
        seconds = np.zeros(len(bits))
        for device in np.flatnonzero(bits).tolist():
            rate = self.traces[device].carried(direction)
            seconds[device] = rate.until(float(bits[device]), begins)
        exact = np.minimum(seconds / self.slot_seconds, 2.0 * self.max_slots)
        slots = np.ceil(exact * (1 - ROUNDING)).astype(np.int64)
        delivered = slots <= self.max_slots
        return Delivery(delivered, np.minimum(slots, self.max_slots))
