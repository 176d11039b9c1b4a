"""Presets of standards: what their numbers come to, and that each has a source and a meaning."""

import importlib.util

import numpy as np
import pytest

from mix2fld.config.presets import DEVICE_CLASSES, NAMED, STANDARDS
from mix2fld.config.presets.lorawan import RATES, time_on_air_s
from mix2fld.config.settings import PRESETS, Config, field_names
from mix2fld.engine.energy import Power
from mix2fld.links import make_link
from mix2fld.links.channels.mcs import schemes
from mix2fld.protocols.table import PROTOCOLS
from mix2fld_lab.preset_sources import CHECKED, where_checked
from places import ROOT


def _link(name: str, **changes):
    config = Config.of(**{**PRESETS[name], **changes})
    return make_link(config, config.data.devices)


@pytest.mark.parametrize("name", STANDARDS)
def test_every_number_of_a_standard_has_a_source_and_a_use(name):
    standard = STANDARDS[name]
    assert set(standard.fields) <= set(field_names())
    for field, (_, source) in standard.fields.items():
        assert len(source) > 3, field
    config = Config.of(**NAMED[name])
    link = make_link(config, 10)
    state = link.start(10, np.random.default_rng(0))
    for direction in ("uplink", "downlink"):
        found = link.forecast(direction, np.full(10, 500), link.lasting(state), draws=20)
        assert found.probability.mean() > 0.85, direction  # a small message gets through


@pytest.mark.parametrize("name", DEVICE_CLASSES)
def test_classes_of_devices_have_all_settings_of_energy(name):
    fields = DEVICE_CLASSES[name].fields
    assert set(fields) == {*Config().energy.model_dump(), "device_step_us"}
    assert all(len(source) > 3 for _, source in fields.values())


def test_rounds_until_the_battery_is_empty_are_its_joules_over_those_of_a_round():
    power = Power.from_config(Config.of(**NAMED["sensor"]))
    assert power.rounds_of_battery(2.0) == pytest.approx(5 * 3600 / 2)


def test_the_defaults_are_those_of_a_phone():
    assert Config.of(**NAMED["phone"]) == Config()


def test_a_standard_comes_with_its_devices_and_a_later_preset_overrides_them():
    sensor = Config.of(**NAMED["nb-iot"])
    assert sensor.energy.battery_wh == 5.0
    assert sensor.replace(**NAMED["phone"]).energy == Config().energy


def test_a_sensor_that_transmits_at_23_dbm_draws_the_545_mw_of_tr_45_820():
    assert Power.from_config(Config.of(**NAMED["nb-iot"])).transmit == pytest.approx(
        0.545, abs=2e-3
    )


@pytest.mark.parametrize(
    ("spreading_factor", "frame_bytes", "milliseconds"),
    [(7, 13 + 10, 61.696), (12, 13 + 51, 2793.472), (9, 13 + 115, 676.864), (7, 13 + 222, 368.896)],
)
def test_time_on_air_of_lora_frames(spreading_factor, frame_bytes, milliseconds):
    """As Semtech's calculator has it: 8 symbols of preamble, header, CRC, code rate 4/5."""
    found = 1000 * time_on_air_s(spreading_factor, frame_bytes)
    assert found == pytest.approx(milliseconds, abs=1e-3)


@pytest.mark.parametrize("data_rate", RATES)
def test_a_lora_upload_of_n_frames_waits_a_hundred_times_their_air_time(data_rate):
    """Without fading, noise or neighbours: one frame in every hundred slots."""
    factor, payload, _ = RATES[data_rate]
    link = _link(
        f"lorawan-dr{data_rate}", fading="none", devices=1, distances_m=50.0, shadowing_db=0
    )
    frames = 7
    for bits in (8 * payload * (frames - 1) + 1, 8 * payload * frames):
        found = link.forecast("uplink", np.array([bits]), link.start(1, np.random.default_rng(0)))
        assert found.probability[0] == 1
        assert found.on_air_slots[0] == frames
        seconds = found.expected_slots[0] * link.slot_seconds
        assert seconds == pytest.approx(100 * frames * time_on_air_s(factor, payload + 13))


def test_an_upload_of_fl_over_lorawan_takes_a_day_or_never_arrives():
    link = _link("lorawan-dr0")
    state = link.lasting(link.start(10, np.random.default_rng(0)))
    assert link.forecast("uplink", np.full(10, 401_408), state, draws=20).probability.max() == 0
    outputs = link.forecast("uplink", np.full(10, 3200), state, draws=20)
    assert outputs.probability.mean() > 0.9
    assert outputs.expected_slots.mean() * link.slot_seconds > 1800  # half an hour for 400 bytes


def test_the_satellite_has_the_snr_of_tr_38_821():
    """Table 6.1.3.3-1, case 9: 6.6 dB down and 2.8 dB up at 30 degrees of elevation."""
    link = _link("leo", devices=1, distances_m=1075e3)
    gain = link.gain(link.start(1, np.random.default_rng(0)))
    assert 10 * np.log10(link.downlink.mean_snr(gain, 30e6))[0] == pytest.approx(6.6, abs=0.1)
    assert 10 * np.log10(link.uplink.mean_snr(gain, 360e3))[0] == pytest.approx(2.8, abs=0.1)


