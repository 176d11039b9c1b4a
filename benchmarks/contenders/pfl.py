"""pfl: its PyTorch backend under ``torchrun``, one process to a core."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.work import CORES, LEARNING_RATE, Work, initial_weights, paper_work

WARM_UP_STEPS = 20


def measure(devices: int, steps: int) -> dict[str, Any]:
    """One round of federated averaging over all devices, after a short one to warm up."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "record.json"
        launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={CORES}"]
        own = ["--module", "benchmarks.contenders.pfl", str(devices), str(steps), str(target)]
        subprocess.run([*launch, *own], check=True)
        return json.loads(target.read_text())


def train(devices: int, steps: int, target: Path) -> None:
    """What each process runs; the first one writes the record."""
    import torch

    from benchmarks.torch_work import from_torch

    torch.set_num_threads(1)
    work = paper_work(devices, steps)
    warm_up, _ = _round(work.first_steps(WARM_UP_STEPS))
    seconds, network = _round(work)
    if torch.distributed.get_rank() == 0:
        tensors = from_torch(list(network.parameters()))
        record = {"seconds": seconds, "warm_up_seconds": warm_up, "processes": CORES}
        record["weights"] = [tensor.tolist() for tensor in tensors]
        target.write_text(json.dumps(record))


def _round(work: Work) -> tuple[float, Any]:
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    network = _network()
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    users = _users(work)
    backend = SimulatedBackend(training_data=users, val_data=users)
    algorithm_params = NNAlgorithmParams(
        central_num_iterations=1,
        evaluation_frequency=2,
        train_cohort_size=len(work.draws),
        val_cohort_size=0,
    )
    local = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=1
    )
    torch.distributed.barrier()
    started = time.perf_counter()
    FederatedAveraging().run(
        algorithm_params=algorithm_params,
        backend=backend,
        model=model,
        model_train_params=local,
        model_eval_params=None,
        callbacks=[],
        send_metrics_to_platform=False,
    )
    return time.perf_counter() - started, network


def _users(work: Work) -> Any:
    """The samples of each device in the order of its draws, so that one epoch is the phase."""
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler

    from benchmarks.torch_work import device_samples

    data = {}
    for device, draws in enumerate(work.draws):
        images, labels = device_samples(work, device)
        data[device] = [images[draws], labels[draws]]
    sampler = get_user_sampler("minimize_reuse", list(data))
    return FederatedDataset.from_slices(data, sampler)


def _network() -> Any:
    from torch import nn

    from benchmarks.torch_work import paper_network, set_weights

    class Network(nn.Module):
        """The paper's network with the two functions that pfl asks for."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = paper_network()

        def forward(self, images: Any) -> Any:
            return self.layers(images)

        def loss(self, images: Any, labels: Any, eval: bool = False) -> Any:
            del eval
            return nn.functional.cross_entropy(self(images), labels)

        def metrics(self, images: Any, labels: Any, eval: bool = True) -> Any:
            del images, labels, eval
            return {}

    network = Network()
    set_weights(network, initial_weights())
    return network


if __name__ == "__main__":
    train(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
