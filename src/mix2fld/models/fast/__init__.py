"""Any JAX model with the fast form of its convolutions and poolings on a CPU.

XLA's own convolutions are slow inside loops on a CPU, and so are the gradients of its poolings.
Values and gradients are those of the plain operations up to rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
from jax.extend.core import primitives

from mix2fld.models.fast.convolution import fast_convolution, has_fast_form
from mix2fld.models.fast.reductions import (
    max_pool,
    min_pool,
    pools_by_slices,
    sum_pool,
    sums_apart,
    two_sums,
)
from mix2fld.models.fast.rewrite import Rule, Rules, rewritten


@dataclass(frozen=True)
class FastApply:
    """A model's ``apply`` in its fast form; equal for equal functions."""

    apply: Callable[[Any, Any], Any]
    machine_code: bool = True
    """Whether convolutions may be machine code, else matrix products."""

    def __call__(self, weights: Any, inputs: Any) -> Any:
        """The same logits up to rounding; on an accelerator, those of the function itself."""
        if jax.default_backend() != "cpu":
            return self.apply(weights, inputs)
        return rewritten(self.apply, _rules(self.machine_code), weights, inputs)


@lru_cache(maxsize=2)
def _rules(machine_code: bool) -> Rules:
    convolve = partial(fast_convolution, machine_code)
    return {
        primitives.conv_general_dilated_p: Rule(has_fast_form, convolve),
        primitives.reduce_window_max_p: Rule(pools_by_slices, max_pool),
        primitives.reduce_window_min_p: Rule(pools_by_slices, min_pool),
        primitives.reduce_window_sum_p: Rule(pools_by_slices, sum_pool),
        primitives.reduce_sum_p: Rule(sums_apart, two_sums),
    }
