"""The same round of federated averaging by other frameworks: few of many devices take part."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import usage
from benchmarks.work import CORES, LEARNING_RATE, Work, deal, initial_weights
from mix2fld.base.streams import stream

ANY_ROUND = 1


@lru_cache
def dealt(devices: int) -> Any:
    """The dataset and who holds which rows of it, once in each process."""
    return deal(devices)


def work_of(devices: int, device: int, steps: int) -> Work:
    """The samples of one device and its draws."""
    from mix2fld.tasks.stepper import draw_samples

    dataset, parts = dealt(devices)
    rng = stream(0, "draws", ANY_ROUND, device)
    draws = draw_samples(rng, len(parts[device]), steps, 1)[:, 0]
    images, labels = dataset.train_inputs[parts[device]], dataset.train_labels[parts[device]]
    return Work(images[None], labels[None], draws[None], initial_weights())


class Listener(NamedTuple):
    """Told what happens in a simulation while it runs."""

    ready: Callable[[], None] = lambda: None
    """All devices are there, and the first round starts."""
    over: Callable[[float], None] = lambda _: None
    """A round is over, after so many seconds."""


def flower(
    devices: int, participants: int, steps: int, rounds: int, listener: Listener | None = None
) -> list[float]:
    """Seconds of rounds of Flower's simulation; the first one, which starts Ray, is left out."""
    told = listener or Listener()
    from benchmarks.contenders import flower as peer

    class Client(peer.NumPyClient):
        def __init__(self, device: int) -> None:
            self._device = device

        def fit(self, parameters: Any, config: Any) -> Any:
            del config
            peer.torch.set_num_threads(1)
            work, network = work_of(devices, self._device, steps), peer.paper_network()
            peer.set_weights(network, peer.from_torch(parameters))
            peer.plain_steps(network, *peer.device_samples(work, 0), work.draws[0].tolist())
            return [p.detach().numpy() for p in network.parameters()], work.labels.shape[1], {}

    def make_client(context: Any) -> Any:
        return Client(int(context.node_config["partition-id"])).to_client()

    class Telling(peer.TimedFedAvg):
        def configure_fit(self, *args: Any, **kwargs: Any) -> Any:
            instructions = super().configure_fit(*args, **kwargs)
            if not hasattr(self, "seconds"):
                told.ready()
            return instructions

        def aggregate_fit(self, *args: Any, **kwargs: Any) -> Any:
            averaged = super().aggregate_fit(*args, **kwargs)
            told.over(self.seconds[-1])
            return averaged

    initial = [tensor.numpy() for tensor in peer.to_torch(initial_weights())]
    strategy = Telling(
        fraction_fit=participants / devices,
        fraction_evaluate=0.0,
        min_fit_clients=participants,
        min_available_clients=devices,
        initial_parameters=peer.flwr.common.ndarrays_to_parameters(initial),
    )
    strategy.initial = peer.flwr.common.ndarrays_to_parameters(initial)
    components = peer.ServerAppComponents(
        strategy=strategy, config=peer.ServerConfig(num_rounds=1 + rounds)
    )
    peer.run_simulation(
        server_app=peer.ServerApp(server_fn=lambda _: components),
        client_app=peer.ClientApp(client_fn=make_client),
        num_supernodes=devices,
        backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": CORES}},
    )
    return list(strategy.seconds[1:])


def pfl(
    devices: int, participants: int, steps: int, rounds: int, written: Path | None = None
) -> list[float]:
    """Seconds of rounds of pfl after one to warm up; ``written`` has those that are over."""
    with tempfile.TemporaryDirectory() as folder:
        target = written or Path(folder) / "seconds.jsonl"
        launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={CORES}"]
        numbers = map(str, (devices, participants, steps, rounds))
        own = ["--module", "benchmarks.many_peers", *numbers, str(target)]
        subprocess.run([*launch, *own], check=True)
        events = [json.loads(line) for line in target.read_text().splitlines()]
        return [event["round"] for event in events if "round" in event]


def pfl_worker(devices: int, participants: int, steps: int, rounds: int, target: Path) -> None:
    """What each process of pfl runs; the first one writes a line for each round."""
    began = time.perf_counter()
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    from benchmarks.contenders.pfl import _network
    from benchmarks.torch_work import device_samples

    torch.set_num_threads(1)

    def samples_of(device: int) -> Any:
        work = work_of(devices, device, steps)
        images, labels = device_samples(work, 0)
        return Dataset(raw_data=[images[work.draws[0]], labels[work.draws[0]]], user_id=str(device))

    network = _network()
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    users = FederatedDataset(samples_of, get_user_sampler("random", list(range(devices))))
    backend = SimulatedBackend(training_data=users, val_data=users)
    local = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=1
    )
    for number in range(1 + rounds):
        torch.distributed.barrier()
        started = time.perf_counter()
        FederatedAveraging().run(
            algorithm_params=NNAlgorithmParams(
                central_num_iterations=1,
                evaluation_frequency=2,
                train_cohort_size=participants,
                val_cohort_size=0,
            ),
            backend=backend,
            model=model,
            model_train_params=local,
            model_eval_params=None,
            callbacks=[],
            send_metrics_to_platform=False,
        )
        seconds = time.perf_counter() - started
        if torch.distributed.get_rank() == 0:
            with target.open("a") as file:
                event = {"round": seconds} if number else {"ready": started - began}
                file.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    *counts, file = usage.arguments(__doc__, "<FOUR COUNTS AND A FILE>")
    pfl_worker(*map(int, counts), Path(file))
