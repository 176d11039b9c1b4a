"""The samples at the server, for rows of the protocol table that are not the package's own."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mix2fld.protocols.base import Protocol
from mix2fld.protocols.seed_samples import inversely_mixed, mixed_samples
from mix2fld.protocols.table import PROTOCOLS
from mix2fld.runs.reader import LoadedRun, read_run
from mix2fld_lab.gallery import gallery


def with_seeds(**changes: Any) -> Protocol:
    """Mix2FLD with other functions for its seeds."""
    row = PROTOCOLS["mix2fld"]
    assert row.seeds is not None
    return replace(row, seeds=replace(row.seeds, **changes))


@pytest.fixture
def run(runs: Path) -> LoadedRun:
    found = read_run(runs / "mix2fld-s0")
    assert found is not None
    return found


def test_a_wrapped_function_keeps_its_behaviour(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = gallery(run)
    monkeypatch.setitem(PROTOCOLS, "mix2fld", with_seeds(collect=partial(mixed_samples)))
    assert gallery(run) == before
    wrapped = with_seeds(prepare=partial(inversely_mixed))
    monkeypatch.setitem(PROTOCOLS, "mix2fld", wrapped)
    assert gallery(run) == before


def test_mixes_drawn_in_another_way_are_shown_without_sources(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Privacy needs the raw samples; those of another draw would be the wrong ones."""

    def reversed_mixes(rng, images, labels, config):
        return mixed_samples(rng, images[::-1], labels[::-1], config)

    monkeypatch.setitem(PROTOCOLS, "mix2fld", with_seeds(collect=reversed_mixes))
    shown = gallery(run)
    assert shown is not None
    assert shown["kind"] in ("inverse", "waiting")
    assert shown["privacy"] == {}
    for card in shown["cards"]:
        assert all(not mix["raw"] and "privacy" not in mix["mixed"] for mix in card["mixes"])
        assert all("privacy" not in tile for tile in card["made"])


@pytest.mark.parametrize(("protocol", "kind"), [("fld", "raw"), ("mixfld", "mixed")])
def test_other_kinds_of_seeds(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch, protocol: str, kind: str
) -> None:
    """The record of one protocol, taken for another's: what devices draw follows the row."""
    monkeypatch.setattr("mix2fld.report.dataset._as_recorded", lambda *_: True)
    shown = gallery(replace(run, config=run.config.replace(protocol=protocol)))
    assert shown is not None
    assert shown["kind"] == kind
    assert len(shown["cards"]) == shown["devices"]
    first = shown["cards"][0]["mixes"][0]
    assert len(first["mixed"]["labels"]) == (1 if kind == "raw" else 2)
    assert (first["mixed"]["privacy"] is None) == (kind == "raw")
