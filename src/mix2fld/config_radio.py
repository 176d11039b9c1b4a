"""Settings of links beyond the paper's: cells, radio, availability, energy.

A preset of a standard (``presets``) is a set of these; ``docs/links.md`` gives their sources.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mix2fld.config_base import Count, Listed, Positive, PositiveFloat, Section
from mix2fld.errors import InputError

Share = Annotated[float, Field(gt=0, le=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]


class CellConfig(Section):
    """Link cell: where devices are, and how much of a signal reaches them."""

    ring_m: Annotated[tuple[float, ...], Listed] = ()
    """Two distances: devices are uniform in the ring between them; none: all at distance_m."""
    distances_m: Annotated[tuple[PositiveFloat, ...], Listed] = ()
    """The distance of each device, where it is known."""
    path_loss: str = "power-law"
    """power-law (the paper's), free-space, umi, uma, rma, inh (3GPP TR 38.901) or none (a line)."""
    carrier_ghz: PositiveFloat = 2.0
    """Carrier frequency; the power law has none."""
    base_height_m: PositiveFloat | None = None
    """Height of the base station; by default that of the path loss model."""
    device_height_m: PositiveFloat | None = None
    """Height of the devices; by default that of the path loss model."""
    line_of_sight: Literal["drawn", "always", "never"] = "drawn"
    """Whether a device sees the base station: drawn with the model's probability, or for all."""
    shadowing_db: NotNegative | None = None
    """Standard deviation of log-normal shadowing; by default that of the path loss model."""
    shadowing_memory: Probability = 0.9
    """Correlation of a device's shadowing from a round to the next."""
    extra_loss_db: float = 0.0
    """Loss on top, through walls or cables; antenna gains count against it."""
    uplink_noise_figure_db: NotNegative = 0.0
    """Noise figure of the base station."""
    downlink_noise_figure_db: NotNegative = 0.0
    """Noise figure of a device."""

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if self.ring_m and (
            len(self.ring_m) != 2 or not 0 < self.ring_m[0] <= self.ring_m[1] < float("inf")
        ):
            shown = ", ".join(f"{distance:g}" for distance in self.ring_m)
            raise InputError(
                f"ring_m = {shown}: must be two distances above 0, the nearer one first"
            )
        return self


class RadioConfig(Section):
    """Link cell: fading, rates, sharing and packets. Link trace: the trace."""

    fading: Literal["rayleigh", "rician", "none"] = "rayleigh"
    """Fading of each slot."""
    rician_k_db: float = 6.0
    """Fading rician: power of the steady part over that of the scattered part, K."""
    doppler_hz: NotNegative | None = None
    """Doppler frequency, speed x carrier / c; fading is then correlated from slot to slot."""
    rate: Literal["target", "optimal", "given", "amc"] = "target"
    """The target SNRs of [channel], the best target for a payload, given rates, or MCS tables."""
    uplink_bps: PositiveFloat = 1e6
    """Rate given: bits per second over all of the uplink's bandwidth."""
    downlink_bps: PositiveFloat = 1e7
    """Rate given: bits per second of the downlink."""
    uplink_mcs: Literal["64qam", "256qam", "low", "16qam", "repeated"] = "64qam"
    """Rate amc: modulation and coding schemes of the uplink, one chosen in each slot."""
    downlink_mcs: Literal["64qam", "256qam", "low", "16qam", "repeated"] = "64qam"
    """Rate amc: schemes of the downlink, one chosen for all listeners."""
    uplink_block_bits: Count = 0
    """Rate amc: largest transport block of a slot of the uplink; 0: no limit."""
    downlink_block_bits: Count = 0
    """Rate amc: largest transport block of a slot of the downlink; 0: no limit."""
    harq: Count = 3
    """Rate amc: retransmissions of a block, combined with what was received of it before."""
    sharing: Literal["fdma", "tdma", "round-robin", "proportional-fair", "aloha", "dedicated"] = (
        "fdma"
    )
    """How those who transmit share the uplink; aloha: without a grant, dedicated: not at all."""
    resource_blocks: Positive = 50
    """Sharing round-robin: blocks of the bandwidth that are assigned in each slot."""
    uplink_duty_cycle: Share = 1.0
    """Share of time in which a device may transmit."""
    downlink_duty_cycle: Share = 1.0
    """Share of time in which the server may transmit."""
    packet_bytes: Count = 0
    """Largest payload of a packet; 0: an upload is one packet."""
    header_bytes: Count = 0
    """Header of a packet."""
    retransmissions: Count | None = None
    """How often a lost block of an upload is sent again; by default until T_max."""
    delay_ms: NotNegative = 0.0
    """Propagation and waiting time that every transfer takes on top."""
    trace: Path | None = None
    """Link trace: CSV or Parquet file of rates over time, or a folder with a file per device."""
    trace_layout: Literal["auto", "rates", "raca", "lumos5g"] = "auto"
    """Columns of the trace: this package's, or those of a public data set; auto: by the header."""
    trace_uplink_share: Share = 0.1
    """Uplink rate over downlink rate, for a data set that has downlink rates only."""


class AvailabilityConfig(Section):
    """Devices that come and go, and how many uploads a round needs."""

    leave_probability: Probability = 0.0
    """Chance that an available device is away in the next round."""
    return_probability: Share = 1.0
    """Chance that a device that is away is back in the next round."""
    min_uploads: Count = 0
    """Uploads without which the server makes no update: the quorum."""
    missed_quorum: Literal["skip", "repeat"] = "skip"
    """If fewer arrive: skip the update, or let those who failed upload again."""
    upload_repeats: Positive = 3
    """Missed quorum repeat: how often at most in a round."""


class EnergyConfig(Section):
    """Energy of a device; the defaults are those of the preset phone."""

    amplifier_efficiency: Share = 0.35
    """Transmit power over the power that the amplifier draws."""
    transmit_circuit_w: NotNegative = 1.288
    """Power of the rest of the radio while it transmits."""
    receive_w: NotNegative = 1.288
    """Power of the radio while it receives."""
    idle_w: NotNegative = 0.031
    """Power while a device waits for others."""
    computing_w: NotNegative = 2.5
    """Power while it computes; times the time of an SGD step, its energy."""
    battery_wh: PositiveFloat = 15.0
    """Energy of a full battery."""


def _only_with(name: str, value: str, *fields: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(fields, (name, value))


_TRACES = ("trace", "trace_layout", "trace_uplink_share")
NEEDS_LINK: dict[str, tuple[str, str]] = {
    **_only_with("link", "cell", *CellConfig.model_fields, *RadioConfig.model_fields),
    **_only_with("link", "trace", *_TRACES),
}
"""Settings that have an effect with one link alone."""
NEEDS_PIECE: dict[str, tuple[str, str]] = {
    **_only_with("fading", "rician", "rician_k_db"),
    **_only_with("rate", "given", "uplink_bps", "downlink_bps"),
    **_only_with("rate", "amc", "uplink_mcs", "downlink_mcs", "harq"),
    **_only_with("rate", "amc", "uplink_block_bits", "downlink_block_bits"),
    **_only_with("sharing", "round-robin", "resource_blocks"),
    **_only_with("missed_quorum", "repeat", "upload_repeats"),
}
"""Settings that have an effect with one value of another setting alone."""
