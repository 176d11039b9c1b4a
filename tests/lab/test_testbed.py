"""Real shaped links; needs root and iproute2, and says so where they are missing."""

from pathlib import Path

import pytest

from deploy.lab import deployed_grid
from mix2fld.base.errors import InputError
from mix2fld.runs.loop import Watcher
from mix2fld_lab import testbed
from mix2fld_lab.testbed_page import render
from toys import toy_dataset

pytestmark = pytest.mark.long


def test_the_bucket_of_a_wire_holds_a_packet_and_few_more() -> None:
    assert [testbed.burst_bytes(rate) for rate in (25e3, 16e6, 1e8)] == [1600, 2000, 4096]


def test_a_shaped_uplink_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        testbed.check_possible()
    except InputError as missing:
        pytest.skip(str(missing))
    monkeypatch.setattr(testbed, "IDLE_SECONDS", 10.0)
    config = deployed_grid(tmp_path, protocols=("fl", "fd"), devices=2, rounds=1)
    rates = testbed.Rates(up=200e3, down=4e6)
    record = testbed.measure(config, rates, tmp_path / "bed", toy_dataset(), Watcher())
    upload = record["protocols"]["fl"]["transfers"]["upload"]
    assert upload["count"] == 2
    assert upload["wire_bytes"] > upload["payload_bytes"]
    burst = 8 * testbed.burst_bytes(rates.up)
    assert upload["measured_s"] > (8 * upload["wire_bytes"] - burst) / rates.up * 0.95
    assert upload["measured_s"] > upload["predicted_s"] - burst / rates.up
    outputs = record["protocols"]["fd"]["transfers"]["upload"]
    assert outputs["wire_bytes"] < upload["wire_bytes"]
    assert 0 < record["idle_bytes_s"]["up"] < 20_000
    assert record["memory_mb"]["flwr-clientapp"] > 50
    page = render(record)
    assert "| FL | upload |" in page
    assert "`flower-supernode`" in page
