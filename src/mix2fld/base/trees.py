"""Trees in, trees out: nested dicts, lists and tuples of arrays and scalars, for a checkpoint.

A tree becomes named tensors and a skeleton that JSON can carry. What is shared is stored once and
is shared again when it is restored: an array, and a dict that is a member of a list several times,
such as the state of devices that keep the same. A list of dicts of one form becomes one tensor for
each leaf.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Tensors = dict[str, Array]
Skeleton = dict[str, Any]
SMALL_BYTES = 64
"""Arrays up to this size are the same if they are equal."""


def flatten(tree: Any, name: str = "") -> tuple[Skeleton, Tensors]:
    """The skeleton of a tree, and its arrays by their place in it."""
    tensors: Tensors = {}
    return _skeleton(tree, name, tensors, {}), tensors


def unflatten(skeleton: Skeleton, tensors: Tensors) -> Any:
    """The tree that ``flatten`` took apart."""
    ((kind, content),) = skeleton.items()
    match kind:
        case "array":
            return tensors[content]
        case "value":
            return content
        case "dict":
            return {key: unflatten(part, tensors) for key, part in content.items()}
        case "list" | "tuple":
            parts = [unflatten(part, tensors) for part in content]
            return parts if kind == "list" else tuple(parts)
        case "rows":
            return _rows(content, tensors, range(int(content["count"])))
        case "shared":
            members = unflatten(content["members"], tensors)
            return [members[place] for place in tensors[content["places"]].tolist()]
        case _:
            raise TypeError(f"unknown node {kind!r:.20}")


def pick(skeleton: Skeleton, tensors: Tensors, places: Sequence[int]) -> list[Any]:
    """Some members of a list that was taken apart, without looking at the others."""
    ((kind, content),) = skeleton.items()
    match kind:
        case "rows":
            return _rows(content, tensors, places)
        case "list":
            return [unflatten(content[place], tensors) for place in places]
        case _:
            raise TypeError(f"not a list: {kind!r:.20}")


def difference(found: Any, like: Any, name: str = "") -> str | None:
    """Where a tree has another form than ``like``: keys, lengths, types or shapes of arrays."""
    if isinstance(like, dict) and isinstance(found, dict) and set(like) == set(found):
        return _first(difference(found[key], like[key], f"{name}.{key}") for key in like)
    if isinstance(like, (list, tuple)) and type(like) is type(found) and len(like) == len(found):
        pairs = enumerate(zip(found, like, strict=True))
        different = {(id(one), id(other)): (i, one, other) for i, (one, other) in pairs}
        return _first(difference(one, other, f"{name}.{i}") for i, one, other in different.values())
    if not isinstance(like, (dict, list, tuple)) and _form(found) == _form(like):
        return None
    return f"{name.removeprefix('.')} is {_form(found)}, not {_form(like)}"


def _skeleton(tree: Any, name: str, tensors: Tensors, known: dict[Any, str] | None) -> Skeleton:
    """``known`` are the names of arrays stored before; without them, nothing is shared."""
    if isinstance(tree, (np.ndarray, np.generic)):
        if known is not None and (first := known.setdefault(identity_key(tree), name)) != name:
            return {"array": first}
        tensors[name] = np.ascontiguousarray(tree).reshape(np.shape(tree))
        return {"array": name}
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        named = {
            key: _skeleton(tree[key], f"{name}.{_escaped(key)}", tensors, known)
            for key in sorted(tree)  # the order of ``_leaves``
        }
        return {"dict": named}
    if type(tree) in (list, tuple):
        dicts = type(tree) is list and all(type(part) is dict for part in tree)
        if known is not None and dicts and (short := _in_short(tree, name, tensors, known)):
            return short
        parts = [_skeleton(part, f"{name}.{i}", tensors, known) for i, part in enumerate(tree)]
        return {type(tree).__name__: parts}
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return {"value": tree}
    raise TypeError(f"{name}: {type(tree).__name__} cannot be part of a state")


def _in_short(
    trees: list[Any], name: str, tensors: Tensors, known: dict[Any, str]
) -> Skeleton | None:
    """A list of dicts with what several of them share stored once; None if they share no form."""
    different = {id(tree): tree for tree in trees}
    if len(different) < len(trees):
        number = {key: place for place, key in enumerate(different)}
        tensors[f"{name}@"] = np.array([number[id(tree)] for tree in trees], np.int32)
        members = _skeleton(list(different.values()), name, tensors, known)
        return {"shared": {"places": f"{name}@", "members": members}}
    if len(trees) > 1 and _alike(trees):
        return {"rows": _columns(trees, name, tensors)}
    return None


def _escaped(key: str) -> str:
    """A key without the signs that have a meaning in the names of tensors: no two names meet."""
    return key.replace("~", "~0").replace(".", "~1").replace("@", "~2")


def _alike(trees: list[Any]) -> bool:
    """Whether all dicts have one form, with arrays as their only leaves."""
    first, leaves = trees[0], _leaves(trees[0])
    arrays_only = bool(leaves) and all(isinstance(leaf, np.ndarray) for leaf in leaves)
    return arrays_only and not any(difference(other, first) for other in trees[1:])


def _columns(trees: list[Any], name: str, tensors: Tensors) -> Skeleton:
    """Every leaf of all trees as one tensor of its distinct arrays, and who has which."""
    leaves: Tensors = {}
    shape = _skeleton(trees[0], name, leaves, None)
    columns = zip(*(_leaves(tree) for tree in trees), strict=True)
    for path, column in zip(leaves, columns, strict=True):
        distinct = {identity_key(array): array for array in column}
        tensors[path] = np.stack(list(distinct.values()))
        if len(distinct) < len(column):
            place = {key: number for number, key in enumerate(distinct)}
            tensors[f"{path}@"] = np.array(
                [place[identity_key(array)] for array in column], np.int32
            )
    return {"count": len(trees), "each": shape}


def _rows(content: Skeleton, tensors: Tensors, chosen: Sequence[int]) -> list[Any]:
    count, paths = int(content["count"]), _paths(content["each"])
    whose = {path: tensors.get(f"{path}@", np.arange(len(tensors[path]))) for path in paths}
    if not paths or any(len(column) != count for column in whose.values()):
        raise ValueError(f"rows: not {count} of them")
    columns = {path: _members(tensors[path], whose[path][chosen]) for path in paths}
    return [
        unflatten(content["each"], {path: columns[path][place] for path in paths})
        for place in range(len(chosen))
    ]


def _members(tensor: Array, places: Array) -> list[Array]:
    """The rows of a tensor at some places; what stands at one place is one object."""
    distinct = {place: np.asarray(tensor[place]) for place in sorted(set(places.tolist()))}
    return [distinct[place] for place in places.tolist()]


def _paths(skeleton: Skeleton) -> list[str]:
    ((kind, content),) = skeleton.items()
    if kind == "array":
        return [content]
    parts = content.values() if kind == "dict" else content if kind in ("list", "tuple") else []
    return [path for part in parts for path in _paths(part)]


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in _leaves(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _form(leaf: Any) -> str:
    if isinstance(leaf, (np.ndarray, np.generic)):  # a scalar of NumPy is restored as an array
        return f"{leaf.dtype}{list(leaf.shape)}"
    if isinstance(leaf, dict):
        return f"entries {', '.join(sorted(map(str, leaf))) or '(none)'}"
    if isinstance(leaf, (list, tuple)):
        return f"{type(leaf).__name__} of {len(leaf)}"
    return type(leaf).__name__


def _first(found: Any) -> str | None:
    return next((difference for difference in found if difference), None)


def identity_key(part: Any) -> Any:
    """A key that two parts of states have in common if one can stand for both.

    Small arrays are compared by what they hold, so that a constant and the same one from a
    checkpoint are one; of others, only an object itself is the same.
    """
    if isinstance(part, np.ndarray) and part.nbytes <= SMALL_BYTES:
        return part.dtype.str, part.shape, part.tobytes()
    return id(part)
