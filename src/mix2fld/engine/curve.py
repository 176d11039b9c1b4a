"""The curve of a round: what the reference device scores along it, and when."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mix2fld.engine.clock import Clock
from mix2fld.tasks.base import Score


class MeasuredScores(NamedTuple):
    """Scores of a round, beside those of the devices."""

    intermediate: list[tuple[int, Score]]  # of the reference device: steps done, score
    initial: Score | None  # of the reference device before the first round
    of_server: Score | None


def phase_clocks(before: Clock, own: float, slowest: float, steps: Sequence[int]) -> list[Clock]:
    """When a device that needs ``own`` seconds, the slowest ``slowest``, has done these steps."""
    share = 1.0 if own == slowest else own / slowest
    passed = before.after(computing=slowest).computing - before.computing
    return [before.after(computing=share * (passed * step / steps[-1])) for step in steps]


def curve_of(
    rounds_before: int,
    measured: MeasuredScores,
    phase: Sequence[Clock],
    before: Clock,
    downloaded: Clock | None,
) -> list[dict[str, Any]]:
    """The points of a round; ``downloaded``: when the reference device had the download."""
    last = measured.intermediate[-1][0]
    done = rounds_before * last
    points = []
    if measured.initial is not None:
        points.append(_point(0, measured.initial[0], "start", before))
    for (step, score), clock in zip(measured.intermediate, phase, strict=True):
        points.append(_point(done + step, score[0], "local", clock))
    if downloaded is not None and measured.of_server is not None:
        points.append(_point(done + last, measured.of_server[0], "download", downloaded))
    return points


def _point(step: int, score: float, event: str, clock: Clock) -> dict[str, Any]:
    return {
        "step": step,
        "score": score,
        "event": event,
        "communication": clock.communication,
        "computing": clock.computing,
    }
