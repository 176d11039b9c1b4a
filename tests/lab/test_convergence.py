"""The bound on convergence: on known mathematics, and above what the engine measures."""

import numpy as np
import pytest

from mix2fld_lab.convergence import Contraction, DeviceTerms, Quadratic, ServerTerms, bound, measure


def test_the_lemma_bounds_sgd_on_least_squares() -> None:
    rng = np.random.default_rng(0)
    loss = Quadratic.of(rng.normal(size=(40, 2)), rng.normal(size=40))
    rate, steps = 0.9 / (2 * loss.smoothness), 60
    begun, ends = np.array([3.0, -2.0, 1.0]), []
    for _ in range(300):
        at = begun.copy()
        for row in rng.integers(40, size=steps):
            at -= rate * (loss.rows[row] @ at - loss.targets[row]) * loss.rows[row]
        ends.append(np.linalg.norm(at - loss.minimiser))
    measured = np.sqrt(np.mean(np.square(ends)))
    limit = Contraction.of([loss], rate, steps).after(np.linalg.norm(begun - loss.minimiser))
    assert measured < limit < 5 * measured
    with pytest.raises(ValueError, match="is above 1"):
        Contraction.of([loss], 2 * rate, steps)


def test_known_cases_of_the_theorem() -> None:
    exact, never = Contraction(0.0, 0.0), Contraction(1.0, 0.0)
    server = ServerTerms(exact, bias=0.3, drift=0.0, first=2.0)
    own = DeviceTerms(exact, bias=1.5)
    # All arrives: a device has the server's model, which is exactly its minimiser.
    assert bound(server, own, 2.0, 1.0, 1.0, 3) == pytest.approx([0.3] * 3)
    # Nothing comes down: it minimises its own loss.
    assert bound(server, own, 2.0, 1.0, 0.0, 3) == pytest.approx([1.5] * 3)
    # Steps that do nothing: it stays where it is, but for what the triangle inequality adds.
    still = bound(server, DeviceTerms(never, bias=0.0), 2.0, 1.0, 0.0, 3)
    assert still == pytest.approx([2.0] * 3)
    mixed = bound(server, own, 2.0, 0.5, 0.5, 1)
    assert mixed == pytest.approx([np.sqrt(0.25 * 0.3**2 + 0.75 * 1.5**2)])


@pytest.mark.parametrize(("up", "down"), [(0.0, 0.0), (0.8, 0.5)])
def test_the_bound_is_above_what_the_engine_measures_and_not_by_far(up: float, down: float) -> None:
    case = measure(up, down, range(3))
    assert all(m < b < 10 * m for m, b in zip(case.measured, case.bound, strict=True))
