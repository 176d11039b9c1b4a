"""A search for the best settings, by Optuna: kept in the folder of the sweep, and resumed.

A trial is one run for each protocol and seed of the plan, in a folder named after what was tried.
The study is a journal file, so that an interrupted search continues where it was; a trial whose
runs were interrupted is run to its end first. What a trial is worth is the mean of its runs'
summaries; of several objectives, all trials that no other beats in everything are the front.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.base.streams import integer
from mix2fld.config.grid import Grid
from mix2fld.config.settings import field_names, setting
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.folder import RunFolder
from mix2fld.sweep.jobs import Job
from mix2fld.sweep.plan import NOT_SWEPT, SweepPlan
from mix2fld.sweep.schedule import SweepProgress
from mix2fld.tasks.metric import metric_of

JOURNAL = "search.log"
Summary = Mapping[str, Any]


def _score(summary: Summary) -> float:
    scores = summary["scores"]
    return metric_of(scores).gain(float(scores["mean"]))


OBJECTIVES: dict[str, tuple[str, Callable[[Summary], float]]] = {
    "score": ("maximize", _score),
    "accuracy": ("maximize", _score),
    "bits": ("minimize", lambda summary: float(summary["bits"]["up"])),
    "seconds": ("minimize", lambda summary: float(sum(summary["seconds"].values()))),
}
"""What is searched for: the direction, and its value in a summary.

