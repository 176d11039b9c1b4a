"""Labels that devices give to shared seeds are judged by the labels that the seeds came with."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mix2fld.server.seed_judge import Judgement, below, least_agreement
from mix2fld.types import SeedSet, ServerState, Upload


def judge_labels(inbox: Mapping[int, Upload], own: Mapping[int, NDArray[np.float32]]) -> Judgement:
    """Which devices label the seeds of others far worse than is typical.

    The rule is that of seeds (decision 33); the labels that they came with are ``own``.
    """
    agreement = {}
    for device in sorted(inbox):
        given = inbox[device].value
        agreed = [
            given[owner].argmax(axis=1) == labels.argmax(axis=1)
            for owner, labels in own.items()
            if owner in given and owner != device
        ]
        if agreed:
            agreement[device] = float(np.mean(np.concatenate(agreed)))
    samples = max((len(labels) for labels in own.values()), default=1)
    return Judgement(agreement, below(agreement, least_agreement(agreement, (), samples)), 0)


def labels_of_seeds(server: ServerState, seeds: SeedSet) -> dict[int, NDArray[np.float32]]:
    """The labels that the seeds in use came with, by device [N_S, N_L]."""
    used = [device for device in sorted(server.seeds) if device not in seeds.left_out]
    return dict(zip(used, np.split(seeds.targets, len(used)), strict=True))
