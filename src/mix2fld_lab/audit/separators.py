"""The separation networks of an audit: trained when first needed, each once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mix2fld.base.errors import InputError
from mix2fld.config.settings import DataConfig
from mix2fld.data import load_dataset
from mix2fld.protocols.seed_samples import mixed
from mix2fld_lab.attacks.unmixing import Candidates
from mix2fld_lab.audit.ground import Ground
from mix2fld_lab.audit.recurring import recurring_samples

PUBLIC_AT_MOST = 30_000


@dataclass(frozen=True, eq=False)
class Separators:
    """One trained on public samples of the same kind, and one on those of another dataset."""

    ground: Ground
    steps: int
    foreign: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """The stages for which there is a network."""
        kinds = ("recovery", "foreign") if self.foreign else ("recovery",)
        return kinds if self.steps else ()

    def recover(self, kind: str, ground: Ground, seed: int) -> dict[str, Any]:
        """What one of the networks makes of the seeds of a run."""
        from mix2fld_lab.audit.recovery import recovery

        weights = self._own if kind == "recovery" else self._foreign
        return recovery(ground, mixed, seed, weights)

    def without_network(self, ground: Ground, seed: int) -> dict[str, Any]:
        """What recurring samples give away."""
        return recurring_samples(ground, mixed, seed, self.public)

    @cached_property
    def public(self) -> Candidates:
        """The attacker's samples of the same kind."""
        return self.ground.candidates(self.ground.public[:PUBLIC_AT_MOST])

    @cached_property
    def _own(self) -> Any:
        return self._trained_on(self.public)

    @cached_property
    def _foreign(self) -> Any:
        return self._trained_on(foreign_samples(self.ground, self.foreign))

    def _trained_on(self, public: Candidates) -> Any:
        from mix2fld_lab.audit.separation import train_separator

        labels, seed = self.ground.dataset.num_labels, self.ground.config.seeds[0]
        return train_separator(public, labels, self.steps, seed)


def foreign_samples(ground: Ground, name: str) -> Candidates:
    """Samples of another dataset in place of public ones; of its labels, as many as there are."""
    other = load_dataset(DataConfig(dataset=name))
    own = ground.dataset
    if other.samples != own.samples:
        raise InputError(
            field="foreign", value=name, hint=f"samples are {other.samples}, must be {own.samples}"
        )
    config = ground.config.replace(dataset=name)
    found = Ground(other, config, 0).candidates(
        np.arange(min(PUBLIC_AT_MOST, len(other.train_labels)))
    )
    return found._replace(labels=(found.labels % own.num_labels).astype(np.int32))
