"""A disk that is full or read-only, two processes in one folder, Ctrl-C: said, and nothing lost."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from reliability.faults import FAULTS, INSTANTS, STARTS, Quiet, inject
from reliability.toy import small_flags, write_dataset

from mix2fld.base import files as storage
from mix2fld.base.errors import InputError, ResourceError
from mix2fld.runs.folder import RunFolder
from mix2fld.runs.simulation import run
from places import ROOT
from stored_runs import SHORT_RUN, intact, run_short
from toys import toy_dataset


def done(command: list[str]) -> bool:
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def test_every_file_operation_can_be_the_last() -> None:
    trials = [("mix2fld", STARTS[0], FAULTS[0], instant) for instant in INSTANTS]
    found = inject(trials, every=2)
    assert found["survived"] > 50
    assert set(found["operation"]) == {"open", "write", "fsync", "replace", "unlink"}


@pytest.mark.parametrize("fault", FAULTS[1:])
def test_a_cut_of_power_and_a_full_disk_lose_nothing(fault) -> None:
    trials = [("fl", start, fault, "during") for start in STARTS]
    assert inject(trials, every=5)["survived"] > 20


def test_a_full_disk(tmp_path) -> None:
    """A real one: a file system of 4 MB."""
    mount = tmp_path / "small"
    mount.mkdir()
    options = ["-t", "tmpfs", "-o", "size=4m", "none", str(mount)]
    if os.geteuid() != 0 or not done(["mount", *options]):
        pytest.skip("mounting a small file system needs root")
    try:
        run_short(mount, stop_after=1)
        (mount / "rest").write_bytes(bytes(os.statvfs(mount).f_bavail * os.statvfs(mount).f_bsize))
        with pytest.raises(ResourceError, match=r"No space left.*finished rounds are kept"):
            run_short(mount)
        (mount / "rest").unlink()
        assert run_short(mount) == []
        run_short(tmp_path / "whole")
        assert intact(mount / "fl-s0") == intact(tmp_path / "whole" / "fl-s0")
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_files_that_may_not_grow(tmp_path) -> None:
    run_short(tmp_path, stop_after=1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
    try:
        with pytest.raises(ResourceError, match="File too large"):
            run_short(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert run_short(tmp_path) == []
    run_short(tmp_path / "whole")
    assert intact(tmp_path / "fl-s0") == intact(tmp_path / "whole" / "fl-s0")


def test_a_read_only_folder(tmp_path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    if os.access(folder, os.W_OK):
        bind = ["mount", "--bind", str(folder), str(folder)]
        remount = ["mount", "-o", "remount,ro,bind", str(folder)]
        if not (done(bind) and done(remount)):
            pytest.skip("root may write everywhere, and mounting is not allowed")
    try:
        with pytest.raises(InputError, match="not a folder that can be written to"):
            run_short(folder)
    finally:
        done(["umount", str(folder)])


def test_two_processes_in_one_folder(tmp_path) -> None:
    run_short(tmp_path, stop_after=1)
    hold = (
        "import sys; from pathlib import Path; from mix2fld.base.locks import FolderLock\n"
        "lock = FolderLock(Path(sys.argv[1]))\n"
        "assert lock.take(); print('has it', flush=True); input()"
    )
    folder = tmp_path / "fl-s0"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        before = intact(folder)
        for overwrite in (False, True):
            with pytest.raises(InputError, match="another process is writing this run"):
                run(SHORT_RUN, tmp_path, dataset=toy_dataset(), overwrite=overwrite)
        assert intact(folder) == before
        other.kill()
    assert run_short(tmp_path) == []
    assert not (folder / storage.LOCK).exists()


def test_ctrl_c_waits_until_a_round_is_written(tmp_path, monkeypatch) -> None:
    written = storage.append_atomic

    def press_and_write(path: Path, data: bytes) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        written(path, data)

    monkeypatch.setattr("mix2fld.runs.folder.append_atomic", press_and_write)
    with pytest.raises(KeyboardInterrupt):
        run(SHORT_RUN, tmp_path, dataset=toy_dataset(), watcher=Quiet())
    assert (tmp_path / "fl-s0" / "checkpoint.safetensors").exists()
    monkeypatch.undo()
    folder = RunFolder(tmp_path / "fl-s0")
    assert len((folder.path / "rounds.jsonl").read_text().splitlines()) == 1
    run_short(tmp_path)
    assert folder.finished() is not None


def test_ctrl_c_says_how_to_go_on(tmp_path) -> None:
    file = write_dataset(tmp_path / "toy.npz")
    out = tmp_path / "runs"
    command = ["run", *small_flags(str(file), protocols="fd", rounds=100_000), "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-m", "mix2fld", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert "round 1/" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"the same command, or mix2fld resume {out}, resumes" in said
    assert "Traceback" not in said
