"""Vectors of many samples: in parallel, in chunks that are kept in the cache and verified."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.files import write_atomic
from mix2fld.base.folders import cache_folder
from mix2fld.data.features.find import find_network
from mix2fld.data.features.network import Floats, Network
from mix2fld.dataset import FrozenNetwork
from mix2fld.native.processor import usable_cores

CHUNK = 256
"""Samples that are computed and stored together."""
Done = Callable[[int], None]
"""Is told of so many more samples."""


def features_of(about: FrozenNetwork, samples: NDArray[Any]) -> Floats:
    """Vectors [n, F] of new samples, as they are stored, by the network of a run.

    Raises ``InputError`` for samples that differ in shape or type from those of the run, and for a
    network that is another one here.
    """
    shape, dtype = samples.shape[1:], str(samples.dtype)
    if (shape, dtype) != (about.shape, about.dtype):
        raise InputError(
            f"samples are {dtype} {list(shape)}; features = {about.name} of this run are those of "
            f"{about.dtype} {list(about.shape)}"
        )
    return network_of_run(about)(samples)


def network_of_run(about: FrozenNetwork) -> Network:
    """The network of a run; raises ``InputError`` if it is another one here."""
    network = find_network(about.name, about.shape, about.dtype)
    if network.about.digest != about.digest:
        raise InputError(
            field="features", value=about.name, hint="is another network here than in this run"
        )
    return network


def compute(network: Network, samples: NDArray[Any], done: Done = lambda _count: None) -> Floats:
    """Vectors [n, F] of all samples, each chunk from the cache or computed and put there.

    What a chunk holds and what the network makes of noise here name its file, so that a change of
    samples, network or machine computes anew.
    """
    found = np.empty((len(samples), network.size), np.float32)
    folder = cache_folder() / "features" / _key(network)
    chunks = [slice(at, at + CHUNK) for at in range(0, len(samples), CHUNK)]
    waiting = iter(chunks)
    lock = threading.Lock()

    def work() -> None:
        for chunk in _shared(waiting, lock):
            some = np.ascontiguousarray(samples[chunk])
            file = folder / hashlib.sha256(some.data).hexdigest()
            vectors = _read(file, (len(some), network.size))
            if vectors is None:
                vectors = network(some)
                _write(file, vectors)
            found[chunk] = vectors
            with lock:
                done(len(some))

    with ThreadPoolExecutor(usable_cores()) as threads:
        workers = [threads.submit(work) for _ in range(usable_cores())]
        try:
            for worker in workers:
                worker.result()
        finally:
            with lock:
                list(waiting)  # if one failed, the others take no more
    return found


def _shared(waiting: Iterator[slice], lock: threading.Lock) -> Iterator[slice]:
    while True:
        with lock:
            chunk = next(waiting, None)
        if chunk is None:
            return
        yield chunk


def _key(network: Network) -> str:
    about = network.about
    noise = np.random.default_rng(0).integers(0, 2, (1, *about.shape)).astype(about.dtype)
    digest = hashlib.sha256(f"{about.name} {about.digest} {about.dtype} {about.shape}".encode())
    digest.update(network(noise).data)
    return digest.hexdigest()[:32]


def _read(file: Path, shape: tuple[int, int]) -> Floats | None:
    """The vectors in a file of the cache, if they are whole."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, values = content[:32], memoryview(content)[32:]
    if hashlib.sha256(values).digest() != digest or len(values) != 4 * shape[0] * shape[1]:
        return None
    return np.frombuffer(values, "<f4").reshape(shape)


def _write(file: Path, vectors: Floats) -> None:
    """Keep the vectors; where the cache cannot be written they are computed again next time."""
    values = vectors.astype("<f4").tobytes()
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(file, hashlib.sha256(values).digest() + values)
