"""Any JAX model in its fast form: the numbers of plain XLA, wherever its operations stand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from hypothesis import given
from hypothesis import strategies as st
from jax import Array, lax

from mix2fld.config.settings import LearningConfig
from mix2fld.models import fast, from_equinox, from_flax, from_nnx
from mix2fld.models.fast import FastApply, convolution
from mix2fld.native import library
from mix2fld.tasks.classification import Classification
from mix2fld.tasks.losses import label_loss, one_hot
from mix2fld.tasks.make_learning import choose_stepper
from mix2fld.tasks.stepper import Start, TestSet, Watch
from mix2fld.types import Model, Samples
from toy_models import QUICKLY
from toys import examples

FORMS = pytest.mark.parametrize("machine_code", [True, False])
ONES = {1: (1,), 2: (1, 1), 3: (1, 1, 1)}


def same_numbers(
    plain: Callable[..., Array],
    machine_code: bool,
    *args: Any,
    reference: Callable[..., Array] | None = None,
) -> None:
    """Result and gradients by all arguments are those of plain XLA up to rounding.

    A reference computes what ``plain`` does in another way.
    """

    def values(function: Callable[..., Array]) -> Any:
        def both(*args: Any) -> Any:
            result, back = jax.vjp(function, *args)
            weights = jnp.cos(jnp.arange(result.size, dtype=jnp.float32)).reshape(result.shape)
            return result, back(weights)

        return jax.jit(both, compiler_options=QUICKLY)(*args)

    def in_fast_form(*args: Any) -> Any:
        def packed(args: Any, _: Any) -> Any:
            return plain(*args)

        return FastApply(packed, machine_code)(args, None)

    for ours, theirs in zip(
        jax.tree.leaves(values(in_fast_form)),
        jax.tree.leaves(values(reference or plain)),
        strict=True,
    ):
        scale = max(1.0, float(jnp.abs(theirs).max()))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5 * scale)


def noise(*shape: int) -> Array:
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape), jnp.float32)


def operations(function: Callable[..., Any], *args: Any) -> str:
    return str(jax.make_jaxpr(function)(*args))


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of inputs and kernel in any layout, and parameters that leave something to compute."""
    axes = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(axes))

    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    depthwise = groups > 1 and draw(st.booleans())
    channels = 1 if depthwise else draw(st.integers(1, 9))
    outputs = 1 if depthwise else draw(st.sampled_from([1, 3, 8, 16, 17, 33, 48]))
    sizes, taps = each(1, 6 if axes == 3 else 11), each(1, 4)
    strides, inner, outer = each(1, 3), each(1, 2), each(1, 2)
    padding = []
    for axis in range(axes):
        reach = (taps[axis] - 1) * outer[axis] + 1
        low = draw(st.integers(-1, 4))
        # Enough that there is at least one output.
        short = reach - (sizes[axis] - 1) * inner[axis] - 1 - low
        padding.append((low, max(draw(st.integers(-1, 3)), short)))
    kernel_order = draw(st.permutations("XYZ"[:axes] + "IO"))
    letters = "".join(letter for letter in kernel_order if letter in "XYZ")  # as JAX counts axes
    order = draw(st.permutations(f"N{letters}C"))
    out_order = draw(st.permutations(f"N{letters}C"))
    numbers = dict(zip(letters, sizes, strict=True)) | {"N": draw(st.integers(1, 3))}
    tap_numbers = dict(zip(letters, taps, strict=True)) | {"I": channels, "O": groups * outputs}
    numbers["C"] = groups * channels
    parameters = {
        "window_strides": strides,
        "padding": padding,
        "lhs_dilation": inner,
        "rhs_dilation": outer,
        "feature_group_count": groups,
        "dimension_numbers": ("".join(order), "".join(kernel_order), "".join(out_order)),
    }
    inputs = tuple(numbers[letter] for letter in order)
    return inputs, tuple(tap_numbers[letter] for letter in kernel_order), parameters


@examples(8)
@given(case=convolutions(), machine_code=st.booleans())
def test_a_convolution_and_its_gradients_are_those_of_the_plain_one(
    case: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], machine_code: bool
) -> None:
    inputs, kernel, parameters = case

    def plain(inputs: Array, kernel: Array) -> Array:
        return lax.conv_general_dilated(inputs, kernel, **parameters, precision="highest")

    def padded_apart(inputs: Array, kernel: Array) -> Array:
        """With negative padding, XLA's own input gradient reads memory that was never written."""
        order = parameters["dimension_numbers"][0]
        letters = [letter for letter in parameters["dimension_numbers"][1] if letter in "XYZ"]
        sides = [(0, 0, 0)] * inputs.ndim
        for letter, (low, high), hole in zip(
            letters, parameters["padding"], parameters["lhs_dilation"], strict=True
        ):
            sides[order.index(letter)] = (low, high, hole - 1)
        moved = {"padding": [(0, 0)] * len(letters), "lhs_dilation": ONES[len(letters)]}
        padded = lax.pad(inputs, jnp.float32(0), sides)
        return lax.conv_general_dilated(padded, kernel, **(parameters | moved), precision="highest")

    same_numbers(plain, machine_code, noise(*inputs), noise(*kernel), reference=padded_apart)


