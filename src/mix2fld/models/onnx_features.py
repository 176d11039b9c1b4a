"""A trained model behind the frozen network of its features, as one ONNX graph."""

from typing import Any

from mix2fld.base.errors import InputError
from mix2fld.data.features.network import OnnxGraph
from mix2fld.data.place_errors import one_line
from mix2fld.dataset import FrozenNetwork
from mix2fld.models.onnx_graph import OPSET

KINDS = {"float32": 1, "uint8": 2, "int32": 6}
PIXEL_MAX = 255.0
PREFIX = "features/"


def behind_network(head: Any, graph: OnnxGraph, about: FrozenNetwork) -> Any:
    """The model ``head``, fed what the network makes of samples."""
    import onnx
    from onnx import compose, version_converter

    try:
        network = onnx.load_from_string(graph.content)
        _free_batch(network)
        _flatten(network)
        network = compose.add_prefix(version_converter.convert_version(network, OPSET), PREFIX)
        network.ir_version = head.ir_version
        joined = compose.merge_models(
            network, head, io_map=[(network.graph.output[0].name, head.graph.input[0].name)],
            outputs=[head.graph.output[0].name],
        )  # fmt: skip
        return _with_samples(joined, graph, about)
    except Exception as error:  # of files from anywhere
        raise InputError(
            field="features",
            value=about.name,
            hint=f"its ONNX file cannot be put before the model ({one_line(error)})",
        ) from None


def _free_batch(network: Any) -> None:
    """Any number of samples, also where the file says one."""
    for value in (*network.graph.input, *network.graph.output):
        dim = value.type.tensor_type.shape.dim
        if len(dim):
            dim[0].dim_param = "batch"
    del network.graph.value_info[:]
    del network.graph.output[1:]


def _flatten(network: Any) -> None:
    """Vectors, whatever shape the network returns for a sample."""
    from onnx import helper

    (output,) = network.graph.output
    network.graph.node.append(helper.make_node("Flatten", [output.name], ["vectors"], axis=1))
    del network.graph.output[:]
    network.graph.output.append(
        helper.make_tensor_value_info("vectors", KINDS["float32"], ["batch", None])
    )


def _with_samples(joined: Any, graph: OnnxGraph, about: FrozenNetwork) -> Any:
    """Samples as they are recorded as the input, in the type and order of the network's own."""
    from onnx import helper

    inner = joined.graph.input[0].name
    nodes, found = [], "samples"
    if graph.scaled:
        nodes.append(helper.make_node("Cast", [found], ["samples/float"], to=KINDS["float32"]))
        found = "samples/float"
        if about.dtype == "uint8":
            largest = helper.make_tensor("samples/largest", KINDS["float32"], (), [PIXEL_MAX])
            joined.graph.initializer.append(largest)
            nodes.append(helper.make_node("Div", [found, "samples/largest"], ["samples/scaled"]))
            found = "samples/scaled"
    if graph.turned:
        rank = len(about.shape)
        order = [0, rank, *range(1, rank)]
        nodes.append(helper.make_node("Transpose", [found], ["samples/turned"], perm=order))
        found = "samples/turned"
    nodes.append(helper.make_node("Identity", [found], [inner]))
    own = [*nodes, *joined.graph.node]
    del joined.graph.node[:]
    joined.graph.node.extend(own)
    shape: list[str | int | None] = ["batch", *about.shape]
    given = helper.make_tensor_value_info("samples", KINDS[about.dtype], shape)
    del joined.graph.input[:]
    joined.graph.input.append(given)
    return joined
