"""Real SuperLink and SuperNode processes on loopback, in short: what ``make test`` runs."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.lab import (
    PATIENCE,
    Lab,
    assert_same_as_engine,
    deployed_config,
    diary,
    rounds_of,
    wait_until,
)
from mix2fld.base.errors import InputError
from mix2fld.runs.simulation import run
from mix2fld_lab.trials.trial import write_device_files
from toys import toy_dataset


def test_three_devices_one_of_them_hostile(tmp_path: Path) -> None:
    """The round goes on without the hostile one, with the simulator's numbers bit for bit."""
    config = deployed_config(tmp_path, protocol="mix2fld", devices=3)
    with Lab(tmp_path / "lab") as lab:
        lab.begin(config, faults={1: "1:nan"})
        path = lab.run_to_end(config)
        assert "round 1: device 1 refused: outputs: a value is not finite" in diary(path)
        assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [2, 3]
        assert_same_as_engine(path, lab.folder, tmp_path / "engine")
        assert "unpickled" not in lab.log("superlink")


@pytest.mark.long
def test_deploy_local_leaves_nothing_behind_and_goes_on(tmp_path: Path) -> None:
    """Ctrl-C ends everything; the same command goes on, and has the simulator's numbers."""
    config = deployed_config(tmp_path, protocol="fd", devices=2, kernel="auto")
    out = tmp_path / "out"
    flags = {
        "--dataset": config.data.dataset,
        "--protocol": "fd",
        "--devices": 2,
        "--rounds": 2,
        "--samples-per-device": 40,
        "--partition": "iid",
        "--model": "mlp",
        "--learning-rate": 0.1,
        "--local-steps": 30,
        "--curve-points": 3,
        "--out": out,
        "--timeout-s": PATIENCE,
    }
    words = [str(word) for pair in flags.items() for word in pair]
    command = [sys.executable, "-m", "mix2fld", "deploy", "local", *words]
    before, refused = set(tmp_path.iterdir()), set[str]()
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    path = out / config.run_name
    wait_until((path / "identity").exists, "a claim of the folder")
    with pytest.raises(InputError, match="holds a run of a deployment"):
        run(config, out, dataset=toy_dataset())
    wait_until(lambda: rounds_of(path) or first.poll() is not None, "a first round")
    for log in (out / "flower" / "s0" / "logs").glob("*.log"):
        for port in re.findall(r"--port (\d+)", log.read_text().partition("\n")[0]):
            with pytest.raises(ConnectionRefusedError):  # by the SuperLink, and by each node
                socket.create_connection(("127.0.0.1", int(port)), timeout=5)
            refused.add(log.stem)
    assert refused == {"superlink", "device-0", "device-1"}
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=PATIENCE)[0].decode()
    assert first.returncode == 130, said
    assert "the same command resumes" in said
    assert processes_of(out) == []
    assert not list(out.rglob("*.key"))

    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "1 of 2 rounds already done" in second.stdout
    assert "After 2 rounds" in second.stdout
    assert processes_of(out) == []
    assert set(tmp_path.iterdir()) == before | {out}
    assert {file.name for file in (out / "flower" / "s0").iterdir()} == {"logs", "run.toml"}
    (simulated,) = run(config.replace(computing_time="stated"), dataset=toy_dataset())
    for mine, theirs in zip(rounds_of(path), simulated.rounds, strict=True):
        assert mine["scores"] == theirs["scores"]
        assert mine["bits"] == theirs["bits"]
        assert mine["change"] == theirs["change"]


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that have to do with a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            about = command + (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in about and entry.name != str(os.getpid()):
            found.append(command)
    return found


def test_device_files_hold_what_the_engine_deals_out(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, devices=3)
    files = write_device_files(tmp_path / "parts", config, toy_dataset())
    assert [file.parent.name for file in files] == ["device-0", "device-1", "device-2"]
