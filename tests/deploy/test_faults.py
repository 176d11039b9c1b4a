"""Faults with real processes: kills, late and double answers, strangers; ``make test-deploy``."""

import re
from pathlib import Path

import pytest

from deploy.lab import (
    DEPLOYED,
    HOSTILE,
    Lab,
    assert_same_as_engine,
    deployed_config,
    diary,
    rounds_of,
    wait_until,
)
from mix2fld.deploy.keys import make_certificates, make_device_key
from mix2fld.runs.folder import RunFolder

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory):
    """A federation of three devices that all behave."""
    folder = tmp_path_factory.mktemp("honest")
    with Lab(folder / "lab") as lab:
        lab.begin(deployed_config(folder, devices=3))
        yield lab


@pytest.mark.parametrize("name", DEPLOYED)
def test_every_protocol_has_the_numbers_of_the_engine(
    tmp_path: Path, honest: Lab, name: str
) -> None:
    config = deployed_config(honest.folder.parent, protocol=name, devices=3)
    path = honest.run_to_end(config)
    assert_same_as_engine(path, honest.folder, tmp_path)


def test_the_papers_network_has_the_numbers_of_the_engine(tmp_path: Path, honest: Lab) -> None:
    config = deployed_config(
        honest.folder.parent,
        protocol="mix2fld",
        devices=3,
        model="paper-cnn",
        learning_rate=0.01,
        seed_bits=32,
    )
    path = honest.run_to_end(config, out="paper")
    assert_same_as_engine(path, honest.folder, tmp_path / "engine")


def test_the_server_killed_goes_on_from_the_last_round(tmp_path: Path, honest: Lab) -> None:
    config = deployed_config(tmp_path, protocol="mixfld", devices=3, rounds=4)
    path = honest.start_run(config, out="killed")
    wait_until(lambda: len(rounds_of(path)) >= 1, "a first round")
    honest.kill_server_app()
    before = len(rounds_of(path))
    assert before < 4
    assert honest.run_to_end(config, out="killed") == path
    assert f"{before} of 4 rounds are done" in diary(path)
    assert_same_as_engine(path, honest.folder, tmp_path / "engine")


def test_the_superlink_killed_goes_on_from_the_last_round(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", devices=2, rounds=3)
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config)
        path = lab.start_run(config)
        wait_until(lambda: len(rounds_of(path)) >= 1, "a first round")
        lab.kill("superlink")
        before = len(rounds_of(path))
        lab.start_superlink()
        lab.run_to_end(config)
        assert f"{before} of 3 rounds are done" in diary(path)
        assert_same_as_engine(path, lab.folder, tmp_path / "engine")


def test_a_device_killed_mid_round_joins_again(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="mix2fld", devices=3, rounds=60)
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config, faults={1: "2:hang"})
        path = lab.start_run(config, timeout_s=150)
        wait_until(lab.mark(1).exists, "device 1 in the middle of round 2")
        lab.kill("device-1")
        wait_until(lambda: len(rounds_of(path)) >= 2, "the end of round 2")
        assert rounds_of(path)[1]["uploads"]["devices"] == [0, 2]
        wait_until(lambda: _started(lab, 1), "device 1 accepted again")
        wait_until(lambda: "device 1 was away and catches up" in diary(path), "catching up")
        wait_until(
            lambda: len(rounds_of(path)[-1]["uploads"]["devices"]) == 3, "a round with all three"
        )
        assert rounds_of(path)[-1]["seeds"]["devices"] == 3


def _started(lab: Lab, device: int) -> bool:
    """Start the node again until the SuperLink takes it: for a while it holds the key in use."""
    name = f"device-{device}"
    said = lab.log(name).count("SuperNode ID")
    lab.begin_node(device)
    wait_until(
        lambda: not lab.alive(name) or lab.log(name).count("SuperNode ID") > said, "an answer"
    )
    return lab.alive(name)


