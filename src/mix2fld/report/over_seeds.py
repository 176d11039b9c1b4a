"""The runs of one protocol as a table row: means over seeds, and their spread."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any


def training_words(training: Mapping[str, Any] | None) -> str:
    """Step sizes, and whatever differs from plain steps; nothing where an old record is silent."""
    if training is None:
        return ""
    first, last = training["learning_rate"], training["final_learning_rate"]
    words = [f"η {first:.3g}" if first == last else f"η {first:.3g} → {last:.3g}"]
    most, least = training["logit_adjustment"], training.get("scarce_adjustment")
    if most:
        value = f"{most:g}" if least is None else f"{least:g} to {most:g}"
        words.append(f"logit adjustment {value}")
    if training["device_model"] == "mean":
        words.append("mean model")
    if training["device_model"] == "received":
        words.append("model as received")
    if training.get("replay"):
        words.append(f"replay {training['replay']:g}")
    return ", ".join(words)


def trainings(rows: Mapping[str, str]) -> str:
    """One line for a table: which protocols, by title, trained how; empty if nothing is known."""
    by_words: dict[str, list[str]] = {}
    for title, words in rows.items():
        by_words.setdefault(words, []).append(title)
    known = {words: titles for words, titles in by_words.items() if words}
    if len(by_words) == 1:
        return "".join(f"trained with {words}" for words in known)
    return "; ".join(f"{', '.join(titles)}: {words}" for words, titles in known.items())


Summary = dict[str, Any]
"""The content of a ``summary.json``."""


def over_seeds(runs: Sequence[Summary]) -> dict[str, Any]:
    """Means over the summaries of runs that differ in their seed only.

    ``spread`` is the sample standard deviation over seeds (divided by n - 1: the seeds stand for
    all seeds). With one seed it is the standard deviation over the devices of the run (divided by
    n). ``spread_over`` says which. ``measured`` of ``devices`` devices are in these means; both are
    None where an older record does not say.
    """
    means = [run["scores"]["mean"] for run in runs]
    several = len(runs) > 1
    server = [run["scores"]["global"] for run in runs if run["scores"]["global"] is not None]
    return {
        "runs": len(runs),
        "rounds": min(run["rounds"] for run in runs),
        "training": training_words(runs[0].get("training")),
        "metric": runs[0]["scores"]["metric"],
        "score": fmean(means),
        "further": _further(runs),
        "baselines": runs[0]["scores"].get("baselines", {}),
        "spread": stdev(means) if several else runs[0]["scores"]["std"],
        "spread_over": "seeds" if several else "devices",
        "devices": _counted(runs, "all"),
        "measured": _counted(runs, "measured"),
        "reference": fmean(run["scores"]["reference"] for run in runs),
        "server": fmean(server) if server else None,
        "delivered": sum(run["uploads"]["delivered"] for run in runs),
        "attempted": sum(run["uploads"]["attempted"] for run in runs),
        "bits_up": fmean(run["bits"]["up"] for run in runs),
        "bits_down": fmean(run["bits"]["down"] for run in runs),
        "communication": fmean(run["seconds"]["communication"] for run in runs),
        "computing": fmean(run["seconds"]["computing"] for run in runs),
        **_energy(runs),
        "near": _mean_of(run["scores"].get("near") for run in runs),
        "far": _mean_of(run["scores"].get("far") for run in runs),
        **_convergence(runs),
    }


def _further(runs: Sequence[Summary]) -> list[dict[str, Any]]:
    """The other metrics of the task: the mean over devices, then over seeds."""
    columns = zip(*(run["scores"].get("further", ()) for run in runs), strict=True)
    return [
        {"metric": own[0]["metric"], "score": fmean(one["mean"] for one in own)} for own in columns
    ]


def spread_words(rows: Sequence[dict[str, Any]]) -> str:
    """What the number after ± is, for the rows of a table."""
    over = {row["spread_over"] for row in rows}
    if over == {"seeds"}:
        counts = sorted({row["runs"] for row in rows})
        return f"sample std over {counts[0]} seeds" if len(counts) == 1 else "sample std over seeds"
    devices = f"std over {'all' if _all_measured(rows) else 'the measured'} devices of the run"
    if over == {"devices"}:
        return devices
    return f"sample std over seeds, or with one seed {devices}"


def _energy(runs: Sequence[Summary]) -> dict[str, float | None]:
    """Joules of a device in a round, and rounds until its battery is empty."""
    known = [run for run in runs if "joules" in run]
    return {
        "joules": _mean_of(run["joules"]["device_round"]["mean"] for run in known),
        "battery_rounds": _mean_of(run["battery_rounds"]["mean"] for run in known),
    }


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _all_measured(rows: Sequence[dict[str, Any]]) -> bool:
    return all(row["measured"] == row["devices"] for row in rows)


def _counted(runs: Sequence[Summary], which: str) -> int | None:
    counts = [run["devices"][which] for run in runs if "devices" in run]
    return min(counts, default=None)


def _convergence(runs: Sequence[Summary]) -> dict[str, Any]:
    """Means over the runs in which the stopping rule fired, and the median round."""
    fired = [run for run in runs if run["converged_round"] is not None]
    seconds = [sum(run["seconds_to_converge"].values()) for run in fired]
    return {
        "converged_runs": len(fired),
        "converged_round": median(run["converged_round"] for run in fired) if fired else None,
        "converged_seconds": fmean(seconds) if fired else None,
    }
