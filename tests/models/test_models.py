"""Models against plain XLA convolutions, finite differences and hand-made cases."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax.test_util import check_grads

from mix2fld.base.errors import InputError
from mix2fld.config.settings import Config
from mix2fld.models import (
    MODELS,
    check_model,
    cifar_cnn,
    from_equinox,
    from_flax,
    from_nnx,
    make_model,
    mlp,
    paper_cnn,
    signal_cnn,
    weight_shapes,
)
from mix2fld.models.layers import conv_relu, conv_relu_pool
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.make_learning import make_learning
from mix2fld.types import Model, SampleFormat, Weights
from toy_models import QUICKLY

MNIST = (28, 28, 1)
KERNEL = jnp.zeros((784, 10))


def flat(images: Array) -> Array:
    return images.reshape(len(images), -1)


def plain_conv(layer: Weights, images: Array) -> Array:
    axes = ("NHWC", "HWIO", "NHWC")
    scores = lax.conv_general_dilated(
        images, layer["kernel"], (1, 1), "SAME", dimension_numbers=axes
    )
    return jax.nn.relu(scores + layer["bias"])


def plain_pool(maps: Array) -> Array:
    return lax.reduce_window(maps, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def plain_signal_cnn(weights: Weights, signals: Array) -> Array:
    maps = signals
    for layer in (weights["conv1"], weights["conv2"]):
        axes = ("NHC", "HIO", "NHC")
        scores = lax.conv_general_dilated(
            maps, layer["kernel"], (1,), "SAME", dimension_numbers=axes
        )
        maps = jax.nn.relu(scores + layer["bias"])
        maps = lax.reduce_window(maps, -jnp.inf, lax.max, (1, 4, 1), (1, 4, 1), "VALID")
    return plain_linear(weights["linear"], maps)


def plain_linear(layer: Weights, maps: Array) -> Array:
    features = jnp.moveaxis(maps, -1, 1).reshape(len(maps), -1)
    return features @ layer["kernel"].T + layer["bias"]


def plain_paper_cnn(weights: Weights, images: Array) -> Array:
    maps = plain_pool(plain_conv(weights["conv1"], images))
    return plain_linear(weights["linear"], plain_conv(weights["conv2"], maps))


def plain_cifar_cnn(weights: Weights, images: Array) -> Array:
    maps = plain_pool(plain_conv(weights["conv1"], images))
    maps = plain_pool(plain_conv(weights["conv2"], maps))
    return plain_linear(weights["linear"], plain_conv(weights["conv3"], maps))


def random_case(model: Model, shape: tuple[int, ...], batch: int) -> tuple[Weights, Array]:
    """Weights with biases away from zero, and images of which a part is black."""
    rng = np.random.default_rng(batch)
    weights = jax.tree.map(
        lambda leaf: leaf + 0.1 * rng.standard_normal(leaf.shape).astype(np.float32),
        model.init(jax.random.key(batch)),
    )
    images = rng.random((batch, *shape), dtype=np.float32)
    images[:, : shape[0] // 2] = 0
    return weights, jnp.asarray(images)


def assert_trees_close(ours: Any, theirs: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), ours, theirs)


OF_PIXELS = set(MODELS) - {"text-gru"}
networks = pytest.mark.parametrize(
    ("build", "plain", "shape"),
    [
        (paper_cnn, plain_paper_cnn, MNIST),
        (paper_cnn, plain_paper_cnn, (6, 10, 2)),
        (cifar_cnn, plain_cifar_cnn, (16, 12, 3)),
        (signal_cnn, plain_signal_cnn, (39, 3)),
    ],
)


@networks
@pytest.mark.parametrize("batch", [1, 5])
def test_logits_and_gradients_are_those_of_plain_convolutions(
    build: Callable[..., Model],
    plain: Callable[[Weights, Array], Array],
    shape: tuple[int, ...],
    batch: int,
) -> None:
    model = build(shape, 7)
    weights, images = random_case(model, shape, batch)

    def loss(apply: Callable[[Weights, Array], Array]) -> Callable[[Weights, Array], Any]:
        def of_logits(weights: Weights, images: Array) -> tuple[Array, Array]:
            logits = apply(weights, images)
            return jnp.mean(jnp.sin(logits)), logits

        gradients = jax.value_and_grad(of_logits, argnums=(0, 1), has_aux=True)
        return jax.jit(gradients, compiler_options=QUICKLY)

    assert_trees_close(loss(model.apply)(weights, images), loss(plain)(weights, images))


@networks
def test_a_batch_is_its_samples_one_by_one(
    build: Callable[..., Model],
    plain: Callable[[Weights, Array], Array],
    shape: tuple[int, ...],
) -> None:
    model = build(shape, 4)
    weights, images = random_case(model, shape, 6)
    together = jax.jit(model.apply)(weights, images)
    assert together.shape == (6, 4)

    @jax.jit
    def one_by_one(weights: Weights, images: Array) -> Array:
        return lax.map(lambda image: model.apply(weights, image[None])[0], images)

    assert_trees_close(together, one_by_one(weights, images))
    many = jax.tree.map(lambda leaf: np.stack([leaf, -leaf]), weights)
    mapped = jax.jit(jax.vmap(model.apply, in_axes=(0, None)))(many, images)
    assert_trees_close(mapped[0], together)
    negated = jax.tree.map(lambda leaf: leaf[1], many)
    assert_trees_close(mapped[1], jax.jit(model.apply)(negated, images))


@pytest.fixture
def double_precision() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("layer", [conv_relu, conv_relu_pool])
def test_first_and_second_derivatives_are_finite_differences(
    layer: Callable[[Array, Array, Array], Array],
) -> None:
    rng = np.random.default_rng(3)
    shapes = ((3, 3, 2, 3), (3,), (2, 4, 6, 2))
    point = [rng.standard_normal(shape) for shape in shapes]
    check_grads(jax.jit(layer), point, order=2, modes=("rev",), eps=1e-6)


def test_the_first_of_equal_pixels_gets_the_gradient() -> None:
    identity = jnp.zeros((3, 3, 1, 1)).at[1, 1].set(1.0)

    def total(images: Array) -> Array:
        return jnp.sum(conv_relu_pool(identity, jnp.zeros(1), images))

    gradient = jax.jit(jax.grad(total))(jnp.ones((1, 4, 6, 1)))[0, :, :, 0]
    first = np.zeros((4, 6))
    first[::2, ::2] = 1
    np.testing.assert_array_equal(gradient, first)


@pytest.mark.parametrize("layer", [conv_relu, conv_relu_pool])
def test_relu_is_flat_at_zero(layer: Callable[[Array, Array, Array], Array]) -> None:
    black = jnp.zeros((1, 4, 4, 1))
    kernel = jnp.ones((3, 3, 1, 2))
    by_bias = jax.jit(jax.grad(lambda bias: jnp.sum(layer(kernel, bias, black))))
    np.testing.assert_array_equal(by_bias(jnp.zeros(2)), 0)


def test_the_paper_network_has_12544_weights() -> None:
    model = paper_cnn(MNIST, 10)
    shapes = weight_shapes(model)
    assert sum(int(np.prod(shape)) for shape in shapes) == 12_544
    assert shapes == ((12,), (3, 3, 1, 12), (6,), (3, 3, 12, 6), (10,), (10, 1176))
    weights = model.init(jax.random.key(0))
    assert tuple(leaf.shape for leaf in jax.tree.leaves(weights)) == shapes
    assert set(weights) == {"conv1", "conv2", "linear"}
    assert set(weights["conv1"]) == {"kernel", "bias"}


def test_the_cifar_network_is_of_modest_size() -> None:
    assert sum(int(np.prod(s)) for s in weight_shapes(cifar_cnn((32, 32, 3), 10))) == 83_450


def test_a_linear_model_starts_at_zero_and_weighs_every_value() -> None:
    model = make_model("linear", (5, 3), 4)
    weights = model.init(jax.random.key(1))
    assert {name: array.shape for name, array in weights["linear"].items()} == {
        "bias": (4,),
        "kernel": (4, 15),
    }
    assert not any(np.any(array) for array in weights["linear"].values())
    kernel = np.arange(60, dtype=np.float32).reshape(4, 15)
    inputs = np.random.default_rng(0).random((7, 5, 3), np.float32)
    own = {"linear": {"kernel": jnp.array(kernel), "bias": jnp.ones(4)}}
    features = inputs.swapaxes(1, 2).reshape(7, 15)  # (channel, step)
    np.testing.assert_allclose(model.apply(own, inputs), features @ kernel.T + 1, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(OF_PIXELS - {"linear"}))
def test_initial_weights_are_he_normal_with_zero_biases(name: str) -> None:
    model = MODELS[name]((64, 32) if name == "signal-cnn" else (32, 32, 3), 10)
    weights = model.init(jax.random.key(1))
    for layer in weights.values():
        kernel = layer["kernel"]
        fan_in = kernel[..., 0].size if kernel.ndim > 2 else kernel.shape[1]
        assert float(jnp.std(kernel)) == pytest.approx(np.sqrt(2 / fan_in), rel=0.15)
        np.testing.assert_array_equal(layer["bias"], 0)
    again, other = (model.init(jax.random.key(seed)) for seed in (1, 2))
    jax.tree.map(np.testing.assert_array_equal, weights, again)
    first = sorted(weights)[0]
    assert not np.array_equal(weights[first]["kernel"], other[first]["kernel"])


@pytest.mark.parametrize("name", sorted(OF_PIXELS))
def test_single_sample_steps_in_a_scan_learn(name: str) -> None:
    """Two kinds of image, bright above or below, are told apart after a few steps."""
    shape = (16, 4) if name == "signal-cnn" else (8, 8, 1)
    model = MODELS[name](shape, 2)
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    images = 0.3 * rng.random((200, 8, 8, 1), dtype=np.float32)
    images[labels == 0, :4] += 0.6
    images[labels == 1, 4:] += 0.6
    images = images.reshape(200, *shape)

    def step(weights: Weights, sample: tuple[Array, Array]) -> tuple[Weights, Array]:
        image, label = sample

        def loss(weights: Weights) -> Array:
            return -jax.nn.log_softmax(model.apply(weights, image[None]))[0, label]

        value, gradient = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - 0.02 * g, weights, gradient), value

    weights = model.init(jax.random.key(0))
    _, losses = jax.jit(lambda *a: lax.scan(step, *a))(weights, (images, jnp.asarray(labels)))
    assert float(losses[:10].mean()) > 0.3
    assert float(losses[-50:].mean()) < 0.1


def test_mlp_is_its_formula() -> None:
    model = mlp((3, 2, 2), 4, hidden=(5, 6))
    weights, images = random_case(model, (3, 2, 2), 7)
    values = np.asarray(images).transpose(0, 3, 1, 2).reshape(7, 12)
    for layer in ("linear1", "linear2", "linear3"):
        kernel, bias = (np.asarray(weights[layer][part]) for part in ("kernel", "bias"))
        values = values @ kernel.T + bias
        values = values if layer == "linear3" else np.maximum(values, 0)
    np.testing.assert_allclose(model.apply(weights, images), values, rtol=1e-5, atol=1e-6)
    assert weight_shapes(mlp(MNIST, 10, hidden=())) == ((10,), (10, 784))


@pytest.mark.parametrize(
    ("build", "shape"), [(paper_cnn, (27, 28, 1)), (cifar_cnn, (32, 30, 3)), (cifar_cnn, (0, 4, 1))]
)
def test_image_sizes_that_cannot_be_pooled(
    build: Callable[..., Model], shape: tuple[int, ...]
) -> None:
    with pytest.raises(InputError, match=f"{shape[0]} x {shape[1]}.*divisible by"):
        build(shape, 10)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        (MNIST, "paper-cnn"),
        ((32, 32, 3), "cifar-cnn"),
        ((8, 8, 2), "cifar-cnn"),
        ((100, 6), "signal-cnn"),
        ((15, 6), "mlp"),
        ((9,), "mlp"),
        ((2, 3, 4, 5), "mlp"),
    ],
)
def test_auto_fits_the_samples(shape: tuple[int, ...], name: str) -> None:
    assert make_model("auto", shape, 10).name == name


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_go_by_their_names(name: str) -> None:
    shape = {"signal-cnn": (20, 3), "text-gru": (6,)}.get(name, (8, 12, 3))
    model = make_model(name, shape, 5)
    assert model.name == name
    check_model(model, shape, 5, dtype="int32" if name == "text-gru" else "float32")


@pytest.mark.parametrize("shape", [(7,), (5, 3), (2, 3, 2, 2)])
def test_an_mlp_takes_samples_of_any_shape(shape: tuple[int, ...]) -> None:
    model = mlp(shape, 4, hidden=(3,))
    check_model(model, shape, 4)
    weights, inputs = random_case(model, shape, 2)
    first, last = weights["linear1"], weights["linear2"]
    swapped = np.moveaxis(np.swapaxes(np.asarray(inputs), 0, -1), -1, 0)  # channels first
    hidden = np.maximum(flat(swapped) @ first["kernel"].T + first["bias"], 0)
    expected = hidden @ last["kernel"].T + last["bias"]
    np.testing.assert_allclose(model.apply(weights, inputs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(15, 3), (20,), (20, 3, 1)])
def test_signals_that_are_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"signal-cnn: samples are .* must be windows \[T, C\]"):
        make_model("signal-cnn", shape, 3)
    with pytest.raises(InputError, match=r"must be images \[H, W, C\]"):
        make_model("paper-cnn", (20, 3), 3)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "own_models.py").write_text(
        "from mix2fld.base.errors import InputError\n"
        "from mix2fld.models import mlp\n"
        "def small(sample_shape, num_labels):\n"
        "    return mlp(sample_shape, num_labels, hidden=(3,))\n"
        "def not_a_model(sample_shape, num_labels):\n"
        "    return 3\n"
        "def wrong_arguments(num_labels):\n"
        "    return None\n"
        "def refuses(sample_shape, num_labels):\n"
        "    raise InputError('labels: too many')\n"
    )
    (tmp_path / "broken_models.py").write_text("def small(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_models"
    for name in ("own_models", "broken_models"):
        sys.modules.pop(name, None)


def test_own_builder_is_imported(own_module: str) -> None:
    model = make_model(f"{own_module}:small", (4, 4, 1), 6)
    assert weight_shapes(model) == ((3,), (3, 16), (6,), (6, 3))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("paper-cn", "model = paper-cn: .*did you mean 'paper-cnn'"),
        ("", "known: auto, cifar-cnn, linear, mlp, paper-cnn, signal-cnn"),
        ("own_models:smal", "no function 'smal'; did you mean 'small'"),
        ("own_models:", "no function ''"),
        ("own_models:not_a_model", "must return a Model or a torch.nn.Module, not int"),
        ("own_models:wrong_arguments", r"function\(sample_shape, num_labels\)"),
        ("own_models:refuses", "labels: too many"),
        ("no_such_package.models:small", "'no_such_package.models' cannot be imported"),
        ("broken_models:small", "'broken_models' cannot be imported"),
        (":small", "cannot be imported"),
    ],
)
@pytest.mark.usefixtures("own_module")
def test_unknown_models_are_named(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_model(name, MNIST, 10)


def toy(apply: Callable[[Weights, Array], Any], **weights: Array) -> Model:
    return Model("toy", lambda key: weights, apply)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (mlp(MNIST, 7), "model mlp returns 7 outputs, the dataset has 10 labels"),
        (toy(lambda w, x: x, a=jnp.zeros(3)), r"shape \[1, 28, 28, 1\] for 1 samples, .*\[1, 10\]"),
        (toy(lambda w, x: jnp.zeros(10), a=jnp.zeros(3)), r"shape \[10\]"),
        (toy(lambda w, x: jnp.zeros((1, 10)), a=jnp.zeros(3)), "for 2 samples"),
        (toy(lambda w, x: (x, x), a=jnp.zeros(3)), "one array of float logits"),
        (toy(lambda w, x: jnp.zeros((len(x), 10), int), a=jnp.zeros(3)), "float logits"),
        (
            toy(lambda w, x: x @ w["a"], a=jnp.zeros(3)),
            r"fails on float32 samples of shape \[1, 28, 28, 1\]",
        ),
        (toy(lambda w, x: x, a=jnp.zeros(3, jnp.int32)), r"weight \['a'\] is int32, not float32"),
        (toy(lambda w, x: x), "no weights"),
        (
            toy(lambda w, x: flat(x) @ w["a"], a=jnp.zeros((784, 10)), b=jnp.zeros(3)),
            r"weight \['b'\] never gets a gradient",
        ),
        (
            toy(lambda w, x: flat(x) @ w["a"] + lax.stop_gradient(w["b"]), a=KERNEL, b=KERNEL[0]),
            r"weight \['b'\] never gets a gradient",
        ),
        (
            toy(lambda w, x: jnp.ones((len(x), 10)) * jnp.argmax(w["a"]), a=KERNEL),
            r"weight \['a'\] never gets a gradient",
        ),
        (Model("toy", lambda key: key.no_such_thing, lambda w, x: x), "cannot be initialised"),
    ],
)
def test_models_that_do_not_fit_are_refused(model: Model, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_model(model, MNIST, 10)


def test_flax_linen_module() -> None:
    from flax import linen

    module = linen.Sequential(
        [linen.Conv(4, (3, 3)), linen.relu, lambda x: x.reshape(len(x), -1), linen.Dense(5)]
    )
    model = from_flax(module, (6, 6, 2), name="own")
    check_model(model, (6, 6, 2), 5)
    weights, images = random_case(model, (6, 6, 2), 3)
    expected = module.apply({"params": weights}, images)
    np.testing.assert_array_equal(model.apply(weights, images), expected)
    assert model.name == "own"


def test_flax_state_is_refused() -> None:
    from flax import linen

    module = linen.Sequential([linen.BatchNorm(use_running_average=False), linen.Dense(5)])
    with pytest.raises(InputError, match="has state in batch_stats"):
        check_model(from_flax(module, MNIST), MNIST, 5)
    with pytest.raises(InputError, match=r"must be a flax\.linen module"):
        from_flax(linen.Dense, MNIST)
    with pytest.raises(InputError, match="Conv: cannot be initialised"):
        from_flax(linen.Conv(4, (3, 3), padding="no such"), MNIST)


def test_flax_nnx_module() -> None:
    from flax import nnx

    def linear(rngs: Any) -> Any:
        return nnx.Sequential(lambda x: x.reshape(len(x), -1), nnx.Linear(12, 5, rngs=rngs))

    model = from_nnx(linear)
    check_model(model, (3, 4, 1), 5)
    weights, images = random_case(model, (3, 4, 1), 3)
    kernel = next(leaf for leaf in jax.tree.leaves(weights) if leaf.ndim == 2)
    bias = next(leaf for leaf in jax.tree.leaves(weights) if leaf.ndim == 1)
    expected = images.reshape(3, 12) @ kernel + bias
    np.testing.assert_allclose(jax.jit(model.apply)(weights, images), expected, rtol=1e-5)
    with pytest.raises(InputError, match=r"has state in nnx\.BatchStat"):
        check_model(from_nnx(lambda rngs: nnx.Sequential(nnx.BatchNorm(4, rngs=rngs))), (4,), 4)
    with pytest.raises(InputError, match="which nothing keeps"):
        from_nnx(lambda rngs: nnx.Sequential(nnx.Dropout(0.5, rngs=rngs)))


def test_equinox_module() -> None:
    import equinox

    class Flat(equinox.Module):  # type: ignore[misc, name-defined]
        inner: Any

        def __call__(self, image: Array) -> Array:
            return self.inner(image.ravel())

    model = from_equinox(
        lambda key: Flat(equinox.nn.MLP(12, 5, 8, 1, activation=lambda x: x, key=key)), name="flat"
    )
    check_model(model, (3, 4, 1), 5)
    weights, images = random_case(model, (3, 4, 1), 3)
    assert sorted(weights) == [
        f".inner.layers[{layer}].{part}" for layer in (0, 1) for part in ("bias", "weight")
    ]
    expected = images.reshape(3, 12)
    for layer in (0, 1):
        prefix = f".inner.layers[{layer}]"
        expected = expected @ weights[f"{prefix}.weight"].T + weights[f"{prefix}.bias"]
    apply = jax.jit(model.apply)
    np.testing.assert_allclose(apply(weights, images), expected, rtol=1e-4, atol=1e-5)
    assert jax.tree.structure(model.init(jax.random.key(5))) == jax.tree.structure(weights)
    with pytest.raises(InputError, match="cannot be initialised"):
        from_equinox(lambda key: equinox.nn.MLP(12, 5, key=key))


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("flax.linen", "flax.nnx", "equinox"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match="pip install flax"):
        from_flax(None, MNIST)
    with pytest.raises(InputError, match="pip install flax"):
        from_nnx(lambda rngs: None)
    with pytest.raises(InputError, match="pip install equinox"):
        from_equinox(lambda key: None)


def test_an_unknown_optimizer_is_named() -> None:
    with pytest.raises(InputError, match="optimizer = 'sdg': no such optimizer; did you mean"):
        make_learning(Config.of(optimizer="sdg"), SampleFormat(MNIST), Classification(10))
