"""A custom protocol: a class like those of the table, here a subclass with another server step.

FL whose server leaves out the upload farthest from the coordinate-wise median.
"""

import numpy as np

import mix2fld
from mix2fld.extend import FL, Inbox, ServerState, StepInfo


class CarefulFL(FL):
    """FL without the farthest upload."""

    server_words = (
        "The server averages all weights that arrived but those farthest from the median."
    )

    def step(
        self, server: ServerState, inbox: Inbox, round_number: int
    ) -> tuple[ServerState, StepInfo]:
        flat = {d: self.as_row(upload.value, server) for d, upload in inbox.items()}
        if len(flat) > 2:
            median = np.median(list(flat.values()), axis=0)
            farthest = max(flat, key=lambda d: float(np.linalg.norm(flat[d] - median)))
            inbox = {d: upload for d, upload in inbox.items() if d != farthest}
        return super().step(server, inbox, round_number)


mix2fld.PROTOCOLS["careful"] = CarefulFL(title="careful FL", bits=8)

if __name__ == "__main__":
    grid = mix2fld.Grid.of(
        protocols=("fl8", "careful"), devices=5, local_steps=500, rounds=2, test_samples=1000
    )
    for result in mix2fld.run(grid):
        print(result.summary["protocol"], result.summary["scores"])
