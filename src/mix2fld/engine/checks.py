"""What is refused before a run or from an upload, and what is warned of."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError
from mix2fld.codecs import PayloadError
from mix2fld.engine.divergence import LARGEST_WEIGHT, exceeds, largest
from mix2fld.protocols.table import find_protocol
from mix2fld.tasks.base import Task
from mix2fld.tasks.training import Training, resolve
from mix2fld.types import (
    SampleFormat,
    Seeds,
    ServerState,
    Statistics,
    Upload,
)

if TYPE_CHECKING:
    from mix2fld.config.settings import Config
    from mix2fld.engine.scenario import Scenario
    from mix2fld.protocols.base import Protocol
    from mix2fld.protocols.parts import StepInfo

LARGEST_COUNT = 1 << 24
"""Up to here float32 counts by ones."""
VALUE_TOLERANCE = 1e-5
"""Of mixing in float32, as a part of the range."""
MOST_WEIGHTS_PER_BIT = 300
"""Of an update; mlp on 1,280 features has 330 at 500 bits, and falls behind a linear one."""


def check_kept(protocol: "Protocol", server: ServerState, inbox: Mapping[int, Upload]) -> None:
    """Refuse a step that forgets what devices upload once: they would upload it in every round."""
    if any(own.seeds is not None and d not in server.seeds for d, own in inbox.items()):
        raise InputError(
            field="protocols",
            value=protocol.title,
            hint="its step does not keep what devices upload once; it must call take_in_seeds",
        )


def check_steps(config: "Config", protocol: "Protocol", did: "StepInfo") -> None:
    """Refuse steps of the server that no plan could count on; judging seeds takes some, too."""
    if did.steps and not protocol.server_steps and config.defence.seed_check == "none":
        raise InputError(
            field="server_steps",
            value=protocol.server_steps,
            hint=f"the server took {did.steps:,} SGD steps in a step of {protocol.title}; a "
            "protocol whose server trains must say how many, for plans and the time of a sweep",
        )


def warn_if_chance_level(
    config: "Config", doubt: str | None, suspect: str | None = None
) -> str | None:
    """What to tell of a run whose devices learned nothing, though all numbers are finite.

    ``doubt``: why the task says so; ``suspect``: the first upload far from the rest, in words.
    """
    if doubt is None:
        return None
    learning = config.learning
    cause = (
        f"learning_rate = {_rates_of(config)} may be too large or too small, or local_steps "
        f"= {learning.local_steps} too few"
    )
    if suspect is not None:
        cause = f"{suspect}: if it was not honest, preset = robust limits what it can do"
    return f"{config.run_name}: {doubt}; {cause}"


def check_bins_held(
    protocol: "Protocol", task: Task, values: NDArray[Any], parts: Sequence[NDArray[np.integer]]
) -> None:
    """Refuse bins of a number whose mean outputs no device could send."""
    if not (protocol.needs_groups and task.numbers):
        return
    held = task.labels(values[np.unique(np.concatenate(parts))])
    missing = np.setdiff1d(np.arange(task.groups), held)
    if len(missing):
        raise InputError(
            field="target_bins",
            value=task.groups,
            hint=f"no device holds a sample of {len(missing)} of these bins, such as number "
            f"{missing[0]}, and {protocol.title} averages outputs in each; choose fewer bins, or "
            "more devices or samples_per_device",
        )


def check_learns(name: str, protocol: "Protocol", task: Task) -> None:
    """Refuse a protocol that has no meaning for a task."""
    lacks = ""
    if protocol.needs_labels and not task.by_label:
        lacks = "labels"
    elif protocol.needs_groups and not task.by_label and not task.numbers:
        lacks = "labels or bins of a number"
    elif protocol.needs_groups and not task.by_label and task.groups < 2:
        raise InputError(
            field="protocols",
            value=name,
            hint="needs bins of the target, and target_bins finds one: too many samples have the "
            "least number; use isolated, fl or one that sends updates, such as murmur",
        )
    elif protocol.needs_closed_form and not task.has_closed_form:
        lacks = "a closed form"
    if lacks:
        raise InputError(
            field="protocols",
            value=name,
            hint=f"needs {lacks}, and the task {task.name} has none; "
            "use isolated, fl or one that sends updates, such as murmur",
        )


def suited(config: "Config", task: Task) -> "Config":
    """The config of a run of this task: without labels, logits are not adjusted to their prior.

    Where targets are numbers, devices may use another model than a protocol recommends for labels.
    """
    if task.by_label:
        return config
    row = find_protocol(config.protocol)
    if config.defence.seed_check != "none" and row is not None and row.seeds is not None:
        raise InputError(
            field="seed_check",
            value=config.defence.seed_check,
            hint=f"is by label, and the task {task.name} has none; must be none",
        )
    if task.numbers and row is not None and config.learning.device_model == "auto":
        config = config.replace(device_model=row.training.device_model_of_numbers or "auto")
    if config.learning.logit_adjustment == 0:
        return config
    if config.learning.logit_adjustment != "auto":
        raise InputError(
            field="logit_adjustment",
            value=config.learning.logit_adjustment,
            hint=f"is by label, and the task {task.name} has none; must be 0",
        )
    return config.replace(logit_adjustment=0.0)


def check_countable(config: "Config") -> None:
    """Refuse a local phase that is too long to count its labels exactly."""
    learning = config.learning
    drawn = learning.local_steps * learning.batch_size
    if drawn > LARGEST_COUNT:
        raise InputError(
            field="local_steps",
            value=learning.local_steps,
            hint=f"{drawn:,} samples in a round, with batch_size = {learning.batch_size}, are more "
            f"than the {LARGEST_COUNT:,} that are counted exactly",
        )


def check_upload(protocol: "Protocol", upload: Upload, samples: SampleFormat) -> None:
    """Refuse finite values that nobody learns or measures, which would end a run."""
    tensors = protocol.tensors_in(upload.value, upload.samples)
    if exceeds(tensors):
        raise PayloadError(f"weights: {largest(tensors):g}; must be at most {LARGEST_WEIGHT:g}")
    if upload.seeds is not None and protocol.statistics is not None:
        _check_statistics(cast(Statistics, upload.seeds), upload.samples)
    if upload.seeds is not None and protocol.seeds is not None:
        _check_seeds(cast(Seeds, upload.seeds), samples)


def _check_statistics(statistics: Statistics, samples: int) -> None:
    means = [part / max(samples, 1) for part in statistics]
    if exceeds(means):
        raise PayloadError(
            f"statistics: {largest(means):g} a sample; must be at most {LARGEST_WEIGHT:g}"
        )
    fewest = float(statistics.counts.min(initial=0))
    if fewest < 0:
        raise PayloadError(f"statistics: {fewest:g} samples of a label; must not be below 0")


def _check_seeds(seeds: Seeds, samples: SampleFormat) -> None:
    if seeds.inputs.dtype != np.float32:
        return
    low, high = samples.low, samples.high
    reach = VALUE_TOLERANCE * (high - low)
    outside = (seeds.inputs < low - reach) | (seeds.inputs > high + reach)
    if outside.any():
        value = seeds.inputs[outside][0]
        raise PayloadError(f"seeds: a value of {value:g}; must be from {low:g} to {high:g}")


def _rates_of(config: "Config") -> str:
    """The learning rates of the first and the last round of a run."""
    row = find_protocol(config.protocol)
    used = resolve(config, Training() if row is None else row.training)
    return " to ".join(
        f"{r:g}" for r in dict.fromkeys((used.learning_rate, used.final_learning_rate))
    )


def few_bits(scenario: "Scenario") -> str | None:
    """What to say of updates in so few bits that each device may learn more by itself."""
    wire, weights = scenario.wire, scenario.learning.sent.dims.num_weights
    if wire.protocol.upload_kind != "update":
        return None
    bits = wire.upload_size(with_seeds=False).bits
    if not bits or weights <= MOST_WEIGHTS_PER_BIT * bits:
        return None
    return (
        f"{wire.protocol.title}: {bits:,} bit{'s'[: bits > 1]} for {weights:,} weights is one for "
        f"{weights // bits:,}, of which little arrives: devices may do better alone; give it more "
        "bits (update_bits), or a smaller model, such as linear on features"
    )
