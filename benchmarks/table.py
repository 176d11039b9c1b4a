"""The contenders: which module measures each, with how many devices and steps."""

from dataclasses import dataclass

from benchmarks.other_models import OTHER_MODELS

CHECK_STEPS = 96  # short enough that rounding has not yet decided a kink of ReLU the other way
OTHER_CHECK_STEPS = 5
QUICK_STEPS = 200


@dataclass(frozen=True)
class Contender:
    """A row of the benchmark."""

    name: str
    module: str
    title: str
    devices: int = 10
    steps: int = 6400
    kind: str = "local"  # local phase, growth, rounds, memory or other model
    framework: bool = False
    row: str | None = None  # of the other models

    @property
    def check_steps(self) -> int:
        """Steps after which its weights are compared; 0: it has none."""
        return {"local": CHECK_STEPS, "other": OTHER_CHECK_STEPS}.get(self.kind, 0)


def framework(name: str, title: str) -> Contender:
    """A federated framework as its users run it."""
    return Contender(name, name, title, steps=1600, framework=True)


SIDES = {
    "other_engine": "mix2fld",
    "other_torch_loop": "PyTorch, plain loop",
    "other_torch_stepper": "the PyTorch module in mix2fld",
}
"""Who trains the other models: the module that measures, and its title."""

CONTENDERS = (
    Contender("limit", "limit", "the limit: hand-tuned C, one thread per core"),
    Contender("engine", "engine", "**mix2fld**, local phase"),
    Contender("engine-xla", "engine_xla", "mix2fld, local phase by XLA, the path of any model"),
    Contender("torch-best", "torch_best", "PyTorch at its best, one process per core"),
    Contender("torch-all", "torch_loop", "PyTorch, plain loop, one process per core", steps=1600),
    Contender("torch-one", "torch_loop_one", "PyTorch, plain loop, one process", steps=800),
    Contender(
        "engine-torch", "engine_torch", "mix2fld, the network as a PyTorch module", steps=1600
    ),
    framework("flower", "Flower simulation on Ray, plain PyTorch client"),
    framework("pfl", "pfl under torchrun, one process per core"),
    framework("fedlab", "FedLab's serial trainer, one process per core"),
    framework("fedjax", "FedJAX, jit backend, one process per core"),
    Contender("engine-100", "engine", "100 devices", devices=100, steps=640, kind="growth"),
    Contender("engine-1000", "engine", "1,000 devices", devices=1000, steps=640, kind="growth"),
    Contender("rounds", "rounds", "whole rounds", kind="rounds"),
    Contender("memory", "memory", "peak memory", devices=1000, steps=64, kind="memory"),
)
OTHER_CONTENDERS = tuple(
    Contender(f"{model.name}-{side}", side, title, 4, model.steps, "other", row=model.name)
    for model in OTHER_MODELS
    for side, title in SIDES.items()
)
BY_NAME = {contender.name: contender for contender in (*CONTENDERS, *OTHER_CONTENDERS)}
