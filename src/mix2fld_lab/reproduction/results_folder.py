"""A folder of results: ``records/``, ``figures/`` and ``REPORT.md``, and how they follow."""

import json
from collections.abc import Callable
from pathlib import Path

from mix2fld.base.errors import InputError
from mix2fld_lab.reproduction.attacked_mixes import audited_mixes
from mix2fld_lab.reproduction.cell_records import CellRecord, load_records
from mix2fld_lab.reproduction.claims import judge
from mix2fld_lab.reproduction.evidence import Evidence
from mix2fld_lab.reproduction.experiments import EXPERIMENTS, PANELS
from mix2fld_lab.reproduction.frontier.figures import draw_frontier
from mix2fld_lab.reproduction.frontier.headline import (
    IDEAL_TWIN,
    LINK_SETTING,
    PAPERS_TRAINING,
    HeadlineRow,
    finding,
    headline_rows,
    headline_table,
    relayed,
    short_table,
)
from mix2fld_lab.reproduction.frontier.other_tasks import other_tasks
from mix2fld_lab.reproduction.frontier.page import write_page
from mix2fld_lab.reproduction.frontier.points import points_of
from mix2fld_lab.reproduction.frontier.search import Choices, choose, search_name
from mix2fld_lab.reproduction.frontier.settings import SETTINGS
from mix2fld_lab.reproduction.ledger import all_evaluated, write_ledger
from mix2fld_lab.reproduction.ledger_figures import (
    Cells,
    draw_device_counts,
    draw_head_to_head,
    draw_inverse_counts,
    draw_panel,
    draw_privacy_accuracy,
)
from mix2fld_lab.reproduction.ledger_summary import by_channels
from mix2fld_lab.reproduction.privacy_records import load_privacy
from mix2fld_lab.reproduction.readme import with_sections
from mix2fld_lab.reproduction.step_costs import load_costs

RELAYED = "murmur-200-edges"
"""The contender whose downlink the README shows."""
HEAD_TO_HEAD_PANEL = "fig2c"
"""The panel of Fig. 2 whose default systems the README shows: asymmetric, non-IID."""


