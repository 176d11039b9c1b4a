"""Settings about trust: in devices that may attack, and in a server that may be curious."""

from typing import Annotated, Literal

from pydantic import Field

from mix2fld.config.fields import (
    AutoOrCount,
    AutoOrPositive,
    Count,
    Positive,
    PositiveFloat,
    Section,
)


class DefenceConfig(Section):
    """What the server does about devices that upload harmful values (docs/robustness.md)."""

    aggregation: Literal[
        "mean",
        "trimmed-mean",
        "median",
        "clipped-mean",
        "krum",
        "geometric-median",
        "filtered-median",
        "clipped-median",
    ] = "mean"
    """How uploads are combined: their mean, or a value that a minority cannot move far."""
    bad_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.2
    """Assumed share of attackers: trimmed-mean drops it at each end, krum in total."""
    sample_weights: Literal["claimed", "capped", "ignored"] = "claimed"
    """Weight of an upload: claimed samples, these capped at twice their median, or all equal."""
    seed_check: Literal["none", "agreement"] = "none"
    """Whether to leave out seeds that others contradict, and labels that contradict the seeds."""


AttackName = Literal[
    "none",
    "sign-flip",
    "scaling",
    "update-flip",
    "random",
    "little-is-enough",
    "inner-product",
    "min-max",
    "min-sum",
    "back-inside",
    "sample-count",
    "label-shift",
    "label-shift-inside",
    "seed-label-shift",
    "seed-one-label",
    "seed-backdoor",
]
NEEDS_ATTACK = ("attackers", "attack_from", "attack_strength")
"""Settings that have no effect without an attack."""


class AttackConfig(Section):
    """Simulated attackers, to measure a defence."""

    attack: AttackName = "none"
    """What attackers do (docs/robustness.md)."""
    attackers: Count = 1
    """Number of attackers, drawn from all devices but the reference device."""
    attack_from: Positive = 1
    """First round of the attack."""
    attack_strength: PositiveFloat | None = None
    """Factor of the attack, or share of falsified seeds; default: that of the attack."""


class PrivacyConfig(Section):
    """What the server sees: sums under masks, and noise (docs/howto/masked_sums.md, privacy.md)."""

    sums: Literal["open", "masked"] = "open"
    """What the server reads of uploads: each of them, or only their sum, under masks."""
    sum_threshold: AutoOrCount = "auto"
    """Masked sums: devices that a sum needs, more than half; auto: two thirds of those asked."""
    sum_bits: Annotated[int, Field(ge=2, le=24)] = 16
    """Masked sums: bits of each value before values are added; the sum takes some more."""
    sum_range: PositiveFloat = 4.0
    """Masked sums: largest value of an upload; larger ones are clipped."""

    epsilon: PositiveFloat = 8.0
    """Privacy budget of all uploads of a device together, epsilon."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Probability with which the budget may be exceeded, delta."""
    feature_clip: AutoOrPositive = "auto"
    """Norm to which the features of a sample are clipped; auto: chosen without the data."""
    scatter_clip: AutoOrPositive = "auto"
    """Norm to which a sample's distance from its class mean is clipped; auto: feature_clip's."""
    sums_budget: Annotated[float, Field(gt=0, lt=1)] = 0.4
    """Share of the budget for class sums and counts; the rest is for the scatter."""
    update_clip: PositiveFloat = 1.0
    """Norm to which an update is clipped before noise is added."""
