"""PyTorch modules trained by this engine, and by a plain loop with a process to a core.

Both sides take turns on the same work, on all cores. Beside the wall time stands the time that
processors spent, which says the same on an idle machine and can still be compared on a busy one.

    python -m benchmarks.torch_modules --passes 5
"""

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.torch_work import paper_network
from benchmarks.work import CORES
from mix2fld.config import LearningConfig
from mix2fld.learning.losses import label_loss, one_hot
from mix2fld.learning.make_task import choose_stepper
from mix2fld.learning.stepper import Start, Watch, draw_samples
from mix2fld.models import from_torch
from mix2fld.types import Samples

DEVICES, SAMPLES, LABELS = 4, 500, 10
TICKS = os.sysconf("SC_CLK_TCK")
PLAIN_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
}


class Block(nn.Module):
    """Two normalised convolutions beside a shortcut."""

    def __init__(self, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(channels, outputs, 3, stride, padding=1, bias=False),
            nn.GroupNorm(8, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(8, outputs),
        )
        same = channels == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels, outputs, 1, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(images) + self.shortcut(images))


def resnet() -> nn.Module:
    """ResNet-8 with GroupNorm for 32 x 32 x 3 images."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.GroupNorm(8, 16),
        nn.ReLU(),
        Block(16, 16, 1),
        Block(16, 32, 2),
        Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, LABELS),
    )


def perceptron() -> nn.Module:
    """784-200-10."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, LABELS))


def usual_cnn() -> nn.Module:
    """Two 5 x 5 convolutions to 32 and 64 channels, each pooled, and a linear layer of 512."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, LABELS),
    )


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    title: str
    make: Callable[[], nn.Module]
    batch_size: int
    steps: int
    optimizer: str = "sgd"
    shape: tuple[int, ...] = (28, 28, 1)


CASES = {
    "paper": Case("paper's network, batch 1, SGD", paper_network, 1, 800),
    "mlp": Case("MLP 784-200-10, batch 32, Adam", perceptron, 32, 400, "adam"),
    "cnn": Case("5×5 convolutions 32, 64, linear 512, batch 10, SGD", usual_cnn, 10, 40),
    "resnet": Case("ResNet-8, GroupNorm, batch 32, SGD", resnet, 32, 10, shape=(32, 32, 3)),
}


def samples_of(case: Case) -> tuple[Any, Any]:
    """Noise: what it is does not change the work."""
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 256, (DEVICES * SAMPLES, *case.shape), dtype=np.uint8)
    return inputs, rng.integers(0, LABELS, DEVICES * SAMPLES)


def draws_of(case: Case) -> list[Any]:
    """[K, B] for each device, among its own samples."""
    each = [np.random.default_rng(device) for device in range(DEVICES)]
    drawn = [draw_samples(rng, SAMPLES, case.steps, case.batch_size) for rng in each]
    return [rows + np.int32(device * SAMPLES) for device, rows in enumerate(drawn)]


def plain_share(name: str, devices: list[int], together: Any, results: Any) -> None:
    """One process of the plain loop."""
    case = CASES[name]
    torch.set_num_threads(1)
    stored, truth = samples_of(case)
    inputs = (torch.tensor(stored).float() / 255).permute(0, 3, 1, 2).contiguous()
    labels, draws = torch.tensor(truth).long(), draws_of(case)
    plain_loop(case, inputs, labels, draws[0][: max(2, case.steps // 10)])
    together.wait()
    began = time.process_time()
    for device in devices:
        plain_loop(case, inputs, labels, draws[device])
    spent = time.process_time() - began
    together.wait()
    results.put(spent)


def plain_loop(case: Case, inputs: Any, labels: Any, draws: Any) -> None:
    """The loop that a PyTorch user writes, for one device."""
    network = case.make()
    optimizer = PLAIN_OPTIMIZERS[case.optimizer](network.parameters(), lr=0.001)
    for rows in torch.tensor(draws).long():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(inputs[rows]), labels[rows])
        loss.backward()
        optimizer.step()


def plain(name: str) -> tuple[float, float]:
    """Wall and processor seconds of the plain loop."""
    context = multiprocessing.get_context("spawn")
    together, results = context.Barrier(CORES + 1), context.Queue()
    shares = [share.tolist() for share in np.array_split(np.arange(DEVICES), CORES)]
    processes = [
        context.Process(target=plain_share, args=(name, share, together, results), daemon=True)
        for share in shares
    ]
    for process in processes:
        process.start()
    together.wait()
    began = time.perf_counter()
    together.wait()
    wall = time.perf_counter() - began
    spent = sum(results.get() for _ in processes)
    for process in processes:
        process.join()
    return wall, spent


def engine(name: str) -> tuple[float, float]:
    """Wall and processor seconds of this engine, as a fleet calls it."""
    case = CASES[name]
    config = LearningConfig(
        optimizer=case.optimizer, learning_rate=0.001, batch_size=case.batch_size
    )
    stepper = choose_stepper(from_torch(case.make), config)
    inputs, labels = samples_of(case)
    held = stepper.hold(Samples(inputs, one_hot(labels, LABELS)))
    draws = draws_of(case)
    starts = [Start(stepper.draw_weights(0), np.zeros((LABELS, LABELS), np.float32))] * DEVICES
    short = max(2, case.steps // 10)
    stepper.train(label_loss, held, starts, [d[:short] for d in draws], Watch(0, (short,)))
    before, began = processor_seconds(), time.perf_counter()
    stepper.train(label_loss, held, starts, draws, Watch(0, (case.steps,)))
    return time.perf_counter() - began, processor_seconds() - before


def processor_seconds() -> float:
    """Of this process and its children."""
    main = os.getpid()
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    total = 0.0
    for process in [str(main), *children]:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def main() -> None:
    """Measure in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    print("|  | plain loop, µs | mix2fld, µs | ratio | of processor time |")
    print("|---|---|---|---|---|")
    for name in options.only:
        case = CASES[name]
        pairs = [(plain(name), engine(name)) for _ in range(options.passes)]
        unit = 1e6 / (DEVICES * case.steps)
        walls = [statistics.median(pair[side][0] for pair in pairs) * CORES for side in (0, 1)]
        ratio, spent = (
            statistics.median(ours[what] / theirs[what] for theirs, ours in pairs)
            for what in (0, 1)
        )
        plain_us, engine_us = (f"{wall * unit:,.0f}" for wall in walls)
        print(
            f"| {case.title} | {plain_us} | {engine_us} | {ratio:.2f} | {spent:.2f} |", flush=True
        )


if __name__ == "__main__":
    main()
