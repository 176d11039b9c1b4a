"""Traces: rates over time against integration by small steps, public layouts, and bad files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reliability.synthetic_trace import write_synthetic_trace

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.config.settings import Config
from mix2fld.links import TraceLink, check_delivery, make_link
from mix2fld.links.channels.trace_files import read_traces
from toys import toy_config, toy_dataset

RACA_HEADER = (
    "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,"
    "DL_bitrate,UL_bitrate,State"
)
RACA_4G = f"""{RACA_HEADER},NRxRSRP,NRxRSRQ,ServingCell_Lon,ServingCell_Lat,ServingCell_Distance
2018.01.18_12.00.00,-8.5,51.9,0,A,2,LTE,-95,-13,-2.0,9,-72,12000,300,D,-,-,-8.4,51.8,900.1
2018.01.18_12.00.01,-8.5,51.9,0,A,2,LTE,-95,-13,-2.0,9,-72,16000,500,D,-,-,-8.4,51.8,900.1
2018.01.18_12.00.01,-8.5,51.9,0,A,2,LTE,-95,-13,-2.0,9,-72,20000,700,D,-,-,-8.4,51.8,900.1
2018.01.18_12.00.02,-8.5,51.9,0,A,2,LTE,-95,-13,-2.0,9,-72,4,1,I,-,-,-8.4,51.8,900.1
2018.01.18_12.00.03,-8.5,51.9,0,A,2,LTE,-95,-13,-2.0,9,-72,-,100,D,-,-,-8.4,51.8,900.1
"""
RACA_5G = f"""{RACA_HEADER},PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,\
RAWCELLID,NRxRSRP,NRxRSRQ
2019.11.28_07.27.00,-8.4,51.9,0,B,11,5G,-102,-13,1.0,9,-,90000,900,D,-,-,-,-,-,b,a8,9c,1,-,-
2019.11.28_07.27.01,-8.4,51.9,0,B,11,5G,-102,-13,1.0,9,-,110000,1100,D,-,-,-,-,-,b,a8,9c,1,-,-
"""
LUMOS5G = """run_num,seq_num,abstractSignalStr,latitude,longitude,movingSpeed,compassDirection,\
nrStatus,lte_rssi,lte_rsrp,lte_rsrq,lte_rssnr,nr_ssRsrp,nr_ssRsrq,nr_ssSinr,Throughput,\
mobility_mode,trajectory_direction,tower_id
1,1,2,44.97,-93.25,0.1,0,CONNECTED,-61,-94,-14,100,-80,-11,5,200,walking,CW,3
1,2,2,44.97,-93.25,0.1,0,CONNECTED,-61,-94,-14,100,-80,-11,5,400,walking,CW,3
2,1,2,44.97,-93.25,0.1,0,NONE,-61,-94,-14,100,,,,50,driving,CW,3
2,2,2,44.97,-93.25,0.1,0,NONE,-61,-94,-14,100,,,,70,driving,CW,3
"""


@pytest.fixture
def synthetic(tmp_path: Path) -> Path:
    path = tmp_path / "rates.csv"
    write_synthetic_trace(path, devices=5, seconds=120, rng=stream(0, "trace"))
    return path


def trace_link(path: Path, devices: int = 5, **fields: object) -> TraceLink:
    config = Config.of(
        link="trace", trace=path, devices=devices, **{"slot_ms": 100.0, "max_slots": 300, **fields}
    )
    link = make_link(config, devices)
    assert isinstance(link, TraceLink)
    return link


def seconds_by_small_steps(times, rates, bits, begins, step=1e-3):
    """How long a transfer takes, a millisecond at a time; the trace repeats."""
    length = times[-1] + (times[1] - times[0])
    now, carried = begins, 0.0
    while carried < bits:
        rate = rates[np.searchsorted(times, now % length, side="right") - 1]
        carried += rate * step
        now += step
    return now - begins


def test_transfers_take_as_long_as_the_trace_says(synthetic):
    link = trace_link(synthetic)
    rows = np.genfromtxt(synthetic, delimiter=",", names=True)
    for begins in (0.0, 7.3, 118.9, 130.25):
        for device in range(5):
            mine = rows[rows["device"] == device]
            rates = mine["uplink_mbps"] * 1e6 * mine["available"]
            found = link.traces[device].uplink.until(9e6, begins)
            expected = seconds_by_small_steps(mine["time_s"], rates, 9e6, begins)
            assert found == pytest.approx(expected, abs=3e-3)


def test_a_round_goes_on_where_the_one_before_ended(synthetic):
    link = trace_link(synthetic)
    state = link.start(5, stream(0, "link"))
    here, state = link.begin_round(state, 30.0, stream(0, "link", 1))
    rows = np.genfromtxt(synthetic, delimiter=",", names=True)
    np.testing.assert_array_equal(here, rows[rows["time_s"] == 30]["available"] > 0)
    bits = np.array([4_000_000, 0, 4_000_000, 10**12, 1])
    up, after = link.transmit("uplink", bits, stream(0, "uplink", 1), state)
    check_delivery(link, up, 5)
    assert up.delivered.tolist() == [True, True, True, False, True]
    assert up.slots[1] == 0
    assert up.slots[3] == 300
    assert float(after["seconds"]) == pytest.approx(30 + 300 * 0.1)
    again, _ = link.transmit("uplink", bits, stream(9, "uplink", 7), state)
    np.testing.assert_array_equal(up.slots, again.slots)  # nothing is drawn


def test_forecasts_follow_the_trace(synthetic):
    link = trace_link(synthetic, max_slots=30)
    now = {"seconds": np.array(12.0)}
    bits = np.full(5, 5_000_000)
    exact = link.forecast("uplink", bits, now)
    sent, _ = link.transmit("uplink", bits, stream(0, "x"), now)
    np.testing.assert_array_equal(exact.probability > 0.5, sent.delivered)
    state = link.lasting(link.start(5, stream(0, "link")))
    small, large = (link.forecast("uplink", bits * k, state) for k in (1, 3))
    assert (small.probability >= large.probability).all()
    assert 0.05 < small.probability.mean() < 1
    assert link.budget("uplink", 5_000_000, 3).devices == 3


def test_parquet_is_the_same_as_csv(synthetic, tmp_path):
    other = tmp_path / "rates.parquet"
    pd.read_csv(synthetic).to_parquet(other)
    for a, b in zip(
        read_traces(synthetic, "auto", 0.1), read_traces(other, "auto", 0.1), strict=True
    ):
        np.testing.assert_array_equal(a.uplink.rates, b.uplink.rates)
        np.testing.assert_array_equal(a.available, b.available)


def test_units_are_read_from_the_names_of_columns(tmp_path):
    for unit, value in (("bps", 8e5), ("kbps", 800), ("mbps", 0.8), ("bytes_per_s", 1e5)):
        path = tmp_path / f"{unit}.csv"
        path.write_text(
            f"time_s,device,uplink_{unit},downlink_mbps\n0,0,{value},5\n1,0,{value},5\n"
        )
        (trace,) = read_traces(path, "auto", 0.1)
        assert trace.uplink.rates.tolist() == pytest.approx([8e5, 8e5])
        assert trace.downlink.rates.tolist() == pytest.approx([5e6, 5e6])


def test_the_layout_of_the_4g_data_set(tmp_path):
    path = tmp_path / "A_2018.01.18_12.00.00.csv"
    path.write_text(RACA_4G)
    (trace,) = read_traces(path, "auto", 0.1)
    assert trace.downlink.times.tolist() == [0, 1, 3, 4.5]  # a second twice, one without a download
    assert trace.downlink.rates.tolist() == [12e6, 18e6, 0]
    assert trace.uplink.rates.tolist() == [300e3, 600e3, 100e3]


def test_a_folder_of_the_5g_data_set_has_a_device_for_each_file(tmp_path):
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text(RACA_5G)
    (tmp_path / "README.md").write_text("not a trace")
    traces = read_traces(tmp_path, "raca", 0.1)
    assert len(traces) == 2
    assert traces[0].downlink.rates.tolist() == [90e6, 110e6]


def test_the_layout_of_lumos5g(tmp_path):
    path = tmp_path / "Lumos5G-v1.0.csv"
    path.write_text(LUMOS5G)
    first, second = read_traces(path, "auto", 0.05)
    assert first.downlink.rates.tolist() == [200e6, 400e6]
    assert first.uplink.rates.tolist() == pytest.approx([10e6, 20e6])
    assert second.downlink.rates.tolist() == [50e6, 70e6]


def test_a_run_over_a_trace(synthetic):
    config = toy_config(
        protocol="mix2fld", devices=5, local_steps=5, rounds=3, link="trace", trace=synthetic,
        slot_ms=10.0, max_slots=2000,
    )  # fmt: skip
    (result,) = mix2fld.run(config, dataset=toy_dataset())
    assert result.summary["uploads"]["delivered"] > 0
    assert result.summary["seconds"]["communication"] > 0


GOOD = "time_s,device,uplink_mbps,downlink_mbps\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one row below it"),
        (GOOD, "at least one row below it"),
        ("a,b\n1,2\n", "columns a, b; must have time_s, device, uplink_* and downlink_*"),
        (GOOD + "0,0,1,9\n0,0,1,9\n", "row 3 (device 0, time_s = 0) has the same time as the row"),
        (GOOD + "1,0,1,9\n0,0,1,9\n", "row 3 (device 0, time_s = 0) has an earlier time than"),
        (
            GOOD + "".join(f"{t},7,1,9\n" for t in (0, 1, 2, 3, 4, 60, 61)),
            "device 7 has no rows from time_s = 4 to 60, but one every 1 s elsewhere; fill the gap",
        ),
        (GOOD + "0,0,-1,9\n1,0,1,9\n", "column uplink_mbps has -1; must be 0 or more"),
        (GOOD + "0,0,x,9\n1,0,1,9\n", "row 2, column uplink_mbps = 'x'; must be a number"),
        (GOOD + "0,0,inf,9\n1,0,1,9\n", "row 2, column uplink_mbps = 'inf'; must be a number"),
        (GOOD + "0,0,1\n1,0,1,9\n", "line 2 has 3 values; the header has 4 names"),
        (
            "time_s,device,uplink_MBps,downlink_mbps\n0,0,2,9\n1,0,3,9\n",
            "column uplink_MBps has no known unit, and its median is 2.5: bits or bytes?",
        ),
        (
            GOOD + "0,0,2e6,9\n1,0,3e6,9\n",
            "column uplink_mbps has the median 2.5e+06, which would be 2.5e+12 bit/s; must be "
            "between 100 and 1e+10; is it uplink_bps?",
        ),
        (
            "time_s,device,uplink_mbps,downlink_bps\n0,0,2,9\n1,0,3,9\n",
            "column downlink_bps has the median 9, which would be 9 bit/s; must be between 100 and "
            "1e+10; is it downlink_kbps?",
        ),
        ("time_s,device,uplink_mbps\n0,0,1\n", "0 columns downlink_*; must be one"),
        (
            "time_s,device,uplink_mbps,uplink_bps,downlink_mbps\n0,0,1,1,1\n",
            "2 columns uplink_*; must be one, e.g. uplink_mbps",
        ),
        ("Timestamp,DL_bitrate,UL_bitrate\nnow,1,1\n", "Timestamp = 'now'; must be like 2019"),
        (
            "Timestamp,DL_bitrate,UL_bitrate\n2019.11.28_07.12.03x,1,1\n",
            "Timestamp = '2019.11.28_07.12.03x'; must be like 2019",
        ),
        ("run_num,seq_num,Throughput\n1,0,-4\n", "column Throughput has -4; must be 0 or more"),
        ("run_num,seq_num,Throughput\n1,1e300,4\n", "seq_num = '1e+300'; must be a number, at"),
    ],
)
def test_bad_traces_get_one_message(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        trace_link(path, 1)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"\x00\xff\xfe", b'time_s,device\n"0,1\n', b"PAR1 not really"])
def test_files_that_are_no_tables_are_refused(tmp_path, content):
    for name in ("bad.csv", "bad.parquet"):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=name):
            trace_link(path, 1)


def test_traces_that_are_not_there_are_named(tmp_path, synthetic):
    with pytest.raises(InputError, match="trace: must name a file or a folder"):
        make_link(Config.of(link="trace"), 5)
    with pytest.raises(InputError, match=r"nothing.csv: there is no such file"):
        trace_link(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="holds 5 devices; must hold at least devices = 6"):
        trace_link(synthetic, devices=6)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"holds no .csv and no .parquet file"):
        trace_link(empty)
