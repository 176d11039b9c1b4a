"""A model of the section "Other models" by a plain PyTorch loop, a process to a core."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.other_models import BY_NAME, LEARNING_RATE, OtherModel, OtherWork, other_work
from benchmarks.other_torch import NETWORKS, dump, load
from benchmarks.processes import measure_in_processes
from benchmarks.work import CORES, Tensors

OPTIMIZERS: dict[str, Any] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


def measure(devices: int, steps: int, row: str) -> dict[str, Any]:
    """Devices shared out to as many processes as there are cores."""
    model = BY_NAME[row]
    work = partial(other_work, model)
    return measure_in_processes(partial(prepare, model), CORES, devices, steps, 3, work)


def prepare(model: OtherModel, work: OtherWork) -> Callable[[], list[Tensors]]:
    """One device after another, on one thread, as a user of PyTorch writes it."""
    torch.set_num_threads(1)
    images = torch.tensor(work.images).permute(0, 3, 1, 2).float().div(255).contiguous()
    labels = torch.tensor(work.labels).long()

    def train() -> list[Tensors]:
        trained = []
        for draws in torch.tensor(work.draws).long():
            network = NETWORKS[model.network]()
            load(model.network, network, work.weights)
            optimizer = OPTIMIZERS[model.optimizer](network.parameters(), lr=LEARNING_RATE)
            for rows in draws:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(network(images[rows]), labels[rows])
                loss.backward()
                optimizer.step()
            trained.append(list(dump(model.network, network)))
        return trained

    return train
