"""Cellular standards: NB-IoT, LTE-M, 5G RedCap, and a satellite that serves handhelds."""

from mix2fld.config.presets.sourced import CELL, IP_PACKETS, Fields, Sourced, Standard, ours

_CIOT = "3GPP TR 45.820, Annex D"
_MACRO = "3GPP TR 36.814, Table A.2.1.1-2"
_LEO = "3GPP TR 38.821, Tables 6.1.1.1-1 and -3, set 1, LEO-600, S-band, handheld"

_TOWN: Fields = {
    "link": CELL,
    "path_loss": Sourced("uma", "3GPP TR 38.901, Table 7.4.1-1"),
    "rate": Sourced("amc", "adaptive modulation and coding, TS 36.213 and TS 38.214"),
    "uplink_power_dbm": Sourced(23.0, "power class 3, TS 36.101 and TS 38.101-1"),
    **IP_PACKETS,
}
_LOW_BAND: Fields = {
    "carrier_ghz": Sourced(0.9, f"{_CIOT}: 900 MHz"),
    "ring_m": Sourced((35.0, 1000.0), f"{_CIOT}: sites 1,732 m apart, 35 m away at least"),
    "extra_loss_db": Sourced(
        9.0, f"penetration 20 dB ({_MACRO}); {_CIOT}: antennas 18 and -4 dBi, cable 3 dB"
    ),
    "uplink_noise_figure_db": Sourced(3.0, f"{_CIOT}: base station 3 dB"),
    "downlink_noise_figure_db": Sourced(5.0, f"{_CIOT}: device 5 dB"),
    "uplink_channels": ours(1.0, "one carrier in each direction"),
    "sharing": ours("tdma", "one device at a time has all subcarriers"),
}

