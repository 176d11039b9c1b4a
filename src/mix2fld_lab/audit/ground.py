"""Who holds which samples in an audit: devices, the attacker's public ones, and outsiders."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.base.streams import stream
from mix2fld.config.grid import Grid
from mix2fld.data import device_parts
from mix2fld.data.resolution import pool
from mix2fld.data.samples import stored_unit
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.learning import Sizes
from mix2fld.tasks.of_settings import sizes_for
from mix2fld.types import Dataset
from mix2fld_lab.attacks.rates import FALSE_POSITIVES, check_candidates
from mix2fld_lab.attacks.unmixing import Candidates

Rows = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Ground:
    """The training set, divided: no sample is on two sides, in any of the audited seeds."""

    dataset: Dataset
    config: Grid
    outsiders: int
    """Samples outside of every upload, on which false positives are counted."""

    def parts(self, seed: int) -> list[Rows]:
        """The samples of each device in the run of one seed."""
        return list(device_parts(self.dataset, self.config.at(seed=seed)))

    @cached_property
    def _free(self) -> tuple[Rows, Rows]:
        held = [np.concatenate(self.parts(seed)) for seed in self.config.seeds]
        rows = np.setdiff1d(np.arange(len(self.dataset.train_labels)), np.concatenate(held))
        rows = stream(self.config.seeds[0], "audit-split").permutation(rows)
        check_candidates(min(self.outsiders, len(rows)), min(FALSE_POSITIVES))
        if len(rows) < 2 * self.outsiders:
            raise InputError(
                field="outsiders",
                value=f"{self.outsiders:,}",
                hint=f"devices leave {len(rows):,} training samples, of "
                "which the attacker's public ones take at least half; decrease it, or devices, "
                "samples_per_device or seeds",
            )
        return rows[self.outsiders :], rows[: self.outsiders]

    @property
    def public(self) -> Rows:
        """Samples that the attacker trains on."""
        return self._free[0]

    @property
    def outside(self) -> Rows:
        """Samples that are in no upload, and that the attacker does not train on."""
        return self._free[1]

    def candidates(self, rows: Rows) -> Candidates:
        """Samples as an attacker compares them with seeds: pooled, and within [0, 1]."""
        samples, shape = self.dataset.samples, self.sizes(self.config.seeds[0]).dims.seed_shape
        values = self.dataset.train_inputs[rows].astype(np.float64) / stored_unit(samples)
        scaled = (pool(values, shape) - samples.low) / (samples.high - samples.low)
        flat = scaled.reshape(len(rows), -1).astype(np.float32)
        return Candidates(flat, self.dataset.train_labels[rows])

    def sizes(self, seed: int) -> Sizes:
        """What seeds are made by in the run of one seed."""
        config = self.config.at(seed=seed)
        return sizes_for(Classification(self.dataset.num_labels), config, self.dataset.samples)

    def like(self, rows: Rows, pool_of: Rows, rng: np.random.Generator) -> Rows:
        """Other samples, drawn from a pool, with as many of each label as ``rows`` has."""
        labels = self.dataset.train_labels
        chosen = []
        for label, count in zip(*np.unique(labels[rows], return_counts=True), strict=True):
            available = pool_of[labels[pool_of] == label]
            if len(available) < count:
                raise InputError(
                    field="outsiders",
                    hint=f"{len(available)} samples of label {label} are left, {count} are "
                    "needed; decrease devices or samples_per_device",
                )
            chosen.append(rng.choice(available, size=int(count), replace=False))
        return np.concatenate(chosen)

    def outsiders_like(self, rows: Rows) -> Rows:
        """As many outsiders as there are with the label frequencies of ``rows``."""
        labels, outside = self.dataset.train_labels, self.outside
        kinds, counts = np.unique(labels[rows], return_counts=True)
        available = np.array([(labels[outside] == label).sum() for label in kinds])
        times = int((available // counts).min())
        chosen = [
            outside[labels[outside] == label][: times * count]
            for label, count in zip(kinds, counts, strict=True)
        ]
        return np.concatenate(chosen)
