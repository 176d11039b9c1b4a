"""The documentation site: what it is generated from is complete."""

import importlib
import re
import sys
import tomllib

import pytest

from mix2fld.config.settings import PRESETS, field_names
from mix2fld.protocols.base import parameters_of
from mix2fld.protocols.table import PROTOCOLS
from places import ROOT

DOCS = ROOT / "docs"
WORDS = tomllib.loads((DOCS / "site" / "protocols.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def make_site() -> object:
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("make_site")
    finally:
        sys.path.remove(str(DOCS))


def test_every_protocol_has_words_and_no_words_are_left_over() -> None:
    assert WORDS.keys() == PROTOCOLS.keys()


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


def test_a_name_without_a_docstring_is_found(make_site: object) -> None:
    module = type(sys)("bare")
    exec("def said():\n    'x'\ndef silent(): pass\n", vars(module))
    for each in (module.said, module.silent):
        each.__module__ = "bare"
    assert make_site.undocumented(module) == ["bare.silent"]  # type: ignore[attr-defined]
