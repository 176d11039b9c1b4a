"""Does the package install and run where there is nothing but Python: no clone, make or compiler?

Builds the sdist and from it the wheel, installs the wheel into a clean environment of every Python
that is found, runs the first command of a new user there, and weighs what was installed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reliability.package_sizes import MEGABYTE, PAGE, device_part, measured, render

PYTHONS = ("3.11", "3.12", "3.13")
FIRST_RUN = (
    *("run", "--protocols", "fl8", "mix2fld", "--devices", "4", "--local-steps", "100"),
    *("--server-steps", "100", "--rounds", "2", "--test-samples", "1000"),
    *("--out", "first", "--report"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="versions to try")
    parser.add_argument("--page", type=Path, default=PAGE, help="page of sizes to write")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        packages = built(Path(scratch))
        for package in packages:
            print(f"{package.name}: {package.stat().st_size / MEGABYTE:.2f} MB")
        tried = {}
        for number in given.python:
            for package in packages:
                record = install_and_run(number, package, Path(scratch))
                if record is not None:
                    tried[number] = record
    if not tried:
        sys.exit(f"none of Python {', '.join(given.python)} was found")
    page = render(next(iter(tried.values())), list(tried)) + device_part()
    given.page.write_text(page, encoding="utf-8")
    print(f"sizes in {given.page}")


def built(folder: Path) -> list[Path]:
    """The wheel, built from the sdist as an installer would, and the sdist."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), "."], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    return [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]


def install_and_run(number: str, package: Path, scratch: Path) -> dict[str, object] | None:
    """Install a package for one Python, run, and weigh; None if there is no such Python."""
    python = found(number)
    if python is None:
        print(f"Python {number}: not found, not tried")
        return None
    kind = "wheel" if package.suffix == ".whl" else "sdist"
    env, empty = scratch / f"env-{number}-{kind}", scratch / f"empty-{number}-{kind}"
    empty.mkdir()
    quiet = ("-q", "--disable-pip-version-check", "--no-compile")
    subprocess.run([python, "-m", "venv", str(env)], check=True)
    command = [env / "bin" / "python", "-m", "pip", "install", *quiet, "-c", "constraints.txt"]
    subprocess.run([*command, str(package)], check=True)
    bare = {"PATH": str(env / "bin"), "HOME": str(empty), "MIX2FLD_CACHE": str(cache())}
    for words in (("--version",), ("doctor",), FIRST_RUN):
        done = subprocess.run([env / "bin" / "mix2fld", *words], cwd=empty, env=bare, check=True,
                              capture_output=True, text=True)  # fmt: skip
    print(done.stdout.rstrip())
    assert (empty / "first" / "report.html").exists(), "no report"
    record = measured(env / "bin" / "python")
    print(f"Python {number}, {kind}: {record['total']:.0f} MB in {record['packages']} packages")
    shutil.rmtree(env)
    return record


def found(number: str) -> str | None:
    """An interpreter of that version that starts: on the path, or among those of pyenv."""
    beside = sorted(Path.home().glob(f".pyenv/versions/{number}.*/bin/python"))
    for candidate in (shutil.which(f"python{number}"), *map(str, beside)):
        starts = candidate and subprocess.run([candidate, "-V"], capture_output=True, check=False)
        if starts and not starts.returncode:
            return candidate
    return None


def cache() -> Path:
    """The user's own cache, so that the dataset is not downloaded once more."""
    from mix2fld.base.folders import cache_folder

    return cache_folder()


if __name__ == "__main__":
    main()
