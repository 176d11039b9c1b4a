"""What the link of a run does with its payloads, worked out from its settings alone."""

from functools import lru_cache

from mix2fld.base.errors import DamagedError, Mix2fldError
from mix2fld.config.settings import Config
from mix2fld.data import dataset_sizes
from mix2fld.engine.plan import PlannedTransfer, plan_transfers
from mix2fld.links import make_link
from mix2fld.runs.checkpoint import made_with
from mix2fld.runs.layout import RunFiles
from mix2fld.runs.reader import LoadedRun
from mix2fld.tasks.known_shapes import known_shapes
from mix2fld.tasks.learning import Sizes, dimensions

AS_NAMED = "as in the config"
MOST_DEVICES = 1000
"""With more devices a link without closed form is not simulated for a page."""


def plans_of(run: LoadedRun) -> list[PlannedTransfer]:
    """Every transfer of a run; none where its link, model, data or protocol is not known."""
    if not has_named_parts(run):
        return []
    config = run.config.replace(seed=0)
    return _plans(config) if config.data.devices <= MOST_DEVICES else []


def has_named_parts(run: LoadedRun) -> bool:
    """Whether link and model are those that the settings name."""
    checkpoint = RunFiles(run.folder).checkpoint
    try:
        used = made_with(checkpoint) if checkpoint.is_file() else {}
    except (DamagedError, OSError):
        return False
    return all(used.get(part, AS_NAMED) == AS_NAMED for part in ("link", "model"))


def payload_sizes(config: Config) -> Sizes | None:
    """The sizes of payloads; None for a model or data that is not known."""
    try:
        samples, labels = dataset_sizes(config.data)
    except Mix2fldError:
        return None
    shapes = known_shapes(config.learning.model, samples.shape, labels)
    if shapes is None:
        return None
    return Sizes(config, dimensions(config.seeding, samples, labels, shapes))


def number_of_labels(config: Config) -> int | None:
    """Of the dataset; None where it is not available."""
    try:
        return dataset_sizes(config.data)[1]
    except Mix2fldError:
        return None


@lru_cache(maxsize=512)
def _plans(config: Config) -> list[PlannedTransfer]:
    sizes = payload_sizes(config)
    if sizes is None:
        return []
    try:
        return plan_transfers([config.protocol], sizes, make_link(config, config.data.devices))
    except Mix2fldError:
        return []
