"""Flower's simulation: Ray backend, one core to a client, a plain PyTorch loop in the client."""

import os
import tempfile
import time
from functools import lru_cache
from typing import Any

os.environ.update(
    FLWR_TELEMETRY_ENABLED="0",
    FLWR_DISABLE_UPDATE_CHECK="1",
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION="1",
    RAY_USAGE_STATS_ENABLED="0",
)
if "FLWR_HOME" not in os.environ:  # Ray's processes have it from this one
    HOME = tempfile.TemporaryDirectory(prefix="flower-")
    os.environ["FLWR_HOME"] = HOME.name

import flwr
import torch
from flwr.client import ClientApp, NumPyClient
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.torch_work import (
    device_samples,
    from_torch,
    paper_network,
    plain_steps,
    set_weights,
    to_torch,
)
from benchmarks.work import CORES, Work, initial_weights, paper_work

WARM_UP_STEPS = 20


class Client(NumPyClient):
    """One device."""

    def __init__(self, device: int) -> None:
        self._device = device

    def fit(self, parameters: Any, config: Any) -> Any:
        """One local phase."""
        torch.set_num_threads(1)
        work = work_once(int(config["devices"]), int(config["all_steps"]))
        network = paper_network()
        set_weights(network, from_torch(parameters))
        draws = work.draws[self._device, : int(config["steps"])].tolist()
        plain_steps(network, *device_samples(work, self._device), draws)
        return [p.detach().numpy() for p in network.parameters()], work.labels.shape[1], {}


@lru_cache
def work_once(devices: int, steps: int) -> Work:
    """The work, made once in each of Ray's processes."""
    return paper_work(devices, steps)


class TimedFedAvg(FedAvg):
    """Federated averaging that notes when the clients were started and when all were done."""

    def configure_fit(self, *args: Any, **kwargs: Any) -> Any:
        """Start a round, always from the initial weights."""
        instructions = super().configure_fit(*args, **kwargs)
        self.started = time.perf_counter()
        return instructions

    def aggregate_fit(self, *args: Any, **kwargs: Any) -> Any:
        """End a round."""
        self.seconds = [*getattr(self, "seconds", []), time.perf_counter() - self.started]
        self.averaged, metrics = super().aggregate_fit(*args, **kwargs)
        return self.initial, metrics


def measure(devices: int, steps: int) -> dict[str, Any]:
    """The second of two rounds; the first, of few steps, starts Ray's processes."""
    initial = [tensor.numpy() for tensor in to_torch(initial_weights())]

    def instructions(round_number: int) -> dict[str, Any]:
        now = WARM_UP_STEPS if round_number == 1 else steps
        return {"devices": devices, "all_steps": steps, "steps": now}

    strategy = TimedFedAvg(
        fraction_evaluate=0.0,
        min_fit_clients=devices,
        min_available_clients=devices,
        initial_parameters=flwr.common.ndarrays_to_parameters(initial),
        on_fit_config_fn=instructions,
    )
    strategy.initial = flwr.common.ndarrays_to_parameters(initial)
    components = ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=2))
    run_simulation(
        server_app=ServerApp(server_fn=lambda _: components),
        client_app=ClientApp(client_fn=make_client),
        num_supernodes=devices,
        backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": CORES}},
    )
    warm_up, seconds = strategy.seconds
    averaged = flwr.common.parameters_to_ndarrays(strategy.averaged)
    return {"seconds": seconds, "warm_up_seconds": warm_up, "weights": from_torch(averaged)}


def make_client(context: Any) -> Any:
    """The client of a device."""
    return Client(int(context.node_config["partition-id"])).to_client()
