"""What settings, payloads and checks are all held to."""

LEAST_UPDATE_BITS = 20
"""The smallest upload of an update: a norm, and one coordinate of many with its sign."""


def mixing_condition(ratios: tuple[float, ...]) -> float:
    """Condition number of the circulant mixing matrix of Eq. 8, from its eigenvalues."""
    if len(ratios) == 2:  # the default: avoids NumPy, so that help is instant
        spectrum = [abs(sum(ratios)), abs(ratios[0] - ratios[1])]
    else:
        import numpy as np

        spectrum = np.abs(np.fft.fft(ratios)).tolist()
    return max(spectrum) / min(spectrum) if min(spectrum) > 0 else float("inf")


def how_many(asked: str | float, devices: int) -> int:
    """All of so many devices, a number or a fraction of them."""
    if isinstance(asked, str):
        return devices
    return asked if isinstance(asked, int) else max(1, round(asked * devices))
