"""A plain PyTorch loop over devices and steps, in one process to a core."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.processes import measure_in_processes
from benchmarks.torch_work import (
    device_samples,
    from_torch,
    paper_network,
    plain_steps,
    set_weights,
)
from benchmarks.work import CORES, Tensors, Work


def measure(devices: int, steps: int) -> dict[str, Any]:
    """Devices shared out to as many processes as there are cores."""
    return measure_in_processes(prepare, CORES, devices, steps, warm_up_steps=50)


def prepare(work: Work) -> Callable[[], list[Tensors]]:
    """One device after another, on one thread."""
    torch.set_num_threads(1)
    samples = [device_samples(work, device) for device in range(len(work.draws))]

    def train() -> list[Tensors]:
        trained = []
        for (images, labels), draws in zip(samples, work.draws.tolist(), strict=True):
            network = paper_network()
            set_weights(network, work.weights)
            plain_steps(network, images, labels, draws)
            trained.append(from_torch(list(network.parameters())))
        return trained

    return train
