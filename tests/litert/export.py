"""Graphs of npusim as TFLite files: for graphs made by hand or at random that LiteRT shall run as well.

Takes the operators that `tests/random_graphs.py` makes. A padding that is neither SAME nor none becomes an operator of
its own in front of a convolution, and a convolution without bias gets one of zeros, which LiteRT insists on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.geometry import same_padding
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operators.convolution.convolution import Convolution
from npusim.models.writer import ModelWriter

from .sample import ACTIVATION_CODES


def of(node: Node) -> Any:
    """The parameters of a node, of the type that its operator has."""
    return node.parameters


class _Export:
    """A graph on its way into a file: `at` is where each of its tensors is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.writer = ModelWriter(graph.name)
        self.at: dict[int, int] = {}
        for index in graph.inputs:
            tensor = graph.tensors[index]
            self.at[index] = self.writer.input(tensor.name, tensor.type)
        for index, tensor in enumerate(graph.tensors):
            if tensor.data is not None:
                self.at[index] = self.writer.tensor(tensor.name, tensor.type, tensor.data)

    def type(self, index: int) -> TensorType:
        return self.graph.tensors[index].type

    def operand(self, *values: int) -> int:
        return self.writer.constant("operand", np.array(values, np.int32))

    def write(
        self, node: Node, inputs: list[int | None], code: str = "", options: str = "", **fields: Any
    ) -> None:
        """The node as an operator; what it is called in TFLite is its own name unless given."""
        if isinstance(node.parameters, Activated):
            fields["FusedActivationFunction"] = ACTIVATION_CODES[node.parameters.activation]
        outputs = [self.type(index) for index in node.outputs]
        results = self.writer.operator_of_many(
            code or node.op.upper(), inputs, outputs, options=options, fields=fields
        )
        self.at |= dict(zip(node.outputs, results, strict=True))

    def inputs(self, node: Node) -> list[int | None]:
        return [None if index is None else self.at[index] for index in node.inputs]

    # Windows

    def window(self, node: Node, kernel: list[int]) -> tuple[bool, dict[str, Any]]:
        """Whether the padding needs an operator of its own, and the options."""
        window: Any = node.parameters
        first = node.inputs[0]
        assert first is not None
        size = self.type(first).shape[1:3]
        dilations = getattr(window, "dilations", (1, 1))
        axes = zip(size, kernel, window.strides, dilations, strict=True)
        same = tuple(same_padding(*axis) for axis in axes)
        none = window.padding == ((0, 0), (0, 0))
        apart = not none and window.padding != same
        fields = {
            "Padding": 1 if none or apart else 0,
            "StrideH": window.strides[0],
            "StrideW": window.strides[1],
        }
        if isinstance(window, Convolution):
            fields |= {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
        return apart, fields

    def convolution(self, node: Node, options: str, kernel_channels: int, **more: Any) -> None:
        ifm, weights, bias = self.inputs(node)
        weights_type = self.type(node.inputs[1])  # type: ignore[arg-type]
        apart, fields = self.window(node, list(weights_type.shape[1:3]))
        assert ifm is not None
        if apart:
            rows, columns = of(node).padding
            ifm = self.writer.pad(ifm, [(0, 0), rows, columns, (0, 0)])
        if bias is None:
            bias = self.writer.constant("bias", np.zeros(weights_type.shape[kernel_channels], np.int32))
        self.write(node, [ifm, weights, bias], options=options, **fields, **more)


def _conv(to: _Export, node: Node) -> None:
    to.convolution(node, "Conv2DOptions", 0)


def _depthwise(to: _Export, node: Node) -> None:
    multiplier = of(node).depth_multiplier
    to.convolution(node, "DepthwiseConv2DOptions", 3, DepthMultiplier=multiplier)


def _fully_connected(to: _Export, node: Node) -> None:
    to.write(node, to.inputs(node), options="FullyConnectedOptions")


def _binary(to: _Export, node: Node) -> None:
    to.write(node, to.inputs(node), options=f"{node.op.title()}Options")


def _pool(to: _Export, node: Node) -> None:
    height, width = of(node).filter
    apart, fields = to.window(node, [height, width])
    if apart:
        raise ValueError(f"{node.name}: a pool with padding {of(node).padding}")
    to.write(node, to.inputs(node), options="Pool2DOptions", FilterHeight=height, FilterWidth=width, **fields)


def _mean(to: _Export, node: Node) -> None:
    axes = to.operand(*of(node).axes)
    to.write(node, [*to.inputs(node), axes], options="ReducerOptions", KeepDims=of(node).keep_dims)


def _plain(to: _Export, node: Node) -> None:
    to.write(node, to.inputs(node))


def _softmax(to: _Export, node: Node) -> None:
    to.write(node, to.inputs(node), options="SoftmaxOptions", Beta=of(node).beta)


def _concatenation(to: _Export, node: Node) -> None:
    to.write(node, to.inputs(node), options="ConcatenationOptions", Axis=of(node).axis)


def _split(to: _Export, node: Node) -> None:
    axis = of(node).axis
    sizes = to.operand(*(to.type(index).shape[axis] for index in node.outputs))
    operands = [*to.inputs(node), sizes, to.writer.constant("axis", np.array(axis, np.int32))]
    to.write(node, operands, "SPLIT_V", "SplitVOptions", NumSplits=len(node.outputs))


def _pad(to: _Export, node: Node) -> None:
    pairs = to.writer.constant("paddings", np.array(of(node).paddings, np.int32))
    to.write(node, [*to.inputs(node), pairs], options="PadOptions")


def _transpose(to: _Export, node: Node) -> None:
    order = to.operand(*of(node).perm)
    to.write(node, [*to.inputs(node), order], options="TransposeOptions")


def _reshape(to: _Export, node: Node) -> None:
    shape = to.type(node.outputs[0]).shape
    to.write(node, [*to.inputs(node), to.operand(*shape)], options="ReshapeOptions", NewShape=shape)


def _resize(to: _Export, node: Node) -> None:
    size = to.operand(*to.type(node.outputs[0]).shape[1:3])
    flags = {"AlignCorners": "align_corners", "HalfPixelCenters": "half_pixel_centers"}
    fields = {name: getattr(node.parameters, key) for name, key in flags.items()}
    to.write(node, [*to.inputs(node), size], options="ResizeBilinearOptions", **fields)


_NODES: dict[str, Callable[[_Export, Node], None]] = {
    "add": _binary,
    "average_pool_2d": _pool,
    "concatenation": _concatenation,
    "conv_2d": _conv,
    "depthwise_conv_2d": _depthwise,
    "fully_connected": _fully_connected,
    "logistic": _plain,
    "max_pool_2d": _pool,
    "mean": _mean,
    "mul": _binary,
    "pad": _pad,
    "quantize": _plain,
    "reshape": _reshape,
    "resize_bilinear": _resize,
    "softmax": _softmax,
    "split": _split,
    "sub": _binary,
    "transpose": _transpose,
}


def export(graph: Graph) -> tuple[ModelWriter, list[int]]:
    """A writer that holds the graph, and its outputs there."""
    found = _Export(graph)
    for node in graph.nodes:
        _NODES[node.op](found, node)
    return found.writer, [found.at[index] for index in graph.outputs]


def to_tflite(graph: Graph) -> bytes:
    """The graph as a TFLite file, with inputs and outputs in its order."""
    writer, outputs = export(graph)
    return writer.finish(outputs)