@pytest.mark.parametrize(
    ("name", "up_kbps", "down_kbps"),
    [("nb-iot", 62.5, 26.2), ("lte-m", 375, 300), ("adsl", 640, 6144), ("cable", 30_720, 343_000)],
)
def test_one_device_beside_the_base_station_has_the_peak_rates(name, up_kbps, down_kbps):
    """Headers cost 2 %, and slots in which nothing may be sent are a whole number."""
    near = {"distances_m": 35.0, "shadowing_db": 0, "fading": "none", "line_of_sight": "always"}
    link = _link(name, devices=1, max_slots=20_000, **near)
    state = link.start(1, np.random.default_rng(0))
    for direction, kbps in (("uplink", up_kbps), ("downlink", down_kbps)):
        bits = int(4e3 * kbps)
        found = link.forecast(direction, np.array([bits]), state, draws=5)
        measured = bits / (found.expected_slots[0] * link.slot_seconds) / 1e3
        assert 0.75 * kbps < measured <= 1.001 * kbps, direction


def test_a_largest_block_ends_the_table_where_it_is_full():
    free, capped = schemes("64qam", 1000.0), schemes("64qam", 1000.0, 1000)
    assert capped.efficiency[-1] * 1000 == pytest.approx(1000)
    assert (capped.efficiency[:-1] * 1000 < 1000).all()
    assert len(capped.efficiency) < len(free.efficiency)
    assert capped.threshold[-1] <= free.threshold[len(capped.threshold) - 1]
    np.testing.assert_array_equal(schemes("64qam", 1000.0, 10**9).efficiency, free.efficiency)


def test_progress_gives_every_payload_what_its_own_simulation_gives():
    """Of rates that adapt, one simulation serves all payloads, draw for draw."""
    link, other = _link("nb-iot", max_slots=900), _link("nb-iot", max_slots=900)
    state = link.lasting(link.start(10, np.random.default_rng(0)))
    for bits in (100_000, 3_200, 30_000):
        sizes = np.full(10, bits)
        together = link.forecast("uplink", sizes, state, draws=40)
        alone = other.forecast("uplink", sizes, state, draws=40)
        other._kept.clear()
        np.testing.assert_array_equal(together.probability, alone.probability)
        np.testing.assert_array_equal(together.on_air_slots, alone.on_air_slots)
        assert together.round_slots == alone.round_slots


def test_progress_is_that_of_a_simulation(monkeypatch):
    link = _link("nb-iot", max_slots=900)
    state = link.lasting(link.start(10, np.random.default_rng(0)))
    sizes = np.full(10, 30_000)
    by_progress = link.forecast("uplink", sizes, state, draws=40)
    monkeypatch.setattr("mix2fld.links.channels.cell.LARGEST_PROGRESS", 0)
    simulated = link.forecast("uplink", sizes, state, draws=40)
    np.testing.assert_array_equal(by_progress.probability, simulated.probability)
    np.testing.assert_array_equal(by_progress.expected_slots, simulated.expected_slots)
    np.testing.assert_array_equal(by_progress.on_air_slots, simulated.on_air_slots)


def _maker():
    spec = importlib.util.spec_from_file_location("make_links", ROOT / "docs" / "make_links.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_place_where_a_number_was_read_belongs_to_a_source():
    every = [*STANDARDS.values(), *DEVICE_CLASSES.values()]
    sources = [source for each in every for _, source in each.fields.values()]
    for part in CHECKED:
        assert any(part in source for source in sources), part
    assert where_checked("ours: anything") == ""
    assert where_checked("a document that nobody has") == "not checked"


def test_the_page_of_links_has_the_sources_of_today():
    maker = _maker()
    page = maker.PAGE.read_text(encoding="utf-8")
    for name, text in maker.STATED.items():
        assert maker.replaced(page, name, text()) == page, f"{name}: make links"


def test_the_page_of_links_has_every_standard_and_its_numbers():
    """Rows of lines without noise, which are quick, are made anew.

    A protocol that is newer than the page is missing there until ``make links`` is run.
    """
    maker = _maker()
    page = maker.PAGE.read_text(encoding="utf-8")
    table = page.split("<!-- everything -->\n")[1].split("<!-- end -->")[0].splitlines()
    titles = [cell.strip() for cell in table[0].split("|")[2:-1]]
    shown = [name for name in maker.NAMES if PROTOCOLS[name].title in titles]
    assert titles == [PROTOCOLS[name].title for name in shown]
    assert {"fl", "fd", "mixfld", "mix2fld"} <= set(shown)
    maker.NAMES = shown
    rows = [line.split("|")[1].strip() for line in table[2:]]
    assert rows == [f"`{name}`" for name in STANDARDS]
    quick = maker.make_plans(("adsl", "cable"))
    for name, made in maker.MEASURED.items():
        for line in made(quick).splitlines()[2:]:
            assert line in page, f"{name}: make links"
