"""Features as a step of the data: a dataset of samples becomes one of vectors."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mix2fld.base.errors import InputError
from mix2fld.data.download_progress import working
from mix2fld.data.features.compute import compute
from mix2fld.data.features.find import find_network, network_of
from mix2fld.dataset import Dataset

if TYPE_CHECKING:
    from rich.console import Console


def with_features(dataset: Dataset, network: Any, console: "Console | None" = None) -> Dataset:
    """The dataset with vectors, made by a frozen network, in place of its samples.

    ``network`` is a name, an ONNX file, ``module:function``, a ``torch.nn.Module``, or a function
    of samples [n, ...] as a model is fed them that returns vectors [n, F].
    """
    if dataset.network is not None:
        raise InputError(
            field="features",
            value=dataset.network.name,
            hint="samples are its vectors already; only one network can be a step of the data",
        )
    shape, dtype = dataset.sample_shape, str(dataset.train_inputs.dtype)
    if isinstance(network, str):
        found = find_network(network, shape, dtype, dataset.rate)
    else:
        found = network_of(network, type(network).__name__, shape, dtype)
    parts = (dataset.train_inputs, dataset.test_inputs)
    total = sum(map(len, parts))
    with working(console, f"{dataset.name}: features of {total:,} samples") as advance:
        advance(0, total)
        train, test = (compute(found, part, lambda count: advance(count, 0)) for part in parts)
    return replace(
        dataset,
        train_inputs=train,
        test_inputs=test,
        network=found.about,
        value_range=None,
        mean=(),
        std=(),
        feature_names=(),
        rate=0,
    )
