"""Links of a building: a sensor network in an office, and the lines of homes."""

from mix2fld.config.presets.sourced import CELL, IP_PACKETS, Fields, Sourced, Standard, ours

_NORDIC = "Nordic nRF52840 product specification"
_IEEE = "IEEE 802.15.4-2020, O-QPSK at 2.4 GHz"
_FRAME_MS = 4.256 + 0.192 + 0.352 + 0.640
_FRAME_BPS = 8 * 133 / (_FRAME_MS / 1000)
_THRESHOLD = Sourced(1.29, "IEEE 802.15.4-2006, Annex E: bit error rate 1e-5 at SINR 1.1 dB")

_OFFICE: Fields = {
    "link": CELL,
    "path_loss": Sourced("inh", "3GPP TR 38.901, Table 7.4.1-1"),
    "carrier_ghz": Sourced(2.4, _IEEE),
    "bandwidth_hz": Sourced(2e6, f"{_IEEE}: 2 Mchip/s"),
    "uplink_channels": ours(1.0, "one of the 16 channels"),
    "ring_m": ours((1.0, 40.0), "a floor of an office"),
    "uplink_power_dbm": Sourced(8.0, f"{_NORDIC}: up to 8 dBm"),
    "downlink_power_dbm": Sourced(8.0, f"{_NORDIC}: up to 8 dBm"),
    "uplink_noise_figure_db": Sourced(9.9, f"{_NORDIC}: sensitivity -100 dBm, at SINR 1.1 dB"),
    "downlink_noise_figure_db": Sourced(9.9, f"{_NORDIC}: sensitivity -100 dBm, at SINR 1.1 dB"),
    "rate": Sourced("given", f"{_IEEE}: 250 kbit/s"),
    "uplink_snr_threshold": _THRESHOLD,
    "downlink_snr_threshold": _THRESHOLD,
    "slot_ms": Sourced(
        _FRAME_MS, f"{_IEEE}: 133 bytes, turnaround 192 us, acknowledgement 352 us, spacing 640 us"
    ),
    "uplink_bps": Sourced(_FRAME_BPS, "a full frame in a slot"),
    "downlink_bps": Sourced(_FRAME_BPS, "a full frame in a slot"),
    "packet_bytes": Sourced(102, "RFC 4944, clause 4: 127 less a MAC header of 25 bytes"),
    "header_bytes": Sourced(31, f"{_IEEE}: MAC 25 bytes, PHY 6 bytes"),
    "sharing": Sourced("tdma", "IEEE 802.15.4-2020, TSCH: a slot for each device"),
    "retransmissions": Sourced(3, "IEEE 802.15.4-2020: macMaxFrameRetries, default 3"),
    "max_slots": ours(11_029, "a transfer has a minute"),
}


def _line(up: Sourced, down: Sourced, power: tuple[Sourced, Sourced], delay: Sourced) -> Fields:
    return {
        "link": CELL,
        "path_loss": ours("none", "a line has its rate"),
        "fading": ours("none", "a line does not fade"),
        "rate": ours("given", "a line has its rate"),
        "uplink_bps": up,
        "downlink_bps": down,
        "uplink_power_dbm": power[0],
        "downlink_power_dbm": power[1],
        "sharing": ours("dedicated", "each device is in another home"),
        "delay_ms": delay,
        "slot_ms": ours(1.0, "resolution of the simulated time"),
        "max_slots": ours(5000, "a transfer has five seconds"),
        **IP_PACKETS,
    }


_ADSL = _line(
    Sourced(640e3, "ITU-T G.992.1, summary: about 640 kbit/s upstream"),
    Sourced(6.144e6, "ITU-T G.992.1, summary: about 6 Mbit/s downstream: 4 x 1.536"),
    (
        Sourced(12.5, "ITU-T G.992.1: about 12.5 dBm of a remote unit"),
        Sourced(20.4, "ITU-T G.992.1: about 20.4 dBm of a central unit"),
    ),
    ours(20.0, "interleaving of both directions"),
)
_CABLE = _line(
    Sourced(30.72e6, "DOCSIS 3.0 (CM-SP-PHYv3.0): 64QAM, 5.12 Msym/s, one channel"),
    Sourced(343e6, "DOCSIS 3.0 (CM-SP-PHYv3.0): 256QAM, 42.88 Mbit/s, eight channels"),
    (
        Sourced(8.2, "DOCSIS 3.0: 57 dBmV at 75 ohm"),
        Sourced(11.2, "DOCSIS 3.0: 60 dBmV at 75 ohm"),
    ),
    ours(10.0, "waiting for a grant of the upstream"),
)

LOCAL: dict[str, Standard] = {
    "802.15.4": Standard(
        "IEEE 802.15.4",
        _OFFICE,
        "sensor",
        "One hop to the coordinator; a multicast is not acknowledged and repeats what was lost.",
    ),
    "adsl": Standard(
        "home ADSL", _ADSL, "single-board", "The overhead of ATM cells, about a tenth, is left out."
    ),
    "cable": Standard(
        "home cable (DOCSIS 3.0)",
        _CABLE,
        "single-board",
        "Homes of one segment share these rates; here every device has its own segment.",
    ),
}
