"""What a relay costs the small device is measured where it is decoded: in a process of its own."""

import sys
from pathlib import Path

import pytest
from benchmarks import relay_cost

from mix2fld.codecs import rotation
from toys import toy_dataset

needs_kernel = pytest.mark.skipif(
    rotation.usable_kernel() is None or not sys.platform.startswith("linux"),
    reason="no compiler for the kernel here, or no /proc",
)


@needs_kernel
@pytest.mark.parametrize("path", relay_cost.PATHS)
def test_a_relay_is_decoded_by_the_small_device(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(relay_cost.__file__).parents[1]))
    file, config = tmp_path / "relay.npz", relay_cost.config_of(4, samples_per_device=10)
    relay_cost.write_relay(file, config, toy_dataset())
    found = relay_cost.probed(file, path)
    assert (found["version"], found["heavy"]) == (2, [])
    assert 4 * relay_cost.BITS / 8 < found["bytes"] < 200
    assert found["peak_kb"] >= found["before_kb"]
