"""What charts show: measured points, states, targets; what they save; what the address keeps."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page, expect
from watched import Watched

from mix2fld.report.html import write_report
from mix2fld.runs.reader import read_runs, require_runs
from mix2fld.runs.simulation import run
from stored_runs import Replay, play
from toys import save_dataset, toy_config, toy_dataset, toy_grid

EXPORTS = (
    "pareto-chart", "curve-chart", "summary-scroll", "target-time", "target-bits", "diagram-chart",
    "timeline-chart", "time-chart", "payload-chart", "delivery-chart", "device-chart",
    "label-chart",
)  # fmt: skip


def data_of(page: Page) -> dict:
    return json.loads(page.locator("#data").text_content() or "")


def table_in(path: Path) -> "csv.DictReader[str]":
    return csv.DictReader(io.StringIO(path.read_text()))


def test_a_tip_shows_measured_values_only(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    series = data_of(page)["views"]["finished"]["series"]
    measured = {f"{100 * v:.1f}" for one in series for v in one["curves"]["devices"][0]["mean"]}
    page.locator("#curve-chart").scroll_into_view_if_needed()
    frame = page.locator("#curve-chart svg").bounding_box()
    assert frame is not None
    tip = page.locator("#curve-chart .tip")
    for part in range(1, 12):
        page.mouse.move(frame["x"] + 74 + part * (frame["width"] - 200) / 12, frame["y"] + 100)
        expect(tip).to_be_visible()
        words = tip.inner_text()
        shown = re.findall(r"([\d.]+) %(?! to| \()(?=\n| \(|$)", words)
        first = re.findall(r"^([\d.]+) %", words, re.MULTILINE)
        assert set(shown + first) <= measured | {
            f"{100 * v:.1f}"
            for one in series
            for way in ("low", "high")
            for v in one["curves"]["devices"][0].get(way, [])
        }
        assert all(float(number) == int(number) for number in re.findall(r"round ([\d.]+)", words))


def test_a_line_that_has_ended_is_not_in_the_tip(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    series = data_of(page)["views"]["finished"]["series"]
    last = {one["title"]: one["curves"]["devices"][0]["x"]["seconds"][-1] for one in series}
    longest = max(last, key=lambda name: last[name])
    page.locator("#curve-chart svg").focus()
    page.keyboard.press("End")
    said = page.locator("#said").text_content() or ""
    assert longest in said
    assert not any(f"{name} " in said for name, end in last.items() if end < last[longest])


def test_the_address_keeps_what_was_chosen(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    page.locator('#axis input[value="rounds"]').check(force=True)
    page.locator('#yscale input[value="whole"]').check(force=True)
    page.get_by_role("checkbox", name="FD", exact=True).uncheck()
    page.locator("[data-column=bits_up]").click()
    page.locator("#target-slider").fill("30")
    page.locator("#whatif-reset").count()
    shape = page.locator("#curve-chart svg").inner_html()
    page.reload()
    page.wait_for_selector("#curve-chart path.line", state="attached")
    assert re.sub(r"clip-\d+", "", page.locator("#curve-chart svg").inner_html()) == re.sub(
        r"clip-\d+", "", shape
    )
    assert page.locator("#axis input:checked").get_attribute("value") == "rounds"
    assert not page.get_by_role("checkbox", name="FD", exact=True).is_checked()
    assert page.locator("#summary-table th[aria-sort=ascending]").count() == 1
    assert page.locator("#target-slider").input_value() == "30"
    page.get_by_role("link", name="Devices").click()
    assert "axis=rounds" in page.url


def test_the_first_click_puts_the_best_first(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    rows = data_of(page)["views"]["finished"]["series"]
    best = max(rows, key=lambda one: one["summary"]["score"])["title"]
    page.locator("[data-column=score]").click()
    assert page.locator("#summary-table tbody .name").first.inner_text() == best


def test_a_target_is_reached_where_it_was_first_measured(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    goal = float(page.locator("#target-slider").input_value()) / 100
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download Time to target as CSV").click()
    rows = {row["protocol"]: row for row in table_in(saved.value.path())}
    for one in data_of(page)["views"]["finished"]["series"]:
        curve = one["curves"]["devices"][0]
        first = next((i for i, v in enumerate(curve["mean"]) if v >= goal), None)
        row = rows[one["label"]]
        if first is None:
            assert row["seconds"] == ""
        else:
            assert float(row["seconds"]) == curve["x"]["seconds"][first]
            assert float(row["uplink bits"]) == pytest.approx(1e6 * curve["x"]["bits"][first])


def test_the_pareto_line_holds_who_nobody_beats(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download Accuracy and uplink traffic as CSV").click()
    rows = list(table_in(saved.value.path()))
    for row in rows:
        beaten = any(
            float(other["uplink bits"]) <= float(row["uplink bits"])
            and float(other["accuracy"]) >= float(row["accuracy"])
            and other is not row
            for other in rows
        )
        assert (row["pareto"] == "true") is not beaten


def test_a_protocol_whose_uploads_never_arrive_is_told_apart(
    watched: Watched, tmp_path: Path
) -> None:
    dataset = save_dataset(tmp_path / "toy.npz", toy_dataset())
    protocols = ("isolated", "fl", "fd")
    run(toy_grid(dataset=str(dataset), protocols=protocols, max_slots=2, link="rayleigh"),
        tmp_path / "runs")  # fmt: skip
    write_report(require_runs([tmp_path / "runs"]), tmp_path / "report.html")
    page = watched.open_report(tmp_path / "report.html")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download Accuracy and uplink traffic as CSV").click()
    front = {row["protocol"]: row["pareto"] for row in table_in(saved.value.path())}
    assert front["FL"] == "false"
    assert "true" in front.values()
    slider = page.locator("#target-slider")
    slider.fill(slider.get_attribute("min") or "")
    words = page.locator("#target-bits .bar-words").all_text_contents()
    assert sum(text.endswith(", no upload arrived") for text in words) == 1


@pytest.mark.parametrize("chart", EXPORTS)
def test_every_chart_is_saved_in_three_formats(watched: Watched, report: Path, chart: str) -> None:
    page = watched.open_report(report)
    bar = page.locator(f"#{chart}-export")
    files = {}
    for kind in ("PNG", "SVG", "CSV"):
        with page.expect_download() as saved:
            bar.get_by_text(kind, exact=True).click()
        assert saved.value.suggested_filename.endswith(f".{kind.lower()}")
        files[kind] = saved.value.path().read_bytes()
    picture = Image.open(io.BytesIO(files["PNG"])).convert("L")
    low, high = picture.getextrema()
    assert high - low > 60
    drawn = ET.fromstring(files["SVG"])
    assert drawn.tag.endswith("svg")
    assert b"light-dark" not in files["SVG"]
    assert b"var(" not in files["SVG"]
    table = list(csv.reader(io.StringIO(files["CSV"].decode())))
    assert len(table) > 1
    assert {len(row) for row in table} == {len(table[0])}
    assert watched.complaints == []


def test_both_axes_have_titles(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    for chart in ("curve-chart", "pareto-chart"):
        assert page.locator(f"#{chart} text.x-title").text_content()
        assert "accuracy" in (page.locator(f"#{chart} text.y-title").text_content() or "")


def test_bars_are_as_long_as_their_numbers(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    series = data_of(page)["views"]["finished"]["series"]
    sizes = {one["payload"]["first_bits"] for one in series} | {
        one["payload"]["down_bits"] for one in series
    }
    widths = page.eval_on_selector_all(
        "#payload-chart .bar-part", "all => all.map(bar => Number(bar.getAttribute('width')))"
    )
    assert min(widths) / max(widths) == pytest.approx(min(sizes - {0}) / max(sizes), abs=0.01)
    assert "weights8" not in page.content()


def test_unfinished_runs_are_shown_apart_until_asked(
    watched: Watched, runs: Path, tmp_path: Path
) -> None:
    for name in ("fl-s0", "fd-s0"):
        replay = Replay(runs / name, tmp_path / name)
        replay.begin()
        for number in (1, 2, 3):
            replay.append(number)
        replay.finish()
    stopped = Replay(runs / "mix2fld-s0", tmp_path / "mix2fld-s0")
    stopped.begin()
    stopped.append(1)
    write_report(read_runs([tmp_path]), tmp_path / "report.html")
    page = watched.open_report(tmp_path / "report.html")
    assert page.locator("#progress-h").inner_text() == "2 of 3 runs finished: 1 stopped"
    expect(page.locator("#progress-runs")).to_contain_text("stopped, last update 20")
    expect(page.locator("tr.unranked")).to_contain_text("stopped, not ranked")
    assert page.locator("#pareto-chart circle.dot").count() == 2
    page.get_by_label("Include unfinished runs").check()
    assert page.locator("#pareto-chart circle.dot").count() == 3
    assert page.locator("tr.unranked").count() == 0
    assert "include=yes" in page.url
    assert watched.complaints == []


def test_settings_are_compared_with_a_baseline(watched: Watched, tmp_path: Path) -> None:
    for devices in (2, 3):
        fields = {"dataset": str(tmp_path / "2" / "toy.npz"), "devices": devices, "seed": (0, 1)}
        play(tmp_path / str(devices), protocols=("isolated", "fl"), **fields)
    write_report(require_runs([tmp_path]), tmp_path / "report.html")
    page = watched.open_report(tmp_path / "report.html")
    assert page.locator("#grid-scroll thead th").all_inner_texts()[1:] == ["devices 2", "devices 3"]
    assert page.locator("#grid-chart path.line").count() == 2
    page.locator('#grid-measure input[value="seconds"]').check(force=True)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download total time by setting as CSV").click()
    assert saved.value.suggested_filename == "total-time-by-setting.csv"
    page.locator('#grid-measure input[value="score"]').check(force=True)
    page.locator("#baseline select").select_option("isolated")
    series = data_of(page)["views"]["finished"]["series"]
    mean = {
        one["protocol"]: sum(one["by_seed"].values()) / 2 for one in series if 0 in one["settings"]
    }
    difference = 100 * (mean["fl"] - mean["isolated"])
    fl = page.locator("#summary-table tbody tr", has=page.get_by_text("FL", exact=True))
    shown = fl.locator("td").nth(1).inner_text()
    assert float(shown.split()[0].replace("−", "-")) == pytest.approx(difference, abs=0.051)
    expect(page.locator("#grid-scroll")).to_contain_text("points")
    before = page.locator("#summary-table").inner_text()
    page.locator("#setting select").select_option("1")
    assert page.locator("#summary-table").inner_text() != before
    assert watched.complaints == []


def test_devices_at_their_own_times_are_drawn_when_they_computed_and_transmitted(
    watched: Watched, tmp_path: Path
) -> None:
    config = toy_config(
        protocol="fl", rounds=4, devices=4, wait="buffered:2", device_step_spread=1.0,
        device_step_us=1e4, link="rayleigh", bandwidth_hz=2e5, max_slots=3000,
    )  # fmt: skip
    run(config, tmp_path / "runs", dataset=toy_dataset())
    write_report(require_runs([tmp_path / "runs"]), tmp_path / "report.html")
    page = watched.open_report(tmp_path / "report.html")
    expect(page.locator("#timeline-note")).to_contain_text("wait = buffered:2: a device is idle")
    titles = page.locator("#timeline-chart .span title").all_text_contents()
    assert sum("transmits" in title for title in titles) >= 2
    assert sum("computes" in title for title in titles) >= 4
    assert watched.complaints == []


def test_the_round_plays(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    page.locator("#shown select").select_option("mix2fld")
    assert page.locator("#timeline-chart .span").count() >= 4
    page.locator("#timeline-play [data-player=play]").click()
    page.wait_for_selector("#timeline-chart .cursor", state="attached")
    expect(page.locator("#timeline-round")).not_to_have_value("0")
    page.locator("#timeline-play [data-player=play]").click()
    assert page.locator("#diagram-chart image").count() >= 3  # the run's own samples
    words = set()
    for step in ("device", "uplink", "server", "downlink"):
        page.locator(f'[data-step="{step}"]').click()
        words.add(page.locator("#diagram-words").inner_text())
    assert len(words) == 4
    page.locator('[data-step="uplink"]').click()
    assert page.locator("#diagram-chart .packet").count() == 3
    series = data_of(page)["views"]["finished"]["series"]
    (bits,) = [one["payload"]["first_bits"] for one in series if one["protocol"] == "mix2fld"]
    label = page.locator("#diagram-chart .packet-label").text_content() or ""
    assert f"{bits / 1e3:.3g} kbit" in label
