"""How a device learns, from the settings of a run: on a small device where that will do."""

from importlib.util import find_spec
from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.dataset import SampleFormat
from mix2fld.deploy.edge.small import small_learning
from mix2fld.tasks.learning import Learning


def make_learning(config: dict[str, Any], samples: SampleFormat, num_labels: int) -> Learning:
    """By a compiled kernel if there is one for the run, otherwise with JAX or PyTorch."""
    learning = small_learning(config, samples, num_labels)
    if learning is not None:
        return learning
    if find_spec("mix2fld.deploy.edge.full") is None or find_spec("jax") is None:
        given = config["learning"]
        raise InputError(
            f"model = {given['model']}, optimizer = {given['optimizer']}, protocol = "
            f"{config['protocol']}, samples {list(samples.shape)}, {num_labels} labels: this "
            "device has no compiled kernel for it. Kernels are of paper-cnn and mlp with sgd; for "
            "other samples the device needs a C compiler or a wheel made with "
            "MIX2FLD_KERNEL_SHAPES, for other models the whole package: pip install "
            "'mix2fld[device]'"
        )
    from mix2fld.deploy.edge.full import full_learning

    return full_learning(config, samples, num_labels)
