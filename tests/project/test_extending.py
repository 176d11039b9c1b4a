"""The skeletons of ``docs/howto/extending.md`` run as they stand."""

import re

import pytest

from mix2fld.data import PARTITIONS
from mix2fld.links import LINKS
from mix2fld.protocols.table import PROTOCOLS
from places import ROOT

PAGE = (ROOT / "docs" / "howto" / "extending.md").read_text()
COMMON, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
SKELETONS = {section.splitlines()[0]: section for section in SECTIONS}


def code_of(text: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def test_every_kind_of_extension_has_a_skeleton() -> None:
    kinds = ["A protocol", "A payload", "A channel", "A partition", "A model"]
    kinds += ["A task", "A fleet"]
    assert list(SKELETONS) == kinds
    assert all(code_of(text) for text in SKELETONS.values())


@pytest.mark.parametrize("kind", SKELETONS)
def test_the_skeleton_runs(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registries = (PROTOCOLS, LINKS, PARTITIONS)
    before = [dict(registry) for registry in registries]
    monkeypatch.setattr("sys.argv", ["skeleton"])
    try:
        exec(compile(code_of(COMMON + SKELETONS[kind]), kind, "exec"), {"__name__": "skeleton"})
    finally:
        for registry, kept in zip(registries, before, strict=True):
            registry.clear()
            registry.update(kept)
    printed = capsys.readouterr().out
    assert printed.strip()
    if kind == "A payload":
        assert int(printed) == 2 * 4 * 16 * (64 * 128 + 128 + 128 * 4 + 4)
    if kind == "A task":
        assert printed.startswith("fl-s0: mean error 0.")
        assert printed.endswith(" lm\n")
    if kind == "A channel":
        assert printed.strip() == "[[0, 2], [0, 2]]"
    if kind == "A fleet":
        assert printed.splitlines()[1] == "2 [1, 3] [1, 3]"
