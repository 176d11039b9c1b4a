"""The documentation site: what it is generated from is complete."""

import ast
import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest

from mix2fld.config.settings import PRESETS, field_names
from mix2fld.protocols.base import parameters_of
from mix2fld.protocols.table import PROTOCOLS
from places import ROOT

DOCS = ROOT / "docs"
WORDS = {
    name: words
    for page in (ROOT / "src" / "mix2fld" / "protocols").glob("*.toml")
    for name, words in tomllib.loads(page.read_text(encoding="utf-8")).items()
}


@pytest.fixture(scope="module")
def make_site() -> object:
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("make_site")
    finally:
        sys.path.remove(str(DOCS))


def test_every_protocol_has_words_beside_its_code_and_no_words_are_left_over() -> None:
    assert WORDS.keys() == PROTOCOLS.keys()
    for name, row in PROTOCOLS.items():
        family = Path(inspect.getfile(type(row)))
        assert name in tomllib.loads(family.with_suffix(".toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_page_of_a_protocol(name: str, make_site: object) -> None:
    page = make_site.protocol_page(name, PROTOCOLS[name], WORDS[name], ())  # type: ignore[attr-defined]
    assert page.startswith(f"# {PROTOCOLS[name].title}\n")
    assert page.count("<svg") == page.count("</svg>") == 2
    assert WORDS[name]["where"] in page
    assert f'"{PROTOCOLS[name].title}"' in page.split("```python")[1]
    assert all(f"`{parameter}`" in page for parameter in parameters_of(PROTOCOLS[name]))


def test_the_page_of_settings_has_every_setting_and_preset(make_site: object) -> None:
    page = make_site.settings_page()  # type: ignore[attr-defined]
    for name in (*field_names(), *PRESETS):
        assert f"| `{name}` |" in page, name
    assert "| `max_slots` | 105 |" in page


def test_every_page_of_the_index_exists() -> None:
    index = (DOCS / "site" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(?:.* <)?((?:docs|results|baselines)/[^>\s]+)>?$", index, re.MULTILINE)
    assert len(listed) > 30
    for page in listed:
        assert (DOCS.parent / f"{page}.md").exists(), page


def test_what_the_pages_of_the_site_link_to_is_in_it(make_site: object, tmp_path: Path) -> None:
    make_site.copy_pages(tmp_path)  # type: ignore[attr-defined]
    for page in tmp_path.rglob("*.md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not re.match(r"[a-z]+:", link):
                assert (page.parent / link).exists(), f"{page.relative_to(tmp_path)}: {link}"


def test_every_page_is_in_a_table_of_contents(make_site: object, tmp_path: Path) -> None:
    make_site.copy_pages(tmp_path)  # type: ignore[attr-defined]
    make_site.write_gallery(tmp_path)  # type: ignore[attr-defined]
    pages = set(tmp_path.rglob("*.md"))
    listed = {tmp_path / "index.md"}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for contents in re.findall(r"^```{toctree}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for line in filter(None, contents.splitlines()):
                name = re.sub(r"^.* <(.*)>$", r"\1", line)
                listed |= set(page.parent.glob(f"{name}.md"))
    assert not {str(page.relative_to(tmp_path)) for page in pages - listed}


def test_no_docstring_has_a_link_by_chance() -> None:
    """A word that ends in an underscore is a link, unless it is code."""
    found = []
    for path in (ROOT / "src" / "mix2fld").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            value = node.value if isinstance(node, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                text = re.sub(r"``.*?``", "", value.value, flags=re.DOTALL)
                words = re.findall(r"\b\w*[a-z0-9]_(?!\w)", text)
                found += [(path.name, word) for word in words]
    assert not found


def test_the_reference_has_the_public_names_and_no_others(make_site: object) -> None:
    for module in make_site.PUBLIC:  # type: ignore[attr-defined]
        page = make_site.reference_of(module)  # type: ignore[attr-defined]
        names = importlib.import_module(module).__all__
        shown = re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", page, re.MULTILINE)
        assert shown == [f"{module}.{name}" for name in names]


def test_a_name_without_a_docstring_stops_the_build(
    make_site: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = type(sys)("bare")
    exec("__all__ = ['silent']\ndef silent(): pass\n", vars(module))
    module.silent.__module__ = "bare"
    monkeypatch.setitem(sys.modules, "bare", module)
    with pytest.raises(SystemExit, match="bare: public names without a docstring: silent"):
        make_site.reference_of("bare")  # type: ignore[attr-defined]
