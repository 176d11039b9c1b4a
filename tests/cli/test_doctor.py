"""``mix2fld doctor``: what is here, what is missing, what that costs."""

import inspect
import json
import re
import tomllib

import pytest

from mix2fld.cli import doctor, main
from mix2fld.cli.doctor import CHECKS, Diagnosis
from places import ROOT


def test_every_finding_is_listed_and_a_missing_extra_is_no_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = doctor._extra("Nothing", "no-such-package", "nothing", "nothing works")
    monkeypatch.setattr(doctor, "CHECKS", (*CHECKS, missing))
    main(["doctor", "--json"])
    shown = capsys.readouterr()
    found = {finding["name"]: finding for finding in json.loads(shown.out)}
    assert found["mix2fld"]["fine"]
    assert found["JAX"]["fine"]
    assert not found["Nothing"]["fine"]
    assert "pip install 'mix2fld[nothing]'" in shown.err


def test_without_what_a_run_needs_it_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Diagnosis("JAX", "cannot be used", fine=False, cost="no run can train")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: broken,))
    with pytest.raises(SystemExit) as stopped:
        main(["doctor"])
    assert stopped.value.code == 1
    assert "no run can train" in capsys.readouterr().out


def test_without_a_compiler_it_says_what_that_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mix2fld.native.small_cnn", lambda *_: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    finding = doctor._kernel()
    assert (finding.found, finding.fine) == ("none", False)
    assert "slower" in finding.cost


def test_what_an_extra_brings_is_looked_for_by_the_name_that_the_extra_has() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = re.findall(r'_extra\("[^"]+", "([^"]+)", "([^"]+)"', inspect.getsource(doctor))
    assert asked
    for package, extra in asked:
        assert any(re.match(rf"{package}\b", each) for each in extras[extra]), (package, extra)
