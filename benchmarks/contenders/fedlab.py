"""FedLab: its serial trainer, one process to a core.

Each device's batches are laid out beforehand, which spares FedLab the work of a ``DataLoader``.
"""

import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import torch

try:
    import torchvision  # noqa: F401
except (ImportError, RuntimeError):  # a build for another PyTorch fails with the latter
    # FedLab imports it for datasets that are not used here.
    sys.modules.update({name: MagicMock() for name in ("torchvision", "torchvision.transforms")})

from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.utils import SerializationTool

from benchmarks.processes import measure_in_processes
from benchmarks.torch_work import device_samples, from_torch, paper_network, set_weights
from benchmarks.work import CORES, LEARNING_RATE, Tensors, Work


class Batches:
    """What FedLab asks for a device's data."""

    def __init__(self, work: Work) -> None:
        self._of_device = []
        for device, draws in enumerate(work.draws):
            images, labels = device_samples(work, device)
            rows = torch.tensor(draws).long()[:, None]
            self._of_device.append(list(zip(images[rows], labels[rows], strict=True)))

    def get_dataloader(self, device: int, batch_size: int) -> Any:
        """Batches of one sample in the order of the draws."""
        assert batch_size == 1
        return self._of_device[device]


def measure(devices: int, steps: int) -> dict[str, Any]:
    """Devices shared out to as many processes as there are cores."""
    return measure_in_processes(prepare, CORES, devices, steps, warm_up_steps=50)


def prepare(work: Work) -> Callable[[], list[Tensors]]:
    """One local phase of FedLab's trainer, on one thread."""
    torch.set_num_threads(1)
    network = paper_network()
    set_weights(network, work.weights)
    trainer = SGDSerialClientTrainer(network, num_clients=len(work.draws))
    trainer.setup_dataset(Batches(work))
    trainer.setup_optim(epochs=1, batch_size=1, lr=LEARNING_RATE)
    start = SerializationTool.serialize_model(network)

    def train() -> list[Tensors]:
        trainer.local_process([start], range(len(work.draws)))
        return [_tensors(package[0]) for package in trainer.uplink_package]

    return train


def _tensors(serialized: torch.Tensor) -> Tensors:
    network = paper_network()
    SerializationTool.deserialize_model(network, serialized)
    return from_torch(list(network.parameters()))
