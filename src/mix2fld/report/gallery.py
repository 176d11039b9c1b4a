"""The samples that the server sees: raw, mixed-up and inverse-Mixup ones, with their privacy."""

import base64
import io
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mix2fld.config import Config
from mix2fld.data.samples import as_uploaded, for_display, mix, to_pixels
from mix2fld.device.seeds import draw_groups, seed_stream
from mix2fld.privacy.sample_privacy import sample_privacy, statistics
from mix2fld.report.dataset import data_of, parts_of
from mix2fld.report.deliveries import seeds_delivered
from mix2fld.report.protocol_view import make_seeds, seeding_of, title_of
from mix2fld.runs.reader import LoadedRun
from mix2fld.server.inverse_mixup import (
    Groups,
    Pool,
    inverse_groups,
    inverse_samples,
    pool_seeds,
)
from mix2fld.types import Dataset, Images, Seeds

CARDS = 6
MOST_MEASURED = 1000
_PLACES = 3

Tile = dict[str, Any]


@dataclass(frozen=True)
class ServerSamples:
    """The seeds that a run's server has received, with the raw samples behind each."""

    config: Config
    dataset: Dataset
    seeds: dict[int, Seeds]
    sources: NDArray[np.int64] | None
    """[m, N] rows of the training set, for each pooled seed; None where they cannot be told."""

    @cached_property
    def pool(self) -> Pool:
        """All seeds, device after device."""
        return pool_seeds(self.seeds)

    @property
    def mixed(self) -> bool:
        """Whether a seed mixes several samples: it then has several labels."""
        return self.pool.labels.shape[1] > 1

    def raw(self, rows: Any) -> NDArray[np.uint8]:
        """The raw samples that pooled seeds were made from."""
        assert self.sources is not None
        return self.dataset.train_inputs[self.sources[rows]]


def gallery(run: LoadedRun) -> dict[str, Any] | None:
    """Examples and privacy of the samples at a run's server; None if it receives none."""
    seeding = seeding_of(run.protocol)
    if seeding is None:
        return None
    received = received_samples(run)
    shown: dict[str, Any] = {
        "protocol": title_of(run.protocol),
        "seed": run.seed,
        "ratios": [round(ratio, 6) for ratio in run.config.seeding.ratios],
        "devices": 0 if received is None else len(received.seeds),
        "kind": "raw",
        "cards": [],
        "privacy": {},
    }
    if received is None:
        return shown
    if received.mixed:
        shown |= {"kind": "mixed", "privacy": _privacy_table(mixed=_mixed_privacy(received))}
        if seeding.unmixed:
            return shown | _inverse_part(received)
    cards = [{"mixes": [_mix_of(received, row)], "made": []} for row in _first_rows(received.pool)]
    return shown | {"cards": cards}


def received_samples(run: LoadedRun) -> ServerSamples | None:
    """The seeds delivered so far, recomputed from the dataset; None if there are none."""
    dataset, config = data_of(run), run.config
    parts = parts_of(dataset, config)
    seeds, sources = {}, {}
    for device in seeds_delivered(run):
        part = parts[device]
        images, labels = dataset.train_inputs[part], dataset.train_labels[part]
        seeds[device] = make_seeds(config, device, images, labels)
        drawn = _drawn_again(seeds[device], config, device, images, labels)
        if drawn is not None:
            sources[device] = part[drawn]
    if not seeds:
        return None
    known = len(sources) == len(seeds)
    joined = np.concatenate([sources[device] for device in sorted(sources)]) if known else None
    return ServerSamples(config, dataset, seeds, joined)


def _drawn_again(
    made: Seeds, config: Config, device: int, images: NDArray[np.uint8], labels: NDArray[np.int32]
) -> NDArray[np.int64] | None:
    """Which of a device's samples its mixes combine; None if they were drawn in another way."""
    if made.labels.shape[1] != len(config.seeding.ratios):
        return None
    groups = draw_groups(seed_stream(config.seed[0], device), labels, config.seeding)
    mixes = mix(images[groups], config.seeding.ratios)
    same = np.array_equal(as_uploaded(mixes, config.seeding.seed_bits_per_pixel), made.inputs)
    return groups if same else None


