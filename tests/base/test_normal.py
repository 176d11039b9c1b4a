"""The normal distribution without SciPy, against SciPy."""

import math

import numpy as np
import pytest
from scipy import special

from mix2fld.base.normal import logcdf, quantile, sf


@pytest.mark.parametrize("x", [-200.0, -38.5, -30.0001, -30.0, -29.9, -8.0, -0.3, 0.0, 0.4, 9.0])
def test_logarithms_of_any_probability(x: float) -> None:
    assert logcdf(x) == pytest.approx(float(special.log_ndtr(x)), rel=1e-13)


def test_tails_and_quantiles() -> None:
    for x in np.linspace(-9, 30, 40):
        assert sf(x) == pytest.approx(float(special.ndtr(-x)), rel=1e-13)
    for p in (1e-12, 0.01, 0.5, 0.7, 1 - 1e-9):
        assert quantile(p) == pytest.approx(float(special.ndtri(p)), rel=1e-12, abs=1e-15)
    assert math.isclose(sf(quantile(0.3)), 0.7)
