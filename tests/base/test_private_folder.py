"""Compiled code runs as the user: it is loaded only from where nobody else can write."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mix2fld import native
from mix2fld.base import private_folder as module
from mix2fld.base.private_folder import private_folder

LOAD = """
import sys
from pathlib import Path
import jax
from mix2fld.base.folders import cache_folder
from mix2fld.tasks.compilation import keep_compiled_code
from mix2fld import native
keep_compiled_code(cache_folder() / "compiled")
found = native.small_cnn((8, 8, 1), 4, 2, 3) is not None
print(found, jax.config.jax_compilation_cache_dir or None)
"""
PLANTED = """
#include <fcntl.h>
__attribute__((constructor)) static void run(void) { open(MARK, O_CREAT | O_WRONLY, 0600); }
void train(void) {}
void train_numbers(void) {}
long count_correct(void) { return 0; }
"""
compiler = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(
    compiler is None or not native.vector_lanes(), reason="no native code here"
)
FOREIGN = os.geteuid() + 4242


def load_in(cache: Path) -> subprocess.CompletedProcess[str]:
    """A process that asks for native code and for XLA's cache."""
    unset = {"JAX_COMPILATION_CACHE_DIR": ""}  # whatever the environment of the tests names
    environment = {**os.environ, "MIX2FLD_CACHE": str(cache), **unset}
    return subprocess.run(
        [sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True
    )


def plant(cache: Path, mark: Path) -> None:
    """Own code with its own checksum under the name that will be looked for."""
    load_in(cache)
    (library,) = (cache / "native").glob("*.so")
    source = cache / "planted.c"
    source.write_text(PLANTED)
    assert compiler is not None
    made = [compiler, "-shared", "-fPIC", f'-DMARK="{mark}"', str(source), "-o", str(library)]
    subprocess.run(made, check=True)
    checksum = library.with_name(f"{library.name}.sha256")
    checksum.write_text(hashlib.sha256(library.read_bytes()).hexdigest())


@needs_compiler
def test_planted_code_in_a_shared_folder_is_not_run(tmp_path: Path) -> None:
    """With the checks it was made for; the same code in a private folder does run."""
    cache, mark = tmp_path / "cache", tmp_path / "mark"
    plant(cache, mark)
    assert load_in(cache).stdout.startswith("True")
    assert mark.exists(), "the planted code cannot run at all: the test shows nothing"
    mark.unlink()
    for folder in (cache / "native", cache):
        folder.chmod(0o777)
        done = load_in(cache)
        assert done.stdout.startswith("True None" if folder == cache else "True")
        assert not mark.exists()
        assert done.stderr.count("can be written by others (drwxrwxrwx)") == 1, done.stderr
        assert len(done.stderr.splitlines()) == 1
        folder.chmod(0o700)


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_planted_files_and_folders_of_others_are_not_used(tmp_path: Path) -> None:
    cache, mark = tmp_path / "cache", tmp_path / "mark"
    plant(cache, mark)
    (library,) = (cache / "native").glob("*.so")
    os.chown(library, FOREIGN, FOREIGN)
    done = load_in(cache)
    assert "belongs to another user, or is not a regular file" in done.stderr
    os.chown(library, 0, 0)
    os.chown(cache / "native", FOREIGN, FOREIGN)
    assert "native belongs to another user" in load_in(cache).stderr
    assert not mark.exists()


def test_a_new_folder_is_the_users_alone(tmp_path: Path) -> None:
    made = private_folder(tmp_path / "cache" / "native")
    assert made == (tmp_path / "cache" / "native").resolve()
    assert [place.stat().st_mode & 0o777 for place in (made, made.parent)] == [0o700, 0o700]


def test_a_folder_that_others_only_read_is_closed_and_used(tmp_path: Path) -> None:
    folder = tmp_path / "native"
    folder.mkdir(mode=0o755)
    (folder / "old.so").write_bytes(b"made before")
    assert private_folder(folder) == folder.resolve()
    assert folder.stat().st_mode & 0o777 == 0o700


def loose_folder(folder: Path) -> None:
    folder.chmod(0o770)


def loose_file(folder: Path) -> None:
    (folder / "a.so").touch()
    (folder / "a.so").chmod(0o666)


def loose_file_below(folder: Path) -> None:
    (folder / "avx").mkdir()
    loose_file(folder / "avx")


def link_elsewhere(folder: Path) -> None:
    (folder / "a.so").symlink_to("/etc/hostname")


def loose_parent(folder: Path) -> None:
    folder.parent.chmod(0o777)


def loose_target_of_a_link(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    folder.rmdir()
    folder.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "spoil",
    [
        loose_folder,
        loose_file,
        loose_file_below,
        link_elsewhere,
        loose_parent,
        loose_target_of_a_link,
    ],
)
def test_what_others_can_write_is_refused_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None]
) -> None:
    folder = tmp_path / "cache" / "native"
    folder.mkdir(parents=True, mode=0o700)
    spoil(folder)
    assert private_folder(folder) is None
    assert private_folder(folder) is None
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "compiled code is neither read from there nor kept" in said[0]


def test_a_shared_cache_of_data_is_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its code is not read: the user's own folder has the user's code."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir(mode=0o755)
    monkeypatch.setattr(module, "own_cache_folder", lambda: own)
    monkeypatch.setattr(module, "_is_foreign", lambda folder: folder == shared)
    assert private_folder(shared / "native") == (own / "native").resolve()
    assert capsys.readouterr().err == ""
    (shared / "native").mkdir()
    assert private_folder(shared / "native") == (own / "native").resolve()
    assert "native belongs to another user" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_no_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert private_folder(tmp_path / "file" / "native") is None
    assert "Not a directory" in capsys.readouterr().err
