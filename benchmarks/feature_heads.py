"""Features and heads: processor time of an image, and of a step on cached vectors.

    .venv/bin/python -m benchmarks.feature_heads

Prints microseconds of processor time; ratios are to be trusted, not the times of a busy machine.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from mix2fld.config.settings import LearningConfig
from mix2fld.data.features import find_network
from mix2fld.models import make_model
from mix2fld.tasks.losses import label_loss
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.stepper import Start, Watch, draw_samples
from mix2fld.types import Samples

SIZE, LABELS, SAMPLES, RATE = 1280, 10, 500, 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="SGD steps of one sample")
    parser.add_argument("--images", type=int, default=200, help="images of 32 x 32 x 3")
    parser.add_argument("--network", default="efficientnet-lite0", help="of these images")
    chosen = parser.parse_args()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (chosen.images, 32, 32, 3), dtype=np.uint8)
    network = find_network(chosen.network, images.shape[1:], "uint8")
    report(f"{network.about.name}, an image", microseconds(lambda: network(images), len(images)))
    vectors = rng.random((SAMPLES, SIZE), np.float32)
    targets = np.eye(LABELS, dtype=np.float32)[rng.integers(0, LABELS, SAMPLES)]
    draws = draw_samples(rng, SAMPLES, chosen.steps, 1)
    for model, kernel in (("linear", "native"), ("mlp", "native"), ("linear", "xla")):
        run = phase(model, kernel, Samples(vectors, targets), draws)
        report(f"{model} by {kernel}, a step", microseconds(run, chosen.steps))
    report(
        "linear by PyTorch, a step", microseconds(torch_loop(vectors, targets, draws), len(draws))
    )


def phase(model: str, kernel: str, samples: Samples, draws: np.ndarray) -> Callable[[], object]:
    """The local phase of one learner."""
    config = LearningConfig(kernel=kernel, learning_rate=RATE)
    stepper = choose_stepper(make_model(model, (SIZE,), LABELS), config)
    start = Start(stepper.draw_weights(0), np.zeros((LABELS, LABELS), np.float32))
    held, watch = stepper.hold(samples), Watch(0, (len(draws),))
    return lambda: stepper.train(label_loss, held, [start], [draws], watch)


def torch_loop(vectors: np.ndarray, targets: np.ndarray, draws: np.ndarray) -> Callable[[], object]:
    """The loop that a user of PyTorch writes on cached vectors."""
    import torch

    torch.set_num_threads(1)
    head = torch.nn.Linear(SIZE, LABELS)
    optimizer = torch.optim.SGD(head.parameters(), RATE)
    inputs, goals = torch.from_numpy(vectors), torch.from_numpy(targets)

    def run() -> None:
        for rows in torch.from_numpy(draws).long():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(head(inputs[rows]), goals[rows]).backward()
            optimizer.step()

    return run


def microseconds(run: Callable[[], object], count: int) -> float:
    """The least processor time of three runs, after one that compiles."""
    run()
    times = []
    for _ in range(3):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return min(times) / count * 1e6


def report(what: str, value: float) -> None:
    print(f"{what:36}{value:10.1f} us")


if __name__ == "__main__":
    main()
