"""Relays and coded steps over Flower's messages and MQTT in memory: as simulated, bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import assert_same_as_engine, deployed_config, rounds_of, run_in_process
from deploy.memory_line import run_in_memory

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
