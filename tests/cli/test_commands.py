"""report, export, watch and what all commands share: help, quiet, JSON, colours, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import mix2fld
from mix2fld.cli import main
from mix2fld.cli.commands import COMMANDS
from stored_runs import save_toy_dataset

TINY = [
    *("--protocols", "fd", "--devices", "4", "--samples-per-device", "40", "--partition", "iid"),
    *("--model", "mlp", "--local-steps", "4", "--rounds", "1", "--curve-points", "1"),
]


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


def process(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "mix2fld", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def test_report_writes_one_file(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "report.html"
    main(["report", str(runs), "-o", str(path), "--json"])
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "report": str(path),
        "bytes": path.stat().st_size,
        "runs": 8,
        "figures": [],
    }
    assert "report of 8 runs" in said.err
    page = path.read_text()
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_run_makes_the_report_and_says_it_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = save_toy_dataset(tmp_path / "toy.npz")
    out = tmp_path / "runs"
    main(["run", "--dataset", str(data), *TINY, "--out", str(out), "--report", "--json"])
    said = capsys.readouterr()
    assert [summary["protocol"] for summary in json.loads(said.out)] == ["fd"]
    assert "round 1/1" in said.err
    assert "s left" in said.err
    assert "</html>" in (out / "report.html").read_text()
    main(["run", "--dataset", str(data), *TINY, "--out", str(out), "--quiet"])
    assert capsys.readouterr() == ("", "")


def test_export_and_load_runs_agree(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = mix2fld.load_runs(runs)
    main(["export", str(runs)])
    (tmp_path / "printed.csv").write_text(capsys.readouterr().out)
    for kind in ("csv", "parquet"):
        main(["export", str(runs), "--to", kind, "-o", str(tmp_path / f"runs.{kind}"), "--quiet"])
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "runs.parquet"), frame)
    for name in ("printed.csv", "runs.csv"):
        read = pd.read_csv(tmp_path / name)
        pd.testing.assert_frame_equal(read, frame, check_dtype=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "nowhere"], "nowhere: there is no such folder"),
        (["export", "nowhere"], "nowhere: there is no such folder"),
        (["reprot"], "did you mean 'report'?"),
        (["frobnicate"], "no such command; known: "),
        (["run", "--track", "tensorbord"], "tensorbord"),
        (["run", "--local-step", "3"], "--local-steps"),
        (["export", ".", "--to", "parquet"], "name the file to write"),
        (["watch", "--port", "-1"], "port = -1"),
    ],
)
def test_what_is_wrong_is_said_in_short(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_a_report_that_cannot_be_written_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("report", str(runs), "-o", "/proc/no/report.html") == 2
    assert "out = /proc/no/report.html: cannot be written" in capsys.readouterr().err


def test_help_lists_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    said = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"\n  {name} " in said
        assert f"\n{command.group}:\n" in said
    assert "Examples:" in said
    main(["--version"])
    assert capsys.readouterr().out == f"mix2fld {mix2fld.__version__}\n"
    assert exit_code() == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(name, "--help") == 0
    assert f"usage: mix2fld {name}" in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'jax', 'matplotlib', 'pandas', 'numpy', 'pydantic', 'rich', 'tyro'}"
    code = (
        "import sys; from mix2fld.cli import main\n"
        "main(['--help'])\n"
        f"assert not {heavy} & set(sys.modules)\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'matplotlib', 'pandas', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nothing_but_text_goes_to_a_pipe() -> None:
    done = process("link", "--protocols", "fl", "--max-slots", "100", NO_COLOR="1")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    plain = process("data", "--help")
    assert "\x1b" not in plain.stdout


def test_a_reader_that_goes_away_is_no_crash(runs: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "mix2fld", "export", str(runs), "--rows", "devices"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    complaints = writer.stderr.read()
    writer.stderr.close()
    assert writer.wait(timeout=300) == 141
    assert "Traceback" not in complaints


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_fields(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("completion", shell) == 0
    script = capsys.readouterr().out
    for word in ("report", "watch", "local-steps", "non-iid"):
        assert word in script


def test_completion_completes_in_bash(tmp_path: Path) -> None:
    script = process("completion", "bash").stdout
    (tmp_path / "complete.sh").write_text(
        script + "\nCOMP_WORDS=(mix2fld re) COMP_CWORD=1\n"
        "$(complete -p mix2fld | sed -E 's/.*-F ([^ ]+) .*/\\1/')\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", str(tmp_path / "complete.sh")], capture_output=True, text=True, check=False
    )
    assert {"report", "reproduce", "resume"} <= set(done.stdout.split()), done.stderr
