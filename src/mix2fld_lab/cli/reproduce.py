"""``mix2fld reproduce``."""

from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.cli.options import Output, Running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from mix2fld_lab.reproduction.experiments import Experiment, Scale
    from mix2fld_lab.reproduction.results_folder import ResultsFolder

TABLES = ("table2", "table3")
EVERYTHING = ("all", "claims")
FRONTIER = "frontier"
COMPARISONS = ("waiting", "air")
"""Each in a module of its own in ``mix2fld_lab.reproduction``, with a page in capitals."""


@dataclass(frozen=True)
class ReproduceCommand:
    """Reproduce the paper's figures, tables and claims.

    Experiments: fig2a, fig2b, fig2c, fig2d, fig3, table2, table3, privacy-accuracy, inverse-count,
    why. claims (or all) runs every one of them and writes the ledger, REPORT.md. frontier compares
    all protocols by accuracy and uplink bits (eight hours) and writes FRONTIER.md; frontier-SETTING
    runs one of its settings. waiting compares servers that wait with buffered and asynchronous
    ones over NB-IoT, air uploads that the channel adds with digital ones. Finished runs are kept:
    after an interrupt, the same command resumes.
    """

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME...")]
    """What to reproduce."""
    quick: bool = False
    """Scaled down: one seed, three short rounds. A demonstration, not evidence."""
    out: Path | None = None
    """Folder for the runs; by default runs/reproduce, or runs/reproduce-quick."""
    results: Path | None = None
    """Folder for records, figures and REPORT.md; by default results/ in the folder of the runs."""
    seeds: int | None = None
    """Run only this many of the five seeds."""
    seed: tuple[int, ...] = ()
    """Run only these of them, such as 0..1."""
    extend: bool = False
    """Keep the runs in the records of the results folder, and run only those that are missing."""
    contender: tuple[str, ...] = ()
    """Frontier: custom protocols, package.module:NAME, with the search that all others have."""
    from_records: bool = False
    """Skip training; redraw and re-evaluate from the records in the results folder."""
    running: tyro.conf.OmitArgPrefixes[Running] = field(default_factory=Running)
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)

    def scale(self) -> "Scale":
        """How much is simulated."""
        from mix2fld_lab.reproduction.experiments import FULL, QUICK

        return _with_seeds(QUICK if self.quick else FULL, self.seeds, self.seed)

    def run(self) -> None:
        """Run, record, draw and evaluate."""
        from mix2fld_lab.cli.frontier import frontier_stages, write_frontier
        from mix2fld_lab.reproduction.experiments import EXPERIMENTS
        from mix2fld_lab.reproduction.frontier.contenders import add_contender
        from mix2fld_lab.reproduction.results_folder import ResultsFolder

        console = self.output.console()
        known = (*EXPERIMENTS, *TABLES, *EVERYTHING, FRONTIER, *COMPARISONS, *frontier_names())
        for name in self.names:
            if name not in known:
                raise InputError(f"{name}: no such experiment; {did_you_mean(name, known)}")
        if not self.names:
            raise InputError(field="names", hint=f"must name at least one of {', '.join(known)}")
        everything = any(name in EVERYTHING for name in self.names)
        chosen = [e for e in EXPERIMENTS.values() if everything or e.name in self.names]
        scale = self.scale()
        out = self.out or Path("runs") / ("reproduce-quick" if self.quick else "reproduce")
        folder = ResultsFolder(self.results or out / "results")
        tables = everything or any(name in TABLES for name in self.names)
        needs_privacy = tables or any(e.name == "privacy-accuracy" for e in chosen)
        settings = _frontier_settings(self.names)
        for spelled in self.contender:
            add_contender(spelled)
        if not self.from_records:
            _measure(console, folder, scale, needs_privacy, everything)
            run_and_record(console, chosen, scale, out, folder, self.running, self.extend)
            for stage, own_scale in frontier_stages(console, settings, scale, folder):
                run_and_record(console, stage, own_scale, out, folder, self.running, self.extend)
        for name in COMPARISONS:
            if name in self.names:
                _compare(name, console, self, out, folder)
        _show(console, folder, chosen, tables)
        if everything:
            folder.write_ledger()
            console.print(f"ledger: {folder.report}", markup=False)
        if settings:
            write_frontier(folder)
            console.print(f"frontier: {folder.frontier}", markup=False)
        made = {
            "records": [folder.records(experiment.name) for experiment in chosen],
            "report": folder.report if everything else None,
            "frontier": folder.frontier if settings else None,
        }
        self.output.print_json(made)


