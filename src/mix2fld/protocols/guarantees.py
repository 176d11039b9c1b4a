"""What a protocol with noise promises about the samples of a device."""

from typing import TYPE_CHECKING

from mix2fld.base.accounting import Guarantee, noise_multiplier

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

SAMPLE = "one sample of a device with its label, replaced by any other"
EVERYTHING = "all samples of a device, replaced by any others"
COUNTED = "how many samples a device holds, and that it takes part"
PARTS_OF_STATISTICS = 2


def of_local_noise(config: "Config") -> Guarantee:
    """Class sums with counts, and a scatter, with noise by the device itself."""
    return _guarantee(config, PARTS_OF_STATISTICS, SAMPLE, "the device itself")


def of_trusted_sum(config: "Config") -> Guarantee:
    """The same, with noise on the sum over devices."""
    summed_by = "a trusted party that shows sums over devices only (simulated)"
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
