"""What protocols are made of: a device and its turn, one-time uploads, parameters, privacy noise.

In a simulation noise follows from the run's seed, as every draw does. A device of a deployment also
has a key of its own, drawn from its operating system and never sent: who knows the run's seed does
not know the noise.
"""

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.accounting import Guarantee, noise_multiplier
from mix2fld.base.streams import stream
from mix2fld.codecs import Payload, SeedSamples
from mix2fld.tasks.learning import Learning, Sizes
from mix2fld.types import Inputs, Seeds, SeedSet, ServerState, State, Statistics, Tensors, Upload

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

Inbox = Mapping[int, Upload]
"""The decoded uploads of a round, by device."""
Arrives = Callable[[int], bool]
"""Whether so many bits can be expected to reach those who listen."""
OwnSamples = tuple[Inputs, NDArray[Any]]
"""Samples that a device holds, and their labels or numbers."""
Promise = Callable[["Config"], Guarantee]
"""What uploads with these settings guarantee about the samples of a device."""
MakeModel = Callable[[Inputs, NDArray[Any], Learning], Tensors]


class Turn(NamedTuple):
    """Whose upload of which round: what both ends know of it, e.g. to draw the same numbers."""

    seed: int
    round_number: int
    device: int
    bit_budget: int | None = None
    """Bits that the upload may take, told to the device by the server; None: as configured."""


class Device(NamedTuple):
    """A device after its local phase: its turn, and what it can look up for its upload."""

    state: State
    """As it was before the local phase."""
    turn: Turn
    samples: Callable[[], OwnSamples]
    replayed: Callable[[], SeedSet | None]
    """The seed samples of all devices that it holds, as the server would prepare them."""
    learning_rate: float = 0.0
    """Of the steps that it took."""
    steps: int = 0
    """Of its local phase, K."""


class StepInfo(NamedTuple):
    """What the server did in its step, beside the new state."""

    steps: int = 0
    """SGD steps, which take their time."""
    suspects: tuple[dict[str, Any], ...] = ()
    """Devices whose upload it judged to contradict the rest, or to lie far from it."""
    words: str = ""
    """What it did, without a subject: "averaged the weights of 3 devices"."""

    def then(self, more: "StepInfo") -> "StepInfo":
        """What was done first, and what was done after it."""
        words = "; ".join(part for part in (self.words, more.words) if part)
        return StepInfo(self.steps + more.steps, self.suspects + more.suspects, words)


Stepped = tuple[ServerState, StepInfo]
"""The server's new state, and what it did."""
Line = str | tuple[int, tuple[int, ...]]
"""A line in figures, as Matplotlib has it."""

CollectSeeds = Callable[[np.random.Generator, Inputs, NDArray[Any], Sizes], Any]
PrepareSeeds = Callable[[Mapping[int, Seeds], Sizes], SeedSet | None]


@dataclass(frozen=True)
class Seeding:
    """Samples that devices upload once: how they are made, carried and prepared for training."""

    collect: CollectSeeds
    prepare: PrepareSeeds
    mixed: bool
    """Whether a seed sample mixes several samples, or is one."""
    unmixed: bool = False
    """Whether the server trains on samples that it unmixed from the seed samples."""

    def payload(self, sizes: Sizes) -> SeedSamples:
        """The seed samples on the link, each with the labels that it mixes."""
        return SeedSamples(mix_size=len(sizes.config.seeding.ratios) if self.mixed else 1)


@dataclass(frozen=True)
class StatisticsUpload:
    """Statistics of a device's samples, which it uploads once; there is nothing to train on."""

    collect: Callable[[np.random.Generator, Inputs, NDArray[Any], Sizes], Statistics]
    payload: Callable[[Sizes], Payload]


OneTimeUpload = Seeding | StatisticsUpload


def of_devices(some: Collection[int]) -> str:
    """How many devices, in words."""
    uploads = some.values() if isinstance(some, Mapping) else ()
    count = sum(getattr(own, "devices", 1) for own in uploads) or len(some)
    return f"{count:,} device{'' if count == 1 else 's'}"


def only(inbox: Inbox, name: str) -> Inbox:
    """Uploads of several named values, with one of these alone."""
    return {device: own._replace(value=own.value[name]) for device, own in inbox.items()}


def setting(path: str, default: Any) -> Any:
    """A parameter that is a setting, ``section.field``, of the config too."""
    return field(default=default, metadata={"setting": path})


def parameter(default: Any) -> Any:
    """A parameter that is no setting."""
    return field(default=default, metadata={"setting": ""})


@dataclass(frozen=True)
class Parameters:
    """Fields that are parameters; those that are settings too can be had from a config."""

    def configured(self, config: "Config") -> Self:
        """The same with the parameters that are settings as a config has them."""
        own = {name: path for name, path in Parameters.parameters(self).items() if path}
        return replace(self, **{name: attrgetter(path)(config) for name, path in own.items()})

    def parameters(self) -> dict[str, str]:
        """The parameters, each with the setting that it is; empty: it is none."""
        return {
            each.name: each.metadata["setting"]
            for each in fields(self)
            if "setting" in each.metadata
        }


SAMPLE = "one sample of a device with its label, replaced by any other"
EVERYTHING = "all samples of a device, replaced by any others"
COUNTED = "how many samples a device holds, and that it takes part"
PARTS_OF_STATISTICS = 2

NOISE_KEY = "noise_key"
"""The entry of a device's state, in every row that adds noise."""
NO_KEY = np.zeros(4, np.uint32)


def noise_stream(turn: Turn, key: NDArray[np.uint32], number: int) -> np.random.Generator:
    """The noise of an upload; the same number returns the same noise."""
    return stream(turn.seed, "privacy-noise", turn.device, number, *key.tolist())


def with_secret_noise(state: State) -> State:
    """A device of a deployment: its key, if it needs one, is nobody else's."""
    if NOISE_KEY not in state:
        return state
    return {**state, NOISE_KEY: np.frombuffer(secrets.token_bytes(16), np.uint32)}


def of_local_noise(config: "Config") -> Guarantee:
    """Class sums with counts, and a scatter, with noise by the device itself."""
    return _guarantee(config, PARTS_OF_STATISTICS, SAMPLE, "the device itself")


def of_trusted_sum(config: "Config") -> Guarantee:
    """The same, with noise on the sum over devices."""
    summed_by = "a trusted party that shows sums over devices only (simulated)"
    if config.privacy.sums == "masked":
        summed_by = "the devices together, of whose masked uploads the server learns sums alone"
    return _guarantee(config, PARTS_OF_STATISTICS, SAMPLE, summed_by)


def of_updates(config: "Config") -> Guarantee:
    """Clipped updates, with noise by the device itself."""
    return _guarantee(config, updates_of_a_device(config), EVERYTHING, "the device itself")


def updates_of_a_device(config: "Config") -> int:
    """How many updates a device uploads at most."""
    return config.rounds // config.updates.upload_every


def _guarantee(config: "Config", uploads: int, protects: str, noise_by: str) -> Guarantee:
    epsilon, delta = config.privacy.epsilon, config.privacy.delta
    multiplier = noise_multiplier(epsilon, delta)
    return Guarantee(epsilon, delta, uploads, multiplier, protects, COUNTED, noise_by)
