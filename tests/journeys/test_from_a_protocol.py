"""The first hour with an own protocol: by name everywhere, and its place on the frontier."""

import shutil
from pathlib import Path

import pytest

from mix2fld.cli import main
from mix2fld_lab.reproduction.frontier import contenders
from places import ROOT

pytestmark = pytest.mark.long
SOURCE = """
from dataclasses import dataclass, replace
from mix2fld.extend import FL, parameter

@dataclass(frozen=True, kw_only=True)
class Slow(FL):
    title: str = "slow FL"
    pace: float = parameter(0.5)
    server_words = "The server moves part of the way to the mean of the weights that arrived."

    def step(self, server, inbox, round_number):
        mean, info = super().step(server, inbox, round_number)
        if server.weights is None or not inbox:
            return mean, info
        both = zip(server.weights, mean.weights, strict=True)
        return replace(mean, weights=tuple(a + self.pace * (b - a) for a, b in both)), info
"""


def test_from_a_protocol_to_its_place_on_the_frontier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(contenders, "CUSTOM", [])
    Path("slow_journey.py").write_text(SOURCE)

    # Beside others, with and without its parameter.
    short = ["--local-steps", "200", "--rounds", "2", "--test-samples", "500", "--out", "runs/own"]
    main(["run", "--protocols", "slow_journey:Slow", "slow_journey:Slow:pace=0.9", "fl", *short])
    said = capsys.readouterr().out
    assert "slow FL (pace 0.9)" in said
    assert "trained with η 0.01" in said

    # Its search and its runs, beside the records of all others.
    shutil.copytree(ROOT / "results", "results")
    main(["reproduce", "frontier-smartwatch", "--contender", "slow_journey:Slow",
          "--results", "results", "--extend"])  # fmt: skip
    page = Path("results/FRONTIER.md").read_text()
    assert "\n| slow FL | " in page
