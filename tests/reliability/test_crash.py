"""Real runs, killed: the short form of ``make crash``."""

from reliability.crash import kill_runs

from mix2fld.protocols.table import PROTOCOLS


def test_killed_runs_end_with_the_same_bytes() -> None:
    found = kill_runs([tuple(PROTOCOLS)], kills_each=3, seed=3, rounds=3)
    assert found["kills"] == 3
    assert found["identical"] == len(PROTOCOLS)
