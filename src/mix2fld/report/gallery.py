"""What the server sees of the devices' samples: raw, mixed-up and inversely mixed-up ones."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mix2fld.device.seeds import draw_groups, mixed_samples
from mix2fld.learning.task import Task
from mix2fld.privacy.sample_privacy import sample_privacy
from mix2fld.protocol import PROTOCOLS
from mix2fld.report.dataset import data_of, parts_of
from mix2fld.round.wire import make_seeds
from mix2fld.runs.reader import LoadedRun
from mix2fld.server.inverse_mixup import find_groups, pool_seeds, unmix
from mix2fld.server.seed_sets import inversely_mixed
from mix2fld.streams import stream
from mix2fld.types import Dataset, Seeds

CARDS = 6
MOST_MEASURED = 1000


@dataclass(frozen=True)
class ServerPool:
    """The seeds that a run's server holds, with the samples that each was made of."""

    seeds: dict[int, Seeds]
    made_of: dict[int, NDArray[np.int64]]  # [N_S, N] rows of the training set, by device


def gallery(run: LoadedRun) -> dict[str, Any] | None:
    """Examples and privacy of what a run's server holds by now; None if it gets no samples."""
    protocol = PROTOCOLS.get(run.protocol)
    if protocol is None or protocol.collect_seeds is None:
        return None
    dataset, task = data_of(run)
    pool = _pool(run, dataset, task)
    plain: dict[str, Any] = {
        "protocol": protocol.title,
        "seed": run.seed,
        "ratios": [round(ratio, 6) for ratio in task.config.seeding.ratios],
        "devices": len(pool.seeds),
        "kind": "raw",
        "cards": [],
        "privacy": {},
    }
    if not pool.seeds:
        return plain
    if protocol.collect_seeds is not mixed_samples:
        return {**plain, "cards": _raw_cards(pool, dataset)}
    plain = {**plain, "kind": "mixed", "privacy": {"mixed": _spread(_mixed_privacy(pool, dataset))}}
    if protocol.prepare_seeds is inversely_mixed:
        return {**plain, **_inverse_part(pool, dataset, task)}
    cards = [{"mixes": [mix], "made": []} for mix in _mixes(pool, dataset, _first_rows(pool))]
    return {**plain, "cards": cards}


def seeds_delivered(run: LoadedRun) -> list[int]:
    """Devices whose seeds the server has."""
    resent = run.config.seeding.lost_seeds == "resend"
    rounds = run.rounds if resent else run.rounds[:1]
    arrived = (info["uploads"]["devices"] for info in rounds)
    return sorted({device for row in arrived for device, came in enumerate(row) if came})


def _pool(run: LoadedRun, dataset: Dataset, task: Task) -> ServerPool:
    protocol = PROTOCOLS[run.protocol]
    seeds, made_of = {}, {}
    parts = parts_of(dataset, run.config)
    for device in seeds_delivered(run):
        part = parts[device]
        images, labels = dataset.train_images[part], dataset.train_labels[part]
        made = make_seeds(protocol, task, device, images, labels)
        assert made is not None
        seeds[device] = made
        if protocol.collect_seeds is mixed_samples:
            rng = stream(task.seed, "seeds", device)
            made_of[device] = part[draw_groups(rng, labels, task.config.seeding)]
    return ServerPool(seeds, made_of)


