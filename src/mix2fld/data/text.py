"""Texts as samples: a window of characters, and the character that follows."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.dataset import Dataset

OTHER = "\N{REPLACEMENT CHARACTER}"
"""The name of all characters that are too rare to have a token."""


def next_characters(
    texts: Mapping[str, str],
    window: int = 16,
    characters: int = 40,
    test_fraction: float = 0.2,
    name: str = "text",
) -> Dataset:
    """A dataset whose sources are texts, by their names: of a role, a person or a phone.

    A sample is ``window`` token ids, its label the next one. The most frequent ``characters`` - 1
    of the training texts have tokens of their own, all others share the last one. The end of each
    text is tested with, never random parts of it: no window reaches over the cut.
    """
    if characters < 2:
        raise InputError(field="characters", value=characters, hint="must be 2 or more")
    if not 0 < test_fraction < 1:
        raise InputError(field="test_fraction", value=test_fraction, hint="must be within 0 and 1")
    if window < 1:
        raise InputError(field="window", value=window, hint="must be 1 or more")
    cuts = {source: round(len(text) * (1 - test_fraction)) for source, text in texts.items()}
    for source, text in texts.items():
        if min(cuts[source], len(text) - cuts[source]) <= window:
            raise InputError(
                field="texts",
                value=repr(source),
                hint=f"has {len(text)} characters; with a window of {window}, {cuts[source]} to "
                f"train and {len(text) - cuts[source]} to test with must both be more",
            )
    counts = Counter("".join(text[: cuts[source]] for source, text in texts.items()))
    known = [character for character, _ in counts.most_common(characters - 1)]
    token = {character: number for number, character in enumerate(known)}
    parts: list[list[NDArray[np.int32]]] = [[], []]
    owners: list[list[NDArray[np.int32]]] = [[], []]
    for number, (source, text) in enumerate(texts.items()):
        ids = np.array([token.get(character, len(known)) for character in text], np.int32)
        for place, own in enumerate((ids[: cuts[source]], ids[cuts[source] :])):
            rows = np.lib.stride_tricks.sliding_window_view(own, window + 1)
            parts[place].append(rows)
            owners[place].append(np.full(len(rows), number, np.int32))
    train, test = (np.concatenate(part) for part in parts)
    return Dataset(
        name,
        train[:, :window],
        train[:, window],
        test[:, :window],
        test[:, window],
        len(known) + 1,
        train_sources=np.concatenate(owners[0]),
        test_sources=np.concatenate(owners[1]),
        source_names=tuple(texts),
        label_names=(*known, OTHER),
    )
