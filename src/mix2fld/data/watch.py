"""The smartwatch recordings: ten people did every exercise with each arm."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.unpickle import array_of, load_plain_npy

WATCH_FILE = "watch_dataset.npy"
STRIDE = 50
RIGHT = 1.0


class Recordings(NamedTuple):
    """What each recording is of."""

    series: list[NDArray[np.float64]]  # [T, 6] each
    labels: NDArray[np.int64]
    people: NDArray[np.int64]  # from 1
    right: NDArray[np.bool_]  # the arm; if not, the left one


class Windows(NamedTuple):
    """Windows of some recordings."""

    inputs: NDArray[np.float32]  # [n, length, 6]
    labels: NDArray[np.uint8]
    sources: NDArray[np.uint8]  # people, from 0


def read_recordings(content: bytes) -> Recordings:
    """The recordings in the bytes of ``WATCH_FILE``."""
    table = load_plain_npy(content)
    return Recordings(
        [array_of(one, "f8") for one in table[b"X"]],
        array_of(table[b"y"], "i8"),
        array_of(table[b"subject"], "i8"),
        array_of(table[b"side"], "f8") == RIGHT,
    )


def worn_arm(recordings: Recordings) -> NDArray[np.bool_]:
    """Which recordings are of the arm that a person wears the watch on.

    Odd persons wear it on the right arm and even ones on the left: what is tested of one person,
    others have recorded.
    """
    return recordings.right == (recordings.people % 2 == 1)


def windows_of(recordings: Recordings, chosen: NDArray[np.bool_], length: int) -> Windows:
    """Windows of the recordings that are chosen, every ``STRIDE`` steps."""
    numbers = np.flatnonzero(chosen)
    inputs, which = cut_windows([recordings.series[n] for n in numbers], length, STRIDE)
    labels, people = recordings.labels[numbers][which], recordings.people[numbers][which] - 1
    return Windows(inputs, labels.astype(np.uint8), people.astype(np.uint8))


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
