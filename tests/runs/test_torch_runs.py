"""Whole runs with PyTorch modules: the same bytes on any number of cores, resumed or not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from reliability.faults import Quiet

from mix2fld.cli import main
from mix2fld.runs.checkpoint import made_with
from mix2fld.runs.simulation import resume_run, run
from mix2fld.tasks import pytorch, workers
from mix2fld.tasks.compilation import CompileClock
from places import TESTS
from stored_runs import contents
from toys import CoinLink, toy_config, toy_dataset

SMALL = [
    *("--devices", "3", "--samples-per-device", "40", "--partition", "iid", "--link", "ideal"),
    *("--local-steps", "20", "--server-steps", "10", "--rounds", "2", "--curve-points", "2"),
]
MODULE = ["--model", "torch_modules:with_dropout"]


def set_cores(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    for module in (pytorch, workers):
        monkeypatch.setattr(module, "usable_cores", lambda: cores)


@pytest.mark.parametrize("name", ["fl", "fl8", "fd", "mix2fld"])
def test_the_same_bytes_on_one_core_on_three_and_resumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """In this process, in workers, and in both by turns; what the module draws repeats too."""
    config = toy_config(protocol=name, rounds=3, model=MODULE[1], batch_size=2)
    data, link = toy_dataset(), CoinLink()
    for cores in (1, 3):
        set_cores(monkeypatch, cores)
        run(config, tmp_path / f"{cores}", dataset=data, link=link)
    whole = contents(tmp_path / "1" / config.run_name)
    assert json.loads(whole["summary.json"])["kernel"] == "pytorch"
    assert contents(tmp_path / "3" / config.run_name) == whole
    assert made_with(tmp_path / "1" / config.run_name / "checkpoint.safetensors")["kernel"] == (
        "pytorch"
    )
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "cut", dataset=data, link=link, watcher=Quiet(1))
    set_cores(monkeypatch, 1)
    run(config, tmp_path / "cut", dataset=data, link=link)
    assert contents(tmp_path / "cut" / config.run_name) == whole


def test_no_jax_code_is_compiled() -> None:
    clock = CompileClock()
    (result,) = run(toy_config(protocol="mix2fld", model=MODULE[1]), dataset=toy_dataset())
    assert result.summary["rounds"] == 2
    assert clock.seconds == 0


def test_the_command_line_trains_a_module_and_resumes(tmp_path: Path, own_file: str) -> None:
    out = tmp_path / "runs"
    main(["run", "--dataset", own_file, *SMALL, *MODULE, "--protocols", "fl", "--out", str(out)])
    folder = out / "fl-s0"
    whole = contents(folder)
    (folder / "summary.json").unlink()
    assert resume_run(folder).summary["kernel"] == "pytorch"
    assert contents(folder) == whole


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("torch_modules:not_a_module", "must return a Model or a torch.nn.Module, not list"),
        ("torch_modules:with_statistics", "buffer 2.running_mean changes in training"),
    ],
)
def test_a_bad_module_is_one_line_and_nothing_is_written(
    tmp_path: Path, own_file: str, capsys: pytest.CaptureFixture[str], model: str, message: str
) -> None:
    command = ["run", "--dataset", own_file, *SMALL, "--model", model]
    with pytest.raises(SystemExit) as exit_:
        main([*command, "--out", str(tmp_path / "runs")])
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "runs").exists()


def test_the_link_is_planned_without_training(capsys: pytest.CaptureFixture[str]) -> None:
    main(["link", "--protocols", "fl", "--model", "torch_modules:perceptron", "--json"])
    upload = json.loads(capsys.readouterr().out)[0]
    assert upload["bits"] == 32 * (784 * 8 + 8 + 8 * 10 + 10)


def test_ctrl_c_stops_a_run_and_it_is_resumed(tmp_path: Path, own_file: str) -> None:
    """As the terminal sends it, to the whole group, in the middle of a local phase."""
    out = tmp_path / "runs"
    arguments = [*SMALL, *MODULE, "--protocols", "fl", "--local-steps", "100000", "--out", str(out)]
    code = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        f"from mix2fld.cli import main\nmain({['run', '--dataset', own_file, *arguments]!r})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not children(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(3)  # importing PyTorch, then steps
    started = children(process.pid)
    assert started
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert f"the same command, or mix2fld resume {out}, resumes" in said
    assert not any(Path(f"/proc/{child}").exists() for child in started)


def children(process: int) -> list[int]:
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in listed.split()]
