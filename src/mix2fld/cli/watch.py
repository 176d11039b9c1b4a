"""``mix2fld watch``."""

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from mix2fld.cli.options import Output


@dataclass(frozen=True)
class WatchCommand:
    """Serve the report as a live page on this machine, while runs are in progress.

    Only reads files, and only answers this machine; Ctrl-C stops it.

    Example: mix2fld watch runs
    """

    folder: tyro.conf.Positional[Path] = Path("runs")
    """Folder of runs; new runs appear on the page."""
    port: int = 8420
    """Port on 127.0.0.1; 0 picks a free one."""
    open: bool = False
    """Open the page in the browser."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def run(self) -> None:
        """Serve the page until interrupted."""
        from mix2fld.cli.console import bold
        from mix2fld.report.live import make_server

        server = make_server(self.folder, self.port)
        address = f"http://127.0.0.1:{server.server_port}/"
        if not self.folder.is_dir():
            self.output.warn(f"folder = {self.folder}: does not exist yet; the page waits for it")
        self.output.console().print(f"watching {bold(self.folder)} at {address}, Ctrl-C stops it")
        self.output.print_json({"address": address, "folder": self.folder})
        if self.open:
            import webbrowser

            webbrowser.open(address)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            self.output.console().print("stopped watching")
        finally:
            server.server_close()
