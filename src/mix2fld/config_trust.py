"""Settings about devices that cannot be trusted: what is done about them, and what they do."""

from typing import Annotated, Literal

from pydantic import Field

from mix2fld.config_base import Count, Positive, PositiveFloat, Section


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
    """Whether seeds of a device that others' seeds contradict are left out."""


class AttackConfig(Section):
    """Devices of a simulation that attack it, so that a defence can be measured."""

    attack: Literal[
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
    ] = "none"
    """What attackers do (docs/robustness.md)."""
    attackers: Count = 1
    """Number of attackers, drawn from all devices but the reference device."""
    attack_from: Positive = 1
    """First round of the attack."""
    attack_strength: PositiveFloat | None = None
    """Factor of the attack; by default the one in docs/robustness.md."""
