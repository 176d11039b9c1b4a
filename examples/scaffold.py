"""SCAFFOLD (Karimireddy et al., 2020): control variates both ways correct the drift of local steps.

A device adds c - c_i to each gradient, where c_i is about the gradient of its own samples and c
that of all. Up go its weights and what its c_i moved by, down come the model and c.
"""

from dataclasses import dataclass, replace
from typing import Any

import mix2fld
from mix2fld.extend import (
    FL,
    Device,
    Inbox,
    Local,
    Pair,
    ServerState,
    Start,
    State,
    StepInfo,
    Tensors,
    Upload,
    Weights,
    minus,
    plus,
    scaled,
    total,
    zeros,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Scaffold(FL):
    title: str = "SCAFFOLD"
    upload_codec = download_codec = property(lambda self: Pair(Weights(), Weights()))

    def start(self, weights: Tensors) -> State:
        return {"own_control": zeros(weights), "control": zeros(weights)}

    def begin(self, state: State, start: Start) -> Start:
        return start._replace(drift=minus(state["control"], state["own_control"]))

    def upload(self, device: Device, local: Local) -> Any:  # (y - x) / (K eta) is minus a gradient
        steps = self.learning.config.learning.local_steps * device.learning_rate
        gradient = scaled(1 / steps, minus(device.state["weights"], local.weights))
        return local.weights, minus(gradient, device.state["control"])

    def on_acknowledged(self, state: State, local: Local, read: Any) -> State:
        return {"own_control": plus(state["own_control"], read()[1])}

    def step(self, server: ServerState, inbox: Inbox, number: int) -> tuple[ServerState, StepInfo]:
        if not inbox:
            return server, StepInfo()
        models = {d: Upload(up.value[0], up.samples) for d, up in inbox.items()}
        after, info = super().step(server, models, number)
        moved = total([inbox[device].value[1] for device in sorted(inbox)])
        step = scaled(1 / self.learning.config.data.devices, moved)
        memory = {**after.memory, "control": plus(self.control(server), step)}
        return replace(after, memory=memory), info

    def control(self, server: ServerState) -> Tensors:
        return server.memory.get("control") or zeros(self.learning.common_weights)

    def download(self, server: ServerState) -> Any:
        return server.weights, self.control(server)

    def received(self, value: Any) -> State:
        return {"weights": value[0], "control": value[1]}

    def tensors_in(self, value: Any, samples: int) -> Tensors:
        return (*value[0], *value[1])


mix2fld.PROTOCOLS["scaffold"] = Scaffold()

if __name__ == "__main__":
    grid = mix2fld.Grid.of(
        protocols=("fl", "scaffold"), devices=5, local_steps=500, rounds=3, test_samples=1000,
        learning_rate=0.01, partition="dirichlet", dirichlet_alpha=0.3, link="ideal",
    )  # fmt: skip
    for result in mix2fld.run(grid):
        print(result.summary["protocol"], result.summary["scores"])
