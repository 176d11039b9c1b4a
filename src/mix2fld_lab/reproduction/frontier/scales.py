"""How much of a setting is run: with which seeds, measured when, and who can run."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

from mix2fld.base.errors import Mix2fldError
from mix2fld.config.settings import Config
from mix2fld.data import device_parts, label_counts, load_dataset
from mix2fld.protocols.table import get_protocol, single_runs
from mix2fld.runs.simulation import make_simulation
from mix2fld_lab.reproduction.experiments import Cell, Experiment, Scale
from mix2fld_lab.reproduction.frontier.settings import FrontierSetting


def scale_in(setting: FrontierSetting, scale: Scale) -> Scale:
    """As many seeds, from the same one on, that leave every device at least two labels.

    With one it would have nothing to mix: protocols with mixed-up seeds refuse such a partition.
    Accuracies are compared after the last round; where all devices take part in it, earlier rounds
    are not measured.
    """
    usable = islice(_usable(setting, scale), len(scale.seeds))
    all_at_the_end = "participants" not in setting.changes
    when = {"evaluated_rounds": "last"} if all_at_the_end else {}
    return replace(scale, seeds=tuple(usable), changes={**scale.changes, **when})


def runnable(experiment: Experiment, scale: Scale) -> Experiment:
    """Without the cells that are refused before they run.

    Where devices hold few labels, the server of Mix2FLD may find no mixes to unmix.
    """
    kept = [cell for cell in experiment.cells if not _refused(cell, scale)]
    return replace(experiment, cells=tuple(kept))


def _refused(cell: Cell, scale: Scale) -> bool:
    seeding = get_protocol(cell.protocol).seeds
    if seeding is None or not seeding.unmixed:
        return False
    grid = cell.grid(scale)
    dataset = load_dataset(grid.data)
    try:
        for single in single_runs(grid):
            make_simulation(single, dataset).fleet.check_seeds()
    except Mix2fldError:
        return True
    return False


def _usable(setting: FrontierSetting, scale: Scale) -> Iterator[int]:
    config = Config.of(**setting.changes)
    dataset = load_dataset(config.data)
    for seed in count(min(scale.seeds)):
        parts = device_parts(dataset, config.replace(seed=seed))
        labels = label_counts(dataset.train_labels, parts, dataset.num_labels)
        if (labels > 0).sum(axis=1).min() > 1:
            yield seed
