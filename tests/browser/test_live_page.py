"""The live page in a real browser, while runs begin, grow, end and vanish."""

import shutil
from pathlib import Path

from playwright.sync_api import expect
from watched import Watched

from mix2fld.report.live import PageServer
from stored_runs import Replay


def test_it_follows_runs_that_come_grow_and_go(
    watched: Watched, page_server: PageServer, runs: Path, tmp_path: Path
) -> None:
    page = watched.page
    address = f"http://127.0.0.1:{page_server.server_port}/"
    page.goto(address)
    progress = page.locator("#progress")
    expect(progress).to_contain_text("Waiting for the first run")

    folder = tmp_path / "runs"
    replay = Replay(runs / "mix2fld-s0", folder / "mix2fld-s0")
    replay.begin()
    expect(progress).to_contain_text("Not started: Mix2FLD, seed 0.")
    replay.append(1)
    expect(progress).to_contain_text("round 1 of 3")
    line = page.locator("path.line")
    expect(line).to_have_count(1)
    replay.append(2)
    expect(progress).to_contain_text("round 2 of 3")
    page.locator("#axis label", has_text="rounds").click()
    two_rounds = line.get_attribute("d")

    replay.append_half(3)
    shutil.copytree(runs / "fl-s0", folder / "fl-s0")
    expect(line).to_have_count(2)
    expect(progress).to_contain_text("round 2 of 3")
    replay.append_other_half(3)
    expect(progress).to_contain_text("round 3 of 3")
    replay.finish()
    expect(progress).to_be_hidden()
    assert page.locator("#axis input:checked").get_attribute("value") == "rounds"
    assert page.locator('path.line[data-series="Mix2FLD"]').get_attribute("d") != two_rounds

    shutil.rmtree(folder / "fl-s0")
    expect(line).to_have_count(1)
    shutil.rmtree(folder)
    expect(progress).to_contain_text("Waiting for the first run")
    shutil.copytree(runs / "fd-s1", folder / "fd-s1")
    expect(page.locator('path.line[data-series="FD"]')).to_have_count(1)

    assert watched.complaints == []
    assert {url for url in watched.requests if not url.startswith("data:")} <= {
        address,
        f"{address}data.json",
        f"{address}favicon.ico",
    }


def test_a_page_says_when_the_connection_is_lost(
    watched: Watched, page_server: PageServer, runs: Path, tmp_path: Path
) -> None:
    shutil.copytree(runs / "fd-s0", tmp_path / "runs" / "fd-s0")
    watched.page.goto(f"http://127.0.0.1:{page_server.server_port}/")
    expect(watched.page.locator("path.line")).to_have_count(1)
    watched.page.route("**/data.json", lambda route: route.abort())
    lost = watched.page.locator("#lost")
    expect(lost).to_be_visible()
    expect(lost).to_contain_text("Connection to mix2fld watch lost")
    assert lost.bounding_box()["y"] < 5  # at the top, wherever the reader is
    watched.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert lost.bounding_box()["y"] < 5
    assert watched.page.locator("path.line").count() == 1
    watched.page.unroute("**/data.json")
    expect(lost).to_be_hidden()
