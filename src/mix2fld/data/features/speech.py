"""Google's speech embedding (arXiv:2002.01322): mel spectrum, then a small network on windows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.features.network import Floats
from mix2fld.data.features.onnx_network import Session

RATE = 16_000
"""Samples a second that the network was trained with."""
WINDOW, HOP = 76, 8
"""Frames of 10 ms that an embedding sees, and between two of them."""
SHORTEST = 12_560
"""Samples of one window; shorter recordings are followed by silence."""
LENGTH = 10.0
"""Norm of a feature vector."""


class SpeechEmbedding:
    """Recordings float32 [n, T], from -1 to 1, to vectors [n, 192]: mean and largest embedding."""

    def __init__(self, spectrum: bytes, embedding: bytes, name: str) -> None:
        self._spectrum, self._embedding = Session(spectrum, name), Session(embedding, name)

    def __call__(self, samples: NDArray[Any]) -> Floats:
        """One vector for each recording."""
        return np.stack([self._one(sample.reshape(-1)) for sample in samples])

    def _one(self, wave: NDArray[np.float32]) -> Floats:
        wave = np.pad(wave, (0, max(0, SHORTEST - len(wave))))
        frames = self._spectrum(wave[None])[0, 0] / 10 + 2
        starts = range(0, len(frames) - WINDOW + 1, HOP)
        found = [self._embedding(frames[None, at : at + WINDOW, :, None]).ravel() for at in starts]
        vector = np.concatenate([np.mean(found, axis=0), np.max(found, axis=0)])
        length = max(float(np.linalg.norm(vector)), 1e-12)
        scaled: Floats = (vector * (LENGTH / length)).astype(np.float32)
        return scaled
