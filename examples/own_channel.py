"""A custom link: a slot length, a limit, and what happens to a transmission.

Here, a satellite that passes overhead: a device can upload only while it is in view.
"""

import numpy as np
from numpy.typing import NDArray

import mix2fld
from mix2fld.extend import Direction, Memoryless


class SatellitePass(Memoryless):
    slot_seconds = 0.01
    max_slots = 500
    bits_per_slot = 2_000

    def deliver(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator
    ) -> mix2fld.Delivery:
        if direction == "downlink":  # broadcast, always heard
            slots = np.full(len(bits), 20)
            return mix2fld.Delivery(np.ones(len(bits), bool), np.where(bits > 0, slots, 0))
        in_view = rng.integers(50, self.max_slots, size=len(bits))
        needed = -(-bits // self.bits_per_slot)
        delivered = needed <= in_view
        return mix2fld.Delivery(delivered, np.where(delivered, needed, self.max_slots))


if __name__ == "__main__":
    grid = mix2fld.Grid.of(
        protocols=("fl", "mix2fld"),
        devices=5,
        local_steps=500,
        server_steps=500,
        rounds=2,
        test_samples=1000,
    )
    for result in mix2fld.run(grid, link=SatellitePass()):
        print(result.summary["protocol"], result.summary["uploads"], result.summary["scores"])
