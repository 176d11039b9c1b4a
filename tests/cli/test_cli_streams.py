"""The command line with closed streams, broken pipes and missing folders."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def mix2fld(
    *arguments: str, shell: str = '"$@"', cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command within a line of bash, as its arguments."""
    return subprocess.run(
        ["bash", "-c", shell, "bash", sys.executable, "-m", "mix2fld", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **variables},
    )


def test_unencodable_characters_are_question_marks() -> None:
    code = "from mix2fld.cli import main; main(['--version']); print('0.9 \u00b1 0.1')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout.endswith("0.9 ? 0.1\n"), done.stderr


@pytest.mark.parametrize("closed", ['"$@" >&-', '"$@" 2>&-', '"$@" >&- 2>&-'])
def test_closed_streams_are_accepted(closed: str) -> None:
    done = mix2fld("data", "list", shell=closed)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert mix2fld("data", "get", "mnits", shell=closed).returncode == 2


def test_errors_do_not_go_to_standard_output() -> None:
    assert mix2fld("data", "get", "mnits", shell='"$@" 2>&-').stdout == ""


def test_a_removed_working_folder_is_accepted(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = mix2fld("--version", shell='rmdir "$PWD" && "$@"', cwd=gone)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mix2fld ")


def test_a_broken_pipe_exits_with_141() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mix2fld", "data", "list"]
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 141
    assert done.stderr == ""


def test_an_error_message_to_a_broken_pipe_exits_with_141() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mix2fld", "data", "get", "mnits"]
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=pipe, check=False)
    assert done.returncode == 141
