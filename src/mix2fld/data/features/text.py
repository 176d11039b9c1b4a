"""WordLlama: the mean of the token embeddings of a language model, of few dimensions.

Text is stored as its UTF-8 bytes, uint8, followed by zeros.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.data.features.network import Floats

SPACE = "▁"
"""What stands for a space in a token."""
LENGTH = 10.0
"""Norm of a feature vector."""


def as_samples(texts: Sequence[str], length: int) -> NDArray[np.uint8]:
    """Texts as samples [n, length]: their first bytes as UTF-8, followed by zeros."""
    if length < 1:
        raise InputError(field="length", value=length, hint="must be 1 or above")
    samples = np.zeros((len(texts), length), np.uint8)
    for row, text in zip(samples, texts, strict=True):
        content = text.encode()[:length]
        row[: len(content)] = np.frombuffer(content, np.uint8)
    return samples


class WordLlama:
    """Texts uint8 [n, L] to vectors [n, 256]."""

    def __init__(self, embeddings: bytes, tokenizer: bytes) -> None:
        known = json.loads(tokenizer)["model"]
        self._vocabulary: dict[str, int] = known["vocab"]
        pairs = (tuple(pair.split(" ")) for pair in known["merges"])
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        start = 8 + int.from_bytes(embeddings[:8], "little")
        about = json.loads(embeddings[8:start])["embedding.weight"]
        begin, end = about["data_offsets"]
        values = np.frombuffer(embeddings[start + begin : start + end], "<f2")
        self._embeddings = values.reshape(about["shape"])
        self._tokens_of_word = lru_cache(maxsize=1 << 16)(self._merged)

    def __call__(self, samples: NDArray[Any]) -> Floats:
        """One vector for each text; a text without a token has one of zeros."""
        found = np.zeros((len(samples), self._embeddings.shape[1]), np.float32)
        for vector, sample in zip(found, samples, strict=True):
            tokens = self.tokens(sample.tobytes().rstrip(b"\0").decode(errors="ignore"))
            if tokens:
                mean = self._embeddings[tokens].astype(np.float32).mean(axis=0)
                vector[:] = mean * (LENGTH / max(float(np.linalg.norm(mean)), 1e-12))
        return found

    def tokens(self, text: str) -> list[int]:
        """Byte-pair encoding; no merge of this vocabulary reaches over the end of a word."""
        if not text:
            return []
        words: list[str] = []
        marked = SPACE + text.replace(" ", SPACE)
        for letter in marked:
            if words and (letter != SPACE or set(words[-1]) == {SPACE}):
                words[-1] += letter
            else:
                words.append(letter)
        return [token for word in words for token in self._tokens_of_word(word)]

    def _merged(self, word: str) -> list[int]:
        parts = list(word)
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in pairwise(parts)]
            best = int(np.argmin(ranks))
            if ranks[best] == len(self._ranks):
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return [token for part in parts for token in self._known(part)]

    def _known(self, part: str) -> list[int]:
        if part in self._vocabulary:
            return [self._vocabulary[part]]
        return [self._vocabulary[f"<0x{byte:02X}>"] for byte in part.encode()]
