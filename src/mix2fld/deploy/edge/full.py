"""The task of a run as the whole package makes it: any model, with JAX or PyTorch."""

from contextlib import suppress
from typing import Any

from mix2fld.base.folders import cache_folder
from mix2fld.config.settings import Config
from mix2fld.dataset import SampleFormat
from mix2fld.tasks.task import Task


def full_task(config: dict[str, Any], samples: SampleFormat, num_labels: int) -> Task:
    """The task; compiled code is kept, and JAX has one thread for the one device."""
    import jax

    from mix2fld.tasks.compilation import keep_compiled_code
    from mix2fld.tasks.make_task import make_task

    keep_compiled_code(cache_folder() / "compiled")
    with suppress(RuntimeError):  # only before JAX is first used
        jax.config.update("jax_num_cpu_devices", 1)
    return make_task(Config.model_validate(config), samples, num_labels)
