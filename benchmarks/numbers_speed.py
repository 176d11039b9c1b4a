"""A local step on numbers beside one on labels: processor time, by the kernels of the package.

    .venv/bin/python -m benchmarks.numbers_speed

Prints microseconds of processor time; ratios are to be trusted, not the times of a busy machine.
"""

import argparse

import numpy as np

from benchmarks.feature_heads import microseconds, report
from mix2fld.config.settings import LearningConfig
from mix2fld.models import make_model
from mix2fld.tasks.base import Task
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.losses import label_loss
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.regression import Regression
from mix2fld.tasks.stepper import Start, Watch, draw_samples

SAMPLES, LABELS = 500, 10
MODELS = {"linear": (24,), "mlp": (24,), "paper-cnn": (28, 28, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="SGD steps")
    parser.add_argument("--batch-size", type=int, default=1)
    chosen = parser.parse_args()
    for model in MODELS:
        for task in (Classification(LABELS), Regression((0.0,), (1.0,), (0.0,))):
            what = f"{model}, a step on {'labels' if task.by_label else 'a number'}"
            report(what, step(model, task, chosen.steps, chosen.batch_size))


def step(model: str, task: Task, steps: int, batch_size: int) -> float:
    """Microseconds of a step by the kernel."""
    rng, shape = np.random.default_rng(0), MODELS[model]
    inputs = rng.random((SAMPLES, *shape)).astype(np.float32)
    values = rng.integers(LABELS, size=SAMPLES) if task.by_label else rng.normal(size=SAMPLES)
    made = make_model(model, shape, task.outputs)
    stepper = choose_stepper(made, LearningConfig(kernel="native", learning_rate=0.01))
    start = Start(stepper.draw_weights(0), np.zeros((task.groups, task.outputs), np.float32))
    held, loss = stepper.hold(task.samples(inputs, values)), task.local_loss(label_loss)
    draws = draw_samples(rng, SAMPLES, steps, batch_size)
    watch = Watch(0, (steps,))
    return microseconds(lambda: stepper.train(loss, held, [start], [draws], watch), steps)


if __name__ == "__main__":
    main()
