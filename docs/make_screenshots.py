"""Pictures of a report for the README, taken by Chromium: light and wide, and on a phone.

python docs/make_screenshots.py report.html docs/images
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

LOOKS = {
    "report-light": {"viewport": {"width": 1240, "height": 1430}, "color_scheme": "light"},
    "report-phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}
"""Name of the picture, and how the page is opened."""
PARTS = {"report-light": "body", "report-phone": "#conclusion"}
"""The element at the top of the picture."""


def main(report: str, folder: str) -> None:
    """Take every picture."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("make_screenshots: no Chromium here")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for name, look in LOOKS.items():
            page = browser.new_page(**look)
            page.goto(Path(report).resolve().as_uri())
            page.locator(PARTS[name]).evaluate("part => part.scrollIntoView()")
            page.wait_for_timeout(500)
            page.screenshot(path=Path(folder) / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
