"""The frozen front of a PyTorch module, found in its graph (torch.fx)."""

import hashlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx

from mix2fld.data.features.network import Floats, Network
from mix2fld.data.samples import as_fed
from mix2fld.dataset import FrozenNetwork
from mix2fld.models.frozen_front import SplitModel, as_vector, small_enough
from mix2fld.models.pytorch import draw_weights
from mix2fld.models.torch_network import SAME_FOR_ALL, TorchNetwork, made_with
from mix2fld.types import Model, Tensors, TorchModule

RANDOM = ("dropout", "rand", "bernoulli", "batch_norm")
"""Parts of names of functions that do not return the same for a sample in every training step."""
CLOSE = 1e-4
Shapes = tuple[tuple[int, ...], ...]


def split_torch(
    model: Model, recipe: TorchModule, shape: tuple[int, ...], dtype: str
) -> SplitModel | None:
    """The front and the back; None for a module that cannot be traced, or that trains early."""
    if recipe.carries_buffers:
        return None
    whole = made_with(SAME_FOR_ALL, recipe.make).eval()
    try:
        front = _front_of(whole)
        feed = TorchNetwork(recipe).feed
        one = feed(as_fed(np.zeros((1, *shape), dtype)))
        with torch.inference_mode():
            shapes = tuple(tuple(part.shape[1:]) for part in _tensors(front, one))
    except Exception:  # of somebody else's module: it is then trained as a whole
        return None
    if not any(True for _ in front.parameters()) or not small_enough(shapes, shape):
        return None
    make = partial(back_of, recipe.make, shapes)
    back = TorchModule(make, recipe.names, recipe.shapes, False, carries_buffers=False)

    def vectors(samples: NDArray[Any]) -> Floats:
        with torch.inference_mode():
            return as_vector([part.numpy() for part in _tensors(front, feed(as_fed(samples)))])

    if not _same(whole, made_with(SAME_FOR_ALL, make), vectors, feed, (shape, dtype)):
        return None
    told = hashlib.sha256(front.code.encode())
    for tensor in front.state_dict().values():
        told.update(tensor.numpy().tobytes())
    about = FrozenNetwork(f"{model.name} (front)", told.hexdigest(), shape, dtype)
    size = sum(map(math.prod, shapes))
    network = Network(about, size, vectors)

    def apply(weights: Tensors, inputs: NDArray[Any]) -> NDArray[np.float32]:
        found = TorchNetwork(back)
        found.load(weights)
        logits: NDArray[np.float32] = found.logits(inputs).numpy()
        return logits

    return SplitModel(network, Model(model.name, partial(draw_weights, back), apply, torch=back))


def back_of(make: Callable[[], Any], shapes: Shapes) -> Any:
    """A new module that takes vectors of what a front returned; its weights keep their names."""
    module = make()
    graph, late, crossing = _traced(module)
    back = fx.Graph()
    rows, end = back.placeholder("rows"), 0
    known = dict[Any, Any]()
    for node, shape in zip(crossing, shapes, strict=True):
        begin, end = end, end + math.prod(shape)
        known[node] = back.call_function(_part, (rows, begin, end, shape))
    early = _made_of(next(iter(graph.nodes)), graph)
    for node in graph.nodes:
        if node in late or node not in early:
            known[node] = back.node_copy(node, known.__getitem__)
    return _module_of(module, back)


def _front_of(module: Any) -> Any:
    """What is done with samples before anything that is trained."""
    graph, late, crossing = _traced(module)
    front, known = fx.Graph(), dict[Any, Any]()
    for node in graph.nodes:
        if node not in late:
            known[node] = front.node_copy(node, known.__getitem__)
    front.output(tuple(known[node] for node in crossing))
    return _module_of(module, front).eval()


def _module_of(whole: Any, graph: Any) -> Any:
    """A module of what is used of a graph, with the parts of the whole one."""
    module = fx.GraphModule(whole, graph)
    module.graph.eliminate_dead_code()
    module.delete_all_unused_submodules()
    module.recompile()
    return module


def _part(rows: Any, begin: int, end: int, shape: tuple[int, ...]) -> Any:
    """One array of a batch of vectors."""
    return rows[:, begin:end].reshape((len(rows), *shape))


def _traced(module: Any) -> tuple[Any, set[Any], list[Any]]:
    """The graph of a module, what differs from step to step in it, and what that reads."""
    graph = fx.Tracer().trace(module)
    (given,) = [node for node in graph.nodes if node.op == "placeholder"]
    late = set[Any]()
    for node in graph.nodes:
        if node.op == "output" or _changes(module, node) or late & set(node.all_input_nodes):
            late.add(node)
    early = _made_of(given, graph) - late
    return graph, late, [n for n in graph.nodes if n in early and late & set(n.users)]


def _made_of(given: Any, graph: Any) -> set[Any]:
    """The nodes that are made of samples."""
    found = {given}
    for node in graph.nodes:
        if found & set(node.all_input_nodes):
            found.add(node)
    return found


def _changes(module: Any, node: Any) -> bool:
    """Whether what a node returns for a sample differs from step to step."""
    if node.op == "get_attr":
        found = module
        for name in node.target.split("."):
            found = getattr(found, name)
        return bool(getattr(found, "requires_grad", False))
    if node.op != "call_module":
        name = getattr(node.target, "__name__", str(node.target))
        return node.op.startswith("call") and any(part in name for part in RANDOM)
    part = module.get_submodule(node.target)
    return any(own.requires_grad for own in part.parameters()) or any(
        isinstance(each, torch.nn.modules.dropout._DropoutNd) for each in part.modules()
    )


def _tensors(front: Any, fed: Any) -> list[Any]:
    found = front(fed)
    if not all(part.dtype == torch.float32 and len(part) == len(fed) for part in found):
        raise TypeError("what leaves the front are no vectors of float32")
    return list(found)


def _same(whole: Any, back: Any, vectors: Any, feed: Any, of: tuple[Any, str]) -> bool:
    """Whether two samples together have the outputs of each by itself, in two parts."""
    samples = np.random.default_rng(0).integers(0, 2, (2, *of[0])).astype(of[1])
    rows = np.concatenate([vectors(samples[n : n + 1]) for n in range(2)])
    with torch.inference_mode():
        expected, found = whole(feed(as_fed(samples))), back.eval()(torch.from_numpy(rows))
    scale = float(expected.abs().max()) + 1.0
    return bool((expected - found).abs().max() <= CLOSE * scale)
