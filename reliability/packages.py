"""Does the package install and run where there is nothing but Python: no clone, make or compiler?

Builds the sdist and from it the wheel, installs the wheel into a clean environment of every Python
that is found, runs the first command of a new user there, and weighs what was installed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13")
FIRST_RUN = (
    *("run", "--protocols", "fl8", "mix2fld", "--devices", "4", "--local-steps", "100"),
    *("--server-steps", "100", "--rounds", "2", "--test-samples", "1000"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="versions to try")
    parser.add_argument("--weigh", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.weigh:
        print(json.dumps(installed_sizes()))
        return
    with tempfile.TemporaryDirectory() as scratch:
        wheel = built(Path(scratch))
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.2f} MB")
        tried = [install_and_run(number, wheel, Path(scratch)) for number in given.python]
    if not any(tried):
        sys.exit(f"none of Python {', '.join(given.python)} was found")


def built(folder: Path) -> Path:
    """The wheel, built from the sdist as an installer would."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), "."], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_and_run(number: str, wheel: Path, scratch: Path) -> bool:
    """Install the wheel for one Python, and run; False if there is no such Python."""
    python = found(number)
    if python is None:
        print(f"Python {number}: not found, not tried")
        return False
    env, empty = scratch / f"env-{number}", scratch / f"empty-{number}"
    empty.mkdir()
    quiet = ("-q", "--disable-pip-version-check")
    subprocess.run([python, "-m", "venv", str(env)], check=True)
    command = [env / "bin" / "python", "-m", "pip", "install", *quiet, "-c", "constraints.txt"]
    subprocess.run([*command, str(wheel)], check=True)
    bare = {"PATH": str(env / "bin"), "HOME": str(empty), "MIX2FLD_CACHE": str(cache())}
    for words in (("--version",), ("doctor",), FIRST_RUN):
        done = subprocess.run([env / "bin" / "mix2fld", *words], cwd=empty, env=bare, check=True,
                              capture_output=True, text=True)  # fmt: skip
    print(done.stdout.rstrip())
    weighed = subprocess.run([env / "bin" / "python", __file__, "--weigh"], check=True,
                             capture_output=True, text=True)  # fmt: skip
    sizes = json.loads(weighed.stdout)
    heaviest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    listed = ", ".join(f"{name} {size:.0f}" for name, size in heaviest)
    print(f"Python {number}: {sum(sizes.values()):.0f} MB in {len(sizes)} packages ({listed})")
    return True


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
    from mix2fld.data import cache_folder

    return cache_folder()


def installed_sizes() -> dict[str, float]:
    """Megabytes of each installed distribution."""
    return {
        package.metadata["Name"]: sum(
            os.path.getsize(file.locate())
            for file in package.files or []
            if os.path.exists(file.locate())
        )
        / 2**20
        for package in distributions()
    }


if __name__ == "__main__":
    main()
