"""Linear algebra over samples that recur: several mixes of one device share a constituent.

No network is needed. Two mixes with the same dominant sample differ by at most λ in every value, so
the server can tell which do. Every mix leaves an interval for its dominant sample; those of mixes
that share it are intersected, and the remainder of each mix is its minor part. If it were known
which samples recur where, constituents in as many mixes as there are of them would be solutions of
linear equations, exact but for rounding: these are counted too.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mix2fld.protocols.parts import Seeding
from mix2fld_lab.attacks.rates import Share
from mix2fld_lab.attacks.unmixing import (
    DOMINANT,
    MINOR,
    Candidates,
    Floats,
    as_mixes,
    class_means,
    dominants,
    link_dominants,
    minors,
)
from mix2fld_lab.audit.ground import Ground, Rows
from mix2fld_lab.audit.identify import identified, quality
from mix2fld_lab.audit.seeds import upload_seeds


class RecurringParts(NamedTuple):
    """What is taken for constituents of mixes, and which samples they are."""

    values: Floats  # [m, v]
    rows: Rows  # [m], of the training set


def recurring_samples(
    ground: Ground, seeding: Seeding, seed: int, public: Candidates
) -> dict[str, Any]:
    """What recurring samples give away in all mixes of two of one run."""
    sizes, parts = ground.sizes(seed), ground.parts(seed)
    means = class_means(public, ground.dataset.num_labels)
    nothing = Share(0, 0)
    counts = {
        "recurring": nothing,
        "determined": nothing,
        "linked": nothing,
        "false_links": nothing,
    }
    found: dict[str, list[RecurringParts]] = {"dominant": [], "dominant alone": [], "minor": []}
    for device, own in enumerate(parts):
        upload = upload_seeds(ground, seeding, sizes, device, own)
        mixes = as_mixes(upload.seeds, sizes, mixed=True)
        groups, sources = link_dominants(mixes), upload.sources
        for name, share in _counted(sources, groups, sizes.config.seeding.ratios).items():
            counts[name] += share
        together = np.flatnonzero(np.bincount(groups)[groups] > 1)
        if not len(together):
            continue
        joint, alone = (dominants(mixes, g, means) for g in (groups, np.arange(len(groups))))
        minor = minors(mixes, joint)
        for name, values in (("dominant", joint), ("dominant alone", alone), ("minor", minor)):
            part = MINOR if name == "minor" else DOMINANT
            found[name].append(RecurringParts(values[together], sources[together, part]))
    shape = sizes.dims.seed_shape
    shares = {name: share.as_record() for name, share in counts.items()}
    return {**shares, **{name: _judged(ground, each, shape) for name, each in found.items()}}


def determined(sources: Rows, ratios: tuple[float, ...]) -> NDArray[np.bool_]:
    """Which constituents the equations of all mixes leave no freedom, by number: [constituents]."""
    _, places = np.unique(sources, return_inverse=True)
    places = places.reshape(sources.shape)
    equations = np.zeros((len(sources), int(places.max()) + 1))
    for part, ratio in enumerate(ratios):
        np.add.at(equations, (np.arange(len(sources)), places[:, part]), ratio)
    _, scales, axes = np.linalg.svd(equations)
    rank = int((scales > 1e-9).sum())
    free = (axes[rank:] ** 2).sum(axis=0)
    return np.asarray(free < 1e-9)


def _counted(
    sources: Rows, groups: NDArray[np.int64], ratios: tuple[float, ...]
) -> dict[str, Share]:
    """Recurring and determined constituents, and how many links are found and wrong."""
    _, times = np.unique(sources, return_counts=True)
    exact = int(determined(sources, ratios).sum())
    first, second = np.triu_indices(len(sources), 1)
    shared = sources[first, DOMINANT] == sources[second, DOMINANT]
    linked = groups[first] == groups[second]
    return {
        "recurring": Share(int((times > 1).sum()), len(times)),
        "determined": Share(exact, len(times)),
        "linked": Share(int((shared & linked).sum()), int(shared.sum())),
        "false_links": Share(int((linked & ~shared).sum()), int(linked.sum())),
    }


def _judged(
    ground: Ground, found: list[RecurringParts], shape: tuple[int, ...]
) -> dict[str, Any] | None:
    if not found:
        return None
    values = np.concatenate([each.values for each in found])
    rows = np.concatenate([each.rows for each in found])
    true = ground.candidates(rows).values
    share = identified(ground, values, rows).as_record()
    return {"among_all": share, **quality(values, true, shape)}
