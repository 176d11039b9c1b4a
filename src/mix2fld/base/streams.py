"""Randomness: every draw comes from a stream named by (seed, purpose, indices).

Streams carry no state from round to round, so a resumed run, a reordered run and a deployment on
many machines draw the same numbers as the simulator.
"""

import zlib

import numpy as np

WORD = 1 << 32
"""What NumPy reads of a seed at a time."""


def seed_sequence(seed: int, purpose: str, *indices: int) -> np.random.SeedSequence:
    """What a stream starts from."""
    numbers = [seed, zlib.crc32(purpose.encode()), *indices]
    if min(numbers) >= 0 and max(numbers) < WORD:  # read alike, in a quarter of the time
        return np.random.SeedSequence(np.array(numbers, np.uint32))
    return np.random.SeedSequence(numbers)


def stream(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """The generator of one purpose, e.g. ``stream(seed, "draws", round, device)``."""
    return np.random.Generator(np.random.PCG64(seed_sequence(seed, purpose, *indices)))


def integer(seed: int, purpose: str, *indices: int) -> int:
    """A 32-bit integer of that stream, for libraries that take one (``jax.random.key``)."""
    return int(seed_sequence(seed, purpose, *indices).generate_state(1, np.uint32)[0])
