"""What the records of a setting come to: a point for every contender, and the frontier."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.spread import Spread, spread
from mix2fld_lab.reproduction.cell_records import CellRecord
from mix2fld_lab.reproduction.frontier.contenders import Contender, all_contenders
from mix2fld_lab.reproduction.statistics import accuracy, gain

BUDGETS = (0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
"""Uplink bits of a device in all rounds: who does best with so many at most."""


@dataclass(frozen=True)
class FrontierPoint:
    """A contender in one setting."""

    contender: Contender
    cell: CellRecord
    bits: float
    """Uplink bits of a device in all rounds, mean over devices and seeds."""

    @property
    def bits_down(self) -> float:
        """Bits that the server broadcasts in all rounds, mean over seeds."""
        return float(self.cell.values("summary", "bits", "down").mean())

    @property
    def radio_joules(self) -> float:
        """Of one device, for sending and receiving in all rounds."""
        spent = sum(self.cell.values("summary", "joules", part) for part in ("transmit", "receive"))
        return float(np.mean(spent / self.cell.devices))

    @property
    def devices(self) -> Spread:
        """Mean accuracy of the devices after the last local phase, in per cent."""
        return accuracy(self.cell, "mean")

    @property
    def server(self) -> Spread | None:
        """Accuracy of the server's model, in per cent; None if there is none."""
        values = 100 * self.cell.values("summary", "accuracy", "global")
        return None if np.isnan(values).all() else spread(values)

    def lead_over(self, other: "FrontierPoint") -> Spread:
        """Points of accuracy above another, seed by seed."""
        return gain(self.cell, other.cell, "mean")


def points_of(cells: Mapping[str, CellRecord]) -> list[FrontierPoint]:
    """The contenders in the records of a setting, fewest bits first."""
    by_key = {one.key: one for one in all_contenders()}
    found = {key.rsplit("/", 1)[1]: cell for key, cell in cells.items()}
    points = [
        FrontierPoint(by_key[key], cell, float(_bits_of_a_device(cell).mean()))
        for key, cell in found.items()
        if key in by_key
    ]
    return sorted(points, key=lambda point: point.bits)


def frontier(points: Iterable[FrontierPoint]) -> list[FrontierPoint]:
    """Those whose devices are more accurate than those of everybody with no more bits."""
    kept: list[FrontierPoint] = []
    for point in sorted(points, key=lambda one: (one.bits, -one.devices.mean)):
        if not kept or point.devices.mean > kept[-1].devices.mean:
            kept.append(point)
    return kept


def best(points: Iterable[FrontierPoint], budget: float = float("inf")) -> FrontierPoint | None:
    """Whose devices are most accurate, among those with at most so many bits."""
    affordable = [point for point in points if point.bits <= budget]
    return max(affordable, key=lambda point: point.devices.mean, default=None)


def best_server(points: Iterable[FrontierPoint]) -> FrontierPoint | None:
    """Whose server's model is most accurate, if any has one."""
    having = [point for point in points if point.server is not None]
    return max(having, key=lambda point: point.server.mean if point.server else 0, default=None)


def cheapest_near(
    points: Iterable[FrontierPoint], top: FrontierPoint, margin: float
) -> FrontierPoint:
    """Who comes within ``margin`` points of ``top`` with the fewest bits."""
    near = [point for point in points if top.devices.mean - point.devices.mean <= margin]
    return min(near, key=lambda point: point.bits)


def _bits_of_a_device(cell: CellRecord) -> NDArray[np.float64]:
    return cell.values("summary", "bits", "up") / cell.values("summary", "devices", "all")
