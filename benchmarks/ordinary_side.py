"""One side of ``benchmarks.ordinary``: ``python -m benchmarks.ordinary_side SIDE ROW STEPS``.

Prints a line when it is ready; then, for each line that it reads, the milliseconds of processor
time of one SGD step on one core: of many steps less that of few, divided by the difference. The
side ``peak`` prints GFLOP/s instead.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import usage
from benchmarks.instructions import apply_limit
from benchmarks.other_models import BY_NAME, LABELS, LEARNING_RATE, jax_model, other_work
from benchmarks.peak import CHAINS, SOURCE

PEAK_COUNT = 10_000_000


def engine(row: str, steps: int) -> Callable[[], Any]:
    """``Stepper.train`` as a fleet calls it, of one device."""
    from mix2fld.config.settings import LearningConfig
    from mix2fld.tasks.losses import label_loss, one_hot
    from mix2fld.tasks.make_learning import choose_stepper
    from mix2fld.tasks.stepper import Start, Watch
    from mix2fld.types import Samples

    model = BY_NAME[row]
    work = other_work(model, 1, steps)
    config = LearningConfig(learning_rate=LEARNING_RATE, batch_size=model.batch_size)
    stepper = choose_stepper(jax_model(model.network), config, model.sample_shape)
    held = stepper.hold(Samples(work.images, one_hot(work.labels, LABELS)))
    start = Start(work.weights, np.zeros((LABELS, LABELS), np.float32))
    return lambda: stepper.train(label_loss, held, [start], work.draws, Watch(0, (steps,)))


def torch_loop(form: str, row: str, steps: int) -> Callable[[], Any]:
    """The loop that a user writes, plain, channels last, or compiled."""
    import torch
    from torch import nn

    from benchmarks.other_torch import NETWORKS, load

    torch.set_num_threads(1)
    model = BY_NAME[row]
    work = other_work(model, 1, steps)
    layout = torch.channels_last if form == "channels last" else torch.contiguous_format
    images = torch.tensor(work.images).permute(0, 3, 1, 2).float().div(255)
    images, labels = images.contiguous(memory_format=layout), torch.tensor(work.labels).long()
    network = NETWORKS[model.network]()
    load(model.network, network, work.weights)
    network = network.to(memory_format=layout)
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)

    def loss(images: Any, labels: Any) -> Any:
        return nn.functional.cross_entropy(network(images), labels)

    loss = torch.compile(loss) if form == "compiled" else loss

    def run() -> None:
        for rows in torch.tensor(work.draws[0]).long():
            optimizer.zero_grad()
            loss(images[rows], labels[rows]).backward()
            optimizer.step()

    return run


def peak() -> float:
    """GFLOP/s of one core: fused multiply-adds in twelve independent chains."""
    from mix2fld.native.library import load_library, vector_lanes

    lanes = vector_lanes()
    library = load_library(SOURCE, {"LANES": lanes})
    if library is None:
        raise SystemExit("no C compiler here")
    library.multiply_add.restype = ctypes.c_float
    seconds = timed(lambda: library.multiply_add(ctypes.c_int64(PEAK_COUNT)))
    return PEAK_COUNT * CHAINS * lanes * 2 / seconds * 1e-9


SIDES: dict[str, Callable[[str, int], Callable[[], Any]]] = {
    "engine": engine,
    "torch": partial(torch_loop, "plain"),
    "torch-last": partial(torch_loop, "channels last"),
    "torch-compiled": partial(torch_loop, "compiled"),
}


def timed(function: Callable[[], Any]) -> float:
    """Seconds of processor time of this process."""
    started = time.process_time()
    function()
    return time.process_time() - started


def main(side: str, row: str, steps: int) -> None:
    """Answer one line after the other."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["MIX2FLD_CORES"] = "1"
    apply_limit()
    if side == "peak":
        answer = peak
    else:
        few = steps // 4
        long, short = SIDES[side](row, steps), SIDES[side](row, few)
        for run in (short, long):
            run()

        def answer() -> float:
            return (timed(long) - timed(short)) / (steps - few) * 1e3

    print("ready", flush=True)
    for _ in sys.stdin:
        print(answer(), flush=True)


if __name__ == "__main__":
    side, row, steps = usage.arguments(__doc__, "<SIDE ROW STEPS>")
    main(side, row, int(steps))
