"""The report in a real browser: what a reader sees, clicks, types and never causes."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from watched import Watched

from deploy.lab import deployed_config
from deploy.memory_line import run_in_memory
from mix2fld.config.grid import Grid
from mix2fld.data.samples import standardised
from mix2fld.report.html import write_report
from mix2fld.runs.config_file import dump_sealed_config, load_sealed_config
from mix2fld.runs.reader import require_runs
from mix2fld.runs.simulation import run
from stored_runs import play
from toys import save_dataset, toy_config, toy_numbers, toy_signals

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
LOOKS = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "has_touch": True},
}


def lines(page: Page) -> list[str]:
    """The shapes of all curves."""
    return page.eval_on_selector_all(
        "#curve-chart path.line", "all => all.map(p => p.getAttribute('d'))"
    )


def choose(page: Page, group: str, words: str) -> None:
    page.locator(f"#{group} label", has_text=re.compile(f"^{re.escape(words)}$")).click()


def background(page: Page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_it_opens_offline_without_a_request_or_a_complaint(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    for group in ("axis", "measure", "yscale", "xscale", "share", "direction", "seed", "theme"):
        for label in page.locator(f"#{group} label").all():
            label.click()
    assert [url for url in watched.requests if not url.startswith("data:")] == [report.as_uri()]
    assert watched.complaints == []


def test_all_metrics_of_a_number_are_columns(watched: Watched, tmp_path: Path) -> None:
    file = tmp_path / "numbers.npz"
    save_dataset(file, toy_numbers())
    fields = {"dataset": str(file), "partition": "iid", "model": "mlp", "samples_per_device": 40}
    grid = Grid.of_run(toy_config(rounds=1, **fields)).replace(protocols=("fl", "statistics"))
    run(grid, tmp_path / "runs")
    path = tmp_path / "report.html"
    write_report(require_runs([tmp_path / "runs"]), path)
    page = watched.open_report(path)
    heads = [" ".join(head.split()) for head in page.locator("#summary-table th").all_inner_texts()]
    assert heads[1:4] == ["RMSE of devices", "MAE", "R²"]
    expect(page.locator("#summary-note")).to_contain_text("Simple predictions: mean ")
    assert watched.complaints == []


def test_a_switch_hides_a_protocol_and_shows_it_again(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    before = lines(page)
    assert len(before) == 3
    page.get_by_role("checkbox", name="FD", exact=True).uncheck()
    assert page.locator('path.line[data-series="FD"]').count() == 0
    assert len(lines(page)) == 2
    page.get_by_role("checkbox", name="FD", exact=True).check()
    assert lines(page) == before
    for box in page.locator("#switches input").all():
        box.uncheck()
    expect(page.locator("#curve-chart")).to_contain_text("No protocol selected")


def test_settings_are_panels_and_switches_are_protocols(watched: Watched, tmp_path: Path) -> None:
    for devices in (2, 3):
        play(tmp_path / str(devices), protocols=("fl", "fd"), devices=devices)
    write_report(require_runs([tmp_path]), tmp_path / "report.html")
    page = watched.open_report(tmp_path / "report.html")
    titles = page.locator("#curve-chart h3").all_inner_texts()
    assert len(titles) == 2
    assert all(f"devices {devices}" in " ".join(titles) for devices in (2, 3))
    assert page.locator("#switches label").all_inner_texts() == ["FL", "FD"]
    assert len(lines(page)) == 4
    page.get_by_role("checkbox", name="FD", exact=True).uncheck()
    assert len(lines(page)) == 2
    for box in page.locator("#switches input").all():
        box.uncheck()
    expect(page.locator("#curve-chart")).to_contain_text("No protocol selected")
    assert watched.complaints == []


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("axis", "rounds"),
        ("axis", "seconds on air"),
        ("axis", "uplink traffic"),
        ("measure", "reference device"),
        ("measure", "server model"),
        ("yscale", "0 to 100 %"),
        ("xscale", "logarithmic"),
    ],
)
def test_a_choice_changes_the_curves(
    watched: Watched, report: Path, group: str, words: str
) -> None:
    page = watched.open_report(report)
    before = lines(page)
    choose(page, group, words)
    after = lines(page)
    assert after
    assert after != before


def test_the_band_spans_the_seeds(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    assert page.locator("#curve-chart path.band").count() == 3


def test_pointing_at_the_chart_reads_the_values(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    choose(page, "axis", "rounds")
    data = json.loads(page.locator("#data").text_content() or "")
    page.locator("#curve-chart").scroll_into_view_if_needed()
    frame = page.locator("#curve-chart svg").bounding_box()
    assert frame is not None
    page.mouse.move(frame["x"] + frame["width"] - 50, frame["y"] + 100)
    tip = page.locator("#curve-chart .tip")
    expect(tip).to_be_visible()
    for series in data["views"]["finished"]["series"]:
        last = series["curves"]["devices"][0]["mean"][-1]
        expect(tip).to_contain_text(f"{100 * last:.1f} %")
    page.mouse.move(frame["x"] + 200, frame["y"] - 40)
    expect(tip).to_be_hidden()


def test_keys_alone_reach_everything(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "curves"
    page.locator("#axis input:checked").focus()
    before = lines(page)
    page.keyboard.press("ArrowRight")
    assert lines(page) != before
    assert page.locator("#axis input:checked").get_attribute("value") == "air"
    page.locator("#curve-chart svg").focus()
    page.keyboard.press("End")
    expect(page.locator("#said")).to_contain_text("FL ")
    first = page.locator("#said").text_content()
    page.keyboard.press("Home")
    assert page.locator("#said").text_content() != first
    page.locator("#round").focus()
    page.keyboard.press("Home")
    expect(page.locator("#round-shown")).to_have_text("1 of 3")
    header = page.locator("#summary-table button").first
    header.focus()
    page.keyboard.press("Enter")
    assert page.locator("#summary-table th[aria-sort]").count() == 1


def test_sorting_orders_the_table_by_its_numbers(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    data = json.loads(page.locator("#data").text_content() or "")
    rows = data["views"]["finished"]["series"]
    by_bits = sorted(rows, key=lambda series: series["summary"]["bits_up"])
    page.locator("[data-column=bits_up]").click()
    names = page.locator("#summary-table tbody .name").all_text_contents()
    assert names == [series["title"] for series in by_bits]
    page.locator("[data-column=bits_up]").click()
    assert page.locator("#summary-table tbody .name").all_text_contents() == names[::-1]


def test_the_best_is_marked(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    data = json.loads(page.locator("#data").text_content() or "")
    best = max(data["views"]["finished"]["series"], key=lambda series: series["summary"]["score"])
    row = page.locator("#summary-table tbody tr", has=page.get_by_text(best["title"], exact=True))
    mark = row.locator("td").first.locator(".best")
    expect(mark).to_contain_text(f"{100 * best['summary']['score']:.1f}")


def test_details_follow_seed_direction_and_round(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    assert page.locator("#delivery-chart figure").count() == 3
    assert page.locator("#delivery-chart path.lost").first.get_attribute("d")
    parts = {
        "seed": ("1", "#delivery-chart svg[role=img]", "#label-chart svg", "#device-chart svg"),
        "direction": ("downlink", "#delivery-chart svg[role=img]"),
    }
    for group, (words, *charts) in parts.items():
        before = [page.locator(chart).first.inner_html() for chart in charts]
        choose(page, group, words)
        after = [page.locator(chart).first.inner_html() for chart in charts]
        assert all(old != new for old, new in zip(before, after, strict=True)), group
    before_round = page.locator("#device-chart svg").inner_html()
    page.locator("#round").fill("1")
    assert page.locator("#device-chart svg").inner_html() != before_round


def test_a_device_that_was_not_asked_is_told_from_a_lost_upload(
    watched: Watched, runs: Path, tmp_path: Path
) -> None:
    found = require_runs([runs / "fl-s0"])
    for info in found.runs[0].rounds:
        info["asked"] = [0, 2, 3]
        info["uploads"] = {"attempted": 3, "delivered": 1, "devices": [2]}
    write_report(found, tmp_path / "report.html")
    page = watched.open_report(tmp_path / "report.html")
    expect(page.locator("#delivery-chart figcaption")).to_contain_text("3 of 9 delivered, 3 not")
    key = page.locator("#delivery-key span")
    assert key.all_text_contents() == ["delivered", "lost", "not asked", "nothing sent"]
    cells = {
        name: page.locator(f"#delivery-chart path.{name}").get_attribute("d")
        for name in ("delivered", "lost", "not-asked", "nothing-sent")
    }
    assert [bool(path) for path in cells.values()] == [True, True, True, False]
    page.locator("#delivery-chart svg[role=img]").hover(position={"x": 5, "y": 25})
    title = page.locator("#delivery-chart svg[role=img] title")
    assert title.text_content() == "round 1, device 1: not asked"


def test_the_samples_and_their_privacy_are_shown(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    assert page.locator("#sees .sample-card").count() >= 1
    assert page.locator("#sees .sample.seen figcaption", has_text="privacy").count() >= 3
    loaded = page.eval_on_selector_all(
        "#sees img", "all => all.every(i => i.complete && i.naturalWidth > 0)"
    )
    assert loaded is True


def test_signals_are_shown_as_lines(watched: Watched, tmp_path: Path) -> None:
    fields = {"seed_samples": 20, "learning_rate": 1e-4}
    play(tmp_path, standardised(toy_signals()), protocols=("fl", "mix2fld"), **fields)
    write_report(require_runs([tmp_path / "runs"]), tmp_path / "report.html")
    page = watched.open_report(tmp_path / "report.html")
    drawn = page.locator("#sees .sample svg.signal")
    assert drawn.count() >= 4
    assert page.locator("#sees img").count() == 0
    assert drawn.first.locator("polyline").count() == 2
    assert drawn.first.get_attribute("aria-label").startswith("stays on the device: ")
    points = drawn.first.locator("polyline").first.get_attribute("points").split()
    across = [float(point.split(",")[0]) for point in points]
    assert (across[0], across[-1], len(across)) == (0, 1000, 12)
    inks = {
        line.evaluate("l => getComputedStyle(l).stroke")
        for line in drawn.first.locator("polyline").all()
    }
    assert len(inks) == 2
    box = drawn.first.bounding_box()
    assert (box["width"], box["height"]) == (78, 78)
    expect(page.locator("#sees")).to_contain_text("in standard deviations of each channel")
    assert watched.complaints == []


def test_the_command_is_there_to_copy(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    expect(page.locator("pre.command")).to_contain_text("mix2fld run --protocols fl fd mix2fld")
    page.get_by_role("button", name="Copy command").click()
    expect(page.locator("#again button")).to_contain_text(re.compile("Copied|Selected"))
    page.get_by_text("All settings").click()
    expect(page.locator("#again details pre")).to_contain_text("learning_rate = 0.03")


@pytest.mark.parametrize("watched", LOOKS.values(), ids=LOOKS, indirect=True)
def test_every_look_fits_and_shows_something(
    watched: Watched, report: Path, request: pytest.FixtureRequest
) -> None:
    page = watched.open_report(report)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("L")
    shades = np.asarray(picture)
    dark = "dark" in request.node.name
    assert (np.median(shades) < 60) if dark else (np.median(shades) > 200)
    assert shades.std() > 10
    heights = "all => all.map(text => text.getBoundingClientRect().height)"
    assert min(page.eval_on_selector_all("svg text", heights)) >= 10


def test_the_theme_switch_wins_over_the_system(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    page.emulate_media(color_scheme="light")
    light = background(page)
    choose(page, "theme", "dark")
    assert background(page) != light
    page.emulate_media(color_scheme="dark")
    choose(page, "theme", "light")
    assert background(page) == light


def test_what_comes_from_files_is_text_not_markup(
    watched: Watched, runs: Path, tmp_path: Path
) -> None:
    evil = "</script><img src=x onerror=document.title='caught'>"
    copy = tmp_path / "runs" / "own-s0"
    copy.mkdir(parents=True)
    for name in ("rounds.jsonl", "summary.json"):
        (copy / name).write_bytes((runs / "fd-s0" / name).read_bytes())
    config = load_sealed_config(runs / "fd-s0" / "config.toml").replace(protocol=evil)
    (copy / "config.toml").write_bytes(dump_sealed_config(config))
    path = tmp_path / "report.html"
    write_report(require_runs([tmp_path / "runs", runs / "fl-s0"]), path)
    page = watched.open_report(path)
    assert "caught" not in page.title().split("onerror")[0]
    assert page.locator("img[src=x]").count() == 0
    expect(page.locator("#summary-table")).to_contain_text(evil)
    assert watched.complaints == []


@pytest.mark.parametrize(
    "watched", [{"viewport": WIDE, "java_script_enabled": False}], indirect=True
)
def test_without_scripts_the_results_are_still_there(watched: Watched, report: Path) -> None:
    watched.page.goto(report.as_uri())
    expect(watched.page.locator("noscript, body").first).to_contain_text("Mix2FLD")
    assert "accuracy of devices" in watched.page.inner_text("body")


def test_a_deployed_run_shows_its_fleet(watched: Watched, report: Path, tmp_path: Path) -> None:
    assert watched.open_report(report).locator("#fleet").is_hidden()
    path = run_in_memory(tmp_path, deployed_config(tmp_path, protocol="fd", rounds=2))
    write_report(require_runs([path]), tmp_path / "report.html")
    page = watched.open_report(tmp_path / "report.html")
    rows = page.locator("#fleet tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(3).locator("td").nth(4)).to_have_text("2")
    expect(page.locator("#contents")).to_contain_text("Fleet")
    assert watched.complaints == []
