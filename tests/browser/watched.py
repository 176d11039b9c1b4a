"""A page under observation."""

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