def _inverse_part(pool: ServerPool, dataset: Dataset, task: Task) -> dict[str, Any]:
    config = task.config.seeding
    everyone = task.config.data.devices if config.inverse_count == "per-device" else 1
    wanted = -(-config.inverse_samples * everyone // len(config.ratios))
    pooled = pool_seeds(pool.seeds)
    groups = find_groups(pooled, wanted, stream(task.seed, "pairs"))
    if not len(groups.members):
        return {"kind": "waiting"}
    measured = groups._replace(
        members=groups.members[:MOST_MEASURED], labels=groups.labels[:MOST_MEASURED]
    )
    made = unmix(pooled, measured, config.ratios)  # [g, N, H, W, C]
    if config.inverse_clip:
        made = np.clip(made, 0.0, 1.0).astype(np.float32)
    origins = np.concatenate([pool.made_of[device] for device in sorted(pool.made_of)])
    size = made.shape[1]
    raw = dataset.train_images[origins[measured.members].reshape(len(made), -1)]
    privacy = np.stack(
        [sample_privacy(255 * made[:, n].astype(np.float64), raw) for n in range(size)], axis=1
    )
    cards = [
        {
            "mixes": _mixes(pool, dataset, measured.members[card]),
            "made": [
                _tile(made[card, n], [int(measured.labels[card, n])], privacy[card, n])
                for n in range(size)
            ],
        }
        for card in range(min(CARDS, len(made)))
    ]
    spread = {"mixed": _spread(_mixed_privacy(pool, dataset)), "inverse": _spread(privacy.ravel())}
    return {"kind": "inverse", "cards": cards, "privacy": spread}


def _mixes(pool: ServerPool, dataset: Dataset, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Mixed-up samples, rows of the pooled seeds, with the raw samples in them."""
    pooled = pool_seeds(pool.seeds)
    origins = np.concatenate([pool.made_of[device] for device in sorted(pool.made_of)])
    mixes = []
    for row in rows:
        raw = dataset.train_images[origins[row]]
        labels = pooled.labels[row].tolist()
        privacy = sample_privacy(_pixels(pooled.images[row])[None], raw[None])[0]
        mixes.append(
            {
                "device": int(pooled.device[row]),
                "raw": [_tile(one, [label]) for one, label in zip(raw, labels, strict=True)],
                "mixed": _tile(pooled.images[row], labels, privacy),
            }
        )
    return mixes


def _first_rows(pool: ServerPool) -> NDArray[np.int64]:
    """One sample of each of the first devices."""
    sizes = [len(pool.seeds[device].labels) for device in sorted(pool.seeds)]
    return np.cumsum([0, *sizes[:-1]])[:CARDS]


def _raw_cards(pool: ServerPool, dataset: Dataset) -> list[dict[str, Any]]:
    del dataset
    pooled = pool_seeds(pool.seeds)
    cards = []
    for device in sorted(pool.seeds)[:CARDS]:
        row = int(np.flatnonzero(pooled.device == device)[0])
        tile = _tile(pooled.images[row], pooled.labels[row].tolist(), -np.inf)
        cards.append({"mixes": [{"device": device, "raw": [], "mixed": tile}], "made": []})
    return cards


def _mixed_privacy(pool: ServerPool, dataset: Dataset) -> NDArray[np.float64]:
    return np.concatenate(
        [
            sample_privacy(
                _pixels(pool.seeds[device].images), dataset.train_images[pool.made_of[device]]
            )
            for device in sorted(pool.seeds)
        ]
    )


def _spread(privacy: Sequence[float] | NDArray[np.float64]) -> dict[str, float]:
    """Minimum, mean and quantiles (decision 19)."""
    values = np.asarray(privacy)
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    parts = {"min": values.min(), "q05": low, "median": middle, "mean": values.mean(), "q95": high}
    return {name: round(float(value), 3) for name, value in parts.items()}


def _pixels(images: NDArray[Any]) -> NDArray[np.float64]:
    scale = 1 if images.dtype == np.uint8 else 255
    return scale * images.astype(np.float64)


def _tile(image: NDArray[Any], labels: list[int], privacy: float | None = None) -> dict[str, Any]:
    shown = np.clip(np.rint(_pixels(image)), 0, 255).astype(np.uint8)
    picture = Image.fromarray(shown[..., 0] if shown.shape[-1] == 1 else shown)
    data = io.BytesIO()
    picture.save(data, format="PNG", optimize=True)
    tile: dict[str, Any] = {
        "image": "data:image/png;base64," + base64.b64encode(data.getvalue()).decode(),
        "labels": labels,
    }
    if privacy is not None:
        tile["privacy"] = round(float(privacy), 3) if np.isfinite(privacy) else None
    return tile
