"""The samples that the server sees: raw, mixed-up and inverse-Mixup ones, with their privacy."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from mix2fld.data.samples import Coding, carry_seeds, mix, seeds_in_stored_units, to_stored_units
from mix2fld.engine.wire import Wire
from mix2fld.protocols.inverse_mixup import (
    Groups,
    Pool,
    inverse_groups,
    inverse_samples,
    pool_seeds,
)
from mix2fld.protocols.seed_samples import draw_groups, seed_stream
from mix2fld.protocols.table import get_protocol
from mix2fld.report.dataset import data_of, parts_of
from mix2fld.report.protocol_view import in_table_order, seeding_of, sizes_of, title_of
from mix2fld.report.run_view import asked, delivered
from mix2fld.runs.config_file import dump_config
from mix2fld.runs.reader import LoadedRun
from mix2fld.tasks.learning import Sizes
from mix2fld.types import Dataset, Inputs, SampleFormat, Seeds

QUANTILES = {"q05": 0.05, "median": 0.5, "q95": 0.95}

Statistics = dict[str, float | None]


def sample_privacy(made: ArrayLike, raw: ArrayLike) -> NDArray[np.float64]:
    """Natural logarithm of the smallest L2 distance of each sample to its sources: [m].

    ``made`` [m, ...] in the units in which samples are stored (pixels from 0 to 255); ``raw``
    [m, k, ...] are the k raw samples that each was made from. A sample that equals one of its
    sources has minus infinity.
    """
    seen = np.asarray(made, dtype=np.float64)
    held = np.asarray(raw, dtype=np.float64)
    distances = np.sqrt(((seen[:, None] - held) ** 2).reshape(*held.shape[:2], -1).sum(axis=2))
    with np.errstate(divide="ignore"):
        return np.log(distances.min(axis=1))


def statistics(values: NDArray[np.float64]) -> Statistics:
    """Minimum, mean, quantiles and number of the values; None where one is minus infinity.

    A quantile is the value at its rank or, between two ranks, at the lower one: always the privacy
    of a sample, never an interpolation (which minus infinity would spoil).
    """
    if not len(values):
        return dict.fromkeys(("min", "mean", *QUANTILES), None) | {"count": 0.0}
    numbers = {"min": values.min(), "mean": values.mean()}
    numbers |= {name: np.quantile(values, at, method="lower") for name, at in QUANTILES.items()}
    shown = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
    return {**shown, "count": float(len(values))}


PICTURE_CHANNELS = (1, 3)
MOST_LINES, MOST_POINTS, TOP = 8, 200, 1000
SHOWN_PART = (0.002, 0.998)
"""Lines are scaled to these quantiles of the training samples, so that outliers flatten nothing."""


def is_image(samples: SampleFormat) -> bool:
    """Whether samples are pictures [H, W, C] of one or three channels."""
    return len(samples.shape) == 3 and samples.shape[-1] in PICTURE_CHANNELS


def shown_range(dataset: Dataset) -> tuple[float, float]:
    """The values between the lower and the upper edge of a drawing, in the units of storage."""
    if dataset.samples.dtype == "uint8":
        return 0.0, 255.0
    some = dataset.train_inputs[:: max(1, len(dataset.train_inputs) // 1000)]
    low, high = np.quantile(some, SHOWN_PART).tolist()
    return (low, high) if low < high else dataset.value_range or (0.0, 1.0)


def drawn(
    sample: NDArray[Any], samples: SampleFormat, edges: tuple[float, float]
) -> dict[str, Any]:
    """What the page draws: ``image``, a picture; or ``lines``, one for each channel."""
    if is_image(samples):
        return {"image": picture(sample, samples)}
    return {"lines": lines(sample, edges)}


def picture(sample: NDArray[Any], samples: SampleFormat) -> str:
    """An image in the units of storage as the nearest picture that a screen can show."""
    shown = Coding(samples, 8).carry(sample.astype(np.float64))
    image = Image.fromarray(shown[..., 0] if shown.shape[-1] == 1 else shown)
    data = io.BytesIO()
    image.save(data, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def lines(sample: NDArray[Any], edges: tuple[float, float]) -> list[list[int]]:
    """Heights from 0 to ``TOP`` along time, or along the values of a vector.

    Of many channels the first ones; of many points, some.
    """
    low, high = edges
    columns = sample.reshape(-1, sample.shape[-1]).T if sample.ndim == 2 else sample.reshape(1, -1)
    chosen = columns[:MOST_LINES, :: -(-columns.shape[1] // MOST_POINTS)]
    heights = np.clip((chosen - low) / (high - low), 0, 1) * TOP
    return np.rint(heights).astype(int).tolist()


def units(samples: SampleFormat) -> str:
    """What distances between samples are measured in."""
    if samples.dtype == "uint8":
        return "pixels from 0 to 255" if is_image(samples) else "values from 0 to 255"
    if samples.mean:
        return "in standard deviations of each channel"
    return "in the units of the data"


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


def gallery_of(runs: Sequence[LoadedRun]) -> dict[str, Any] | None:
    """Of the run of these whose server does most with samples; kept while it receives no more."""
    best = most_informative(runs)
    return None if best is None else _gallery(_SameSamples(best))


def most_informative(runs: Sequence[LoadedRun]) -> LoadedRun | None:
    """Of the first seed: the run whose server does most with samples, Mix2FLD before FLD."""
    sending = [run for run in runs if seeding_of(run.protocol) is not None]
    order = in_table_order(run.protocol for run in sending)
    return min(sending, key=lambda run: (run.seed, -order.index(run.protocol)), default=None)


class _SameSamples:
    """A run, equal to another while the server has received the same samples."""

    def __init__(self, run: LoadedRun) -> None:
        self.run = run
        self._key = (dump_config(run.config), tuple(seeds_delivered(run)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameSamples) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=16)
def _gallery(seen: _SameSamples) -> dict[str, Any] | None:
    return gallery(seen.run)


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


def seeds_delivered(run: LoadedRun) -> list[int]:
    """Devices whose seed samples the server has.

    They go with a device's first upload; lost ones with its next uploads, if they are resent.
    """
    resent = run.config.seeding.lost_seeds == "resend"
    tried: set[int] = set()
    received: set[int] = set()
    for info in run.rounds:
        arrived = delivered(info, "uploads")
        received |= arrived if resent else arrived - tried
        tried |= asked(info)
    return sorted(received)


def received_samples(run: LoadedRun) -> ServerSamples | None:
    """The seeds delivered so far, recomputed from the dataset; None if there are none."""
    dataset, config = data_of(run), run.config
    parts, sizes = parts_of(dataset, config), sizes_of(config, dataset)
    seeds, sources = {}, {}
    for device in seeds_delivered(run):
        part = parts[device]
        inputs, values = dataset.train_inputs[part], dataset.train_values[part]
        row = get_protocol(config.protocol)
        seeds[device] = cast(Seeds, Wire(row, sizes).make_once(device, inputs, values))
        labels, _ = sizes.labels_and_targets(values)
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
