"""SCAFFOLD (Karimireddy et al., 2020): control variates both ways correct the drift of local steps.

A device adds c - c_i to each of its gradients, where c_i is about the gradient of its own samples
and c that of all. Up go its weights and what its c_i moved by, down come the model and c.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Scaffold(FL):
    title: str = "SCAFFOLD"
    upload_codec = download_codec = Pair(Weights(), Weights())  # type: ignore[assignment]
    sums = False

    def start(self, weights: Tensors) -> State:
        nothing = tuple(np.zeros_like(part) for part in weights)
        return {"own_control": nothing, "control": nothing}

    def begin(self, state: State, start: Start) -> Start:
        pairs = zip(state["control"], state["own_control"], strict=True)
        return start._replace(drift=tuple(c - own for c, own in pairs))

    def upload(self, device: Device, local: Local) -> Any:
        return local.weights, self._moved(device.state, local, device.learning_rate)

    def _moved(self, state: State, local: Local, rate: float) -> Tensors:
        """By what c_i changes: (x - y) / (K eta) - c."""
        steps = np.float32(self.learning.config.learning.local_steps * rate)
        parts = zip(state["weights"], local.weights, state["control"], strict=True)
        return tuple((x - y) / steps - c for x, y, c in parts)

    def on_acknowledged(self, state: State, local: Local, read: Any) -> State:
        _, moved = read()
        own = zip(state["own_control"], moved, strict=True)
        return {"own_control": tuple(a + b for a, b in own)}

    def step(
        self, server: ServerState, inbox: Inbox, round_number: int
    ) -> tuple[ServerState, StepInfo]:
        if not inbox:
            return server, StepInfo()
        models = {d: Upload(up.value[0], up.samples) for d, up in inbox.items()}
        after, info = super().step(server, models, round_number)
        devices = self.learning.config.data.devices
        moved = [
            sum(parts) / devices
            for parts in zip(*(u.value[1] for u in inbox.values()), strict=True)
        ]
        control = tuple(a + b for a, b in zip(self._control(server), moved, strict=True))
        return replace(after, memory={**after.memory, "control": control}), info

    def _control(self, server: ServerState) -> Tensors:
        nothing = tuple(np.zeros_like(part) for part in self.learning.common_weights)
        control: Tensors = server.memory.get("control", nothing)
        return control

    def download(self, server: ServerState) -> Any:
        return server.weights, self._control(server)

    def received(self, value: Any) -> State:
        weights, control = value
        return {"weights": weights, "control": control}


mix2fld.PROTOCOLS["scaffold"] = Scaffold()

if __name__ == "__main__":
    config = mix2fld.Config.of(
        protocols=("fl", "scaffold"), devices=5, local_steps=500, rounds=2, test_samples=1000,
        learning_rate=0.01, link="ideal",
    )  # fmt: skip
    for result in mix2fld.run(config):
        print(result.summary["protocol"], result.summary["accuracy"])
