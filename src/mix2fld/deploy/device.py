"""What a device does when Flower's server asks: train and upload; the rest it has on its disk."""

from contextlib import suppress
from pathlib import Path

import jax

from mix2fld.base.errors import InputError
from mix2fld.base.folders import cache_folder
from mix2fld.config.settings import Config
from mix2fld.data.own_file import read_device_file
from mix2fld.deploy.edge.store import Store
from mix2fld.deploy.edge.turn import Ask, is_behind, take_turn
from mix2fld.deploy.messages import Behind, Trained, TrainOrder
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.compilation import keep_compiled_code
from mix2fld.tasks.make_learning import make_learning
from mix2fld.types import Dataset


def train(order: TrainOrder, config: Config, data: Path, store: Store) -> Trained | Behind:
    """One local phase on the device's own samples, and the upload that follows it."""
    ask = Ask(**{name: getattr(order, name) for name in Ask._fields})
    if is_behind(ask, store.up_to(ask.last_turn)):
        return Behind(round=order.round)
    keep_compiled_code(cache_folder() / "compiled")
    with suppress(RuntimeError):  # only before JAX is first used
        jax.config.update("jax_num_cpu_devices", 1)
    samples = _read_samples(data, order)
    learning = make_learning(config, samples.samples, Classification(order.num_labels))
    message, scores, seconds = take_turn(ask, learning, samples, store)
    return Trained(
        round=order.round,
        samples=message.samples,
        upload=message.body.data,
        bits=message.body.bits,
        seeds=message.once.data if message.once else None,
        accuracies=scores,
        seconds=seconds,
    )


def _read_samples(path: Path, order: TrainOrder) -> Dataset:
    try:
        return read_device_file(path, order.samples, order.num_labels)
    except InputError as error:
        raise error.renamed("dataset", "data") from None
