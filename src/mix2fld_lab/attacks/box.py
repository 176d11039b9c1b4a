"""Membership by box: a sample was mixed in only if what it leaves is a sample too.

If candidate x has weight w in the mix m, the rest m - w x is (1 - w) times a sample (or a mix of
several), so that every value of it lies within [0, 1 - w], up to the rounding of the upload. The
attack needs no training and no other data than candidate, upload and mixing ratio.
"""

import numpy as np

from mix2fld_lab.attacks.rates import Scores
from mix2fld_lab.attacks.unmixing import Candidates, Floats, Mixes

AT_ONCE = 4096


def violations(candidates: Floats, mix: Floats, weight: float, rounding: float) -> Scores:
    """Sum of squares by which what each candidate leaves of one mix is out of range: [n]."""
    rest = mix - np.float32(weight) * candidates
    beyond = np.maximum(-rest, rest - np.float32(1 - weight)) - np.float32(rounding)
    np.maximum(beyond, 0, out=beyond)
    return np.einsum("nv,nv->n", beyond, beyond).astype(np.float64)


def box_scores(candidates: Candidates, mixes: Mixes, part: int | None = None) -> Scores:
    """Minus the smallest violation over all mixes that name the candidate's label: [n].

    ``part`` counts only that part of each mix (its weight is ``ratios[part]``); minus infinity
    where no mix names the label.
    """
    scores = np.full(len(candidates.labels), -np.inf)
    parts = range(len(mixes.ratios)) if part is None else (part,)
    for place in parts:
        weight = mixes.ratios[place]
        for mix, label in zip(mixes.values, mixes.labels[:, place], strict=True):
            rows = np.flatnonzero(candidates.labels == label)
            for start in range(0, len(rows), AT_ONCE):
                some = rows[start : start + AT_ONCE]
                off = violations(candidates.values[some], mix, weight, mixes.rounding)
                scores[some] = np.maximum(scores[some], -off)
    return scores
