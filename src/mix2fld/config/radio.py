"""Settings of links beyond the paper's: cells, radio, availability, energy.

A preset of a standard (``presets``) is a set of these; ``docs/links.md`` gives their sources.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mix2fld.base.errors import InputError
from mix2fld.config.fields import Count, Listed, Positive, PositiveFloat, Section

Share = Annotated[float, Field(gt=0, le=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]


class CellConfig(Section):
    """Link cell: positions of devices, path loss and shadowing."""

    ring_m: Annotated[tuple[float, ...], Listed] = ()
    """Radii of a ring in which devices are placed uniformly; default: all at distance_m."""
    distances_m: Annotated[tuple[PositiveFloat, ...], Listed] = ()
    """Distance of each device, if known."""
    path_loss: str = "power-law"
    """power-law (the paper's), free-space, umi, uma, rma, inh (3GPP TR 38.901) or none (a line)."""
    carrier_ghz: PositiveFloat = 2.0
    """Carrier frequency; not used by power-law."""
    base_height_m: PositiveFloat | None = None
    """Height of the base station; default: the path loss model's."""
    device_height_m: PositiveFloat | None = None
    """Height of the devices; default: the path loss model's."""
    line_of_sight: Literal["drawn", "always", "never"] = "drawn"
    """Whether devices have a line of sight: drawn with the model's probability, always, never."""
    shadowing_db: NotNegative | None = None
    """Standard deviation of log-normal shadowing; default: the path loss model's."""
    shadowing_memory: Probability = 0.9
    """Correlation of a device's shadowing between successive rounds."""
    extra_loss_db: float = 0.0
    """Additional loss, such as walls and cables, minus antenna gains."""
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
                field="ring_m",
                value=shown,
                hint="must be two distances above 0, the nearer one first",
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
    """Rate given: bits per second over the whole bandwidth of the uplink."""
    downlink_bps: PositiveFloat = 1e7
    """Rate given: bits per second of the downlink."""
    uplink_mcs: Literal["64qam", "256qam", "low", "16qam", "repeated"] = "64qam"
    """Rate amc: modulation and coding schemes of the uplink, one chosen in each slot."""
    downlink_mcs: Literal["64qam", "256qam", "low", "16qam", "repeated"] = "64qam"
    """Rate amc: schemes of the downlink, one chosen for all listeners."""
    uplink_block_bits: Count = 0
    """Rate amc: largest transport block of an uplink slot; 0: no limit."""
    downlink_block_bits: Count = 0
    """Rate amc: largest transport block of a downlink slot; 0: no limit."""
    harq: Count = 3
    """Rate amc: retransmissions of a block, combined with its earlier receptions."""
    sharing: Literal["fdma", "tdma", "round-robin", "proportional-fair", "aloha", "dedicated"] = (
        "fdma"
    )
    """How devices share the uplink; aloha: without a grant; dedicated: a channel each."""
    resource_blocks: Positive = 50
    """Sharing round-robin: blocks of the bandwidth that are assigned in each slot."""
    uplink_duty_cycle: Share = 1.0
    """Share of the time in which a device may transmit."""
    downlink_duty_cycle: Share = 1.0
    """Share of the time in which the server may transmit."""
    packet_bytes: Count = 0
    """Largest payload of a packet; 0: every upload is one packet."""
    header_bytes: Count = 0
    """Header of a packet."""
    retransmissions: Count | None = None
    """Retransmissions of a lost block of an upload; default: until T_max."""
    delay_ms: NotNegative = 0.0
    """Propagation and waiting time added to every transfer."""
    trace: Path | None = None
    """Link trace: CSV or Parquet file of rates over time, or a folder with a file per device."""
    trace_layout: Literal["auto", "rates", "raca", "lumos5g"] = "auto"
    """Columns of the trace: this package's, or a public dataset's; auto: by the header."""
    trace_uplink_share: Share = 0.1
    """Uplink rate divided by downlink rate, for a dataset with downlink rates only."""


class AvailabilityConfig(Section):
    """Devices that come and go, how long the server waits, and how many uploads it needs."""

    leave_probability: Probability = 0.0
    """Probability that an available device is absent in the next round."""
    return_probability: Share = 1.0
    """Probability that an absent device is back in the next round."""
    wait: str = "all"
    """When the server takes its step: all, quorum:0.8 (a share of the uploads has arrived),
    deadline:30 (seconds), buffered:10 (uploads, late ones too), asynchronous (every upload)."""
    listeners: Literal["auto", "participants", "all"] = "auto"
    """Who receives a multicast: the devices of this round and of the next, or all that are idle;
    auto: all where steps come down, which are few bits as long as nobody misses one."""
    min_uploads: Count = 0
    """Quorum: with fewer uploads, the server makes no update."""
    missed_quorum: Literal["skip", "repeat"] = "skip"
    """If the quorum is missed: skip the update, or repeat the lost uploads."""
    upload_repeats: Positive = 3
    """Missed quorum repeat: largest number of repetitions in a round."""


class EnergyConfig(Section):
    """Energy of a device; the defaults are those of the preset phone."""

    amplifier_efficiency: Share = 0.35
    """Transmit power divided by the power that the amplifier draws."""
    transmit_circuit_w: NotNegative = 1.288
    """Power of the rest of the radio while transmitting."""
    receive_w: NotNegative = 1.288
    """Power of the radio while receiving."""
    idle_w: NotNegative = 0.031
    """Power while waiting for other devices."""
    computing_w: NotNegative = 2.5
    """Power while computing; times the time of an SGD step, the energy of that step."""
    battery_wh: PositiveFloat = 15.0
    """Energy of a full battery."""


def _only_with(name: str, value: str, *fields: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(fields, (name, value))


_TRACES = ("trace", "trace_layout", "trace_uplink_share")
NEEDS_LINK: dict[str, tuple[str, str]] = {
    **_only_with("link", "cell", *CellConfig.model_fields, *RadioConfig.model_fields),
    **_only_with("link", "trace", *_TRACES),
    **_only_with("link", "air", "air_truncation"),
}
"""Settings that have an effect with one link alone."""
NEEDS_PIECE: dict[str, tuple[str, str]] = {
    **_only_with("fading", "rician", "rician_k_db"),
    **_only_with("rate", "given", "uplink_bps", "downlink_bps"),
    **_only_with("rate", "amc", "uplink_mcs", "downlink_mcs", "harq"),
    **_only_with("rate", "amc", "uplink_block_bits", "downlink_block_bits"),
    **_only_with("sharing", "round-robin", "resource_blocks"),
    **_only_with("missed_quorum", "repeat", "upload_repeats"),
    **_only_with("sums", "masked", "sum_threshold", "sum_bits", "sum_range"),
}
"""Settings that have an effect with one value of another setting alone."""
