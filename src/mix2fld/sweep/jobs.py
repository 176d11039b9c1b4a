"""A job is one run of many: its config, and the folder that it is kept in."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mix2fld.config.settings import Config, DataConfig
from mix2fld.data import load_dataset
from mix2fld.engine.wire import check_mixable
from mix2fld.protocols.table import get_protocol
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.simulation import prepare_runs
from mix2fld.types import Dataset

PARTITIONED = {
    *("partition", "devices", "samples_per_device", "samples_spread", "rare_labels"),
    *("rare_samples", "dirichlet_alpha", "shards_per_device", "reuse_samples"),
    *("test_samples", "measured_on"),
}
"""Fields that say what becomes of a dataset, not which one it is."""


@dataclass(frozen=True, eq=False)
class Job:
    """One run of many."""

    folder: Path
    config: Config
    """Of a single run."""
    name: str
    """What it is called among the others."""

    @property
    def cost(self) -> int:
        """SGD steps of all devices and of the server."""
        return self.config.rounds * self.round_cost

    @property
    def round_cost(self) -> int:
        """SGD steps of a round."""
        config, row = self.config, get_protocol(self.config.protocol)
        learning = config.learning
        trains = learning.server_steps if row.server_trains else 0
        return config.participants_per_round * learning.local_steps + trains

    def rounds_done(self) -> int:
        """Rounds that are on disk."""
        try:
            return RunFiles(self.folder).rounds.read_bytes().count(b"\n")
        except OSError:
            return 0


def dataset_of(config: Config) -> Dataset:
    """The dataset that a config names; what several jobs share is read once."""
    return _loaded(config.data.model_copy(update=_UNPARTITIONED))


_UNPARTITIONED = {name: DataConfig.model_fields[name].default for name in PARTITIONED}


@lru_cache(maxsize=2)
def _loaded(config: DataConfig) -> Dataset:
    return load_dataset(config)


def prepare_jobs(jobs: Iterable[Job]) -> None:
    """Make the folders of all jobs, after looking whether their data and protocols go together."""
    for job in (jobs := list(jobs)):
        check_mixable(get_protocol(job.config.protocol), dataset_of(job.config).samples)
    for job in jobs:
        prepare_runs(job.config, job.folder.parent)
