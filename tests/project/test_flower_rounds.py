"""The table of Flower's rounds in docs/operations.md is that of its record."""

import json

from benchmarks.flower_rounds import COMMAND, PAGE, RECORD, table


def test_the_page_shows_the_record_and_its_command() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert table(json.loads(RECORD.read_text(encoding="utf-8"))) in page
    assert f"`{COMMAND}`" in page


def test_the_last_round_stands_by_itself() -> None:
    run = {"proxy": True, "busy_before": 7, "load_before": 1.5, "rounds": [9.0, 2.0, 3.0, 2.5, 5.0]}
    shown = table([{**run, "computing": [1.0, 0.1, 0.2, 0.1, 0.1]}])
    assert "| proxy | 7 % | 1.5 | 9.0 s | 2.0 to 3.0 s | 5.0 s | 0.2 s |" in shown
