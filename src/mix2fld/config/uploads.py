"""What a device uploads: seed samples, updates in few bits, statistics of features."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mix2fld.base.bounds import mixing_condition
from mix2fld.base.errors import InputError
from mix2fld.config.fields import (
    AutoOrShare,
    Count,
    Listed,
    Positive,
    PositiveFloat,
    Precision,
    Section,
    SeedBits,
    UpdateBits,
)


class SeedingConfig(Section):
    """The seed samples of the output-to-model conversion: Eqs. 6, 7 and 8."""

    seed_samples: Positive = 50
    """Seed samples that each device uploads once, N_S."""
    inverse_samples: Positive = 100
    """Inverse-Mixup samples generated at the server, N_I."""
    inverse_count: Literal["per-device", "total"] = "per-device"
    """Whether N_I is per device or for all devices together."""
    mixing_ratio: Annotated[tuple[float, ...], Listed] = (0.1,)
    """Ratios of the first N - 1 of the N samples of a mix; the last is the remainder."""
    mixed_labels: Literal["soft", "hard"] = "soft"
    """MixFLD: a mix is labelled with all its labels, or only with that of the largest ratio."""
    max_condition: PositiveFloat = 1e4
    """Largest accepted condition number of the mixing matrix."""
    reuse_pairs: bool = True
    """Reuse pairs of mixed-up samples if there are fewer than N_I needs."""
    inverse_clip: bool = False
    """Clip values of inverse-Mixup samples to the range of real ones."""
    seed_bits: SeedBits = 8
    """Bits per value (pixel) of a seed sample: 1 to 16 (uniform quantisation), or 32 (floats)."""
    label_bits: Annotated[int, Field(ge=1, le=16)] = 1
    """CFD: bits of each label probability of a seed; 1: only the most probable label is sent."""
    replay: AutoOrShare = "auto"
    """Share of local steps on the seeds of all devices, which are multicast to everyone."""
    seed_pooling: Positive = 1
    """Side of the pixel squares (or number of time steps) averaged to one value of a seed."""
    lost_seeds: Literal["resend", "drop"] = "resend"
    """Seeds lost in an outage: retransmitted, and charged, with the next upload; or dropped."""

    @property
    def ratios(self) -> tuple[float, ...]:
        """All N mixing ratios; they sum to one."""
        return (*self.mixing_ratio, 1.0 - sum(self.mixing_ratio))

    @model_validator(mode="after")
    def _invertible(self) -> Self:
        shown = ", ".join(f"{ratio:g}" for ratio in self.mixing_ratio)
        if not self.mixing_ratio or min(self.ratios) <= 0:
            raise InputError(
                field="mixing_ratio",
                value=shown,
                hint="ratios must be above 0 and sum to less than 1",
            )
        if len(self.mixing_ratio) == 1 and self.mixing_ratio[0] >= 0.5:
            raise InputError(
                field="mixing_ratio",
                value=shown,
                hint="must be above 0 and below 0.5; at 0.5 the two labels of "
                "a mixed-up sample are indistinguishable and inverse-Mixup divides by zero",
            )
        condition = mixing_condition(self.ratios)
        if condition > self.max_condition:
            raise InputError(
                field="mixing_ratio",
                value=shown,
                hint=f"the mixing matrix has condition number {condition:.3g}, "
                f"must be at most max_condition = {self.max_condition:g}; move the ratios apart",
            )
        return self


class UpdateConfig(Section):
    """Updates in few bits: their size, how often they are sent, and the server's step."""

    update_bits: UpdateBits = "auto"
    """Murmur: bits of an upload, at least 20; auto: what a device's link delivers reliably."""
    last_layer_share: AutoOrShare = "auto"
    """Murmur: share of the bits that code the last layer by itself; auto: half, if it is small."""
    delivery_target: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Delivery probability that automatic update bits and replayed seeds aim for."""
    bits_per_weight: Annotated[float, Field(ge=0.001, le=16)] = 1.0
    """EDEN: bits per weight of an upload; below 1, a random share of the signs is sent."""
    kept_share: Annotated[float, Field(gt=0, le=1)] = 0.05
    """STC and top-k: share of the entries of an update that are sent."""
    upload_every: Positive = 1
    """Upload in every n-th round only; in the others, devices continue training."""
    step_limit: PositiveFloat = 1.5
    """Longest step of the server, as a multiple of the updates' typical norm."""
    downlink: Literal["default", "auto", "weights", "relay", "coded"] = "default"
    """What is multicast: weights, relayed uploads, or a coded step; auto: weights or a relay."""
    downlink_step_bits: UpdateBits = "auto"
    """Bits of a coded step on the downlink, at least 20; auto: one for each weight."""
    downlink_bits: Precision = 32
    """Bits of a weight in the download: 32, or from 2 to 16."""


class StatisticsConfig(Section):
    """Statistics of fixed features, which determine a network in closed form."""

    feature_side: Positive = 6
    """Side k of the square of low frequencies taken from each of six edge maps."""
    directions: Count = 0
    """Directions of a model's features that statistics are of; 0: 6 k^2, or edge maps."""
    directions_from: Literal["random", "head"] = "random"
    """Directions: random, or those of a pre-trained network's last layer, strongest first."""
    scatter: Literal["sent", "none"] = "sent"
    """Within-class scatter: sent (discriminant analysis), or none (nearest class mean)."""
    statistics_bits: Precision = 8
    """Bits of a value in an upload of statistics: 32, or from 2 to 16."""
