"""What no trained weight lies before is computed once for each sample."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from mix2fld import run
from mix2fld.models import from_torch, make_model
from mix2fld.models.frozen_front import SplitModel, split_model
from mix2fld.models.trained import only_trained
from mix2fld.tasks import make_learning
from mix2fld.tasks.last_layer import TRIED
from toys import LABELS, toy_config, toy_dataset

SHAPE = toy_dataset().sample_shape
SIZE = int(np.prod(SHAPE))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MIX2FLD_CACHE", str(tmp_path / "cache"))


class Residual(nn.Module):
    """A layer, one beside which its input goes on, and a head; the two are read from one array."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(SIZE, 16), nn.Linear(16, 16)
        self.norm, self.drop, self.head = nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, LABELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(torch.relu(self.first(x.flatten(1))))
        return self.head(self.drop(x + self.second(x)))


class Branching(nn.Module):
    """One that cannot be traced, since it looks at values."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(SIZE, 16), nn.Linear(16, LABELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x.flatten(1))
        return self.head(x if x.sum() > 0 else -x)


class OfBatch(Branching):
    """One that moves a sample by what is beside it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x.flatten(1))
        return self.head(x - x.mean(0))


def flax_model():
    from flax import linen

    from mix2fld.models import from_flax

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.relu(linen.Conv(2, (3, 3))(x))
            x = linen.Dense(6)(x.reshape(len(x), -1))
            return linen.Dense(LABELS)(linen.relu(linen.LayerNorm()(x)))

    return from_flax(Net(), SHAPE)


CASES = {
    "torch head": (lambda: from_torch(Residual), "head", 16),
    "torch middle": (lambda: from_torch(Residual), "second.*", 16),
    "torch adapters": (lambda: from_torch(Residual), "lora:2", SIZE + 16),
    "torch replay": (lambda: from_torch(Residual), "head", 16),
    "mlp": (lambda: make_model("mlp", SHAPE, LABELS), "head", 128),
    "paper-cnn": (lambda: make_model("paper-cnn", SHAPE, LABELS), "head", 96),
    "flax": (flax_model, "Dense_1*", 6),
}


@pytest.mark.parametrize("name", CASES)
def test_vectors_in_place_of_samples_train_the_same(name, monkeypatch):
    make, part, size = CASES[name]
    split = split_model(only_trained(make(), part), SHAPE, "uint8")
    assert split.front.size == size
    protocol = "cfd:replay=0.5" if "replay" in name else "fl"
    config = toy_config(protocol=protocol, model="auto", trained=part, rounds=2)
    (found,) = run(config, dataset=toy_dataset(), model=make())
    monkeypatch.setattr(make_learning, "_split_once", lambda *_: None)
    (expected,) = run(config, dataset=toy_dataset(), model=make())
    assert list(found.weights) == list(expected.weights)
    for one, other in zip(found.weights.values(), expected.weights.values(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)
    inputs = toy_dataset().test_inputs[:9]
    np.testing.assert_allclose(
        found.model.outputs(inputs), expected.model.outputs(inputs), atol=1e-3
    )


@pytest.mark.parametrize(
    ("make", "part"), [(Residual, "first.*"), (Branching, "head"), (OfBatch, "head")]
)
def test_a_module_without_such_a_front_is_trained_as_a_whole(make, part):
    assert split_model(only_trained(from_torch(make), part), SHAPE, "uint8") is None
    config = toy_config(protocol="fl", model="auto", trained=part, rounds=1)
    (result,) = run(config, dataset=toy_dataset(), model=from_torch(make))
    assert all(np.isfinite(weight).all() for weight in result.weights.values())


def test_samples_go_through_the_front_once(monkeypatch):
    """However many rounds and steps there are."""
    seen = []
    split = split_model(only_trained(from_torch(Residual), "head"), SHAPE, "uint8")
    apply = split.front.apply

    def counted(samples):
        seen.append(len(samples))
        return apply(samples)

    counting = SplitModel(replace(split.front, apply=counted), split.back)
    monkeypatch.setattr(make_learning, "_split_once", lambda *_: counting)
    data = toy_dataset()
    config = toy_config(protocol="murmur", update_bits=40, trained="head", model="auto", rounds=3)
    run(config, dataset=data, model=from_torch(Residual))
    held = config.data.devices * config.data.samples_per_device
    noise = 1 + config.rounds + 8 * TRIED  # for the cache, and to find out which layer is the last
    assert sum(seen) <= held + len(data.test_inputs) + noise
