"""Texts as windows of tokens."""

import numpy as np
import pytest

import mix2fld
from mix2fld.base.errors import InputError
from mix2fld.data.text import OTHER

TEXTS = {"one": "abcabcabcabcabcabcabcabcabcabc", "two": "aabbaabbaabbaabbaabbaabbzzzzzz"}


def test_windows_and_what_follows_them_are_the_text() -> None:
    made = mix2fld.next_characters(TEXTS, window=3, characters=5, test_fraction=0.2)
    assert made.label_names[-1] == OTHER
    assert made.num_labels == 4  # a, b and c are in the training texts; z is not
    names = np.array([*made.label_names[:-1], "?"])
    for part, cut in (("train", slice(0, 24)), ("test", slice(24, 30))):
        rows = np.column_stack([getattr(made, f"{part}_inputs"), getattr(made, f"{part}_labels")])
        owners = getattr(made, f"{part}_sources")
        for number, text in enumerate(TEXTS.values()):
            own = text[cut].replace("z", "?")
            read = ["".join(row) for row in names[rows[owners == number]]]
            assert read == [own[place : place + 4] for place in range(len(own) - 3)]
    assert made.source_names == ("one", "two")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"window": 0}, "window = 0"),
        ({"characters": 1}, "characters = 1"),
        ({"test_fraction": 1.0}, "test_fraction"),
        ({"window": 6}, "'one': has 30 characters; with a window of 6, 24 to train and 6"),
    ],
)
def test_bad_input_is_named(changes: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        mix2fld.next_characters(TEXTS, **{"window": 3, **changes})
