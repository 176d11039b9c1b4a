"""Everything that a reader must know before the results: what went wrong in the runs."""

from collections.abc import Iterable, Sequence
from typing import Any

from mix2fld.engine.checks import warn_if_chance_level
from mix2fld.engine.plan import PlannedTransfer
from mix2fld.protocols.suspects import in_words
from mix2fld.report.plans import plans_of, task_of
from mix2fld.report.protocol_view import title_of
from mix2fld.report.run_view import standing_of
from mix2fld.report.series import Series, Setting
from mix2fld.report.units import in_a_row, percent
from mix2fld.runs.reader import LoadedRun
from mix2fld.tasks.base import no_better_than_mean

Finding = dict[str, Any]
"""``title`` and ``lines``."""
MOST_LINES = 12


def findings(
    settings: Sequence[Setting], series: Sequence[Series], planned: Sequence[LoadedRun]
) -> list[Finding]:
    """All warnings, the most serious first; each kind once, with all it concerns."""
    runs = [run for one in series for run in one.runs]
    named = _named(settings, series)
    kinds = (
        ("Runs that failed", _failures([*runs, *planned])),
        ("Transfers that do not arrive", _never(series, named, planned)),
        ("No better than guessing", _guessing(runs)),
        ("Rounds without a quorum", _quorums(series, named)),
        ("Unusual uploads", _suspects(runs)),
    )
    return [
        {"title": title, "lines": _shortened(lines)}
        for title, found in kinds
        if (lines := list(dict.fromkeys(found)))
    ]


def _named(settings: Sequence[Setting], series: Sequence[Series]) -> dict[int, str]:
    """How the setting of a series is told, after the sentence; nothing if there is one only."""
    if len(settings) < 2:
        return {}
    return {
        n: f" ({in_a_row([settings[where].label for where in one.settings])})"
        for n, one in enumerate(series)
        if len(one.settings) < len(settings)
    }


def _failures(runs: Sequence[LoadedRun]) -> Iterable[str]:
    """Each with the folder that it is in, if there are several."""
    several = len({run.folder.parent for run in runs}) > 1
    for run in runs:
        reason = standing_of(run).reason
        if reason:
            where = f" in {run.folder.parent.name}" if several else ""
            done = f"after {len(run.rounds)} of {run.config.rounds} rounds"
            yield f"{title_of(run.protocol)}, seed {run.seed}{where}, {done}: {reason}"


def _never(
    series: Sequence[Series], named: dict[int, str], planned: Sequence[LoadedRun]
) -> Iterable[str]:
    """What the link never carries, by plan, and what it did not carry, by record."""
    silent: dict[str, list[str]] = {}
    for number, one in enumerate(series):
        title, where = title_of(one.protocol), named.get(number, "")
        plans = plans_of(one.runs[0])
        problems = [plan.problem for plan in plans if plan.problem]
        yield from (problem + where for problem in problems)
        if one.never_delivered:
            silent.setdefault(where, []).append(title)
            if not problems:
                chance = _chance(plans) if len(one.settings) == 1 else ""
                yield f"{title}: none of {one.uploads[0]:,} uploads arrived{where}{chance}"
    yield from (plan.problem for run in planned for plan in plans_of(run) if plan.problem)
    for where, titles in silent.items():
        same = "" if len(titles) == 1 else ", with the same results"
        yield f"The devices of {in_a_row(titles)} therefore learn alone{same}{where}"


def _chance(plans: Sequence[PlannedTransfer]) -> str:
    """How likely the delivery of the largest upload was."""
    budgets = [plan.budget for plan in plans if plan.budget.direction == "uplink"]
    if not budgets:
        return ""
    largest = max(budgets, key=lambda budget: budget.bits)
    return f"; the delivery probability is {percent(largest.delivery_probability)}"


def _guessing(runs: Iterable[LoadedRun]) -> Iterable[str]:
    for run in runs:
        doubt = _doubt(run, run.summary["scores"]) if run.finished else None
        if warning := warn_if_chance_level(run.config, doubt):
            yield warning


def _doubt(run: LoadedRun, scores: dict[str, Any]) -> str | None:
    """Why nothing was learned: by simple predictions in the record, or as the task says."""
    reached = [scores["mean"], *([] if scores["global"] is None else [scores["global"]])]
    best = run.metric.best(reached)
    if "baselines" in scores:
        return no_better_than_mean(run.metric, scores["baselines"], best)
    task = task_of(run.config)
    return task.doubt(best) if task is not None and task.metric == run.metric else None


def _quorums(series: Sequence[Series], named: dict[int, str]) -> Iterable[str]:
    for number, one in enumerate(series):
        rounds = [info for run in one.runs for info in run.rounds if "quorum" in info]
        missed = sum(not info["quorum"]["met"] for info in rounds)
        if missed:
            share = percent(missed / len(rounds))
            yield (
                f"{title_of(one.protocol)}: {missed:,} of {len(rounds):,} rounds ({share}) made no "
                f"update, because too few uploads arrived{named.get(number, '')}"
            )


def _suspects(runs: Iterable[LoadedRun]) -> Iterable[str]:
    """Each suspicious device of a run once, at its farthest, with all rounds."""
    for run in runs:
        farthest: dict[tuple[int, str], Finding] = {}
        rounds: dict[tuple[int, str], list[int]] = {}
        for info in run.rounds:
            for suspect in info.get("suspects", ()):
                who = suspect["device"], suspect["upload"]
                rounds.setdefault(who, []).append(info["round"])
                known = farthest.setdefault(who, suspect)
                farthest[who] = max(known, suspect, key=lambda one: one.get("times", 0))
        for who, suspect in farthest.items():
            where = "round" if len(rounds[who]) == 1 else "rounds"
            numbers = in_a_row([str(number) for number in rounds[who]])
            yield (
                f"{title_of(run.protocol)}, seed {run.seed}, {where} {numbers}: {in_words(suspect)}"
            )


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[: MOST_LINES - 1], f"and {len(lines) - MOST_LINES + 1} more"]
