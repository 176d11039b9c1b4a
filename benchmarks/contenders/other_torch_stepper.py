"""A PyTorch module of the section "Other models" through this engine's PyTorch stepper."""

from typing import Any

import torch

from benchmarks.contenders.other_engine import measure_model
from benchmarks.other_models import BY_NAME, initial_weights
from benchmarks.other_torch import NETWORKS, dump, load
from mix2fld.models import from_torch


def measure(devices: int, steps: int, row: str) -> dict[str, Any]:
    """``Stepper.train`` as a fleet calls it, in one piece; then ``count_correct``."""
    model = BY_NAME[row]
    network = NETWORKS[model.network]()
    load(model.network, network, initial_weights(model.network))
    weights = tuple(parameter.detach().numpy() for parameter in network.parameters())
    module = from_torch(NETWORKS[model.network])
    record = measure_model(model, module, devices, steps, weights)
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), record["weights"], strict=True):
            parameter.copy_(torch.tensor(value))
    return {**record, "weights": list(dump(model.network, network))}
