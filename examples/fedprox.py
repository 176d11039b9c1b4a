"""FedProx (Li et al., 2020): local steps are pulled back towards the model that came down.

Devices whose samples differ drift apart in their local phases; the proximal term keeps them close.
"""

from dataclasses import dataclass

import mix2fld
from mix2fld.extend import FL, Start, State, parameter


@dataclass(frozen=True, kw_only=True)
class FedProx(FL):
    """FL with the proximal term mu / 2 |w - w_global|^2 in the local loss."""

    title: str = "FedProx"
    colour: str = "#117733"
    mu: float = parameter(0.1)

    def begin(self, state: State, start: Start) -> Start:
        return start._replace(pull=self.mu)


mix2fld.PROTOCOLS["fedprox"] = FedProx()

if __name__ == "__main__":
    grid = mix2fld.Grid.of(
        protocols=("fl", "fedprox", "fedprox:mu=1"),
        devices=5,
        local_steps=500,
        rounds=2,
        test_samples=1000,
        link="ideal",
    )
    for result in mix2fld.run(grid):
        print(result.summary["protocol"], result.summary["scores"])
