"""A real browser, the runs that it looks at, and what it must never do."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from watched import Watched

from mix2fld.report.html import write_report
from mix2fld.runs.reader import require_runs
from stored_runs import play

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium, or install Google Chrome")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three protocols with two seeds each, some of their uploads lost."""
    folder = tmp_path_factory.mktemp("runs")
    play(folder, protocols=("fl", "fd", "mix2fld"), seed=(0, 1))
    return folder / "runs"


@pytest.fixture(scope="session")
def report(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(require_runs([runs]), path)
    return path


@pytest.fixture
def watched(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """A new page; ``@pytest.mark.parametrize("watched", [{...}], indirect=True)`` sets it up."""
    options = getattr(request, "param", {"viewport": {"width": 1280, "height": 900}})
    context = browser.new_context(**options)
    yield Watched(context.new_page())
    context.close()
