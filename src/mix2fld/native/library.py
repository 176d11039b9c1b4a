"""C sources as machine code: compiled for this machine at first use, then kept.

Where there is no compiler, what a wheel brought for processors of this kind is used.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from mix2fld.base.files import LOCK, write_atomic
from mix2fld.base.folders import cache_folder
from mix2fld.base.private_folder import private_folder
from mix2fld.native.processor import cpu_flags
from mix2fld.native.recipe import FLAGS, FOLDER, library_name

FOR_THIS_MACHINE: tuple[list[str], ...] = (["-march=native"], [])
"""What is tried one after the other: not every compiler knows the processor it runs on."""


def vector_lanes() -> int:
    """Floats in the widest vector of this processor; 0 without AVX2."""
    if platform.machine() not in {"x86_64", "AMD64"}:  # an emulator shows its host's flags
        return 0
    flags = cpu_flags().split()
    return 16 if "avx512f" in flags else 8 if "avx2" in flags and "fma" in flags else 0


def load_library(
    source: Path, sizes: Mapping[str, int], include: Path | None = None
) -> ctypes.CDLL | None:
    """The source compiled with these macros; None if it cannot be had here."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return load_prebuilt(source.stem, sizes)
    headers = [] if include is None else ["-isystem", str(include)]
    rest = [*FLAGS, *headers, *(f"-D{name}={size}" for name, size in sizes.items())]
    for machine in FOR_THIS_MACHINE:
        with suppress(OSError, subprocess.CalledProcessError):
            return _load(source.stem, _compiled([compiler, *machine, *rest], source))
    return load_prebuilt(source.stem, sizes)


def source_text(source: Path) -> str:
    """The source with the headers beside it, which it may include."""
    return "".join(file.read_text("utf-8") for file in (source, *sorted(source.parent.glob("*.h"))))


def load_prebuilt(source: str, sizes: Mapping[str, int]) -> ctypes.CDLL | None:
    """What the installed wheel has of a source with these macros; None if it has none."""
    try:
        return _load(source, (FOLDER / library_name(source, sizes)).read_bytes())
    except OSError:
        return None


def _compiled(command: list[str], source: Path) -> bytes:
    """The library made by this command on this processor, from the cache if it is whole there."""
    described = f"{command}{cpu_flags()}{source_text(source)}"
    title = source.stem.replace("_", "-")
    name = f"{title}-{hashlib.sha256(described.encode()).hexdigest()[:16]}.so"
    folder = private_folder(cache_folder() / "native")
    if folder is None:
        with tempfile.TemporaryDirectory() as scratch:
            return _compile(command, source, Path(scratch) / name)
    code = _read_whole(folder / name)
    if code is None:
        with _alone_in(folder):
            code = _read_whole(folder / name) or _compile(command, source, folder / name)
    return code


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process compiles; others wait, and read what it made."""
    import fcntl

    with (folder / LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(command: list[str], source: Path, library: Path) -> bytes:
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        made = Path(scratch) / library.name
        subprocess.run(
            [*command, str(source), "-o", str(made), "-lm"], check=True, capture_output=True
        )
        code = made.read_bytes()
    write_atomic(library, code)
    write_atomic(_checksum_file(library), f"{hashlib.sha256(code).hexdigest()}\n".encode())
    return code


def _read_whole(library: Path) -> bytes | None:
    """The bytes, if they are those that were compiled; damaged code must not be loaded."""
    try:
        expected = _checksum_file(library).read_bytes().strip()
        code = library.read_bytes()
    except FileNotFoundError:
        return None
    return code if hashlib.sha256(code).hexdigest().encode() == expected else None


def _load(name: str, code: bytes) -> ctypes.CDLL:
    """The library, from the very bytes that were checked and not from a file read once more.

    Its file in memory stays open: the loader knows a library by its name, which has that number.
    """
    memory = os.memfd_create(name)
    with os.fdopen(os.dup(memory), "wb") as file:
        file.write(code)
    return ctypes.CDLL(f"/proc/self/fd/{memory}")


def _checksum_file(library: Path) -> Path:
    return library.with_name(f"{library.name}.sha256")
