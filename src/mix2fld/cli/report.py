"""``mix2fld report``."""

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.commands import LAB, NEEDS_LAB, has_lab
from mix2fld.cli.options import Output

if TYPE_CHECKING:
    from mix2fld.runs.reader import Found


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
        """Write the page, and the figures if requested."""
        from mix2fld.cli.console import bold

        console, found = self.output.console(), self.output.read_runs(self.runs)
        with self.output.working("writing the report"):
            from mix2fld.report.html import write_report

            size = write_report(found, self.out, self._privacy(found))
        console.print(f"report of {len(found.runs)} runs in {bold(self.out)}, {size / 1e6:.1f} MB")
        drawn: list[Path] = []
        if self.figures is not None:
            if not has_lab():
                raise InputError(NEEDS_LAB)
            with self.output.working("drawing figures"):
                drawn = import_module(f"{LAB}.figures").draw_all(found, self.figures)
            console.print(f"{len(drawn)} figures in {bold(self.figures)}")
        self.output.print_json(
            {"report": self.out, "bytes": size, "runs": len(found.runs), "figures": drawn}
        )

    def _privacy(self, found: "Found") -> str:
        """The privacy panel, which comes with the audits."""
        if not has_lab():
            if self.audits:
                raise InputError(NEEDS_LAB)
            return ""
        panel: str = import_module(f"{LAB}.audit.panel").panel_of(found, self.audits)
        return panel
