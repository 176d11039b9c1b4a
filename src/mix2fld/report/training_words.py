"""How the devices of a run trained, in a few words for tables."""

from collections.abc import Mapping
from typing import Any


def training_words(training: Mapping[str, Any] | None) -> str:
    """Step sizes, and whatever differs from plain steps; nothing where an old record is silent."""
    if training is None:
        return ""
    first, last = training["learning_rate"], training["final_learning_rate"]
    words = [f"η {first:.3g}" if first == last else f"η {first:.3g} → {last:.3g}"]
    if training["logit_adjustment"]:
        words.append(f"τ {training['logit_adjustment']:g}")
    if training["device_model"] == "mean":
        words.append("mean model")
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
