"""What is measured of a model: its name, its unit, and which direction is better."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mix2fld.base.errors import InputError


@dataclass(frozen=True)
class Metric:
    """A number that says how good a model is, and how it is shown."""

    name: str
    better: Literal["higher", "lower"] = "higher"
    unit: str = ""
    """Behind a shown value; empty for the units of the data."""
    factor: float = 1.0
    """A measured value times this is shown."""
    digits: int = 3
    """Decimals of a shown value."""

    def __post_init__(self) -> None:
        if self.better not in ("higher", "lower"):
            raise InputError(
                field="metric.better", value=f"{self.better!r}", hint="must be higher or lower"
            )

    def number(self, value: float) -> str:
        """A value without its unit."""
        return f"{self.factor * value:.{self.digits}f}"

    def text(self, value: float) -> str:
        """A value with its unit."""
        return f"{self.number(value)} {self.unit}".rstrip()

    @property
    def title(self) -> str:
        """For an axis or a column: the name with its unit."""
        return f"{self.name} in {self.unit}" if self.unit else self.name

    @property
    def is_share(self) -> bool:
        """Whether it is a share of samples, shown in per cent: its differences are points."""
        return self.unit == "%"

    def difference(self, value: float) -> str:
        """A difference of two values: percentages differ by points."""
        return f"{self.number(value)} points" if self.is_share else self.text(value)

    @property
    def superlative(self) -> str:
        """The best protocol, in words of the metric: the most accurate."""
        return "the most accurate" if self.name == "accuracy" else f"the best in {self.name}"

    @property
    def comparative(self) -> str:
        """How one is ahead of another."""
        return "more accurate" if self.name == "accuracy" else f"better in {self.name}"

    def gain(self, value: float) -> float:
        """The value, turned so that more is better."""
        return value if self.better == "higher" else -value

    def best(self, values: Iterable[float]) -> float:
        """The best of several values; NaN of none."""
        return max(values, key=self.gain, default=math.nan)


ACCURACY = Metric("accuracy", unit="%", factor=100.0, digits=1)


def metric_of(scores: dict[str, Any]) -> Metric:
    """That of the scores in a round's record or a run's summary."""
    return Metric(**scores["metric"])