def _inverse_part(received: ServerSamples) -> dict[str, Any]:
    """The samples that the server generates by inverse-Mixup, and their privacy."""
    pool, groups = inverse_groups(received.seeds, received.config)
    if not len(groups.members):
        return {"kind": "waiting"}
    shown = Groups(groups.members[:MOST_MEASURED], groups.labels[:MOST_MEASURED])
    made = inverse_samples(pool, shown, received.config.seeding)  # [g, N, H, W, C]
    privacy = _inverse_privacy(received, shown, made)
    cards = [
        {
            "mixes": [_mix_of(received, row) for row in shown.members[card]],
            "made": [
                _tile(image, [int(label)], None if privacy is None else privacy[card, n])
                for n, (image, label) in enumerate(zip(made[card], shown.labels[card], strict=True))
            ],
        }
        for card in range(min(CARDS, len(made)))
    ]
    inverse = None if privacy is None else privacy.ravel()
    table = _privacy_table(mixed=_mixed_privacy(received), inverse=inverse)
    return {"kind": "inverse", "cards": cards, "privacy": table}


def _inverse_privacy(
    received: ServerSamples, groups: Groups, made: NDArray[np.float32]
) -> NDArray[np.float64] | None:
    """[g, N], each against all the raw samples that its group comes from."""
    if received.sources is None:
        return None
    raw = received.raw(groups.members)  # [g, N, N, H, W, C]
    raw = raw.reshape(len(raw), -1, *raw.shape[3:])
    return np.stack([sample_privacy(to_pixels(made[:, n]), raw) for n in range(made.shape[1])], 1)


def _mixed_privacy(received: ServerSamples) -> NDArray[np.float64] | None:
    if received.sources is None:
        return None
    return sample_privacy(to_pixels(received.pool.inputs), received.raw(slice(None)))


def _privacy_table(**kinds: NDArray[np.float64] | None) -> dict[str, dict[str, float | None]]:
    """The statistics of each kind of sample whose sources are known."""
    return {
        kind: {
            name: None if value is None else round(value, _PLACES)
            for name, value in statistics(values).items()
        }
        for kind, values in kinds.items()
        if values is not None
    }


def _mix_of(received: ServerSamples, row: int) -> dict[str, Any]:
    """One seed as its device sent it, with the raw samples in it where it is a mix."""
    image, labels = received.pool.inputs[row], received.pool.labels[row].tolist()
    sent = {"device": int(received.pool.device[row]), "raw": []}
    if not received.mixed:
        return sent | {"mixed": _tile(image, labels, -np.inf)}
    if received.sources is None:
        return sent | {"mixed": _tile(image, labels)}
    raw = received.raw(row)
    privacy = sample_privacy(to_pixels(image)[None], raw[None])[0]
    return sent | {
        "raw": [_tile(one, [label]) for one, label in zip(raw, labels, strict=True)],
        "mixed": _tile(image, labels, privacy),
    }


def _first_rows(pool: Pool) -> NDArray[np.int64]:
    """One sample of each of the first devices."""
    return np.unique(pool.device, return_index=True)[1][:CARDS]


def _tile(image: Images, labels: list[int], privacy: float | None = None) -> Tile:
    """A picture with its labels; with its privacy if given, None if it equals a raw sample."""
    shown = for_display(image)
    picture = Image.fromarray(shown[..., 0] if shown.shape[-1] == 1 else shown)
    data = io.BytesIO()
    picture.save(data, format="PNG", optimize=True)
    tile: Tile = {
        "image": "data:image/png;base64," + base64.b64encode(data.getvalue()).decode(),
        "labels": labels,
    }
    if privacy is not None:
        tile["privacy"] = round(float(privacy), _PLACES) if np.isfinite(privacy) else None
    return tile
