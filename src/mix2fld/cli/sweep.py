"""``mix2fld sweep``."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from mix2fld.base.errors import InputError
from mix2fld.cli.options import Output, Running
from mix2fld.config.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from mix2fld.report.sweep_view import SweepRows
    from mix2fld.sweep.jobs import Job
    from mix2fld.sweep.plan import SweepPlan
    from mix2fld.sweep.schedule import RunPlace, SweepProgress, Track

SOME_MISSING = 3
MOST_NAMES = 8
"""Of runs that are named for a reason."""
SHOWN: "dict[str, Callable[[float], str]]" = {
    "score": lambda value: f"{value:.5g}",
    "accuracy": lambda value: f"{100 * value:.1f} %",
    "bits": lambda value: f"{value:,.0f}",
    "seconds": lambda value: f"{value:.2f}",
}
"""How objectives of a search are printed."""


@dataclass(frozen=True)
class Searching:
    """Search for the best settings instead of running a grid."""

    search: Literal["optuna"] | None = None
    """Sample settings from ranges and learn from the results; the same command resumes."""
    range: tuple[str, ...] = ()
    """Ranges to search: FIELD=LOW:HIGH or FIELD=LOW:HIGH:log for each field."""
    objective: tuple[str, ...] = ("accuracy",)
    """What to optimise: accuracy, score (any metric, negative if less is better), bits (uplink),
    seconds; several: their Pareto front."""
    trials: int = 20
    """Number of settings to try; each is one run for every protocol and seed."""
    at_once: int = 1
    """Trials to run side by side; they learn only from earlier ones."""


@dataclass(frozen=True)
class SweepCommand:
    """Run a grid: every setting that has several values is an axis, and all axes are crossed.

    Each combination has a folder in --out, with a run for each protocol and seed. Finished runs are
    not repeated, interrupted ones resume; the exit code is 3 if runs are missing at the end.

    Examples:
      mix2fld sweep --mixing-ratio 0.1 0.3 --seed 0..4 --out runs/lambda
      mix2fld sweep --devices 10 20 --rounds 10 5 --zip devices rounds
      mix2fld sweep --plan lambda.toml --dry-run
      mix2fld sweep --search optuna --range learning-rate=0.001:0.1:log
    """

    plan: Path | None = None
    """TOML file: protocols, seed, [settings], [cross], [[zip]]; flags override it."""
    config: Path | None = None
    """TOML file with settings that all runs share; flags override it."""
    preset: tuple[str, ...] = ()
    """Named settings, as in mix2fld run."""
    trust_code: bool = False
    """Import a custom model that a file names from the working folder."""
    zip: tuple[str, ...] = ()
    """Settings whose values advance together instead of being crossed."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder for the runs; by default one under runs/ named after the plan."""
    dry_run: bool = False
    """Print the number of runs and an estimate of their time, from one measured round."""
    max_runs: int = 1000
    """Refuse to start more runs than this."""
    report: bool = False
    """Also write report.html, as mix2fld report does."""
    searching: tyro.conf.OmitArgPrefixes[Searching] = field(default_factory=Searching)
    running: tyro.conf.OmitArgPrefixes[Running] = field(default_factory=Running)
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)
    varied: tyro.conf.Suppress[tyro.conf.Fixed[dict[str, Any]]] = field(default_factory=dict)
    zipped: tyro.conf.Suppress[tyro.conf.Fixed[tuple[tuple[str, ...], ...]]] = ()

    def run(self) -> None:
        from mix2fld.sweep.plan import make_plan

        console = self.output.console()
        if self.searching.search is not None or self.searching.range:
            self._search(console)
            return
        plan = make_plan(self.settings, self.varied, self.zipped)
        plan.check_size(self.max_runs)
        out = self.out or default_folder(plan)
        jobs = plan.jobs(out)
        try:
            with self.running.place(len(jobs)) as place:
                if self.dry_run:
                    self._forecast(console, plan, jobs, place.cores())
                    return
                progress = self._run(console, plan, jobs, place, out)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(out) from None
        self._conclude(console, progress, out)

    def _run(
        self, console: "Console", plan: "SweepPlan", jobs: "list[Job]", place: "RunPlace", out: Path
    ) -> "SweepProgress":
        from mix2fld.cli.progress import TableBoard
        from mix2fld.data import load_dataset
        from mix2fld.sweep.jobs import datasets_named
        from mix2fld.sweep.plan_file import claim_folder
        from mix2fld.sweep.schedule import run_jobs

        for data in datasets_named(jobs):
            load_dataset(data, console=console)
        claim_folder(plan, out)
        with TableBoard(console) as board:
            return run_jobs(jobs, place, retries=self.running.retries, board=board)

    def _search(self, console: "Console") -> None:
        """Try settings until there are enough trials, and print the best."""
        from mix2fld.cli.console import bold
        from mix2fld.cli.progress import TableBoard
        from mix2fld.sweep.schedule import run_jobs
        from mix2fld.sweep.search import Search, read_range, run_search

        given = self.searching
        if given.search is None:
            raise InputError(
                field="range",
                value=given.range[0],
                hint="applies to a search only; add --search optuna",
            )
        if self.varied:
            name = next(iter(self.varied))
            raise InputError(
                f"{name}: has several values, but a search has no axes; give one, or --range "
                f"{name}=LOW:HIGH"
            )
        if self.dry_run:
            raise InputError(
                field="dry_run", hint="a search has no fixed list of runs; omit --dry-run"
            )
        if self.out is None:
            raise InputError(field="out", hint="a search needs a folder; give --out FOLDER")
        base = self.settings
        ranges = tuple(read_range(text, base) for text in given.range)
        search = Search(base, ranges, given.objective, given.trials, given.at_once)
        each = len(base.protocols) * len(base.seeds) * given.at_once
        try:
            with self.running.place(each) as place, TableBoard(console) as board:
                found = run_search(
                    search,
                    self.out,
                    lambda jobs: run_jobs(jobs, place, retries=self.running.retries, board=board),
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self.out) from None
        for number, best in found.best.items():
            values = ", ".join(f"{name} {SHOWN[name](best[name])}" for name in given.objective)
            tried = ", ".join(f"{name} {value:g}" for name, value in best["settings"].items())
            console.print(f"trial {number}: {values} with {tried}", highlight=False)
        failed = f", {len(found.failed)} of them failed" if found.failed else ""
        console.print(f"{given.trials} trials in {bold(self.out)}{failed}")
        self.output.print_json({"out": self.out, "best": found.best, "failed": found.failed})
        if not found.best:
            sys.exit(SOME_MISSING)

    def _forecast(
        self, console: "Console", plan: "SweepPlan", jobs: "list[Job]", cores: int
    ) -> None:
        from mix2fld.cli.progress import clock
        from mix2fld.native.processor import usable_cores
        from mix2fld.sweep.jobs import measure

        varied = {name: values for name, values in plan.describe().items() if len(values) > 1}
        for name, values in varied.items():
            console.print(f"{name.replace('_', ' ')}: {' '.join(values)}", markup=False)
        with self.output.working("measuring a round of the first run"):
            found = measure(jobs, usable_cores())
        seconds = found.seconds(cores)
        console.print(
            f"{len(jobs)} runs, {found.steps:,} SGD steps left: about {clock(seconds)} on "
            f"{cores} core{'s' if cores > 1 else ''} (a round of {jobs[0].name} with "
            f"{found.round_steps:,} steps took {found.round_seconds:.2f} s)",
            highlight=False,
            soft_wrap=not console.is_terminal,
        )
        self.output.print_json({"runs": len(jobs), "steps": found.steps, "seconds": seconds})

    def _draw(self, rows: "SweepRows", path: Path) -> str:
        """Draw the settings, if that can be done, and say where the figure is."""
        from importlib.util import find_spec

        if find_spec("matplotlib") is None:
            self.output.warn("no figure: pip install 'mix2fld[figures]'")
            return ""
        from mix2fld.cli.console import bold
        from mix2fld.report.sweep_view import draw_sweep

        return f", by setting in {bold(path)}" if draw_sweep(rows, path) else ""

    def _conclude(self, console: "Console", progress: "SweepProgress", out: Path) -> None:
        from mix2fld.cli.console import bold, print_table
        from mix2fld.cli.progress import counts
        from mix2fld.report.sweep_view import sweep_rows, sweep_table
        from mix2fld.runs.reader import read_runs

        failed = progress.of("failed")
        if self.report and progress.of("finished"):
            self.output.write_report([out], out / "report.html")
        rows = sweep_rows(read_runs([track.job.folder for track in progress.of("finished")]).runs)
        figure = ""
        if rows is not None:
            print_table(console, sweep_table(rows))
            figure = self._draw(rows, out / "sweep.png")
        console.print(f"{counts(progress)} of {len(progress.tracks)} runs in {bold(out)}{figure}")
        for line in missing_runs(failed):
            self.output.warn(line)
        self.output.print_json(
            {
                "out": out,
                "finished": [track.job.name for track in progress.of("finished")],
                "missing": {track.job.name: track.reason for track in failed},
            }
        )
        if failed:
            sys.exit(SOME_MISSING)


def missing_runs(failed: "Sequence[Track]") -> list[str]:
    """A line for each reason, with the runs that failed for it."""
    by_reason: dict[str, list[str]] = {}
    for track in failed:
        by_reason.setdefault(track.reason, []).append(track.job.name)
    return [
        f"missing: {' '.join(names[:MOST_NAMES])}{more(len(names) - MOST_NAMES)}: {reason}"
        for reason, names in by_reason.items()
    ]


def more(count: int) -> str:
    """What a shortened list ends with."""
    return f" and {count} more" if count > 0 else ""


def default_folder(plan: "SweepPlan") -> Path:
    """A folder that depends on the settings, but not on protocols and seeds."""
    import hashlib

    from mix2fld.sweep.plan import SweepPlan
    from mix2fld.sweep.plan_file import dump_plan

    same = dump_plan(SweepPlan(plan.base.replace(protocols="fl", seeds=0), plan.axes))
    digest = hashlib.sha256(same).hexdigest()[:8]
    return Path("runs") / f"sweep-{Path(plan.base.data.dataset).stem}-{digest}"
