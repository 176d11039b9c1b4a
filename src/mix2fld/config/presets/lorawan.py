"""LoRaWAN in Europe, data rates DR0 to DR5: one slot is the air time of a full frame.

Frames are sent without a grant, on three channels, by devices that must be silent for 99 % of the
time; one that is lost is sent again.
"""

import math

from mix2fld.config.presets.sourced import CELL, Fields, Sourced, Standard, ours

BANDWIDTH_HZ = 125_000.0
HEADER_BYTES = 13
CHANNELS = 3
DAY_S = 86_400.0
RATES: dict[int, tuple[int, int, float]] = {
    0: (12, 51, -20.0),
    1: (11, 51, -17.5),
    2: (10, 51, -15.0),
    3: (9, 115, -12.5),
    4: (8, 222, -10.0),
    5: (7, 222, -7.5),
}
"""Of each data rate: spreading factor, largest payload in bytes, SNR that it needs in dB."""

_RP = "LoRaWAN Regional Parameters RP002-1.0.4, EU863-870"
_SX = "Semtech SX1276/77/78/79 data sheet"


def time_on_air_s(spreading_factor: int, frame_bytes: int) -> float:
    """Seconds of a frame: SX1276 data sheet, clause 4.1.1.7, at 125 kHz and code rate 4/5.

    With 8 symbols of preamble, an explicit header and a CRC; from SF11 on, low data rate
    optimisation is on.
    """
    symbol = 2**spreading_factor / BANDWIDTH_HZ
    slow = 2 if symbol > 0.016 else 0
    bits = 8 * frame_bytes - 4 * spreading_factor + 28 + 16
    coded = 5 * max(math.ceil(bits / (4 * (spreading_factor - slow))), 0)
    return (8 + 4.25 + 8 + coded) * symbol


def _fields(data_rate: int) -> Fields:
    factor, payload, snr_db = RATES[data_rate]
    frame_s = time_on_air_s(factor, payload + HEADER_BYTES)
    frame_bps = 8 * (payload + HEADER_BYTES) / frame_s
    threshold = Sourced(10 ** (snr_db / 10), f"{_SX}, Table 13: SF{factor} needs {snr_db:g} dB")
    return {
        "link": CELL,
        "bandwidth_hz": Sourced(BANDWIDTH_HZ, f"{_RP}: DR{data_rate} is SF{factor} at 125 kHz"),
        "uplink_channels": Sourced(CHANNELS, f"{_RP}: 868.1, 868.3 and 868.5 MHz"),
        "carrier_ghz": Sourced(0.868, _RP),
        "uplink_power_dbm": Sourced(14.0, f"{_RP}: 16 dBm EIRP, here with a dipole of 2.15 dBi"),
        "downlink_power_dbm": Sourced(27.0, "ETSI EN 300 220-2, 869.4-869.65 MHz: 500 mW ERP"),
        "extra_loss_db": ours(-4.3, "a dipole of 2.15 dBi at each end"),
        "uplink_noise_figure_db": Sourced(6.0, "Semtech AN1200.22: NF = 6 dB"),
        "downlink_noise_figure_db": Sourced(6.0, "Semtech AN1200.22: NF = 6 dB"),
        "path_loss": ours("uma", "outdoors in a town, 3GPP TR 38.901"),
        "ring_m": ours((50.0, 2000.0), "a gateway for a district"),
        "fading": ours("rayleigh", "no line of sight to most devices"),
        "rate": ours("given", "a data rate is fixed"),
        "uplink_snr_threshold": threshold,
        "downlink_snr_threshold": threshold,
        "slot_ms": Sourced(1000 * frame_s, f"{_SX}, 4.1.1.7: air time of {payload + 13} bytes"),
        "uplink_bps": Sourced(CHANNELS * frame_bps, "a full frame in a slot of each channel"),
        "downlink_bps": Sourced(frame_bps, "a full frame in a slot"),
        "packet_bytes": Sourced(payload, f"{_RP}: maximum payload N with repeaters"),
        "header_bytes": Sourced(HEADER_BYTES, "LoRaWAN L2 1.0.4: MHDR 1, FHDR 7, FPort 1, MIC 4"),
        "sharing": Sourced("aloha", "LoRaWAN L2 1.0.4, class A: uplinks of the ALOHA type"),
        "uplink_duty_cycle": Sourced(0.01, "ETSI EN 300 220-2, 868.0-868.6 MHz: 1 %"),
        "downlink_duty_cycle": Sourced(0.1, "ETSI EN 300 220-2, 869.4-869.65 MHz: 10 %"),
        "retransmissions": Sourced(7, "LoRaWAN 1.0.2, confirmed frames: up to 8 transmissions"),
        "max_slots": ours(int(DAY_S / frame_s), "a transfer has a day"),
    }


LORAWAN: dict[str, Standard] = {
    f"lorawan-dr{data_rate}": Standard(
        f"LoRaWAN EU868 DR{data_rate}",
        _fields(data_rate),
        "sensor",
        "Devices listen as a multicast group of class C; acknowledgements of uplinks cost no air "
        "time here, which flatters it.",
    )
    for data_rate in RATES
}
