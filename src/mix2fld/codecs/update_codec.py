"""What carries an update: a payload of codes, with the way there and back.

``compress`` turns an update into codes, ``encode`` codes into bits, ``decode`` bits into codes and
``restore`` codes into an update. Both ends draw from equal generators, so that no random choice is
sent.
"""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mix2fld.codecs.codec import Payload
from mix2fld.types import Group

Floats = NDArray[np.float32]
"""An update, or a part of one, in one row."""


class Restored(NamedTuple):
    """What is left of an update that went through codes."""

    update: Floats  # [N_mod]
    captured: float
    """Expected share of the update's squared norm retained by the code.

    An unbiased codec restores a vector of 1 / captured times the squared norm of the
    update: the surplus is noise. 1 if there is none.
    """
    apart: tuple[Group, ...] = ()
    """Arrays that were encoded by themselves; empty: all of them together."""


class UpdateCodec(Payload, Protocol):
    """A payload that carries an update as codes."""

    def compress(self, update: Floats, rng: np.random.Generator, bit_budget: int | None) -> Any:
        """The codes of an update [N_mod], in ``bit_budget`` bits if the codec can choose."""

    def restore(self, codes: Any, rng: np.random.Generator, size: int) -> Restored:
        """The update [size] that codes stand for."""


def estimated_norm(restored: Floats, captured: float) -> float:
    """The norm of what was encoded."""
    # not np.linalg.norm, which shares out so short a sum to threads, in any order
    length = math.sqrt(float(np.sum(np.square(restored, dtype=np.float64))))
    return math.sqrt(captured) * length
