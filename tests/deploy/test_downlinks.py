"""Relays and coded steps over Flower's messages and MQTT in memory: as simulated, bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import (
    assert_same_as_engine,
    deployed_config,
    diary,
    rounds_of,
    run_in_process,
)
from deploy.memory_line import run_in_memory
from mix2fld.protocols import downlink

RUNS: dict[str, dict[str, Any]] = {
    "murmur, coded": {"protocol": "murmur", "downlink": "coded", "downlink_step_bits": 100},
    "murmur, 2 a round": {"protocol": "murmur", "participants": 2, "rounds": 5},
    "murmur, 2 a round listen": {
        "protocol": "murmur", "participants": 2, "rounds": 5, "listeners": "participants",
    },
    "mix2fld, coded": {"protocol": "mix2fld", "downlink": "coded"},
    "sign, coded": {"protocol": "sign", "downlink": "coded"},
    "eden, relay": {"protocol": "eden", "downlink": "relay"},
    "fld, coded, 2 a round": {
        "protocol": "fld", "downlink": "coded", "participants": 2, "rounds": 4,
    },
    "cfd, coded": {"protocol": "cfd", "downlink": "coded"},
}  # fmt: skip


@pytest.mark.parametrize("way", [run_in_memory, run_in_process])
@pytest.mark.parametrize("name", RUNS)
def test_a_deployment_takes_the_same_steps(tmp_path: Path, name: str, way: Callable) -> None:
    path = way(tmp_path, deployed_config(tmp_path, **RUNS[name]))
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
    assert any(info["bits"]["down"] for info in rounds_of(path))


@pytest.mark.parametrize("way", [run_in_memory, run_in_process])
def test_the_diary_says_once_that_a_device_was_away_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable
) -> None:
    monkeypatch.setattr(downlink, "MOST_STEPS", 1)
    config = deployed_config(
        tmp_path, protocol="murmur", participants=1, rounds=6, listeners="participants"
    )
    path = way(tmp_path, config)
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
    assert sum("beyond_history" in info["downloads"] for info in rounds_of(path)) > 1
    assert diary(path).count("lack more steps than the server keeps") == 1
