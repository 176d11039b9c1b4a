"""A channel that adds: devices transmit their updates at once, and the air sums them.

The server receives the sum with noise, and never sees the upload of one device. All devices
together take the channel uses of one.
"""

import numpy as np
from numpy.typing import NDArray

import mix2fld
from mix2fld.extend import Delivery, Direction, Memoryless


class AddingChannel(Memoryless):
    """Analog uploads that add up, with Gaussian noise; digital downloads, always heard."""

    adds = True
    slot_seconds, max_slots = 0.001, 100
    values_per_slot = 2_000

    def __init__(self, snr_db: float) -> None:
        self.noise = 10 ** (-snr_db / 20)

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> Delivery:
        bits_of_a_value = 1 if direction == "uplink" else 32  # uploads are counted in values
        slots = -(-bits // (bits_of_a_value * self.values_per_slot))
        return Delivery(np.ones(len(bits), bool), slots)

    def superpose(
        self, signals: NDArray[np.float64], weights: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        total = weights @ signals
        deviation = self.noise * float(np.sqrt(np.mean(total**2)))
        return (total + deviation * rng.normal(size=total.shape)) / weights.sum()


if __name__ == "__main__":
    config = mix2fld.Config.of(
        protocol="fl", devices=5, local_steps=500, rounds=2, test_samples=1000
    )
    for snr_db in (30.0, 0.0):
        (result,) = mix2fld.run(config, link=AddingChannel(snr_db))
        print(snr_db, "dB", result.summary["scores"], result.summary["seconds"])