class ResultsFolder:
    """Where the records of a reproduction are kept, and what is made from them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.host = path / "records" / "host.json"
        self.privacy = path / "records" / "privacy.json"
        self.report = path / "REPORT.md"
        self.readme = path.parent / "README.md"
        self.downlink = path / "downlink" / "runs.jsonl"
        self.frontier = path / "FRONTIER.md"
        self.measured = path / "records" / "frontier-measured.json"

    def records(self, name: str) -> Path:
        """The records of an experiment."""
        return self.path / "records" / f"{name}.json"

    def figure(self, name: str) -> Path:
        """The picture of an experiment."""
        return self.path / "figures" / f"{name}.png"

    def draw(self, name: str) -> Path | None:
        """Draw an experiment from its records, if it has a picture."""
        drawers: dict[str, Callable[[Cells], None]] = {
            "fig3": lambda cells: draw_device_counts(cells, self.figure(name)),
            "privacy-accuracy": lambda cells: draw_privacy_accuracy(
                cells, load_privacy(self.privacy), self.figure(name)
            ),
            "inverse-count": lambda cells: draw_inverse_counts(cells, self.figure(name)),
        }
        drawers |= {
            panel: lambda cells: draw_panel(name, cells, self.figure(name)) for panel in PANELS
        }
        if name not in drawers:
            return None
        cells = load_records(self.records(name))
        drawers[name](cells)
        if name == HEAD_TO_HEAD_PANEL:
            draw_head_to_head(cells, self.figure("head-to-head"))
        return self.figure(name)

    def evidence(self) -> Evidence:
        """All records, for the ledger."""
        missing = [name for name in EXPERIMENTS if not self.records(name).exists()]
        if missing:
            raise InputError(
                field="results",
                value=self.path,
                hint=f"no records of {', '.join(missing)}; "
                f"make them with: mix2fld reproduce {' '.join(missing)}",
            )
        cells = {
            key: cell
            for name in EXPERIMENTS
            for key, cell in load_records(self.records(name)).items()
        }
        attacked = audited_mixes(sorted((self.path / "privacy").glob("*.json")))
        return Evidence(cells, load_privacy(self.privacy), load_costs(self.host), attacked)

    def ledger(self) -> str:
        """The text of ``REPORT.md``, from the records alone."""
        evidence = self.evidence()
        seeds = min(len(cell.runs) for cell in evidence.cells.values())
        return write_ledger(evidence, seeds)

    def write_ledger(self) -> None:
        """Write ``REPORT.md``, and what the README says of it."""
        self.report.write_text(self.ledger(), encoding="utf-8")
        self.update_readme(self.claims_sections)

    def update_readme(self, make_sections: Callable[[], dict[str, str]]) -> None:
        """Write these sections into the README beside this folder, if there is one."""
        if self.readme.exists():
            text = with_sections(self.readme.read_text(encoding="utf-8"), make_sections())
            self.readme.write_text(text, encoding="utf-8")

    def claims_sections(self) -> dict[str, str]:
        """What the README says of the paper's claims."""
        evidence = self.evidence()
        return {
            "verdicts": all_evaluated(judge(evidence)),
            "claims": by_channels(evidence),
        }

    def headline_rows(self) -> list[HeadlineRow]:
        """Contenders over the paper's link, by training; none where records are missing."""
        wanted = {self.records(f"frontier-{key}") for key in (LINK_SETTING, IDEAL_TWIN)}
        wanted |= {self.records(name) for name, _ in PAPERS_TRAINING.values()}
        if not all(path.exists() for path in wanted):
            return []
        over_link, ideal = (
            points_of(load_records(self.records(f"frontier-{key}")))
            for key in (LINK_SETTING, IDEAL_TWIN)
        )
        papers = {
            name: load_records(self.records(experiment))[cell]
            for name, (experiment, cell) in PAPERS_TRAINING.items()
        }
        return headline_rows(over_link, ideal, papers)

    def headline_sections(self) -> dict[str, str]:
        """The README's first table and sentence; none where records are missing."""
        rows = self.headline_rows()
        if not rows:
            return {}
        sections = {"finding": finding(rows), "headline": short_table(rows)}
        if self.downlink.exists():
            lines = self.downlink.read_text(encoding="utf-8").splitlines()
            runs = [run for run in map(json.loads, lines) if run["key"] == RELAYED]
            sections["relay"] = relayed(rows, runs, RELAYED)
        return sections

    def frontier_records(self) -> dict[str, dict[str, CellRecord]]:
        """The cells of every setting of the frontier that has records."""
        paths = {key: self.records(f"frontier-{key}") for key in SETTINGS}
        return {key: load_records(path) for key, path in paths.items() if path.exists()}

    def frontier_choices(self) -> dict[str, Choices]:
        """What the contenders chose, wherever they searched."""
        places = dict.fromkeys(setting.tuned_at for setting in SETTINGS.values())
        paths = {key: self.records(search_name(key)) for key in places}
        return {key: choose(load_records(path)) for key, path in paths.items() if path.exists()}

    def frontier_page(self) -> str:
        """The text of ``FRONTIER.md``, from the records alone."""
        rows = self.headline_rows()
        by_training = headline_table(rows) if rows else ""
        others = other_tasks(self.path)
        return write_page(self.frontier_records(), self.frontier_choices(), by_training, others)

    def write_frontier(self) -> None:
        """Write the page of the frontier and its figures, from the records that exist."""
        records = self.frontier_records()
        if not records:
            raise InputError(
                field="results",
                value=self.path,
                hint="no records of the frontier; make them with: mix2fld reproduce frontier",
            )
        for key, cells in records.items():
            path = self.figure(f"frontier-{key}")
            draw_frontier(SETTINGS[key].title, points_of(cells), path)
        self.frontier.write_text(self.frontier_page(), encoding="utf-8")
        self.update_readme(self.headline_sections)
