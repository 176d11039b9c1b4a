"""Which task a device makes of a run's settings: the small one where it will do."""

from importlib.util import find_spec
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge.small import small_task
from mix2fld.tasks.task import Task


def make_task(config: dict[str, Any], samples: SampleFormat, num_labels: int) -> Task:
    """By a compiled kernel if there is one for the run, otherwise with JAX or PyTorch."""
    task = small_task(config, samples, num_labels)
    if task is not None:
        return task
    if find_spec("mix2fld.deploy.edge.full") is None or find_spec("jax") is None:
        learning = config["learning"]
        raise InputError(
            f"model = {learning['model']}, optimizer = {learning['optimizer']}, protocol = "
            f"{config['protocol']}, samples {list(samples.shape)}, {num_labels} labels: this "
            "device has no compiled kernel for it. Kernels are of paper-cnn and mlp with sgd; for "
            "other samples the device needs a C compiler or a wheel made with "
            "MIX2FLD_KERNEL_SHAPES, for other models the whole package: pip install "
            "'mix2fld[device]'"
        )
    from mix2fld.deploy.edge.full import full_task

    return full_task(config, samples, num_labels)
