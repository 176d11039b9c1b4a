"""The next token: classification whose labels are tokens, measured by perplexity, too."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mix2fld.tasks.base import Sums
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.metric import Metric


@dataclass(frozen=True)
class NextToken(Classification):
    """One of N_L tokens follows each window; the groups over which FD averages are these tokens."""

    name = "next-token"
    counts_correct = False
    further = (Metric("perplexity", better="lower", digits=2),)

    def score(self, outputs: NDArray[np.float32], targets: NDArray[np.float32]) -> Sums:
        """How many tokens are the likeliest one, and their negative log-likelihoods in nats."""
        logits = outputs.astype(np.float64)
        above = logits - logits.max(axis=1, keepdims=True)
        logs = above - np.log(np.exp(above).sum(axis=1, keepdims=True))
        missed = -(logs * targets).sum()
        right = (outputs.argmax(axis=1) == targets.argmax(axis=1)).sum()
        return np.array([right, missed], np.float64)

    def measure_further(self, sums: Sums, samples: int) -> tuple[float, ...]:
        """Perplexity: among how many equally likely tokens a model chooses, on average."""
        return (float(np.exp(sums[1] / samples)),)
