"""The device's program in an arm64 root file system under QEMU: a short round with a real broker.

The kernel comes from a wheel that is cross-compiled here; there is no compiler in that system.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from reliability.wheels import CROSS, ArmSystem, arm_system, build_wheel, missing_for_arm

from deploy.lab import deployed_config, rounds_of
from deploy.memory_line import run_in_memory
from deploy.mqtt_lab import MOSQUITTO, fleet_of, serve
from mix2fld.base.trees import flatten
from mix2fld.config.settings import Config
from mix2fld.deploy.edge.learning import small_learning
from mix2fld.deploy.edge.store import Store
from mix2fld_lab.trials.mqtt import MqttFleet
from mix2fld_lab.trials.processes import HOST
from toys import toy_dataset

LACKING = missing_for_arm() or ("" if MOSQUITTO else "mosquitto")
if os.environ.get("MIX2FLD_NEEDS_QEMU") and LACKING:
    raise RuntimeError(f"an ARM system needs {LACKING}")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(LACKING), reason=f"needs {LACKING} (make test-arm)"),
]
STEPS = 40


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArmSystem]:
    folder = tmp_path_factory.mktemp("arm")
    wheel = build_wheel("mix2fld_device", "aarch64", [CROSS], folder, shapes="8x1:4")
    with arm_system(folder / "arm64", wheel) as made:
        yield made


def config_in(folder: Path) -> Config:
    fields = {"model": "paper-cnn", "kernel": "native", "local_steps": STEPS, "batch_size": 2}
    data = toy_dataset()
    return deployed_config(folder, data, protocol="fl", devices=2, rounds=2, **fields)


def start_on(system: ArmSystem, fleet: MqttFleet, device: int) -> None:
    """Start a device as its machine would; its files are in that machine's root."""
    data = fleet.files[device]
    words = [
        "-m",
        "mix2fld.deploy.edge",
        "--device",
        str(device),
        "--broker",
        f"{HOST}:{fleet.port}",
    ]
    words += ["--keys", system.inside(fleet.keys), "--data", system.inside(data)]
    words += ["--state", system.inside(data.parent / "state")]
    fleet.start(f"device-{device}", system.command(*words))


def weights_after(folder: Path, run: str, device: int) -> list[np.ndarray]:
    own = Store(folder / f"device-{device}" / "state", run, device).up_to(2)
    assert own is not None
    return list(flatten(own.state, "state")[1].values())


def test_an_arm_takes_part_in_a_run(system: ArmSystem, tmp_path: Path) -> None:
    """Device 0 is a process here, device 1 one of the emulated machine."""
    folder = system.root / "srv"
    folder.mkdir()
    config = config_in(folder)
    with fleet_of(folder, config) as fleet:
        fleet.start_device(0)
        start_on(system, fleet, 1)
        path = serve(fleet, config, timeout_s=240)
    infos = rounds_of(path)
    assert [info["uploads"]["devices"] for info in infos] == [[0, 1], [0, 1]]
    beside = run_in_memory(
        tmp_path, config_in(tmp_path), make_learning=small_learning, timeout_s=120
    )
    theirs = rounds_of(beside)
    for mine, other in zip(infos, theirs, strict=True):
        assert mine["scores"]["devices"] == pytest.approx(other["scores"]["devices"], abs=0.02)
    runs = [next(one.glob("device-1/state/*")).name for one in (folder, tmp_path)]
    pairs = zip(*map(weights_after, (folder, tmp_path), runs, (1, 1)), strict=True)
    for mine, other in pairs:
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=4 * STEPS * 2.0**-24)