def test_late_answers_are_not_counted(tmp_path: Path) -> None:
    """Too late for its upload, in time for the download, as in the simulator."""
    config = deployed_config(tmp_path, protocol="fl", devices=2)
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config)
        lab.stop("device-1")
        lab.begin_node(1, "1:late", late_s=165)
        path = lab.run_to_end(config, timeout_s=150)
        assert "round 1: device 1 did not answer within 150 s" in diary(path)
        first, second = rounds_of(path)
        assert first["uploads"]["devices"] == [0]
        assert first["downloads"]["devices"] == [0, 1]
        assert second["uploads"]["devices"] == [0, 1]
        assert_same_as_engine(path, lab.folder, tmp_path / "engine")


def test_hostile_devices_are_refused(tmp_path: Path) -> None:
    """Two devices with another attack in each round; a third answers twice, and for an old round.

    Of its two answers to one order the first counts, which is the old round's.
    """
    faults = list(HOSTILE)
    half = len(faults) // 2
    attacks = {2: faults[:half], 3: faults[half:]}
    config = deployed_config(tmp_path, protocol="mix2fld", devices=5, rounds=half)
    told = {
        device: " ".join(f"{number}:{fault}" for number, fault in enumerate(some, 1))
        for device, some in attacks.items()
    }
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config, faults={**told, 4: "2:twice 3:old-round"})
        path = lab.run_to_end(config)
        said = diary(path)
        assert lab.mark(4).read_text() == "2"
        assert "Failed to store Message reply" in lab.log("superlink")  # its second answer
        assert "unpickled" not in lab.log("superlink")
        for number, info in enumerate(rounds_of(path), 1):
            assert info["uploads"]["devices"] == ([0, 1] if number in {2, 3} else [0, 1, 4])
            for device, some in attacks.items():
                words = HOSTILE[some[number - 1]].replace("round 0", f"round {number - 1}")
                assert re.search(rf"round {number}: device {device} refused: .*{words}", said)
        assert "round 2: device 4 refused: an answer for round 1" in said
        assert "round 3: device 4 refused: an answer for round 2" in said
        assert_same_as_engine(path, lab.folder, tmp_path / "engine")


def test_nobody_answers_for_another_device(tmp_path: Path) -> None:
    """Device 2 pushes forged and unreadable messages to the server while the others train."""
    config = deployed_config(tmp_path, protocols="fl", devices=3, rounds=3, local_steps=2000)
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config, faults={2: "0:speaks"})
        path = lab.run_to_end(config)
        said = diary(path)
        assert lab.mark(2).exists()
        assert "a message that answers no order is left out" in said
        assert "Traceback" not in lab.log("superlink")
        for info in rounds_of(path):
            assert info["uploads"]["devices"] == [0, 1, 2]
        assert not re.search(r"device \d (refused|failed|did not answer)", said)
        assert_same_as_engine(path, lab.folder, tmp_path / "engine")


def test_strangers_are_refused(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", devices=2)
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config)
        lab.stop("device-1")
        good = (lab.keys / "device-1.key").read_bytes()
        make_device_key(lab.keys, "device-1")  # in place of the registered one
        lab.begin_node(1)
        wait_until(lambda: not lab.alive("device-1"), "an unregistered key refused")
        assert "Failed to initialize the connection" in lab.log("device-1")

        (lab.keys / "device-1.key").write_bytes(good)
        authority = (lab.keys / "ca.crt").read_bytes()
        make_certificates(tmp_path / "other", ["127.0.0.1"])
        (lab.keys / "ca.crt").write_bytes((tmp_path / "other" / "ca.crt").read_bytes())
        lab.begin_node(1)
        wait_until(
            lambda: (
                "certificate verify failed" in lab.log("device-1").lower()
                or not lab.alive("device-1")
            ),
            "a wrong certificate refused",
        )
        assert lab.log("device-1").count("SuperNode ID") <= 1
        (lab.keys / "ca.crt").write_bytes(authority)


def test_finished_runs_are_there(honest: Lab) -> None:
    runs = [path for path in (honest.folder / "runs").iterdir() if path.is_dir()]
    assert all(RunFolder(path).finished() is not None for path in runs)
