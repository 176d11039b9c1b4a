"""The networks known by name, with their real weights from the registry."""

import numpy as np
import pytest

from mix2fld.data.features.find import find_network
from mix2fld.data.features.speech import SHORTEST
from mix2fld.data.features.text import as_samples

pytestmark = pytest.mark.long


def blocks():
    """An image of coloured squares."""
    small = np.random.default_rng(7).integers(0, 256, (1, 9, 12, 3), dtype=np.uint8)
    return np.kron(small, np.ones((1, 4, 4, 1), np.uint8))


@pytest.mark.parametrize(
    ("version", "places", "values", "total"),
    [  # as the package efficientnet-lite-pytorch computes them
        (0, [468, 659, 113, 423], [2.6422, 2.6321, 2.6152, 2.3768], 91.138),
        (1, [280, 882, 1077, 140], [3.1676, 3.1487, 2.9219, 2.5792], 77.005),
        (2, [302, 749, 616, 52], [3.833, 3.8308, 2.5076, 2.3041], 96.33),
    ],
)
def test_images(version, places, values, total):
    image = blocks()
    network = find_network(f"efficientnet-lite{version}", image.shape[1:], "uint8")
    found = network(image)
    assert found.shape == (1, 1280)
    roots = 10 * np.sqrt(np.array(values) / total)
    np.testing.assert_allclose(found[0, places], roots, atol=2e-4)
    np.testing.assert_allclose(np.linalg.norm(found), 10, atol=1e-5)
    grey = find_network(network.about.name, (36, 48, 1), "uint8")(image[..., :1])
    three = network(np.repeat(image[..., :1], 3, axis=3))
    np.testing.assert_allclose(grey, three, atol=1e-5)


def tone(hertz, seconds):
    rng, time = np.random.default_rng(0), np.arange(int(16_000 * seconds)) / 16_000
    wave = 0.3 * np.sin(2 * np.pi * hertz * time) + 0.01 * rng.normal(size=len(time))
    return wave.astype(np.float32)


def test_sound():
    waves = np.stack([tone(200, 1), tone(210, 1), tone(2000, 1)])
    found = find_network("speech-embedding", waves.shape[1:], "float32", 16_000)(waves)
    assert found.shape == (3, 192)
    apart = np.linalg.norm(found - found[0], axis=1)
    assert 0 < apart[1] < apart[2] / 2
    short = tone(200, 0.5)
    padded = np.pad(short, (0, SHORTEST - len(short)))
    both = [find_network("speech-embedding", w.shape, "float32")(w[None]) for w in (short, padded)]
    assert np.array_equal(*both)


def test_text():
    lines = [
        "To be, or not to be: that is the question",
        "  two  spaces\n\tand 3.14159 émigré ☃ 日本語",
        "That is the question: to be or not to be",
        "",
    ]
    network = find_network("wordllama", (64,), "uint8")
    tokens = network.apply.tokens
    # As the package tokenizers encodes them.
    assert tokens(lines[1])[:9] == [259, 1023, 29871, 8162, 13, 12, 392, 29871, 29941]
    assert tokens(lines[1])[-7:] == [229, 155, 134, 29871, 30325, 30346, 30968]
    found = network(as_samples(lines, 64))
    assert found.shape == (4, 256)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [10, 10, 10, 0], atol=1e-4)
    assert found[0] @ found[2] > 2 * abs(found[0] @ found[1])
