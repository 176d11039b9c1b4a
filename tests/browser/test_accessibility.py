"""The page for readers with other eyes and hands: axe-core, contrast, headings, motion, print."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from watched import Watched

from mix2fld.report.html import write_report
from mix2fld.runs.reader import read_runs
from stored_runs import Replay, play

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
LOOKS = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "has_touch": True},
}
GRAVE = ("serious", "critical")


def grave_findings(page: Page) -> list[tuple[str, list[str]]]:
    found = Axe().run(page).response["violations"]
    return [
        (one["id"], [node["html"][:120] for node in one["nodes"]])
        for one in found
        if one["impact"] in GRAVE or one["id"] == "heading-order"
    ]


@pytest.fixture(scope="module")
def everything(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with several settings, a stopped run and one that has not begun."""
    folder = tmp_path_factory.mktemp("everything")
    for devices in (2, 3):
        play(folder / str(devices), protocols=("isolated", "fl", "mix2fld"), devices=devices)
    stopped = Replay(runs / "fd-s0", folder / "fd-s0")
    stopped.begin()
    stopped.append(1)
    Replay(runs / "fd-s1", folder / "fd-s1").begin()
    write_report(read_runs([folder]), folder / "report.html")
    return folder / "report.html"


@pytest.mark.parametrize("watched", LOOKS.values(), ids=LOOKS, indirect=True)
def test_axe_finds_nothing_serious(watched: Watched, everything: Path) -> None:
    page = watched.open_report(everything)
    page.locator("details").first.evaluate("box => { box.open = true; }")
    assert grave_findings(page) == []
    assert watched.complaints == []


def test_axe_finds_nothing_serious_in_a_plain_report(watched: Watched, report: Path) -> None:
    assert grave_findings(watched.open_report(report)) == []


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("watched", [LOOKS["light"], LOOKS["dark"]], indirect=True)
def test_text_in_charts_stands_out(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    inks = page.eval_on_selector_all(
        "section .chart:not(#label-chart) svg text",
        "all => all.map(text => getComputedStyle(text).fill)",
    )
    card = page.locator("#curves").evaluate("box => getComputedStyle(box).backgroundColor")
    assert page.locator("#curve-chart text.end-label").count() == 3
    assert min(contrast(fill, card) for fill in set(inks)) >= 4.5


def test_end_labels_stay_at_their_lines(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    for axis in ("seconds", "rounds"):
        page.locator(f'#axis input[value="{axis}"]').check(force=True)
        ends, labels = {}, {}
        for line in page.locator("#curve-chart path.line").all():
            name = line.get_attribute("data-series") or ""
            ends[name] = float((line.get_attribute("d") or "").split(" ")[-1])
        for label in page.locator("#curve-chart text.end-label").all():
            labels[label.get_attribute("data-series") or ""] = float(label.get_attribute("y") or "")
        assert ends.keys() == labels.keys()
        assert all(abs(labels[name] - 4 - ends[name]) <= 15 * len(ends) for name in ends)
        order = sorted(ends, key=lambda name: ends[name])
        assert order == sorted(labels, key=lambda name: labels[name])
        places = sorted(labels.values())
        assert all(b - a >= 14.9 for a, b in pairwise(places))


@pytest.mark.parametrize("watched", [{"viewport": WIDE, "reduced_motion": "reduce"}], indirect=True)
def test_with_reduced_motion_nothing_moves_but_steps(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    play_button = page.locator("#timeline-play [data-player=play]")
    play_button.click()
    page.wait_for_timeout(300)
    assert page.locator("#timeline-chart .cursor").count() == 0
    expect(page.locator("#timeline-round")).not_to_have_value("0")
    play_button.click()
    assert play_button.inner_text() == "Play"


def test_it_prints_without_controls(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    page.emulate_media(media="print")
    assert page.locator("#curve-controls").is_hidden()
    assert page.locator("#curve-chart svg").is_visible()
    assert page.locator("#conclusion").is_visible()
    assert len(page.pdf()) > 20_000


@pytest.mark.parametrize("watched", [LOOKS["phone"]], indirect=True)
def test_a_table_beyond_the_edge_says_that_it_scrolls(watched: Watched, report: Path) -> None:
    page = watched.open_report(report)
    frame = page.locator("#summary .scroll-frame")
    assert frame.locator(".scroll-cue").is_visible()
    assert "overflows" in (frame.get_attribute("class") or "")
    page.locator("#summary-scroll").evaluate("box => { box.scrollLeft = 9999; }")
    expect(frame).not_to_have_class(re.compile("overflows"))


def test_a_report_of_nothing_but_planned_runs_opens(watched: Watched, runs: Path, tmp_path: Path):
    Replay(runs / "fl-s0", tmp_path / "runs" / "fl-s0").begin()
    write_report(read_runs([tmp_path / "runs"]), tmp_path / "report.html")
    watched.page.goto((tmp_path / "report.html").as_uri())
    assert "Not started: FL, seed 0." in watched.page.inner_text("#progress")
    assert grave_findings(watched.page) == []
    assert watched.complaints == []
