"""Files of ONNX to plain values, through the package `onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from npusim.frontends.onnx.elements import NARROW, held_type, type_name
from npusim.frontends.onnx.network import STANDARD, Network, Node, Value
from npusim.frontends.onnx.order import in_order
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.names import quoted

OLDEST_OPSET = 11
"""Of ONNX's own operations; older ones mean other things by the same names."""


def parsed(path: Path) -> Network:
    """The network of a file. Raises FormatError for a file that is none, or whose data lie elsewhere."""
    onnx = _library()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(user_file.contents(path, user_file.MODEL, FormatError, ""))
    except Exception as fault:  # protobuf has several errors of its own
        raise FormatError(f"is no ONNX model: {_line(fault)}") from None
    if not model.HasField("graph") or not model.graph.node:
        raise FormatError("is no ONNX model: it has no graph with nodes")
    opsets = {_domain(entry.domain): int(entry.version) for entry in model.opset_import}
    _check_opset(opsets.get(STANDARD), onnx.defs.onnx_opset_version())
    return _network(model.graph, opsets, path.parent)


def _library() -> Any:
    try:
        import onnx
    except ImportError:
        raise FormatError("is an ONNX model, which takes: pip install 'npusim[onnx]'") from None
    return onnx


def _check_opset(version: int | None, newest: int) -> None:
    if version is None:
        raise FormatError("says no version of ONNX's operations (opset_import)")
    if not OLDEST_OPSET <= version <= newest:
        raise FormatError(
            f"has operations of version {version} (opset_import); npusim and the onnx that is installed read "
            f"{OLDEST_OPSET} to {newest}"
        )


def _domain(name: str) -> str:
    return STANDARD if name == "ai.onnx" else name


def _network(graph: Any, opsets: dict[str, int], folder: Path) -> Network:
    constants = {tensor.name: _array(tensor, folder) for tensor in graph.initializer}
    inputs = tuple(_value(each) for each in graph.input if each.name not in constants)
    read = [_node(each, number, opsets, folder) for number, each in enumerate(graph.node)]
    constants |= {node.outputs[0]: node.attributes["value"] for node in read if _is_constant(node)}
    nodes = in_order([node for node in read if not _is_constant(node)])
    outputs = tuple(each.name for each in graph.output)
    return Network(graph.name, nodes, constants, inputs, outputs, opsets, narrow=_narrow(graph))


def _narrow(graph: Any) -> dict[str, int]:
    """How many bits constants and inputs have whose elements are less than a byte."""
    types = {each.name: each.type.tensor_type.elem_type for each in graph.input}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            if (node.op_type, attribute.name) == ("Constant", "value") and node.output:
                types[node.output[0]] = attribute.t.data_type
    held = {name: NARROW.get(type_name(code)) for name, code in types.items() if code}
    return {name: how[1] for name, how in held.items() if how is not None}


def _node(node: Any, number: int, opsets: dict[str, int], folder: Path) -> Node:
    import onnx

    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            attributes[attribute.name] = _array(attribute.t, folder)
        elif attribute.type == onnx.AttributeProto.GRAPH:
            attributes[attribute.name] = _network(attribute.g, opsets, folder)
        else:
            value = onnx.helper.get_attribute_value(attribute)
            attributes[attribute.name] = _plain(value)
    name = node.name or (node.output[0] if node.output else "") or f"{node.op_type}_{number}"
    return Node(node.op_type, _domain(node.domain), name, tuple(node.input), tuple(node.output), attributes)


def _is_constant(node: Node) -> bool:
    """Whether a node is an array and nothing else."""
    kind = (node.domain, node.operation)
    return kind == (STANDARD, "Constant") and isinstance(node.attributes.get("value"), np.ndarray)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (int, float, str)):
        return value
    return [_plain(item) for item in value]


def _array(tensor: Any, folder: Path) -> Array:
    import onnx

    try:
        array = onnx.numpy_helper.to_array(tensor, str(folder))
    except Exception as fault:  # the package raises what it comes across
        raise FormatError(f"constant {quoted(tensor.name)}: {_line(fault)}") from None
    held = NARROW.get(array.dtype.name)
    return np.ascontiguousarray(array.astype(held[0]) if held else array).reshape(array.shape)


def _value(value: Any) -> Value:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise FormatError(f"input {quoted(value.name)} is no tensor")
    sizes = None
    if kind.HasField("shape"):
        sizes = tuple(
            int(size.dim_value) if size.HasField("dim_value") else str(size.dim_param)
            for size in kind.shape.dim
        )
    return Value(value.name, held_type(kind.elem_type)[0], sizes)


def _line(fault: Exception) -> str:
    return " ".join(str(fault).split())[:200] or type(fault).__name__
