"""Words of the field: turns of phrase and names that were replaced do not come back."""

import ast
import re
from pathlib import Path

import pytest

from places import ROOT

SENTENCES = (
    r"\bgoes? on with\b",
    r"\bis there already\b",
    r"\bunder way\b",
    r"\bof your own\b",
    r"\bdealt out\b",
    r"\bwho holds what\b",
    r"\bthin (wire|uplink|upward|link|radio)s?\b",
    r"\bunequal directions\b",
    r"\b(is|was|are) sent up\b",
    r"\bleast sent up\b",
    r"\bwho got through\b",
    r"\bflags win over\b",
    r"\bsay nothing but\b",
    r"\bplay(s|ed)? (a run|five|nothing)\b",
    r"\bno place could give\b",
    r"\bno device is there\b",
    r"\bnot (answer|connected|sent|there) any more\b",
    r"\bwhoever read the output\b",
    r"\bprogram's own\b",
    r"\binversely mixed-up\b",
    r"\bgo again\b",
    r"\beverything is switched off\b",
    r"\bwhere to find what\b",
    r"\bcounted from a cent",
    r"\bright on average\b",
    r"\bcodes know of\b",
    r"\bhad better go\b",
    r"\bdevices replace precision\b",
    r"\balike for all labels\b",
    r"\bcannot mend\b",
    r"\bchain of processing\b",
    r"\bhardly a trade\b",
    r"\bwho knows all other\b",
    r"\bbut for the models of servers\b",
    r"\bwhat came of\b",
    r"\bnobody wants to know\b",
    r"\bin small\b",
    r"\bwhoever\b",
    r"\bmade anew\b",
    r"\bwhat came (down|up)\b",
    r"\banybody\b",
    r"\bnobody was entered\b",
    r"\bhands? samples over\b",
    r"\bnot at hand\b",
)
NAMES = {
    *("go_on", "word_on_guessing", "say_on_stderr", "with_most_to_see", "upload_rooms", "Once"),
    *(
        "Own",
        "Underway",
        "Seen",
        "Turned",
        "on_the_way",
        "at_first",
        "forgotten_by",
        "ComesAndGoes",
    ),
    *("take_mean_weights", "take_closed_form", "take_apart", "put_together", "write_whole"),
    *("take_back_round", "sameness", "log_below", "WORTH_A_WORD", "FAR", "FEW", "NOTHING_JUDGED"),
    *("seed_judge", "say_nothing", "Part", "above", "room"),
}
FOLDERS = ("src", "examples", "benchmarks", "baselines", "device")
CODE = [page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.py"))]
PROSE = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "Makefile",
    ROOT / "device" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "results").glob("*.md")),
    *sorted((ROOT / "baselines").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
    *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.j2"))),
    *sorted((ROOT / "src").rglob("*.html")),
    *sorted((ROOT / "src").rglob("*.js")),
]


def found(patterns: tuple[str, ...], pages: list[Path], flags: int = 0) -> list[str]:
    """Where the patterns occur; a line break is a space."""
    expression = re.compile("|".join(pattern.replace(" ", r"\s+") for pattern in patterns), flags)
    return [
        f"{page.relative_to(ROOT)}: {match[0]!r}"
        for page in pages
        for match in expression.finditer(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("pages", [CODE, PROSE], ids=["code", "prose"])
def test_sentences_are_those_of_the_field(pages: list[Path]) -> None:
    assert not found(SENTENCES, pages, re.IGNORECASE)


def defined(page: Path) -> set[str]:
    """Classes, functions and constants of a module."""
    tree = ast.parse(page.read_text(encoding="utf-8"))
    names = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return names | {
        each.id for node in assigned for each in node.targets if isinstance(each, ast.Name)
    }


def test_names_are_those_of_the_field() -> None:
    assert not {page.name: names for page in CODE if (names := defined(page) & NAMES)}


def test_the_check_sees_what_it_looks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("The run goes on\nwith less.\n", encoding="utf-8")
    assert found(SENTENCES, [page], re.IGNORECASE) == ["page.md: 'goes on\\nwith'"]
    page.write_text("class Own: ...\nFEW = 1\n", encoding="utf-8")
    assert defined(page) & NAMES == {"Own", "FEW"}
