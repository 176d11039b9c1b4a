"""The MQTT fleet without a broker: every protocol has the numbers of the simulator."""

from pathlib import Path

import pytest

from deploy.lab import assert_same_as_engine, deployed_config
from deploy.memory_line import run_in_memory
from mix2fld.protocol import PROTOCOLS


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_has_the_numbers_of_the_engine(tmp_path: Path, name: str) -> None:
    path = run_in_memory(tmp_path, deployed_config(tmp_path, protocols=name))
    assert_same_as_engine(path, tmp_path, tmp_path / "engine")
