"""Real runs, killed: the short form of ``make crash``."""

import pytest
from reliability.crash import kill_runs

from mix2fld.protocols.table import PROTOCOLS


@pytest.mark.parametrize(
    ("protocols", "kills"),
    [(("murmur-mix",), 1), pytest.param(tuple(PROTOCOLS), 3, marks=pytest.mark.long)],
)
def test_killed_runs_end_with_the_same_bytes(protocols: tuple[str, ...], kills: int) -> None:
    found = kill_runs([protocols], kills_each=kills, seed=3, rounds=3)
    assert found["kills"] == kills
    assert found["identical"] == len(protocols)
