"""SCAFFOLD (Karimireddy et al., 2020): control variates both ways correct the drift of local steps.

A device adds c - c_i to each gradient, where c_i is about the gradient of its own samples and c
that of all. Up go its weights and what its c_i moved by, down come the model and c.
"""

from dataclasses import dataclass
from typing import Any

import mix2fld
from mix2fld.codecs import Named, Weights
from mix2fld.extend import FL, Device, Inbox, Local, ServerState, Start, State, StepInfo, only
from mix2fld.tensors import Tensors, minus, plus, scaled, total, zeros


@dataclass(frozen=True, kw_only=True)
class Scaffold(FL):
    title: str = "SCAFFOLD"
    upload_codec = download_codec = Named({"weights": Weights(), "control": Weights()})

    def start(self, weights: Tensors) -> State:
        return {"own_control": zeros(weights), "control": zeros(weights)}

    def begin(self, state: State, start: Start) -> Start:
        return start._replace(drift=minus(state["control"], state["own_control"]))

    def upload(self, device: Device, local: Local) -> Any:  # (y - x) / (K eta) is minus a gradient
        way = minus(device.state["weights"], local.weights)
        gradient = scaled(1 / (device.steps * device.learning_rate), way)
        return {"weights": local.weights, "control": minus(gradient, device.state["control"])}

    def on_acknowledged(self, state: State, local: Local, read: Any) -> State:
        return {"own_control": plus(state["own_control"], read()["control"])}

    def step(self, server: ServerState, inbox: Inbox, number: int) -> tuple[ServerState, StepInfo]:
        after, info = super().step(server, only(inbox, "weights"), number)
        moved = [own.value for own in only(inbox, "control").values()]
        shares = [scaled(1 / self.devices, each) for each in moved]
        return after.keeping(control=total([self.control(server), *shares])), info

    def control(self, server: ServerState) -> Tensors:
        return server.memory.get("control") or zeros(self.learning.common_weights)

    def download(self, server: ServerState) -> Any:
        return {"weights": server.weights, "control": self.control(server)}

    def received(self, value: Any) -> State:
        return dict(value)


mix2fld.PROTOCOLS["scaffold"] = Scaffold()

if __name__ == "__main__":
    grid = mix2fld.Grid.of(
        protocols=("fl", "scaffold"), devices=5, local_steps=500, rounds=3, test_samples=1000,
        learning_rate=0.01, partition="dirichlet", dirichlet_alpha=0.3, link="ideal",
    )  # fmt: skip
    for result in mix2fld.run(grid):
        print(result.summary["protocol"], result.summary["scores"])
