"""Settings of all tests."""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import jax
import matplotlib
import pytest
from hypothesis import settings
from reliability.soak import memory_mb

from mix2fld.base.folders import cache_folder
from mix2fld.report.live import PageServer
from mix2fld.tasks.compilation import keep_compiled_code

sys.path.insert(0, str(Path(__file__).parent))
matplotlib.use("Agg")
# A shell's job in the background is born deaf to Ctrl-C, and so would be what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The same examples every time, so that a test fails by a change alone; `make search` draws others.
settings.register_profile("same-examples", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("same-examples")
# Many tests compile the same small programs, in every process anew.
keep_compiled_code(cache_folder() / "compiled")
# Tests kill processes but never the power: nothing needs to wait for a disk.
os.fsync = lambda file: None
MOST_MEMORY_MB = 1600
"""Of one process of tests, before it drops what it compiled."""

gc.disable()  # nothing of what imports make is garbage


def pytest_collection_finish() -> None:
    """A million objects are there to stay: no search for garbage walks through them.

    A run would freeze and unfreeze them again.
    """
    gc.collect()
    gc.freeze()
    gc.freeze = gc.unfreeze = lambda: None
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _memory_is_bounded() -> Iterator[None]:
    """Compiled code is dropped when it is much; what took long is found on disk again."""
    yield
    gc.collect()
    if memory_mb() > MOST_MEMORY_MB:
        jax.clear_caches()
        gc.collect()
        with suppress(OSError, AttributeError):  # a library without it returns memory by itself
            ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session")
def own_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The toy dataset as a file that settings can name."""
    from stored_runs import save_toy_dataset

    return str(save_toy_dataset(tmp_path_factory.mktemp("data") / "toy.npz"))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four protocols with two seeds each, some of their uploads lost."""
    from stored_runs import play

    folder = tmp_path_factory.mktemp("runs")
    play(folder, protocols=("isolated", "fl", "fd", "mix2fld"), seed=(0, 1))
    return folder / "runs"


@pytest.fixture
def page_server(tmp_path: Path) -> Iterator[PageServer]:
    """The live page of a folder of runs."""
    from stored_runs import served_page

    with served_page(tmp_path / "runs") as made:
        yield made