WIDE = [  # tiles of every width: one, two and three vectors, with and without a remainder
    ((2, 33, 29, 3), (3, 3, 3, 16), 1),
    ((2, 12, 23, 16), (3, 5, 16, 12), 1),
    ((2, 9, 27, 7), (3, 3, 7, 64), 1),
    ((2, 9, 26, 20), (2, 2, 20, 48), 1),
    ((1, 16, 16, 24), (3, 3, 24, 70), 2),
    ((1, 15, 14, 33), (3, 3, 33, 10), 2),
    ((3, 40, 6, 6), (7, 2, 6, 1), 3),
]


@FORMS
@pytest.mark.parametrize(("inputs", "kernel", "stride"), WIDE)
def test_convolutions_of_ordinary_networks(
    inputs: tuple[int, ...], kernel: tuple[int, ...], stride: int, machine_code: bool
) -> None:
    def plain(inputs: Array, kernel: Array) -> Array:
        return lax.conv_general_dilated(
            inputs, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    same_numbers(plain, machine_code, noise(*inputs), noise(*kernel))


@st.composite
def poolings(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    axes = draw(st.integers(1, 4))
    shape, window, strides, dilation, padding = [], [], [], [], []
    for _ in range(axes):
        window.append(draw(st.integers(1, 4)))
        strides.append(draw(st.integers(1, 3)))
        dilation.append(draw(st.integers(1, 2)))
        reach = (window[-1] - 1) * dilation[-1] + 1
        padding.append((draw(st.integers(0, window[-1] - 1)), draw(st.integers(0, window[-1] - 1))))
        shape.append(draw(st.integers(reach, reach + 5)))
    return tuple(shape), {
        "window_dimensions": tuple(window),
        "window_strides": tuple(strides),
        "window_dilation": tuple(dilation),
        "padding": padding,
    }


POOLS: dict[str, tuple[float, Any]] = {
    "max": (-np.inf, lax.max),
    "min": (np.inf, lax.min),
    "sum": (0.0, lax.add),
}


@examples(6)
@given(case=poolings(), kind=st.sampled_from(list(POOLS)), ties=st.booleans())
def test_a_pooling_and_its_gradient_are_those_of_the_plain_one(
    case: tuple[tuple[int, ...], dict[str, Any]], kind: str, ties: bool
) -> None:
    """The first of equal values in a window gets the gradient."""
    shape, parameters = case
    nothing, pair = POOLS[kind]
    inputs = jnp.round(noise(*shape)) if ties else noise(*shape)
    if max(parameters["window_dilation"]) > 1 and kind != "sum":
        parameters |= {"window_dilation": (1,) * len(shape)}  # no plain gradient to compare with
    same_numbers(lambda x: lax.reduce_window(x, nothing, pair, **parameters), True, inputs)


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    chosen=st.lists(st.booleans(), min_size=5, max_size=5),
)
@examples(6)
def test_a_sum_over_outer_and_inner_axes_is_the_plain_one(
    shape: list[int], chosen: list[bool]
) -> None:
    axes = tuple(axis for axis in range(len(shape)) if chosen[axis])
    same_numbers(lambda x: jnp.square(x).sum(axes), True, noise(*shape))


def test_the_plain_form_stays_where_there_is_no_other() -> None:
    """Half precision, groups of the batch, windows of more than 32, dilated pooling."""
    images, kernel = noise(4, 8, 8, 4), noise(3, 3, 2, 8)
    axes = ("NHWC", "HWIO", "NHWC")

    def model(kernel: Array, images: Array) -> Any:
        narrow = [images.astype(jnp.bfloat16), kernel.astype(jnp.bfloat16)]
        half = lax.conv_general_dilated(
            *narrow, (1, 1), "SAME", dimension_numbers=axes, feature_group_count=2
        )
        batches = lax.conv_general_dilated(
            images[..., :2], kernel, (1, 1), "SAME", dimension_numbers=axes, batch_group_count=2
        )
        wide = lax.reduce_window(images.reshape(4, -1), -np.inf, lax.max, (1, 40), (1, 1), "VALID")
        dilated = lax.reduce_window(
            images, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", base_dilation=(1, 2, 2, 1)
        )
        return half, batches, wide, dilated

    assert operations(FastApply(model), kernel, images) == operations(model, kernel, images)


def conv(kernel: Array, images: Array) -> Array:
    return lax.conv_general_dilated(
        images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def in_scan(kernel: Array, images: Array) -> Array:
    return lax.scan(lambda maps, _: (jnp.tanh(conv(kernel, maps)), None), images, length=3)[0]


def in_cond(kernel: Array, images: Array) -> Array:
    return lax.cond(images.sum() > 0, conv, lambda k, x: conv(2 * k, x), kernel, images)


def in_while(kernel: Array, images: Array) -> Array:
    def more(state: tuple[int, Array]) -> tuple[int, Array]:
        return state[0] + 1, conv(kernel, state[1])

    stopped = lax.while_loop(lambda state: state[0] < 2, more, (0, images))[1]
    return conv(kernel, images) + lax.stop_gradient(stopped)


def in_vmap(kernel: Array, images: Array) -> Array:
    return jax.vmap(lambda image: conv(kernel, image[None])[0])(images)


def in_custom_jvp(kernel: Array, images: Array) -> Array:
    clipped = jax.custom_jvp(lambda k, x: jax.nn.relu(conv(k, x)))
    clipped.defjvp(lambda args, dots: jax.jvp(lambda k, x: jax.nn.relu(conv(k, x)), args, dots))
    return clipped(kernel, images)


def in_custom_vjp(kernel: Array, images: Array) -> Array:
    doubled = jax.custom_vjp(conv)
    doubled.defvjp(lambda k, x: (conv(k, x), (k, x)), lambda saved, g: (2 * saved[0], g))
    return doubled(kernel, images)


def with_constants(kernel: Array, images: Array) -> Array:
    return jax.jit(lambda k, x: conv(k + np.ones(k.shape, np.float32), x))(kernel, images)


def of_a_gradient(kernel: Array, images: Array) -> Array:
    """A model that differentiates inside, as a meta-learner does."""
    inner = jax.grad(lambda k: jnp.sum(jnp.sin(conv(k, images))))(kernel)
    return conv(kernel - 0.01 * inner, images)


PLACES = [
    jax.jit(conv),
    jax.checkpoint(conv),
    in_scan,
    in_cond,
    in_while,
    in_vmap,
    in_custom_jvp,
    in_custom_vjp,
    with_constants,
    of_a_gradient,
]


@FORMS
@pytest.mark.parametrize("place", PLACES, ids=lambda place: getattr(place, "__name__", "jit"))
def test_convolutions_are_found_wherever_they_stand(place: Any, machine_code: bool) -> None:
    kernel, images = 0.3 * noise(3, 3, 4, 4), noise(2, 6, 6, 4)
    same_numbers(place, machine_code, kernel, images)
    found = operations(FastApply(place, machine_code), kernel, images)
    left = found.replace("fwd", "").count("conv_general_dilated[")
    if place is not in_custom_vjp:  # whose own forward pass is left to its author
        assert left == 0


class FlaxNet(linen.Module):
    width: int = 5

    @linen.compact
    def __call__(self, x: Array) -> Array:
        x = linen.relu(linen.Conv(8, (3, 3))(x))
        x = linen.max_pool(x, (2, 2), (2, 2))
        x = linen.relu(linen.GroupNorm(4)(linen.Conv(8, (3, 3), 2, use_bias=False)(x)))
        x = linen.avg_pool(x, (2, 2))
        return linen.Dense(self.width)(x.reshape(len(x), -1))


class NnxNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, width: int = 6) -> None:
        self.conv = nnx.Conv(2, width, (3, 3), rngs=rngs)
        self.linear = nnx.Linear(width, 5, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.linear(nnx.relu(self.conv(x)).mean((1, 2)))


class EquinoxNet(equinox.Module):
    conv: Any
    pool: Any
    linear: Any

    def __init__(self, key: Array) -> None:
        keys = jax.random.split(key)
        self.conv = equinox.nn.Conv2d(2, 8, 3, padding=1, groups=2, key=keys[0])
        self.pool = equinox.nn.MaxPool2d(2, 2)
        self.linear = equinox.nn.Linear(128, 5, key=keys[1])

    def __call__(self, x: Array) -> Array:
        maps = self.pool(jax.nn.relu(self.conv(x.transpose(2, 0, 1))))
        return self.linear(maps.reshape(-1))


SHAPE = (8, 8, 2)
MODELS: dict[str, Callable[[], Model]] = {
    "flax": lambda: from_flax(FlaxNet(), SHAPE),
    "nnx": lambda: from_nnx(lambda rngs: NnxNet(rngs, width=6)),
    "equinox": lambda: from_equinox(lambda key: EquinoxNet(key=key)),
}


@FORMS
@pytest.mark.parametrize("library", MODELS)
def test_modules_of_every_library_are_fast_as_they_are(library: str, machine_code: bool) -> None:
    model = MODELS[library]()
    weights = model.init(jax.random.key(0))
    images = noise(3, *SHAPE)
    same_numbers(model.apply, machine_code, weights, images)
    found = operations(FastApply(model.apply, machine_code), weights, images)
    assert "conv_general_dilated" not in found
    assert "reduce_window" not in found
    assert ("ffi_call" in found) == machine_code


@pytest.mark.parametrize("library", MODELS)
def test_equal_modules_share_compiled_code(library: str) -> None:
    """As many compilations for three models as for one; a different module compiles."""
    models = [MODELS[library]() for _ in range(3)]
    assert len({id(model) for model in models}) == 3
    assert len(set(models)) == 1
    compiled = [compilations(model) for model in models]
    assert compiled[0] > 0
    assert compiled[1:] == [0, 0]
    other = from_flax(FlaxNet(width=7), SHAPE)
    assert other not in models
    assert other != from_flax(FlaxNet(width=7), (6, 6, 2))


def test_modules_without_a_hash_are_equal_to_none() -> None:
    class Unhashable(FlaxNet):
        sizes: Any = None

    modules = [from_flax(Unhashable(sizes=np.ones(2)), SHAPE) for _ in range(2)]
    assert modules[0] != modules[1]
    assert modules[0] == modules[0]
    assert hash(modules[0])


def compilations(model: Model) -> int:
    """How often XLA compiles while a model of five labels is trained and tested."""
    counted: list[str] = []

    def count(event: str, seconds: float, **rest: Any) -> None:
        del seconds, rest
        if event == "/jax/core/compile/backend_compile_duration":
            counted.append(event)

    jax.monitoring.register_event_duration_secs_listener(count)
    train_and_test(model, "auto")
    jax.monitoring.unregister_event_duration_listener(count)
    return len(counted)


def train_and_test(model: Model, kernel: str) -> list[Any]:
    """Weights of two devices after three steps of a batch of two, and their accuracies."""
    rng = np.random.default_rng(3)
    images = rng.integers(0, 256, (40, *SHAPE), dtype=np.uint8)
    labels = rng.integers(5, size=40).astype(np.int32)
    stepper = choose_stepper(model, LearningConfig(batch_size=2, kernel=kernel))
    start = Start(stepper.draw_weights(0), np.zeros((5, 5), np.float32))
    draws = [rng.integers(40, size=(3, 2)).astype(np.int32) for _ in range(2)]
    held = stepper.hold(Samples(images, one_hot(labels, 5)))
    learned = stepper.train(label_loss, held, [start] * 2, draws, Watch(0, (3,)))
    weights = [phase.weights for phase in learned.phases]
    return [
        *weights[0],
        *weights[1],
        TestSet(stepper, Classification(5), images, labels).scores(weights),
    ]


def test_a_stepper_trains_the_fast_form_of_a_model() -> None:
    """Machine code, matrix products and plain XLA end with the same weights."""
    model = MODELS["flax"]()

    class Opaque:
        def __call__(self, weights: Any, images: Array) -> Array:
            return model.apply(weights, images)

    by_kernel, by_products = (train_and_test(model, kernel) for kernel in ("auto", "xla"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "rewritten", lambda function, rules, *args: function(*args))
        plain = train_and_test(replace(model, apply=Opaque()), "auto")
    for one, other, reference in zip(by_kernel, by_products, plain, strict=True):
        np.testing.assert_allclose(one, reference, rtol=0, atol=1e-5)
        np.testing.assert_allclose(other, reference, rtol=0, atol=1e-5)


def test_an_accelerator_keeps_the_plain_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, images = noise(3, 3, 4, 4), noise(2, 6, 6, 4)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert operations(FastApply(conv), kernel, images) == operations(conv, kernel, images)


def test_without_a_compiler_there_are_matrix_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    monkeypatch.setattr(
        convolution, "_loaded", convolution._loaded.__wrapped__
    )  # as in a new process
    kernel, images = noise(3, 3, 4, 4), noise(2, 6, 6, 4)
    assert "ffi_call" not in operations(FastApply(conv), kernel, images)
    same_numbers(conv, True, kernel, images)


def test_narrow_vectors_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX2, which every machine that has AVX-512 has too."""
    if convolution.vector_lanes() == 0:
        pytest.skip("no machine code on this processor")
    monkeypatch.setattr(convolution, "vector_lanes", lambda: 8)
    for inputs, kernel, _ in WIDE:
        same_numbers(conv, True, noise(*kernel), noise(*inputs))


def test_the_same_call_gives_the_same_bits() -> None:
    kernel, images = noise(3, 3, 16, 20), noise(4, 12, 12, 16)
    back = jax.jit(jax.grad(lambda k, x: FastApply(conv)(k, x).sum(), argnums=(0, 1)))
    for one, other in zip(back(kernel, images), back(kernel, images), strict=True):
        np.testing.assert_array_equal(one, other)
