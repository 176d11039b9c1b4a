"""Every target of the Makefile stands once, and is one whatever files there are."""

import re
from collections import Counter

from places import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z-]+):.*## ", MAKEFILE, flags=re.MULTILINE)


def test_every_target_stands_once() -> None:
    assert [name for name, count in Counter(TARGETS).items() if count > 1] == []


def test_every_target_is_phony() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert sorted(set(TARGETS) - set(phony.split())) == []
