"""The comparison of servers that wait with those that do not: the same record when it resumes."""

import json
from pathlib import Path

import pytest

from mix2fld.runs.loop import Watcher
from mix2fld_lab.reproduction import waiting


class StopError(Exception):
    """In the middle."""


class StopsAfter(Watcher):
    """Stops when so many rounds are done."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def round_done(self, config, info) -> None:
        self.left -= 1
        if not self.left:
            raise StopError


@pytest.mark.long
def test_the_comparison_resumes_and_its_page_names_every_server(tmp_path: Path) -> None:
    records, whole = tmp_path / "records" / "waiting.json", tmp_path / "whole.json"
    with pytest.raises(StopError):
        waiting.measure(tmp_path / "runs", records, [0], quick=True, watcher=StopsAfter(9))
    waiting.measure(tmp_path / "runs", records, [0], quick=True, watcher=Watcher())
    waiting.measure(tmp_path / "again", whole, [0], quick=True, watcher=Watcher())
    assert records.read_bytes() == whole.read_bytes()
    found = waiting.load(records)
    assert len(found["runs"]) == 2 * len(waiting.SERVERS) * len(waiting.PROTOCOLS)
    page = waiting.render(found)
    for server in waiting.SERVERS:
        assert server.title in page
    waiting.draw(found, tmp_path / "waiting.png")
    assert (tmp_path / "waiting.png").stat().st_size > 10_000


def test_what_is_reached_first_follows_from_the_records() -> None:
    def run(server: str, *points: list[float]) -> dict[str, object]:
        shared = {"seed": 0, "rounds": 2, "uploads": 4, "used": 4, "idle": 0.5, "staleness": 0.0}
        return {"protocol": "fl8", "server": server, "points": [*points], "download": 1, **shared}

    runs = [
        run("quorum:1", [60.0, 1.0, 0.5], [120.0, 2.0, 0.8]),
        run("buffered:10", [30.0, 3.0, 0.77], [60.0, 6.0, 0.9]),
        run("asynchronous:0.6", [600.0, 9.0, 0.75]),
    ]
    found = waiting.fastest({"runs": json.loads(json.dumps(runs))})
    assert found[1]["order"] == "buffered, 10 0.5 min, waits 2.0 min"
    assert found[1]["never"] == "asynchronous"