def _compare(
    name: str, console: "Console", command: ReproduceCommand, out: Path, folder: "ResultsFolder"
) -> None:
    """Run, record and draw a comparison."""
    from mix2fld.base.files import write_atomic
    from mix2fld.runs.loop import Watcher

    module = import_module(f"mix2fld_lab.reproduction.{name}")
    records, figure = folder.records(name), folder.figure(name)
    if not command.from_records:
        seeds = command.seed or range(command.seeds or 1)
        module.measure(out / name, records, seeds, quick=command.quick, watcher=Watcher())
    found = module.load(records)
    module.draw(found, figure)
    page = folder.path / f"{name.upper()}.md"
    write_atomic(page, module.render(found).encode())
    console.print(f"page: {page}", markup=False)


def _with_seeds(scale: "Scale", seeds: int | None, named: tuple[int, ...]) -> "Scale":
    if named and seeds is not None:
        raise InputError(field="seeds", value=seeds, hint="must not go with seed, which names them")
    for seed in named:
        if seed not in scale.seeds:
            known = " ".join(map(str, scale.seeds))
            raise InputError(field="seed", value=seed, hint=f"must be among {known}")
    if named:
        return replace(scale, seeds=tuple(dict.fromkeys(named)))
    if seeds is None:
        return scale
    if not 1 <= seeds <= len(scale.seeds):
        raise InputError(field="seeds", value=seeds, hint=f"must be from 1 to {len(scale.seeds)}")
    return replace(scale, seeds=scale.seeds[:seeds])


def frontier_names() -> dict[str, str]:
    """The name of every setting of the frontier, with its key."""
    from mix2fld_lab.reproduction.frontier.settings import SETTINGS

    return {f"{FRONTIER}-{key}": key for key in SETTINGS}


def _frontier_settings(names: tuple[str, ...]) -> list[str]:
    return [key for name, key in frontier_names().items() if FRONTIER in names or name in names]


def _measure(
    console: "Console", folder: "ResultsFolder", scale: "Scale", privacy: bool, host: bool
) -> None:
    """Write the two records that are not grids of runs."""
    from mix2fld.base.folders import cache_folder
    from mix2fld.tasks.compilation import keep_compiled_code
    from mix2fld_lab.reproduction.host_timing import measure_host
    from mix2fld_lab.reproduction.privacy_measurement import measure_datasets
    from mix2fld_lab.reproduction.privacy_records import save_privacy
    from mix2fld_lab.reproduction.step_costs import save_host

    keep_compiled_code(cache_folder() / "compiled")
    if host and not folder.host.exists():
        with console.status("timing a step on this machine"):
            save_host(folder.host, measure_host(scale))
    if privacy:
        with console.status("measuring sample privacy"):
            save_privacy(folder.privacy, scale, measure_datasets(scale))


def run_and_record(
    console: "Console",
    chosen: "Sequence[Experiment]",
    scale: "Scale",
    out: Path,
    folder: "ResultsFolder",
    running: "Running",
    extend: bool = False,
) -> None:
    """Run experiments as one sweep, and write the records of each."""
    from mix2fld.cli.progress import TableBoard
    from mix2fld_lab.reproduction.cell_records import recorded_runs, save_records
    from mix2fld_lab.reproduction.grid import jobs_of, results_of, run_experiments

    paths = {experiment.name: folder.records(experiment.name) for experiment in chosen}
    recorded = {
        key: runs
        for experiment in chosen
        if extend
        for key, runs in recorded_runs(paths[experiment.name], experiment, scale).items()
    }
    jobs = len(jobs_of(chosen, scale, out, recorded))
    if jobs:
        with running.place(jobs) as place, TableBoard(console) as board:
            run_experiments(
                chosen, scale, out, place, recorded=recorded, retries=running.retries, board=board
            )
    for experiment in chosen:
        results = results_of(experiment, scale, out, recorded)
        save_records(paths[experiment.name], experiment, scale, results, recorded)


def _show(
    console: "Console", folder: "ResultsFolder", chosen: "list[Experiment]", tables: bool
) -> None:
    from mix2fld_lab.reproduction.cell_records import load_records
    from mix2fld_lab.reproduction.grid_tables import experiment_table, privacy_table
    from mix2fld_lab.reproduction.privacy_records import load_privacy

    for experiment in chosen:
        cells = load_records(folder.records(experiment.name))
        console.print(experiment_table(experiment.title, cells), soft_wrap=False)
        figure = folder.draw(experiment.name)
        if figure is not None:
            console.print(f"figure: {figure}", markup=False)
    if tables:
        console.print(privacy_table(load_privacy(folder.privacy)), soft_wrap=False)
