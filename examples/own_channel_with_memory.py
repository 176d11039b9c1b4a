"""A custom link that remembers: each device is in a good or a bad state, and tends to stay in it.

The Gilbert-Elliott model. The states of all devices are part of the run's state: they are kept in
its checkpoint, so that a resumed run sees the same channel.
"""

import numpy as np
from numpy.typing import NDArray

import mix2fld
from mix2fld.extend import Direction, Link, State


class GilbertElliott(Link):
    slot_seconds = 0.001
    max_slots = 120
    uplink_bits, downlink_bits = 4_000, 20_000
    stays = 0.9
    """Chance that a device is in the same state at the next transmission."""

    def start(self, devices: int, rng: np.random.Generator) -> State:
        return {"good": rng.random(devices) < 0.5}

    def transmit(
        self, direction: Direction, bits: NDArray[np.int64], rng: np.random.Generator, state: State
    ) -> tuple[mix2fld.Delivery, State]:
        per_slot = self.uplink_bits if direction == "uplink" else self.downlink_bits
        needed = -(-bits // per_slot)
        delivered = (needed <= self.max_slots) & (state["good"] | (needed <= 1))
        slots = np.where(delivered, needed, self.max_slots)
        moved = rng.random(len(bits)) >= self.stays
        return mix2fld.Delivery(delivered, slots), {"good": state["good"] ^ moved}


if __name__ == "__main__":
    grid = mix2fld.Grid.of(
        protocols=("fl", "mix2fld"),
        devices=5,
        local_steps=300,
        server_steps=300,
        rounds=4,
        test_samples=1000,
    )
    for result in mix2fld.run(grid, link=GilbertElliott()):
        came = [info["uploads"]["devices"] for info in result.rounds]
        print(result.summary["protocol"], came, result.summary["scores"]["mean"])
