"""``mix2fld report`` and ``mix2fld watch``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from mix2fld.base.lab import has_lab, lab
from mix2fld.cli.options import Output

if TYPE_CHECKING:
    from mix2fld.runs.reader import FoundRuns


@dataclass(frozen=True)
class ReportCommand:
    """Write an HTML report of runs, one file that opens offline, and figures for a paper.

    Examples:
      mix2fld report runs/head-to-head -o report.html
      mix2fld report runs/a runs/b --figures figures
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, or folders of runs; finished or in progress."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """HTML file to write."""
    figures: Path | None = None
    """Also write every chart as PDF, SVG and PNG to this folder."""
    audits: tuple[Path, ...] = ()
    """Records of mix2fld privacy audit, whose membership rates the privacy panel shows."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def run(self) -> None:
        from mix2fld.cli.console import bold

        draw_all = lab("figures").draw_all if self.figures is not None else None
        console, found = self.output.console(), self.output.read_runs(self.runs)
        with self.output.working("writing the report"):
            from mix2fld.report.html import write_report

            size = write_report(found, self.out, self._privacy(found))
        console.print(f"report of {len(found.runs)} runs in {bold(self.out)}, {size / 1e6:.1f} MB")
        drawn: list[Path] = []
        if draw_all is not None:
            with self.output.working("drawing figures"):
                drawn = draw_all(found, self.figures)
            console.print(f"{len(drawn)} figures in {bold(self.figures)}")
        self.output.print_json(
            {"report": self.out, "bytes": size, "runs": len(found.runs), "figures": drawn}
        )

    def _privacy(self, found: "FoundRuns") -> str:
        """The privacy panel, which comes with the audits."""
        wanted = self.audits or has_lab()
        return lab("audit.panel").panel_of(found, self.audits) if wanted else ""


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
