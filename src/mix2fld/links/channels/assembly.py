"""Puts a cell link together from the sections of a config."""

import math
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.config.radio import RadioConfig
from mix2fld.config.settings import ChannelConfig, Config
from mix2fld.links.budget import Direction
from mix2fld.links.channels.cell import CellLink
from mix2fld.links.channels.fading import Fading
from mix2fld.links.channels.geometry import Geometry
from mix2fld.links.channels.packets import Packets
from mix2fld.links.channels.path_loss import from_db
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
from mix2fld.links.channels.transfer import Side


def cell_link(config: Config, devices: int) -> CellLink:
    """The link that a config describes, for any number of devices."""
    del devices
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
    return CellLink(
        uplink=_side(config, "uplink", delay),
        downlink=_side(config, "downlink", delay),
        geometry=Geometry.from_config(config),
        slot_seconds=channel.slot_ms / 1000,
        max_slots=channel.max_slots,
        delay_slots=delay,
    )


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
