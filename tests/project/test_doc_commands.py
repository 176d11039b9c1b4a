"""Every command that a page shows exists, with its flags, presets and protocols."""

import re
import shlex
from pathlib import Path

import pytest

from mix2fld.cli.commands import COMMANDS, _kinds
from mix2fld.cli.suggestions import check_flags, check_subcommand, split_commas
from mix2fld.config.settings import PRESETS
from mix2fld.protocols.table import PROTOCOLS
from places import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    ROOT / "baselines" / "flower" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


NAMED = {"--preset": PRESETS, "--protocols": PROTOCOLS, "--protocol": PROTOCOLS}


def commands_of(text: str) -> list[str]:
    """Lines of code blocks and spans that start with mix2fld, with their continuations."""
    joined = re.sub(r"\\\n\s*", "", text)
    blocks = re.findall(r"```[^\n]*\n(.*?)```", joined, re.DOTALL)
    lines = [line.strip().lstrip("!") for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`(mix2fld [^`]+)`", re.sub(r"```.*?```", "", joined, flags=re.DOTALL))
    return [line for line in (*lines, *spans) if line.startswith("mix2fld ")]


def check(line: str) -> None:
    """Raise for a command, subcommand, flag, preset or protocol that does not exist."""
    words = split_commas(
        shlex.split(line.split(" > ", maxsplit=1)[0].split(" | ", maxsplit=1)[0], comments=True)
    )[1:]
    if words[0] in ("--version", "--help"):
        return
    assert words[0] in COMMANDS, line
    kinds, given = _kinds(words[0]), words[1:]
    if "" not in kinds:
        check_subcommand(words[0], given, kinds)
    chosen = kinds.get("") or kinds.get(given[0] if given else "")
    if chosen is not None:
        known = [word for word in given if word != "--protocol" and not word.startswith("--range")]
        check_flags(known, chosen)
    for flag, names in (
        ("--preset", PRESETS),
        ("--protocols", PROTOCOLS),
        ("--protocol", PROTOCOLS),
    ):
        if flag in words:
            rest = words[words.index(flag) + 1 :]
            end = next((n for n, word in enumerate(rest) if word.startswith("-")), len(rest))
            for word in rest[:end]:
                assert word in names or not re.fullmatch(r"[a-z0-9-]+", word), (line, word)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist(page: Path) -> None:
    for line in commands_of(page.read_text(encoding="utf-8")):
        check(line)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(Exception, match="no such option"):
        check("mix2fld run --learning-rat 1")
    with pytest.raises(Exception, match="no such subcommand"):
        check("mix2fld data shwo")
    assert commands_of("`mix2fld link`\n```\nmix2fld run \\\n  --rounds 3\n```") == [
        "mix2fld run --rounds 3",
        "mix2fld link",
    ]
