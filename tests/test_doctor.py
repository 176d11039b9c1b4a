"""``mix2fld doctor``: what is here, what is missing, what that costs."""

import json

import pytest

from mix2fld.cli import doctor, main
from mix2fld.cli.doctor import CHECKS, Finding


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
    broken = Finding("JAX", "cannot be used", fine=False, cost="no run can train")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: broken,))
    with pytest.raises(SystemExit) as stopped:
        main(["doctor"])
    assert stopped.value.code == 1
    assert "no run can train" in capsys.readouterr().out


def test_without_a_compiler_it_says_what_that_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mix2fld.models.native.small_cnn", lambda *_: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    finding = doctor._kernel()
    assert (finding.found, finding.fine) == ("none", False)
    assert "slower" in finding.cost
