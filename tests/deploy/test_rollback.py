"""A run that is rolled back is the run that it was, and its devices catch up."""

import shutil
from pathlib import Path

import pytest

from deploy.lab import (
    assert_same_trees,
    deployed_config,
    diary,
    last_state,
    rounds_of,
    run_in_process,
)
from deploy.memory_line import MemoryBroker, run_in_memory
from deploy.test_silent_device import Silent
from mix2fld.base.errors import TransportLostError
from mix2fld.base.locks import FolderLock
from mix2fld.cli import main
from mix2fld.config.settings import Config
from mix2fld.engine.info import RoundInfo
from mix2fld.runs.loop import Watcher


def roll_back(path: Path, to_round: int) -> None:
    main(["deploy", "rollback", str(path), "--round", str(to_round)])


def server_of(path: Path, config: object) -> object:
    return last_state(path, config, devices_are_elsewhere=True).tree()["server"]


@pytest.mark.parametrize("protocol", ["fl", "mix2fld", "murmur"])
def test_the_state_is_that_of_an_uninterrupted_run(tmp_path: Path, protocol: str) -> None:
    longer = deployed_config(tmp_path, protocol=protocol, rounds=4)
    path = run_in_memory(tmp_path, longer)
    whole, identity = rounds_of(path), (path / "identity").read_text()
    roll_back(path, 2)
    (tmp_path / "shorter").mkdir()
    shorter = deployed_config(tmp_path / "shorter", protocol=protocol, rounds=2)
    other = run_in_memory(tmp_path / "shorter", shorter)
    assert_same_trees(server_of(path, longer), server_of(other, shorter))
    assert rounds_of(path) == whole[:2]
    assert (path / "identity").read_text() != identity
    assert "rolled back from round 4 to round 2" in diary(path)
    assert sorted(file.name for file in path.glob("kept-*")) == [
        "kept-000001.safetensors", "kept-000002.safetensors",
    ]  # fmt: skip
    run_in_memory(tmp_path, longer)
    assert [info["uploads"]["delivered"] for info in rounds_of(path)] == [4] * 4
    if protocol == "fl":  # whose devices keep nothing of their own
        assert [i["scores"] for i in rounds_of(path)] == [i["scores"] for i in whole]


def test_nodes_of_flower_catch_up_too(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=3)
    path = run_in_process(tmp_path, config)
    whole = rounds_of(path)
    roll_back(path, 1)
    run_in_process(tmp_path, config)
    assert "round 2: device 0 was away and catches up" in diary(path)
    assert [i["scores"] for i in rounds_of(path)] == [i["scores"] for i in whole]


def test_a_device_that_had_missed_rounds_takes_part(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fl", rounds=4)
    path = run_in_memory(tmp_path, config, Silent(range(2, 4)), timeout_s=2)
    assert [2 in info["uploads"]["devices"] for info in rounds_of(path)] == [1, 0, 0, 1]
    roll_back(path, 3)
    run_in_memory(tmp_path, config)
    assert rounds_of(path)[3]["uploads"]["devices"] == [0, 1, 2, 3]


class StoppedError(Exception):
    pass


class StopAt(Watcher):
    """Ends the server after so many rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def round_done(self, config: Config, info: RoundInfo) -> None:
        if info.round == self.rounds:
            raise StoppedError


def test_a_run_that_is_restored_from_an_old_backup_resumes(tmp_path: Path) -> None:
    """Devices have heard of later starts of the server than the backup knows, and ignore it."""
    config, broker = deployed_config(tmp_path, protocol="fl", rounds=4), MemoryBroker()
    path, backup = tmp_path / "runs" / config.run_name, tmp_path / "backup"
    for rounds in (1, 2, 3):
        with pytest.raises(StoppedError):
            run_in_memory(tmp_path, config, broker, watcher=StopAt(rounds))
        if rounds == 1:
            shutil.copytree(path, backup)
    run_in_memory(tmp_path, config, broker)
    whole = rounds_of(path)
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    with pytest.raises(TransportLostError, match="no device answers"):
        run_in_memory(tmp_path, config, broker, timeout_s=1)
    roll_back(path, 1)
    run_in_memory(tmp_path, config, broker)
    assert [i["scores"] for i in rounds_of(path)] == [i["scores"] for i in whole]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return run_in_memory(folder, deployed_config(folder, protocol="fd", rounds=3))


@pytest.mark.parametrize(
    ("to_round", "words"),
    [(0, "must be one of 1, 2, 3"), (9, "must be one of 1, 2, 3")],
)
def test_rounds_that_are_not_kept_are_refused(
    made: Path, to_round: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_bytes() for file in made.iterdir() if file.is_file()}
    with pytest.raises(SystemExit, match="2"):
        roll_back(made, to_round)
    assert words in capsys.readouterr().err
    assert {file: file.read_bytes() for file in made.iterdir() if file.is_file()} == before


def test_a_damaged_or_foreign_checkpoint_changes_nothing(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = made / "kept-000001.safetensors"
    intact, identity = file.read_bytes(), (made / "identity").read_text()
    damaged = intact[:-1] + bytes([intact[-1] ^ 1])
    of_round_2 = (made / "kept-000002.safetensors").read_bytes()
    for data, words in ((damaged, "checksum does not match"), (of_round_2, "is not of the run")):
        file.write_bytes(data)
        with pytest.raises(SystemExit, match="2"):
            roll_back(made, 1)
        assert words in capsys.readouterr().err
    file.write_bytes(intact)
    assert (made / "identity").read_text() == identity
    assert len(rounds_of(made)) == 3


def test_a_run_that_a_server_has_is_left_alone(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = FolderLock(made)
    assert lock.take()
    with pytest.raises(SystemExit, match="2"):
        roll_back(made, 1)
    assert "stop it first" in capsys.readouterr().err
    lock.give_back()
    with pytest.raises(SystemExit, match="2"):
        roll_back(tmp_path, 1)
    assert "holds no run of a deployment" in capsys.readouterr().err


def test_a_long_run_keeps_twenty(tmp_path: Path) -> None:
    config = deployed_config(tmp_path, protocol="fd", rounds=41, local_steps=10)
    path = run_in_memory(tmp_path, config)
    kept = sorted(int(file.name[5:11]) for file in path.glob("kept-*"))
    assert kept == list(range(3, 42, 3))
