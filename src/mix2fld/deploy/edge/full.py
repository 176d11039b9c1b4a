"""The trainer of a run as the whole package makes it: any model, with JAX or PyTorch."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import jax

from mix2fld.base.folders import cache_folder
from mix2fld.config.settings import Config
from mix2fld.dataset import SampleFormat
from mix2fld.tasks.base import Task
from mix2fld.tasks.compilation import keep_compiled_code
from mix2fld.tasks.learning import Learning
from mix2fld.tasks.make_learning import make_learning


def full_learning(
    config: Config | Mapping[str, Any], samples: SampleFormat, task: Task
) -> Learning:
    """The trainer; compiled code is kept, and JAX has one thread for the one device."""
    keep_compiled_code(cache_folder() / "compiled")
    with suppress(RuntimeError):  # only before JAX is first used
        jax.config.update("jax_num_cpu_devices", 1)
    return make_learning(Config.model_validate(config), samples, task)
