"""Statistics of batches in a JAX module of which a part is trained: they stay as they came."""

import jax
import numpy as np
import pytest

from mix2fld import run
from mix2fld.base.errors import InputError
from mix2fld.models import from_equinox, from_flax, from_nnx
from toys import LABELS, toy_config, toy_dataset

SHAPE = toy_dataset().sample_shape
SIZE = int(np.prod(SHAPE))
SHIFT, SPREAD = 0.25, 4.0
"""Statistics that are far from those of any batch."""


def flax_net():
    from flax import linen

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x, train=False):
            x = linen.Dense(6)(x.reshape(len(x), -1))
            x = linen.relu(linen.BatchNorm(use_running_average=not train)(x))
            return linen.Dense(LABELS)(x)

    return Net()


def flax_variables():
    made = flax_net().init(jax.random.key(3), np.zeros((1, *SHAPE), np.float32))
    stats = {"BatchNorm_0": {"mean": np.full(6, SHIFT), "var": np.full(6, SPREAD)}}
    return {"params": made["params"], "batch_stats": jax.tree.map(np.float32, stats)}


def of_flax():
    variables = flax_variables()
    model = from_flax(flax_net(), SHAPE, variables=variables)
    return model, lambda x: flax_net().apply(variables, x)


def of_nnx():
    from flax import nnx

    def make(rngs):
        norm = nnx.BatchNorm(6, rngs=rngs)
        norm.mean[...], norm.var[...] = SHIFT, SPREAD
        layers = nnx.Linear(SIZE, 6, rngs=rngs), norm, nnx.relu, nnx.Linear(6, LABELS, rngs=rngs)
        return nnx.Sequential(lambda x: x.reshape(len(x), -1), *layers)

    whole = make(nnx.Rngs(jax.random.key(0)))
    whole.eval()
    return from_nnx(make), whole


def of_equinox():
    import equinox

    class Net(equinox.Module):
        first: equinox.nn.Linear
        norm: equinox.nn.BatchNorm
        last: equinox.nn.Linear

        def __init__(self, key):
            one, two = jax.random.split(key)
            self.first = equinox.nn.Linear(SIZE, 6, key=one)
            self.norm = equinox.nn.BatchNorm(6, axis_name="batch", mode="batch")
            self.last = equinox.nn.Linear(6, LABELS, key=two)

        def __call__(self, x, state):
            x, state = self.norm(self.first(x.ravel()), state)
            return self.last(jax.nn.relu(x)), state

    def make(key):
        module, state = equinox.nn.make_with_state(Net)(key)
        values = np.full(6, SHIFT, np.float32), np.full(6, SPREAD, np.float32)
        return module, state.set(module.norm.batch_state_index, values)

    module, state = make(jax.random.key(0))
    whole = equinox.nn.inference_mode(module)
    return from_equinox(make), jax.vmap(lambda one: whole(one, state)[0])


HEADS = {
    "flax": (of_flax, "Dense_1*"),
    "nnx": (of_nnx, "layers.4*"),
    "equinox": (of_equinox, "*last*"),
}


@pytest.mark.parametrize("library", HEADS)
def test_a_part_is_trained_behind_statistics_that_stay(library):
    make, head = HEADS[library]
    model, whole = make()
    data = toy_dataset()
    (result,) = run(
        toy_config(protocol="fl", model="auto", trained=head), dataset=data, model=model
    )
    sizes = sorted(weight.size for weight in result.weights.values())
    assert sizes == [LABELS, 6 * LABELS]
    inputs = data.test_inputs[:20].astype(np.float32) / 255
    config = toy_config(protocol="fl", model="auto", trained=head, learning_rate=1e-30)
    (still,) = run(config, dataset=data, model=make()[0])
    if library == "flax":  # of a pre-trained module, with its head as it came
        np.testing.assert_allclose(
            still.model.outputs(data.test_inputs[:20]), whole(inputs), atol=1e-5
        )
    # The hidden values are those of the module itself: its head is linear in them.
    moved = result.model.outputs(data.test_inputs[:20])
    assert np.abs(moved - still.model.outputs(data.test_inputs[:20])).max() > 0.01


@pytest.mark.parametrize("library", HEADS)
def test_outputs_are_those_of_the_module_in_evaluation(library):
    model, whole = HEADS[library][0]()
    weights = model.init(jax.random.key(0))
    inputs = np.random.default_rng(0).random((5, *SHAPE)).astype(np.float32)
    found = np.asarray(model.apply(weights, inputs))
    np.testing.assert_allclose(found, whole(inputs), atol=1e-5)
    alone = np.asarray(model.apply(weights, inputs[:1]))
    np.testing.assert_allclose(alone, found[:1], atol=1e-5)  # whatever is beside a sample


@pytest.mark.parametrize("library", HEADS)
def test_all_of_it_is_still_refused(library):
    with pytest.raises(InputError, match=r"has state in .*or name a part with trained"):
        run(
            toy_config(protocol="fl", model="auto"),
            dataset=toy_dataset(),
            model=HEADS[library][0]()[0],
        )


def test_variables_of_another_module_are_refused():
    variables = flax_variables()
    with pytest.raises(InputError, match="variables: do not fit model Net"):
        from_flax(flax_net(), SHAPE, variables={"params": variables["params"]})
