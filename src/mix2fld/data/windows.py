"""Cut recordings into windows of equal length."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def cut_windows(
    series: Sequence[NDArray[np.floating]], length: int, stride: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Windows [n, length, C] of recordings [T, C] that begin every ``stride`` steps.

    With the recording that each window is from. First come the first windows of all recordings,
    then the second ones, and so on, so that any number of the first windows is a fair selection.
    """
    windows, places = [], []
    for place, recording in enumerate(series):
        for turn, start in enumerate(range(0, len(recording) - length + 1, stride)):
            windows.append(recording[start : start + length].astype(np.float32))
            places.append((turn, place))
    order = sorted(range(len(places)), key=places.__getitem__)
    which = np.array([places[number][1] for number in order], np.int64)
    return np.stack([windows[number] for number in order]), which
