"""``mix2fld privacy``: attack what devices upload, and write the page of what was found."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.options import Output
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config

if TYPE_CHECKING:
    from mix2fld.types import Dataset
    from mix2fld_lab.audit.effort import Effort


@dataclass(frozen=True)
class PrivacyAudit:
    """Attack the uploads of every protocol, as an honest-but-curious server could.

    Membership (box, residual and likelihood-ratio attacks) at 0.1 % and 1 % false positives, each
    with a null experiment; separation and re-identification of mixed-up samples; inversion of
    inverse-Mixup. Finished stages are kept in the record: the same command resumes.
    """

    config: Path | None = None
    """TOML file with any of the fields below; flags override it."""
    preset: tuple[str, ...] = ()
    """Named settings: symmetric, literal, ideal, iid."""
    of_run: Path | None = None
    """Folder of a run whose settings are audited, with the data that it was made with."""
    quick: bool = False
    """Two devices, 16 shadow models, 2,000 outsiders: a minute. A demonstration, not evidence."""
    outsiders: int | None = None
    """Samples outside of every upload, on which false positives are counted; by default 10,000."""
    shadows: int | None = None
    """Shadow models for each device; by default 64."""
    attacked_devices: int | None = None
    """Devices attacked, the first of each run; by default all, at most 10."""
    attacked_rounds: int | None = None
    """Rounds whose uploads are attacked together; by default only the first one is attacked."""
    separator_steps: int | None = None
    """Training steps of the separation network; by default 3,000. 0: no separation."""
    foreign: str = ""
    """Another dataset with samples of the same shape: a second separation network learns on it."""
    ratios: tuple[float, ...] = ()
    """More mixing ratios to attack, beside mixing_ratio."""
    budgets: tuple[str, ...] = ()
    """More runs of protocols with a privacy budget, each as epsilon:feature_side, such as 4:4."""
    stages: tuple[str, ...] = ()
    """Only these: seeds, recurring, recovery, foreign, averages, noise, uploads, rounds, accuracy,
    budget."""
    out: Path | None = None
    """Record to write, or to resume; by default runs/privacy/<dataset>.json, or -quick.json."""
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        """State the cost, run every stage that is missing, and print what was found."""
        from mix2fld.cli.console import PipedConsole
        from mix2fld.data import load_dataset
        from mix2fld_lab.audit.audit import Audit
        from mix2fld_lab.audit.findings import KINDS
        from mix2fld_lab.audit.summary import summary_tables

        settings = self.settings if self.of_run is None else _settings_of(self.of_run)
        dataset = load_dataset(settings.data, console=PipedConsole(stderr=True))
        if self.of_run is not None:
            _check_same_data(self.of_run, dataset)
        audit = Audit(settings, dataset, self._effort(), self.stages or tuple(KINDS))
        name, suffix = Path(settings.data.dataset).stem, "-quick" if self.quick else ""
        out = self.out or Path("runs") / "privacy" / f"{name}{suffix}.json"
        console = self.output.console()
        stages = audit.stages()
        minutes = sum(stage.seconds for stage in stages) / 60
        console.print(f"{len(stages)} stages, about {minutes:.1f} minutes of one idle core")
        record = audit.run(out, console.print)
        for table in summary_tables(record.stages):
            console.print(table, markup=False)
        console.print(f"record: {out}", markup=False)
        self.output.print_json({"record": out, "about": record.about, "stages": record.stages})

    def _effort(self) -> "Effort":
        from mix2fld_lab.audit.effort import QUICK, Effort

        given = {
            "outsiders": self.outsiders,
            "shadows": self.shadows,
            "devices": self.attacked_devices,
            "attacked_rounds": self.attacked_rounds,
            "separator_steps": self.separator_steps,
        }
        chosen: dict[str, Any] = {name: n for name, n in given.items() if n is not None}
        budgets = tuple(map(_budget, self.budgets))
        base = QUICK if self.quick else Effort()
        return replace(base, **chosen, foreign=self.foreign, ratios=self.ratios, budgets=budgets)


@dataclass(frozen=True)
class PrivacyPage:
    """Write the page about privacy from the records of audits."""

    records: tyro.conf.Positional[tuple[Path, ...]]
    """Records of audits, one for each dataset."""
    out: Path = Path("privacy.md")
    """Markdown file to write; its figure goes to images/privacy.png beside it."""

    def run(self) -> None:
        """Write the page and its figure."""
        from mix2fld.base.files import write_atomic, writing
        from mix2fld_lab.audit.page import draw_privacy_figure, privacy_page
        from mix2fld_lab.audit.records import load_audit

        if not self.records:
            raise InputError(
                field="records", hint="must name at least one record of mix2fld privacy audit"
            )
        records = {str(path): load_audit(path) for path in self.records}
        page = privacy_page(records)
        with writing("out", self.out):
            write_atomic(self.out, page.encode())
            draw_privacy_figure(records, self.out.parent / "images" / "privacy.png")


def _budget(text: str) -> tuple[float, int]:
    """``4:4`` as ε and feature side."""
    try:
        epsilon, side = text.split(":")
        budget = float(epsilon), int(side)
    except ValueError:
        raise InputError(
            field="budgets", value=f"{text!r}", hint="must be epsilon:feature_side, such as 4:4"
        ) from None
    Config.of(epsilon=budget[0], feature_side=budget[1])
    return budget


def _settings_of(run: Path) -> Grid:
    from mix2fld.runs.folder import RunFolder

    if not run.is_dir():
        raise InputError(field="of_run", value=run, hint="there is no such folder")
    return Grid.of_run(RunFolder(run).config())


def _check_same_data(run: Path, dataset: "Dataset") -> None:
    from mix2fld.data import fingerprint
    from mix2fld.runs.folder import RunFolder

    RunFolder(run, made_with={"data": fingerprint(dataset)}).check_data()
