"""A page under observation."""

from pathlib import Path

from playwright.sync_api import Page, expect

PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


class Watched:
    """A page whose requests and complaints are kept."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda line: (
                self.complaints.append(line.text) if line.type in ("error", "warning") else None
            ),
        )

    def open_report(self, path: Path, address: str = "") -> Page:
        """Its charts are drawn when this returns."""
        self.page.goto(path.as_uri() + address)
        self.page.wait_for_selector("#curve-chart path.line", state="attached")
        return self.page
