"""Plans of links: known shapes, what ``mix2fld link`` prints and draws, and bad input."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from mix2fld.base.errors import InputError
from mix2fld.cli import main
from mix2fld.config.grid import Grid
from mix2fld.config.settings import PRESETS, Config, LearningConfig
from mix2fld.engine.energy import Power
from mix2fld.engine.plan import chance_of
from mix2fld.links import Forecast
from mix2fld.models import MODELS, make_model, weight_shapes
from mix2fld.runs.link_plan import plan_all, plan_link
from mix2fld.tasks.known_shapes import known_shapes
from mix2fld.types import SampleFormat
from places import ROOT

SHAPES = ((28, 28, 1), (32, 32, 3), (6, 10, 2), (7, 9, 1), (100, 6), (16, 1), (12, 4), (20,))


@pytest.mark.parametrize(("name", "shape"), list(product([*MODELS, "auto"], SHAPES)))
def test_known_shapes_are_those_of_the_networks(name, shape):
    try:
        expected = weight_shapes(make_model(name, shape, 7))
    except InputError:
        expected = None  # the model itself says what is wrong
    assert known_shapes(LearningConfig(model=name), SampleFormat(shape), 7) == expected


def test_a_budget_needs_no_jax_and_the_papers_protocols_need_no_scipy():
    code = (
        "import sys; from mix2fld.cli import main; all = ['link', '--preset', 'nb-iot', '--json']; "
        "main([*all, '--protocols', 'fl', 'fd', 'mix2fld']); assert 'scipy' not in sys.modules; "
        "main(all); sys.exit('jax' in sys.modules or 'matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_page_of_t_max_has_the_closed_form():
    """Of decision 1: its table, and that 105 is the first number of slots that keeps its rule."""
    page = (ROOT / "docs" / "decisions" / "01-max-slots.md").read_text(encoding="utf-8")
    rows = {}
    for slots in (*range(101, 106), 110):
        symmetric, asymmetric = (
            plan_link(Config.of(protocol="fl", max_slots=slots, uplink_power_dbm=power))[0].worst
            for power in (40, 23)
        )
        rows[slots] = [symmetric, symmetric**1000, asymmetric]
        shown = (
            f"{100 * symmetric:.3f}",
            f"{100 * symmetric**1000:.1f}",
            f"{100 * asymmetric:.3f}",
        )
        assert f"| {slots} | {' | '.join(shown)} |" in page
    assert min(slots for slots, (_, every, _) in rows.items() if every >= 0.99) == 105
    assert Config().channel.max_slots == 105


def test_a_plan_of_the_papers_link_is_its_closed_form():
    upload, download = plan_link(Config.of(protocol="fl"))
    assert upload.budget.slots_needed == 101
    assert upload.worst == pytest.approx(upload.budget.delivery_probability)
    assert upload.seconds == pytest.approx(upload.budget.expected_slots * 1e-3)
    assert upload.round_seconds == pytest.approx(upload.budget.expected_round_slots * 1e-3)
    assert download.standard_error is None


def test_every_protocol_has_its_own_parameters():
    plans = plan_link(Grid.of(protocols=("murmur:bits=200", "murmur:bits=1400"), seed=(0, 1)))
    assert [plan.size.bits for plan in plans if plan.transfer == "upload"] == [200, 1400]
    alone = plan_link(Config.of(protocol="murmur:bits=200"))
    assert [plan.as_dict() for plan in alone] == [plan.as_dict() for plan in plans[:2]]


def test_a_round_adds_up_its_transfers_and_its_steps():
    config = Config.of(protocol="mix2fld", local_steps=1000, server_steps=500, idle_w=0.0)
    plan = plan_all(config)
    first, later, down = plan.transfers
    (one,) = plan.rounds
    assert first.transfer == "first upload"
    assert one.communication == pytest.approx(later.round_seconds + down.round_seconds)
    assert one.computing == pytest.approx((1000 + 500) * 100e-6)
    power = Power.from_config(config)
    assert one.joules == pytest.approx(later.joules + down.joules + 0.1 * power.computing)
    assert one.battery_rounds == pytest.approx(15 * 3600 / one.joules)


def test_far_devices_are_the_worst_and_spend_most():
    config = Config.of(
        link="cell", devices=2, distances_m=(600.0, 1300.0), protocol="fl", max_slots=40
    )
    upload = plan_link(config)[0]
    near, far = upload.forecast.probability
    assert near > far == upload.worst
    assert upload.budget.delivery_probability == pytest.approx((near + far) / 2)
    assert upload.most_joules > upload.joules


def test_those_who_take_part_share_the_uplink():
    ten, three = (plan_link(Config.of(protocol="fd", participants=n))[0] for n in (10, 3))
    assert three.budget.devices == 3
    assert three.budget.slot_success == pytest.approx(ten.budget.slot_success ** (10 / 3))
    coming = Config.of(protocol="fd", participants=3, leave_probability=0.1)
    assert plan_link(coming)[0].budget.expected_delivered == pytest.approx(3, abs=1e-3)


def test_link_says_what_fits_one_device_and_the_slowest(capsys):
    main(["link", "--preset", "lorawan-dr0", "--protocols", "fl", "fd"])
    printed = capsys.readouterr().out
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in printed.splitlines()}
    assert "never" in rows["FL", "up"]
    assert "100.0" not in rows["FL", "up"]
    assert {"h", "min"} & set(rows["FD", "up"])
    assert "standard error" in " ".join(printed.split())
    assert "rounds per" in printed
    assert "FL: upload of 401,408 bits did not arrive in any of 100 simulated" in printed


def test_the_papers_link_is_shown_in_milliseconds(capsys):
    main(["link", "--protocols", "fl"])
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("FL "))
    assert " ".join(line.split()) == "FL up 401,408 101/105 0.6 % 105 ms 105 ms 195 mJ"


def test_json_has_seconds_and_joules_and_the_round(capsys):
    main(["link", "--preset", "adsl", "--protocols", "fl", "--json"])
    upload, download = json.loads(capsys.readouterr().out)
    assert upload["seconds"] == pytest.approx(0.02 + 401_408 / 640e3, rel=0.03)
    assert upload["seconds"] / download["seconds"] > 6  # a factor of ten, and the same delay
    assert upload["round"]["battery_rounds"] > 0


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_of_the_cell(tmp_path, capsys, ending):
    out = tmp_path / f"cell.{ending}"
    arguments = ["link", "--preset", "redcap", "--protocols", "fl", "fd", "--out", str(out)]
    main(arguments)
    first = out.read_bytes()
    assert len(first) > 5000
    main(arguments)
    assert out.read_bytes() == first  # the same cell, the same bytes
    assert "FL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "cell.gif"], "out = cell.gif: must end in .png, .svg, .pdf"),
        (["--out", "c.png", "--link", "ideal"], "devices have no places with link = ideal"),
        (["--out", "c.png", "--protocols", "isolated"], "no protocol uploads anything"),
        (["--out", "/dev/null/c.png"], "out = /dev/null/c.png: cannot be written"),
        (["--preset", "nb-lot"], "did you mean 'nb-iot'"),
        (["--preset", "nb-iot", "--carrier-ghz", "200"], "carrier_ghz = 200: path_loss = uma is"),
        (["--link", "cell", "--distances-m", "-3"], "distances_m = -3.0: must be greater than 0"),
        (["--preset", "lorawan-dr0", "--uplink-duty-cycle", "0"], "uplink_duty_cycle = 0"),
        (["--link", "cell", "--ring-m", "200", "100"], "ring_m = 200, 100: must be two distances"),
        (["--link", "trace"], "trace: must name a file or a folder of rates"),
        (["--ring-m", "10", "100"], "ring_m: has no effect with link = rayleigh; must go with"),
        (["--trace=a.csv"], "trace: has no effect with link = rayleigh; must go with --link trace"),
        (["--link", "cell", "--harq", "2"], "harq: has no effect with rate = target"),
        (["--upload_repeats", "2"], "upload_repeats: has no effect with missed_quorum = skip"),
    ],
)
def test_bad_input_is_one_message(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["link", *arguments])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert words in message
    assert len(message.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_many_devices_are_drawn_without_labels(tmp_path):
    out = tmp_path / "cell.png"
    main(["link", "--preset", "lte-m", "--devices", "40", "--protocols", "fd", "--out", str(out)])
    assert out.stat().st_size > 5000


def test_no_digit_is_cut_off_on_a_terminal_of_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main(["link"])
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert max(map(len, printed.splitlines()[:40])) <= 80


def test_parameters_behind_a_name_are_planned_with() -> None:
    names = ("murmur:bits=60", "murmur", "mix2fld:seed_samples=5", "fl")
    config = Grid.of(protocols=names, update_bits=200, seed_samples=10, seed=(0, 1))
    bits = {(one.protocol, one.transfer): one.size.bits for one in plan_all(config).transfers}
    assert bits["murmur:bits=60", "upload"] == 60
    assert bits["murmur", "upload"] == 200
    alone = plan_link(Config.of(protocol="mix2fld", seed_samples=5))
    assert bits["mix2fld:seed_samples=5", "first upload"] == alone[0].size.bits
    assert list(dict.fromkeys(name for name, _ in bits)) == list(names)
    assert [one.protocol for one in plan_all(config).rounds] == list(names)


def test_the_median_is_of_those_that_arrive_and_failures_are_apart():
    """A frame of 25 bytes takes seconds; that some devices never succeed is another column."""
    config = Config.of(**PRESETS["lorawan-dr5"]).replace(
        devices=20, protocol="murmur", update_bits=200
    )
    upload = plan_link(config)[0]
    day = upload.budget.max_slots * upload.slot_seconds
    assert upload.budget.delivery_probability < 1
    assert upload.seconds > 0.01 * day  # a mean with the limits of those that fail
    assert upload.median_seconds < 120
    of_all = Forecast("uplink", np.full(4, 9), 100, np.full(4, 0.5), *[np.full(4, 60.0)] * 2, 99.0)
    assert replace(of_all, arrivals=np.array([3.0, 7, 50, 100])).median_slots == 3
    assert of_all.median_slots == 60


@pytest.mark.parametrize("preset", [None, "lorawan-dr5", "nb-iot"])
def test_a_quorum_is_waited_for_and_nobody_else(preset):
    """In the closed form as in simulated transfers: never longer than for all."""
    config = Config.of(**(PRESETS[preset] if preset else {})).replace(
        devices=20, protocol="murmur", update_bits=1000
    )
    times = [
        plan_link(config.replace(wait=wait))[0].round_seconds
        for wait in ("quorum:0.25", "quorum:0.5", "quorum:0.9", "all")
    ]
    assert times == sorted(times)
    assert times[0] < times[-1]
    assert plan_link(config.replace(wait="deadline:0.001"))[0].round_seconds == 0.001


def test_a_quorum_that_is_met_is_the_chance_of_so_many_of_all():
    chances = np.array([0.9, 0.5, 0.2])
    every = [np.prod(np.where(who, chances, 1 - chances)) for who in product((0, 1), repeat=3)]
    for needed in range(4):
        met = [
            p for p, who in zip(every, product((0, 1), repeat=3), strict=True) if sum(who) >= needed
        ]
        assert chance_of(needed, 3, chances) == pytest.approx(sum(met))
    assert chance_of(1, 2, np.full(3, 0.5)) == pytest.approx(0.75)
