"""The samples that the server sees: raw, mixed-up and inverse-Mixup ones, with their privacy."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.data.samples import carry_seeds, mix, seeds_in_stored_units, to_stored_units
from mix2fld.protocols.inverse_mixup import (
    Groups,
    Pool,
    inverse_groups,
    inverse_samples,
    pool_seeds,
)
from mix2fld.protocols.seed_samples import draw_groups, seed_stream
from mix2fld.report.dataset import data_of, parts_of
from mix2fld.report.deliveries import seeds_delivered
from mix2fld.report.protocol_view import make_seeds, seeding_of, sizes_of, title_of
from mix2fld.report.sample_pictures import drawn, shown_range, units
from mix2fld.report.sample_privacy import sample_privacy, statistics
from mix2fld.runs.reader import LoadedRun
from mix2fld.tasks.learning import Sizes
from mix2fld.types import Dataset, Inputs, Seeds

CARDS = 6
MOST_MEASURED = 1000
_PLACES = 3


@dataclass(frozen=True)
class ServerSamples:
    """The seeds that a run's server has received, with the raw samples behind each."""

    sizes: Sizes
    dataset: Dataset
    seeds: dict[int, Seeds]
    sources: NDArray[np.int64] | None
    """[m, N] rows of the training set, for each pooled seed; None where they cannot be told."""

    @cached_property
    def pool(self) -> Pool:
        """All seeds, device after device."""
        return pool_seeds(self.seeds)

    @cached_property
    def _edges(self) -> tuple[float, float]:
        return shown_range(self.dataset)

    @property
    def mixed(self) -> bool:
        """Whether a seed mixes several samples: it then has several labels."""
        return self.pool.labels.shape[1] > 1

    def raw(self, rows: Any) -> Inputs:
        """The raw samples that pooled seeds were made from."""
        assert self.sources is not None
        return self.dataset.train_inputs[self.sources[rows]]

    def uploaded(self, rows: Any) -> NDArray[np.float64]:
        """Pooled seeds as they were sent, in the units of the raw samples."""
        chosen = np.arange(len(self.pool.labels))[rows]
        return seeds_in_stored_units(self.pool.inputs[chosen], self.sizes.dims)

    def tile(
        self, sample: NDArray[Any], labels: list[int], privacy: float | None = None
    ) -> dict[str, Any]:
        """A sample with its labels; with its privacy if given, None if it equals a raw one."""
        tile = {**drawn(sample, self.dataset.samples, self._edges), "labels": labels}
        if privacy is not None:
            tile["privacy"] = round(float(privacy), _PLACES) if np.isfinite(privacy) else None
        return tile


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
    samples = received.dataset.samples
    names = list(received.dataset.label_names)
    shown |= {"units": units(samples), "samples": str(samples), "label_names": names}
    if received.mixed:
        shown |= {"kind": "mixed", "privacy": _privacy_table(mixed=_mixed_privacy(received))}
        if seeding.unmixed:
            return shown | _inverse_part(received)
    cards = [{"mixes": [_mix_of(received, row)], "made": []} for row in _first_rows(received.pool)]
    return shown | {"cards": cards}


def received_samples(run: LoadedRun) -> ServerSamples | None:
    """The seeds delivered so far, recomputed from the dataset; None if there are none."""
    dataset, config = data_of(run), run.config
    parts, sizes = parts_of(dataset, config), sizes_of(config, dataset)
    seeds, sources = {}, {}
    for device in seeds_delivered(run):
        part = parts[device]
        inputs, labels = dataset.train_inputs[part], dataset.train_labels[part]
        seeds[device] = make_seeds(sizes, device, inputs, labels)
        drawn = _drawn_again(seeds[device], sizes, device, inputs, labels)
        if drawn is not None:
            sources[device] = part[drawn]
    if not seeds:
        return None
    known = len(sources) == len(seeds)
    joined = np.concatenate([sources[device] for device in sorted(sources)]) if known else None
    return ServerSamples(sizes, dataset, seeds, joined)


def _drawn_again(
    made: Seeds, sizes: Sizes, device: int, inputs: Inputs, labels: NDArray[np.int32]
) -> NDArray[np.int64] | None:
    """Which of a device's samples its mixes combine; None if they were drawn in another way."""
    config = sizes.config.seeding
    if made.labels.shape[1] != len(config.ratios):
        return None
    groups = draw_groups(seed_stream(sizes.seed, device), labels, config)
    mixes = carry_seeds(mix(inputs[groups], config.ratios), sizes.dims)
    return groups if np.array_equal(mixes, made.inputs) else None


def _inverse_part(received: ServerSamples) -> dict[str, Any]:
    """The samples that the server generates by inverse-Mixup, and their privacy."""
    pool, groups = inverse_groups(received.seeds, received.sizes.config)
    if not len(groups.members):
        return {"kind": "waiting"}
    shown = Groups(groups.members[:MOST_MEASURED], groups.labels[:MOST_MEASURED])
    made = to_stored_units(
        inverse_samples(pool, shown, received.sizes), received.dataset.samples
    )  # [g, N, ...]
    privacy = _inverse_privacy(received, shown, made)
    cards = [
        {
            "mixes": [_mix_of(received, row) for row in shown.members[card]],
            "made": [
                received.tile(one, [int(label)], None if privacy is None else privacy[card, n])
                for n, (one, label) in enumerate(zip(made[card], shown.labels[card], strict=True))
            ],
        }
        for card in range(min(CARDS, len(made)))
    ]
    inverse = None if privacy is None else privacy.ravel()
    table = _privacy_table(mixed=_mixed_privacy(received), inverse=inverse)
    return {"kind": "inverse", "cards": cards, "privacy": table}


def _inverse_privacy(
    received: ServerSamples, groups: Groups, made: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """[g, N], each against all the raw samples that its group comes from."""
    if received.sources is None:
        return None
    raw = received.raw(groups.members)  # [g, N, N, ...]
    raw = raw.reshape(len(raw), -1, *raw.shape[3:])
    return np.stack([sample_privacy(made[:, n], raw) for n in range(made.shape[1])], 1)


def _mixed_privacy(received: ServerSamples) -> NDArray[np.float64] | None:
    if received.sources is None:
        return None
    return sample_privacy(received.uploaded(slice(None)), received.raw(slice(None)))


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
    seen, labels = received.uploaded([row])[0], received.pool.labels[row].tolist()
    sent = {"device": int(received.pool.device[row]), "raw": []}
    if not received.mixed:
        return sent | {"mixed": received.tile(seen, labels, -np.inf)}
    if received.sources is None:
        return sent | {"mixed": received.tile(seen, labels)}
    raw = received.raw(row)
    privacy = sample_privacy(seen[None], raw[None])[0]
    return sent | {
        "raw": [received.tile(one, [label]) for one, label in zip(raw, labels, strict=True)],
        "mixed": received.tile(seen, labels, privacy),
    }


def _first_rows(pool: Pool) -> NDArray[np.int64]:
    """One sample of each of the first devices."""
    return np.unique(pool.device, return_index=True)[1][:CARDS]