A score is what the task measures, negative if less is better; accuracy is another name of it."""
Batch = dict[int, Mapping[str, Any]]
"""What is tried, by the number of the trial."""
RunAll = Callable[[Sequence[Job]], SweepProgress]


@dataclass(frozen=True)
class Range:
    """Where the values of a field are searched."""

    name: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    def suggest(self, trial: Any) -> float | int:
        """A value to try."""
        if self.whole:
            return int(trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log))
        return float(trial.suggest_float(self.name, self.low, self.high, log=self.log))


@dataclass(frozen=True)
class Search:
    """What is searched, for what, and for how long."""

    base: Grid
    ranges: tuple[Range, ...]
    objectives: tuple[str, ...]
    trials: int
    at_once: int = 1
    """Trials that are decided on and run together."""

    def __post_init__(self) -> None:
        for name in self.objectives:
            if name not in OBJECTIVES:
                hint = did_you_mean(name, OBJECTIVES)
                raise InputError(field="objective", value=name, hint=f"no such objective; {hint}")
        if not self.objectives or not self.ranges:
            raise InputError(
                field="search", hint="needs at least one objective and one --range FIELD=LOW:HIGH"
            )
        for name in ("trials", "at_once"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)}: must be 1 or more")


class SearchResult(NamedTuple):
    """Result of a search."""

    best: dict[int, dict[str, Any]]
    """The best trials by number: what was tried, and what it is worth."""
    failed: list[int]
    """Trials of which a run failed."""


def read_range(text: str, base: Grid) -> Range:
    """A range as a flag has it: ``learning_rate=0.001:0.1:log``."""
    name, _, rest = text.partition("=")
    name = name.strip().replace("-", "_")
    low, _, more = rest.partition(":")
    high, _, scale = more.partition(":")
    known = field_names(Grid)
    if name not in known:
        raise InputError(
            field="range", value=text, hint=f"no such field; {did_you_mean(name, known)}"
        )
    value = setting(base, name)
    number = value[0] if isinstance(value, tuple) and value else value
    numeric = isinstance(number, (int, float)) and not isinstance(number, bool)
    if name in NOT_SWEPT or not (numeric or number == "auto"):
        raise InputError(
            field="range", value=text, hint=f"{name} = {number} has no range of numbers"
        )
    try:
        found = Range(name, float(low), float(high), scale == "log", isinstance(number, int))
    except ValueError:
        raise InputError(
            field="range", value=text, hint="must be FIELD=LOW:HIGH or FIELD=LOW:HIGH:log"
        ) from None
    if scale not in ("", "log") or not found.low < found.high or (found.log and found.low <= 0):
        raise InputError(
            field="range",
            value=text,
            hint="must be FIELD=LOW:HIGH or FIELD=LOW:HIGH:log, with LOW below HIGH "
            "(above 0 for log)",
        )
    for end in (found.low, found.high):
        base.replace(**{name: int(end) if found.whole else end})
    return found


def run_search(search: Search, out: Path, run_all: RunAll) -> SearchResult:
    """Run trials until there are as many as the search asks for; returns the best ones."""
    optuna = _import_optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    out.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name=_name(search),
        storage=_storage(optuna, search, out),
        directions=[OBJECTIVES[name][0] for name in search.objectives],
        load_if_exists=True,
    )
    while batch := _next_batch(optuna, study, search):
        _finish(optuna, study, search, out, run_all, batch)
    best = {
        trial.number: {
            "settings": dict(trial.params),
            **dict(zip(search.objectives, trial.values, strict=True)),
        }
        for trial in study.best_trials
    }
    failed = study.get_trials(states=(optuna.trial.TrialState.FAIL,))
    return SearchResult(best, [trial.number for trial in failed])


def _next_batch(optuna: Any, study: Any, search: Search) -> Batch:
    """The trials to run now: those that were interrupted, and new ones until a batch is full."""
    batch: Batch = {}
    for old in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        if set(old.params) == {one.name for one in search.ranges}:
            batch[old.number] = old.params
        else:  # interrupted before it was decided what to try
            study.tell(old.number, state=optuna.trial.TrialState.FAIL)
    over = len(study.get_trials(states=_over(optuna)))
    while over + len(batch) < search.trials and (not batch or len(study.trials) % search.at_once):
        study.sampler = _sampler(optuna, search, len(study.trials))
        trial = study.ask()
        batch[trial.number] = {one.name: one.suggest(trial) for one in search.ranges}
    return batch


def _jobs(search: Search, out: Path, number: int, tried: Mapping[str, Any]) -> list[Job]:
    """The runs of a trial."""
    name = f"trial-{number:04d}"
    plan = SweepPlan(search.base.replace(**tried), ())
    return [replace(job, name=f"{name}/{job.name}") for job in plan.jobs(out / name)]


def _finish(
    optuna: Any, study: Any, search: Search, out: Path, run_all: RunAll, batch: Batch
) -> None:
    """Run the runs of some trials and tell what each is worth; nothing if one of its runs fails."""
    jobs = {number: _jobs(search, out, number, tried) for number, tried in batch.items()}
    progress = run_all([job for of_trial in jobs.values() for job in of_trial])
    failed = {id(track.job) for track in progress.of("failed")}
    for number, of_trial in jobs.items():
        if any(id(job) in failed for job in of_trial):
            study.tell(number, state=optuna.trial.TrialState.FAIL)
            continue
        results = [RunFolder(job.folder).finished() for job in of_trial]
        summaries = [result.summary for result in results if result is not None]
        study.tell(
            number,
            [fmean(OBJECTIVES[name][1](one) for one in summaries) for name in search.objectives],
        )


def _name(search: Search) -> str:
    """What is searched: a folder holds one search, which may get more trials."""
    ranges = " ".join(f"{r.name}={r.low:g}:{r.high:g}{':log' * r.log}" for r in search.ranges)
    settings = hashlib.sha256(dump_config(search.base).encode()).hexdigest()[:8]
    return f"{' '.join(search.objectives)} of {ranges}, settings {settings}"


def _storage(optuna: Any, search: Search, out: Path) -> Any:
    """The journal in the folder; that of another search is refused."""
    from optuna.storages.journal import JournalFileBackend

    if not (out / JOURNAL).exists() and any(out.iterdir()):
        raise InputError(
            field="out",
            value=out,
            hint=f"holds other files and no {JOURNAL}; choose another folder",
        )
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(out / JOURNAL)))
    others = [name for name in optuna.get_all_study_names(storage) if name != _name(search)]
    if others:
        raise InputError(
            field="out",
            value=out,
            hint=f"holds another search, {others[0]}, not {_name(search)}; name another folder",
        )
    return storage


def _sampler(optuna: Any, search: Search, number: int) -> Any:
    """Seeded for each trial: an interrupted search tries what an uninterrupted one would."""
    seed = integer(search.base.at().seed, "search", number) % 2**32
    if len(search.objectives) > 1:
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=10)
    return optuna.samplers.TPESampler(seed=seed)


def _over(optuna: Any) -> tuple[Any, ...]:
    return (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL)


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError(
            field="search",
            value="optuna",
            hint="needs Optuna; install it with: pip install 'mix2fld[cluster]'",
        ) from None
    return optuna
