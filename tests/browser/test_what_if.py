"""The sliders of the page against ``mix2fld link``: the same closed form, number by number."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page
from watched import Watched

from mix2fld.cli import main
from mix2fld.report.html import write_report
from mix2fld.runs.reader import require_runs
from mix2fld.runs.simulation import run
from toys import save_dataset, toy_dataset, toy_grid

PROTOCOLS = ("fl", "fl8", "fd", "mix2fld")
LINK = {"link": "rayleigh", "max_slots": 60, "bandwidth_hz": 2e5}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whatif")
    dataset = save_dataset(folder / "toy.npz", toy_dataset())
    config = toy_grid(dataset=str(dataset), protocols=PROTOCOLS, rounds=1, **LINK)
    run(config, folder / "runs")
    write_report(require_runs([folder / "runs"]), folder / "report.html")
    (folder / "config.json").write_text(json.dumps({"dataset": str(dataset)}))
    return folder / "report.html"


def planned(page_file: Path, capsys: pytest.CaptureFixture[str], **fields: float) -> list[dict]:
    from mix2fld.runs.config_file import dump_config, load_config

    (first, *_) = sorted((page_file.parent / "runs").iterdir())
    own = load_config(first / "config.toml").replace(protocols=PROTOCOLS, **fields)
    file = page_file.parent / "link.toml"
    file.write_text(dump_config(own))
    main(["link", "--config", str(file), "--json"])
    return json.loads(capsys.readouterr().out)


def shown(page: Page) -> list[dict]:
    return page.evaluate("whatIfRows(setting().what_if)")


@pytest.mark.parametrize(
    ("knobs", "fields"),
    [
        ({}, {}),
        ({"power": "12"}, {"uplink_power_dbm": 12.0}),
        ({"devices": "9"}, {"devices": 9}),
        ({"slots": "25"}, {"max_slots": 25}),
        ({"samples": "7"}, {"seed_samples": 7}),
        (
            {"power": "9", "devices": "7", "slots": "90", "samples": "4"},
            {"uplink_power_dbm": 9.0, "devices": 7, "max_slots": 90, "seed_samples": 4},
        ),
    ],
)
def test_the_sliders_say_what_the_command_says(
    watched: Watched, page_file: Path, capsys: pytest.CaptureFixture[str], knobs, fields
) -> None:
    plans = planned(page_file, capsys, **fields)
    address = "#" + "&".join(f"{name}={value}" for name, value in knobs.items())
    watched.page.goto(page_file.as_uri() + address)
    watched.page.wait_for_selector("#whatif-chart svg")
    rows = shown(watched.page)
    assert len(rows) == len(plans)
    for row, plan in zip(rows, plans, strict=True):
        budget = row["budget"]
        assert (row["protocol"], row["size"]) == (plan["protocol"], plan["bits"])
        assert budget["needed"] == plan["slots_needed"]
        assert budget["fits"] == plan["fits"]
        assert budget["probability"] == pytest.approx(plan["delivery_probability"], abs=1e-9)
        assert budget["slots"] == pytest.approx(plan["expected_slots"], abs=1e-7)
        assert budget["roundSlots"] == pytest.approx(plan["expected_round_slots"], abs=1e-7)


def test_eight_bits_per_weight_are_fl_in_8_bits(watched: Watched, page_file: Path) -> None:
    watched.page.goto(page_file.as_uri() + "#weight=8")
    watched.page.wait_for_selector("#whatif-chart svg")
    rows = {(row["protocol"], row["transfer"]): row["size"] for row in shown(watched.page)}
    assert rows["fl", "upload"] == rows["fl8", "upload"]


def test_dragging_a_slider_changes_the_chart_and_back(watched: Watched, page_file: Path) -> None:
    page = watched.page
    page.goto(page_file.as_uri())
    page.wait_for_selector("#whatif-chart svg")
    before = page.locator("#whatif-chart svg").inner_html()
    knob = page.locator("[data-knob=devices]")
    knob.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert page.locator("#whatif-chart svg").inner_html() != before
    assert page.evaluate("document.activeElement.dataset.knob") == "devices"
    assert "devices=" in page.url
    page.get_by_role("button", name="Reset to these runs").click()
    assert page.locator("#whatif-chart svg").inner_html() == before
    assert watched.complaints == []
