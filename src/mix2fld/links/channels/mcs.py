"""Modulation and coding schemes: how many bits they carry, and how often a block of them fails.

The schemes are what a device can report as its channel quality (CQI): 3GPP TS 38.214 (V17.1.0),
Tables 5.2.2.1-2, -3 and -4; the first of them is also that of LTE, TS 36.213 Table 7.2.3-1.

A block fails as the normal approximation of finite block lengths has it (Polyanskiy, Poor and
Verdu, 2010), with n symbols, capacity C, dispersion V and spectral efficiency e:

    BLER = Q((n C - n e + log2(n) / 2) / sqrt(n V)),

at an SNR that is lower than the received one by the gap between this bound and real codes.
``tests/links/test_radio_pieces.py`` compares it with block error rates of 5G's LDPC code.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.links.channels.fading import Fading
from mix2fld.links.channels.path_loss import Floats, from_db

GAP_DB = {1: 1.2, 2: 1.2, 4: 1.6, 6: 2.1, 8: 2.3}
"""Distance of real codes from the normal approximation, by bits of a symbol."""
TARGET_ERRORS = 0.1
"""Block error rate up to which a scheme is used: TS 38.214, clause 5.2.2.1."""
LEAST_SYMBOLS = 24.0
"""Of a block, however short a slot is."""
LEVELS = 21
SNR_GRID_DB = np.arange(-40.0, 40.0, 0.02)

Rows = tuple[tuple[int, float, int], ...]
"""Schemes: bits of a symbol, code rate times 1024, how often a block is repeated."""
_QPSK: Rows = ((2, 78, 1), (2, 120, 1), (2, 193, 1), (2, 308, 1), (2, 449, 1), (2, 602, 1))
_16QAM: Rows = ((4, 378, 1), (4, 490, 1), (4, 616, 1))
_64QAM: Rows = ((6, 466, 1), (6, 567, 1), (6, 666, 1), (6, 772, 1), (6, 873, 1), (6, 948, 1))
_256QAM: Rows = ((8, 711, 1), (8, 797, 1), (8, 885, 1), (8, 948, 1))
TABLES: dict[str, Rows] = {
    "64qam": _QPSK + _16QAM + _64QAM,
    "256qam": (_QPSK[0], _QPSK[2], _QPSK[4], *_16QAM, *_64QAM[:5], *_256QAM),
    "low": (
        *((2, rate, 1) for rate in (30, 50)),
        *(_QPSK[0], _QPSK[1], _QPSK[2], _QPSK[3], _QPSK[4], _QPSK[5]),
        *_16QAM,
        *_64QAM[:4],
    ),
    "16qam": _QPSK + _16QAM,
    "repeated": (
        *((2, 308, 2**times) for times in range(7, 0, -1)),
        *((2, rate, 1) for rate in (308, 449, 602)),
    ),
}
"""Every table by its name in the config.

``16qam`` is the part that LTE-M devices use, ``repeated`` a table for NB-IoT: QPSK whose blocks are
repeated up to 128 times, TS 36.213 Table 16.5.1.1-2.
"""


@dataclass(frozen=True, eq=False)
class Schemes:
    """The schemes of one table for blocks of one length, from the most robust to the fastest."""

    efficiency: Floats  # [M], bits of a symbol of the channel
    threshold: Floats  # [M], SNR from which the block error rate is on target
    gain: Floats  # [M], of the SNR: repetitions over the gap
    symbols: Floats  # [M], of a block before it is repeated
    carried: Floats  # [M], bits of such a symbol
    levels: Floats  # [M, LEVELS], SNRs that a block needs, all equally likely

    def best(self, snr: Floats) -> NDArray[np.int64]:
        """The fastest scheme whose block error rate is on target; the most robust if none is."""
        return np.maximum(np.searchsorted(self.threshold, snr, side="right") - 1, 0)

    def margin(self, scheme: NDArray[np.int64], snr: Floats) -> Floats:
        """What a scheme has left at an SNR, in standard deviations of the noise."""
        return _margin(snr * self.gain[scheme], self.symbols[scheme], self.carried[scheme])

    def errors(self, scheme: NDArray[np.int64], snr: Floats) -> Floats:
        """Block error rate of a scheme at an SNR."""
        from scipy import special

        errors: Floats = special.ndtr(-self.margin(scheme, snr))
        return errors

    def success(self, scheme: NDArray[np.int64], mean_snr: Floats, fading: Fading) -> Floats:
        """Chance that a block is decoded, over all fading."""
        if fading.steady:
            return 1 - self.errors(scheme, mean_snr)
        needed = self.levels[scheme] / np.asarray(mean_snr)[..., None]
        mean: Floats = fading.exceeds(needed).mean(axis=-1)
        return mean


@lru_cache(maxsize=64)
def schemes(table: str, symbols: float, largest: int = 0) -> Schemes:
    """The schemes of a table, for blocks that have so many symbols of the channel.

    With a ``largest`` block, schemes end at the first that fills it, at a lower code rate.
    """
    if table not in TABLES:
        raise InputError(
            field="mcs_table",
            value=f"{table!r}",
            hint=f"no such table; {did_you_mean(table, TABLES)}",
        )
    order, rate, repeated = _fitting(TABLES[table], symbols, largest)
    gain = repeated / from_db(np.array([GAP_DB[int(bits)] for bits in order]))
    sent, carried = np.maximum(symbols / repeated, LEAST_SYMBOLS), order * rate / 1024
    grid = from_db(SNR_GRID_DB)
    margins = _margin(grid[:, None] * gain, sent, carried).T  # grow with the SNR
    threshold = [_where(margin, TARGET_ERRORS) for margin in margins]
    shares = (np.arange(LEVELS) + 0.5) / LEVELS
    levels = [[_where(margin, float(share)) for share in shares] for margin in margins]
    return Schemes(
        efficiency=carried / repeated,
        threshold=np.maximum.accumulate(np.array(threshold)),
        gain=gain,
        symbols=sent,
        carried=carried,
        levels=np.array(levels),
    )


def _fitting(rows: Rows, symbols: float, largest: int) -> Floats:
    """The rows as columns, up to the one whose block has ``largest`` bits; 0: all of them."""
    order, rate, repeated = np.array(rows, np.float64).T
    if not largest:
        return np.array([order, rate, repeated])
    most = 1024 * repeated * largest / symbols / order  # code rate at which a block is full
    upto = 1 + int(np.argmax(rate >= most)) if (rate >= most).any() else len(rate)
    return np.array([order, np.minimum(rate, most), repeated])[:, :upto]


def _where(margin: Floats, errors: float) -> float:
    """The SNR at which a margin over the grid leaves so many errors."""
    needed = -NormalDist().inv_cdf(errors)
    return float(from_db(np.interp(needed, margin, SNR_GRID_DB)))


def _margin(snr: Floats, symbols: Floats, carried: Floats) -> Floats:
    capacity = np.log1p(snr) / math.log(2)
    dispersion = (1 - 1 / (1 + snr) ** 2) / math.log(2) ** 2
    left = symbols * (capacity - carried) + np.log2(symbols) / 2
    spread = np.sqrt(np.maximum(symbols * dispersion, 1e-30))  # nothing was received: no spread
    return left / spread