_NB_IOT: Fields = {
    **_TOWN,
    **_LOW_BAND,
    "bandwidth_hz": Sourced(180e3, "TS 36.211, clause 10: one resource block"),
    "downlink_power_dbm": Sourced(43.0, f"{_CIOT}: 43 dBm in 200 kHz, stand-alone"),
    "uplink_mcs": Sourced("repeated", "TS 36.213, 16.5.1: QPSK with up to 128 repetitions"),
    "downlink_mcs": Sourced("repeated", "TS 36.213, 16.4.1: QPSK with repetitions"),
    "slot_ms": Sourced(16.0, "TS 36.213, 16.5.1.2: four blocks of 4 resource units of 1 ms"),
    "uplink_block_bits": Sourced(4000, "TS 36.306, category NB1: four blocks of 1,000 bits"),
    "downlink_block_bits": Sourced(2720, "TS 36.306, category NB1: four blocks of 680 bits"),
    "uplink_duty_cycle": Sourced(0.25, "TS 36.213, 16.5.1: grant, 8 ms, 4 ms data, 3 ms: 16 ms"),
    "downlink_duty_cycle": Sourced(4 / 26, "TS 36.213, 16.4.1: 680 bits in 26 ms, 26 kbit/s"),
    "max_slots": ours(3750, "a transfer has a minute"),
}
_LTE_M: Fields = {
    **_TOWN,
    **_LOW_BAND,
    "bandwidth_hz": Sourced(1.08e6, "TS 36.211: narrowband of 6 resource blocks"),
    "downlink_power_dbm": Sourced(36.8, f"{_MACRO}: 46 dBm in 50 resource blocks, of which 6"),
    "uplink_mcs": Sourced("repeated", "TS 36.213, 8.0: repetitions; 1,000 bits need no 16QAM"),
    "downlink_mcs": Sourced("repeated", "TS 36.213, 7.1.11: repetitions of a block"),
    "slot_ms": Sourced(8.0, "TS 36.211: eight subframes"),
    "uplink_block_bits": Sourced(8000, "TS 36.306, category M1: eight blocks of 1,000 bits"),
    "downlink_block_bits": Sourced(8000, "TS 36.306, category M1: eight blocks of 1,000 bits"),
    "uplink_duty_cycle": Sourced(3 / 8, "half duplex: 3 blocks in 8 ms, 375 kbit/s, TS 36.213"),
    "downlink_duty_cycle": Sourced(3 / 10, "half duplex: 3 blocks in 10 ms, 300 kbit/s, TS 36.213"),
    "max_slots": ours(1250, "a transfer has ten seconds"),
}
_REDCAP: Fields = {
    **_TOWN,
    "carrier_ghz": Sourced(2.1, "TS 38.101-1: band n1, FDD"),
    "bandwidth_hz": Sourced(19.08e6, "TS 38.101-1: 106 resource blocks in RedCap's 20 MHz"),
    "uplink_channels": ours(1.0, "one carrier in each direction"),
    "downlink_power_dbm": Sourced(46.0, f"{_MACRO}: 46 dBm"),
    "uplink_noise_figure_db": Sourced(5.0, f"{_MACRO}: base station 5 dB"),
    "downlink_noise_figure_db": Sourced(9.0, f"{_MACRO}: device 9 dB"),
    "ring_m": Sourced((35.0, 289.0), f"{_MACRO}: sites 500 m apart, 35 m away at least"),
    "extra_loss_db": Sourced(5.0, f"{_MACRO}: penetration 20 dB, antenna 17 dBi, cable 2 dB"),
    "uplink_mcs": Sourced("64qam", "TS 38.214, Table 5.2.2.1-2; 256QAM is optional, TR 38.875"),
    "downlink_mcs": Sourced("64qam", "TS 38.214, Table 5.2.2.1-2"),
    "sharing": ours("fdma", "OFDMA in equal shares of the resource blocks"),
    "slot_ms": Sourced(1.0, "TS 38.211: slot at 15 kHz"),
    "max_slots": ours(1000, "a transfer has a second"),
}
_SATELLITE: Fields = {
    "link": CELL,
    "path_loss": Sourced("free-space", "3GPP TR 38.811, clause 6.6.2"),
    "carrier_ghz": Sourced(2.0, f"{_LEO}: 2 GHz"),
    "ring_m": Sourced((600e3, 1075e3), f"{_LEO}: altitude 600 km, elevation 90 to 30 degrees"),
    "fading": ours("none", "the margins below stand for it"),
    "uplink_power_dbm": Sourced(23.0, f"{_LEO}: 200 mW, antenna 0 dBi"),
    "downlink_power_dbm": Sourced(48.8, f"{_LEO}: 34 dBW/MHz EIRP, 30 MHz, less 30 dBi"),
    "extra_loss_db": Sourced(
        -24.7, f"{_LEO}: antenna 30 dBi; margins 3 dB shadowing, 2.2 scintillation, 0.1 gases"
    ),
    "uplink_noise_figure_db": Sourced(4.3, f"{_LEO}: G/T 1.1 dB/K with 30 dBi over 290 K"),
    "downlink_noise_figure_db": Sourced(7.0, f"{_LEO}: 7 dB"),
    "bandwidth_hz": Sourced(30e6, f"{_LEO}: downlink 30 MHz"),
    "uplink_channels": Sourced(0.012, f"{_LEO}: uplink 360 kHz of a device"),
    "sharing": ours("dedicated", "every device has 360 kHz of the beam"),
    "rate": Sourced("amc", "TS 38.214"),
    "uplink_mcs": Sourced("low", "TS 38.214, Table 5.2.2.1-4"),
    "downlink_mcs": Sourced("low", "TS 38.214, Table 5.2.2.1-4"),
    "harq": Sourced(0, "TS 38.300, 16.14: HARQ feedback can be disabled"),
    "delay_ms": Sourced(12.9, "TR 38.821: round trip of at most 25.77 ms, transparent payload"),
    "slot_ms": Sourced(10.0, "TS 38.211: radio frame"),
    "max_slots": ours(500, "a transfer has five seconds"),
    **IP_PACKETS,
}

CELLULAR: dict[str, Standard] = {
    "nb-iot": Standard(
        "NB-IoT (category NB1)",
        _NB_IOT,
        "sensor",
        "The download is a multicast (SC-PTM, Release 14) at the rate of unicast; the grants for "
        "other devices are not charged.",
    ),
    "lte-m": Standard(
        "LTE-M (category M1, half duplex)",
        _LTE_M,
        "sensor",
        "The download is a multicast (SC-PTM, Release 14); a device sends in one slot of three and "
        "listens in one of four.",
    ),
    "redcap": Standard(
        "5G RedCap",
        _REDCAP,
        "phone",
        "The download is a multicast (MBS, Release 17); control channels and pilots take no share.",
    ),
    "leo": Standard(
        "LEO satellite, direct to device",
        _SATELLITE,
        "phone",
        "A pass lasts minutes; between passes there is no link (leave_probability).",
    ),
}
