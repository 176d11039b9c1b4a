"""The frontier's settings of other tasks: bold is what no protocol with as few bits reaches."""

import json
from pathlib import Path

from mix2fld_lab.reproduction.frontier.other_tasks import other_tasks

RMSE = {"name": "RMSE", "better": "lower", "unit": "", "factor": 1.0, "digits": 2}


def numbers(protocol: str, bits: int, values: list[float]) -> list[dict]:
    return [
        {
            "protocol": protocol,
            "seed": seed,
            "scores": {"metric": RMSE, "mean": value},
            "bits": {"up": 17 * bits},
        }
        for seed, value in enumerate(values)
    ]


def test_a_lower_error_is_better_and_more_bits_for_less_are_not_bold(tmp_path: Path) -> None:
    records = [
        *numbers("fl", 1000, [0.8, 0.9, 0.81]),
        *numbers("isolated", 0, [1.0, 1.1, 1.01]),
        *numbers("fd", 10, [1.2, 1.31, 1.21]),
    ]
    (tmp_path / "numbers").mkdir()
    lines = "".join(json.dumps(one) + "\n" for one in records)
    (tmp_path / "numbers" / "buildings.jsonl").write_text(lines)
    rows = [line for line in other_tasks(tmp_path).splitlines() if line.startswith("| ")][1:]
    assert rows == [
        "| 0 | isolated | 3 | **1.04** | - |",
        "| 10 | fd | 3 | 1.24 | worse |",
        "| 1,000 | fl | 3 | **0.84** | better |",
    ]


def test_without_records_there_is_no_table(tmp_path: Path) -> None:
    assert other_tasks(tmp_path) == ""
