"""A state taken apart for a checkpoint and put together again, whatever its form."""

import json
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load, save

from mix2fld.base.trees import difference, flatten, identity_key, unflatten

DTYPES = st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
KEYS = st.text("ab.@~0", min_size=1, max_size=3)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda parts: (
            st.lists(parts, max_size=3)
            | st.lists(parts, max_size=3).map(tuple)
            | st.dictionaries(KEYS, parts, max_size=3)
        ),
        max_leaves=10,
    )


TREES = nested(ARRAYS | SCALARS)


@st.composite
def fleets(draw: st.DrawFn) -> list[Any]:
    """States of one form; each leaf is a device's own or shared with others."""
    first = draw(st.dictionaries(KEYS, nested(ARRAYS), max_size=3))
    count = draw(st.integers(2, 5))
    kinds = [leaf for leaf in leaves(first) if isinstance(leaf, np.ndarray)]
    choices = [
        [draw(hnp.arrays(kind.dtype, kind.shape)) for _ in range(draw(st.integers(1, 3)))]
        for kind in kinds
    ]
    states = []
    for _ in range(count):
        chosen = iter([draw(st.sampled_from(arrays)) for arrays in choices])
        states.append(reversed_keys(fill(first, chosen), draw(st.booleans())))
    return states


def fill(tree: Any, arrays: Any) -> Any:
    """The tree with other arrays, in the order of ``leaves``."""
    if isinstance(tree, dict):
        return {key: fill(part, arrays) for key, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)([fill(part, arrays) for part in tree])
    return next(arrays)


def reversed_keys(tree: Any, really: bool) -> Any:
    """The same tree; a dict's order means nothing."""
    if not really or not isinstance(tree, dict):
        return tree
    return {key: reversed_keys(tree[key], really) for key in reversed(tree)}


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def stored(tree: Any) -> tuple[Any, dict[str, Any]]:
    """Skeleton and tensors after a way through JSON and a file."""
    skeleton, tensors = flatten(tree, "state")
    return json.loads(json.dumps(skeleton)), load(save(tensors))


def assert_same(found: Any, expected: Any) -> None:
    assert difference(found, expected) is None
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            assert one.tobytes() == other.tobytes()
        else:
            assert type(one) is type(other)
            assert one == other


def sharing(states: list[Any]) -> list[list[int]]:
    """For each leaf, the first device that has the very same array as each device."""
    columns = zip(*(map(identity_key, leaves(state)) for state in states), strict=True)
    return [[column.index(one) for one in column] for column in columns]


A, B = np.zeros(2), np.ones(2)


@given(TREES)
@example({"a.b": A, "a": {"b": B}})
@example({"a": [A, B], "a.0": B})
@example([{"w": A, "w@": B}, {"w": A, "w@": A}])
@example([{"a": A, "b": B}, {"b": B, "a": A}])
@example([{"a": [{"x": A}, {"x": B}]}, {"a": [{"x": B}, {"x": B}]}])
@example([{}, {}])
def test_a_tree_comes_back(tree):
    assert_same(unflatten(*stored(tree)), tree)


@given(fleets())
def test_states_of_devices_come_back_and_share_what_they_shared(states):
    skeleton, tensors = stored({"devices": states})
    restored = unflatten(skeleton, tensors)["devices"]
    assert_same(restored, states)
    assert sharing(restored) == sharing(states)
    again = stored({"devices": restored})
    assert again[0] == skeleton
    assert {name: tensor.tobytes() for name, tensor in again[1].items()} == {
        name: tensor.tobytes() for name, tensor in tensors.items()
    }


@given(fleets(), st.data())
def test_devices_that_share_a_state_share_it_again(states, data):
    places = data.draw(st.lists(st.integers(0, len(states) - 1), min_size=1, max_size=8))
    everyone = [states[place] for place in places]
    skeleton, tensors = stored({"devices": everyone, "array": A})
    restored = unflatten(skeleton, tensors)["devices"]
    assert_same(restored, everyone)
    assert sharing(restored) == sharing(everyone)
    same = [[places.index(place) for place in places]]
    assert sharing_of(list(map(id, restored))) == same == sharing_of(places)
    again = stored({"devices": restored, "array": A})
    assert again[0] == skeleton
    assert {name: tensor.tobytes() for name, tensor in again[1].items()} == {
        name: tensor.tobytes() for name, tensor in tensors.items()
    }


def sharing_of(things: list[int]) -> list[list[int]]:
    return [[things.index(one) for one in things]]


