"""A custom protocol: a new row of the table, made of existing parts and one new function.

Here, FL whose server leaves out the upload farthest from the coordinate-wise median.
"""

from dataclasses import replace

import numpy as np

import mix2fld
from mix2fld.protocols.base import Inbox, StepInfo, server_step
from mix2fld.protocols.weights import average_weights
from mix2fld.tasks.learning import Learning
from mix2fld.types import SeedSet, ServerState


@server_step("The server averages all weights that arrived but those farthest from the median.")
def take_careful_mean(
    state: ServerState, inbox: Inbox, seeds: SeedSet | None, learning: Learning, round_number: int
) -> tuple[ServerState, StepInfo]:
    flat = {d: np.concatenate([t.ravel() for t in upload.value]) for d, upload in inbox.items()}
    if len(flat) > 2:
        median = np.median(list(flat.values()), axis=0)
        farthest = max(flat, key=lambda d: float(np.linalg.norm(flat[d] - median)))
        inbox = {d: upload for d, upload in inbox.items() if d != farthest}
    return average_weights(state, inbox, seeds, learning, round_number)


mix2fld.PROTOCOLS["careful"] = replace(
    mix2fld.PROTOCOLS["fl8"], title="careful FL", server_step=take_careful_mean
)

if __name__ == "__main__":
    config = mix2fld.Config.of(
        protocols=("fl8", "careful"), devices=5, local_steps=500, rounds=2, test_samples=1000
    )
    for result in mix2fld.run(config):
        print(result.summary["protocol"], result.summary["scores"])
