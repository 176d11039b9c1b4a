"""Runs that the report is made of."""

from pathlib import Path

import pytest

from stored_runs import play


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four protocols with two seeds each, some of their uploads lost."""
    folder = tmp_path_factory.mktemp("runs")
    play(folder, protocols=("isolated", "fl", "fd", "mix2fld"), seed=(0, 1))
    return folder / "runs"