@given(fleets())
def test_a_shared_array_is_stored_once(states):
    _, tensors = flatten(states)
    kept = sum(len(tensor) for name, tensor in tensors.items() if not name.endswith("@"))
    assert kept == sum(len(set(column)) for column in sharing(states))


def test_ten_thousand_devices_that_share_a_state_are_stored_as_one():
    state = {"weights": (np.ones(1000), np.zeros(3)), "seeds_due": np.array(True)}
    other = {**state, "seeds_due": np.array(False)}
    _, tensors = flatten({"devices": [state] * 9_999 + [other]})
    places = 10_000 * 4 + 2 * 2 * 4  # of each device, and of the two arrays that both states share
    assert sum(tensor.nbytes for tensor in tensors.values()) == 8000 + 24 + 2 + places


def test_an_array_in_several_places_is_stored_once():
    array = np.ones(100)
    tree = {"a": array, "b": [array, 1], "c": {"d": (array, np.ones(100))}}
    skeleton, tensors = stored(tree)
    assert sum(tensor.nbytes for tensor in tensors.values()) == 2 * 800
    restored = unflatten(skeleton, tensors)
    assert restored["a"] is restored["b"][0] is restored["c"]["d"][0]
    assert_same(restored, tree)


def test_the_memory_of_many_devices_is_that_of_one():
    weights, own = np.ones((1000,)), np.zeros(3)
    states = [{"weights": (weights, own + device)} for device in range(100)]
    _, tensors = flatten(states)
    assert sum(tensor.nbytes for tensor in tensors.values()) == 8000 + 100 * 24 + 100 * 4


def changed(leaf: Any) -> list[Any]:
    """Leaves of another form."""
    if isinstance(leaf, np.ndarray):
        other = np.float64 if leaf.dtype != np.float64 else np.float32
        return [np.zeros(leaf.shape, other), leaf[None], leaf.tolist(), None]
    return [np.array(1.0), {"a": leaf}, [leaf]]


@given(TREES, st.data())
def test_a_difference_of_form_is_found(tree, data):
    """Another shape, type, key or length, anywhere; other values are no difference."""
    assert difference(deepcopy(tree), tree) is None
    place = tree
    path: list[Any] = []
    while isinstance(place, (dict, list, tuple)) and len(place) and data.draw(st.booleans()):
        keys = list(place) if isinstance(place, dict) else range(len(place))
        path.append(data.draw(st.sampled_from(list(keys))))
        place = place[path[-1]]
    if isinstance(place, dict):
        others: list[Any] = [{**place, "new": 1}, list(place.values())]
        others += [{key: place[key] for key in list(place)[1:]}] if place else []
    elif isinstance(place, (list, tuple)):
        others = [type(place)([*place, 1]), type(place)(place[1:]) if place else {}]
        others.append(tuple(place) if isinstance(place, list) else list(place))
    else:
        others = changed(place)
    other = replaced(tree, path, data.draw(st.sampled_from(others)))
    found = difference(other, tree, "state")
    assert found
    assert found.startswith(".".join(["state", *map(str, path)]))
    assert difference(tree, other)


def replaced(tree: Any, path: list[Any], new: Any) -> Any:
    if not path:
        return new
    if isinstance(tree, dict):
        return {
            key: replaced(part, path[1:], new) if key == path[0] else part
            for key, part in tree.items()
        }
    parts = [replaced(part, path[1:], new) if i == path[0] else part for i, part in enumerate(tree)]
    return type(tree)(parts)


def test_a_scalar_of_numpy_can_be_resumed():
    """It comes back as an array, which is the same to whoever compares forms and computes."""
    tree = {"count": np.int64(3)}
    restored = unflatten(*stored(tree))
    assert restored["count"] == 3
    assert difference(restored, tree) is None


class Named(NamedTuple):
    """No plain tuple: it would come back as one."""

    a: int


@pytest.mark.parametrize("leaf", [object(), {1: 2}, Named(1), {1, 2}, b"bytes", 1j])
def test_what_would_not_come_back_is_refused(leaf):
    with pytest.raises(TypeError, match=r"state\.memory: .* cannot be part of a state"):
        flatten({"memory": leaf}, "state")


@pytest.mark.parametrize(
    "skeleton", [{"array": "gone"}, {"unknown": 1}, {}, {"array": "a", "value": 1}, {"list": 3}]
)
def test_a_skeleton_that_nothing_made_is_refused(skeleton):
    with pytest.raises((KeyError, TypeError, ValueError)):
        unflatten(skeleton, {})
