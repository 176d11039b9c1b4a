"""Nothing outside of tasks is about labels or accuracy, unless it is about classification."""

import ast
from pathlib import Path

import mix2fld

ROOT = Path(mix2fld.__file__).parent
ABOUT_LABELS = {
    "num_labels": {
        "tasks", "data", "dataset.py", "types.py", "models",
        "codecs/seed_samples.py",
        "codecs/split_update.py", "codecs/statistics.py",
        "protocols/labels.py", "protocols/private.py",
        "protocols/seed_samples.py", "protocols/seed_screening.py",
        "engine/attackers.py", "engine/attacks.py", "engine/fleets/false_labels.py",
        "cli/data.py", "runs/trained.py",
    },
    "accuracy": {
        "tasks", "sweep/search.py", "cli/sweep.py", "cli/predict.py", "runs/old_formats.py",
    },
    "accuracies": {"runs/old_formats.py"},
}  # fmt: skip
"""Where a word may be an identifier, an argument or a key: labels themselves, and old records.

``Dimensions.num_labels`` is N_L of the paper: labels, or other groups of samples.
"""


def words_in(file: Path) -> set[str]:
    """Identifiers and strings that are one word; sentences and docstrings are not code."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        for name in ("id", "attr", "arg", "name", "value"):
            value = getattr(node, name, None)
            if isinstance(value, str):
                found.add(value)
    return found


def test_labels_and_accuracy_are_named_where_labels_are_meant() -> None:
    files = {file.relative_to(ROOT).as_posix(): words_in(file) for file in ROOT.rglob("*.py")}
    assert any("num_labels" in words for words in files.values())
    for word, allowed in ABOUT_LABELS.items():
        named = {name for name, words in files.items() if word in words}
        homes = {name for name in named if name in allowed or name.split("/")[0] in allowed}
        assert named == homes, f"{word}: {sorted(named - homes)}"


def test_the_list_is_not_longer_than_it_must_be() -> None:
    for word, allowed in ABOUT_LABELS.items():
        for place in allowed:
            files = [ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py")
            assert any(word in words_in(file) for file in files), f"{place} says no {word}"
