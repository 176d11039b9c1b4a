"""Settings about trust: in devices that may attack, and in a server that may be curious."""

from typing import Annotated, Literal

from pydantic import Field

from mix2fld.config_base import AutoOrPositive, Count, Positive, PositiveFloat, Section


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
    ] = "mean"
    """How uploads become one: their mean, or a value that a minority of devices cannot move far."""
    bad_share: Annotated[float, Field(gt=0, lt=0.5)] = 0.2
    """Share of devices that may be bad: what trimmed-mean drops at each end, and krum in all."""
    sample_weights: Literal["claimed", "capped", "ignored"] = "claimed"
    """Weight of an upload: the claimed samples, at most twice the median of them, or all equal."""
    seed_check: Literal["none", "agreement"] = "none"
    """Whether seeds that others' contradict are left out, and labels that contradict the seeds."""


AttackName = Literal[
    "none",
    "sign-flip",
    "scaling",
    "update-flip",
    "random",
    "little-is-enough",
    "sample-count",
    "label-shift",
    "seed-label-shift",
    "seed-backdoor",
]
NEEDS_ATTACK = ("attackers", "attack_from", "attack_strength")
"""Settings that have no effect without an attack."""


class AttackConfig(Section):
    """Devices of a simulation that attack it, so that a defence can be measured."""

    attack: AttackName = "none"
    """What attackers do (docs/robustness.md)."""
    attackers: Count = 1
    """Number of attackers, drawn from all devices but the reference device."""
    attack_from: Positive = 1
    """First round of the attack."""
    attack_strength: PositiveFloat | None = None
    """Factor of the attack, or share of seeds that it falsifies; default: that of the attack."""


class PrivacyConfig(Section):
    """Differential privacy of the protocols that add noise (docs/privacy.md)."""

    epsilon: PositiveFloat = 8.0
    """Privacy budget of all uploads of a device together, epsilon."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Probability with which the budget may be exceeded, delta."""
    feature_clip: AutoOrPositive = "auto"
    """Norm that the features of a sample are clipped to; auto: chosen without looking at data."""
    scatter_clip: AutoOrPositive = "auto"
    """Norm that a sample's distance from its class mean is clipped to; auto: by feature_clip."""
    sums_budget: Annotated[float, Field(gt=0, lt=1)] = 0.4
    """Part of the budget that goes to class sums and counts; the rest goes to the scatter."""
    update_clip: PositiveFloat = 1.0
    """Norm that an update is clipped to before noise is added."""
