"""A plain PyTorch loop over devices and steps, in one process to a core."""

from typing import Any

from benchmarks.torch_work import (
    device_samples,
    from_torch,
    measure_in_processes,
    paper_network,
    plain_steps,
    set_weights,
)
from benchmarks.work import CORES, Tensors, Work


def measure(devices: int, steps: int) -> dict[str, Any]:
    """Devices shared out to as many processes as there are cores, one thread each."""
    return measure_in_processes(train, CORES, devices, steps)


def train(work: Work) -> list[Tensors]:
    """One device after another."""
    trained = []
    for device, draws in enumerate(work.draws.tolist()):
        network = paper_network()
        set_weights(network, work.weights)
        plain_steps(network, *device_samples(work, device), draws)
        trained.append(from_torch(list(network.parameters())))
    return trained
