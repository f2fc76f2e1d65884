"""Graphs of quantized networks as models of the HAL: what a TensorFlow Lite delegate would hand to the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import npusim.hal as hal
from npusim.hal import HalVersion, OperandLifeTime, OperandType, OperationType
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.graph import Graph, Node

_ACTIVATIONS = {"none": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}
_TYPES = {
    "int8": OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    "uint8": OperandType.TENSOR_QUANT8_ASYMM,
    "int32": OperandType.TENSOR_INT32,
    "float32": OperandType.TENSOR_FLOAT32,
}


class _Maker:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.operands: list[hal.Operand] = []
        self.operations: list[hal.Operation] = []
        self.values = bytearray()
        self.numbers: dict[int, int] = {}

    def operand(self, tensor: int) -> int:
        """The operand of a tensor."""
        if tensor not in self.numbers:
            self.numbers[tensor] = len(self.operands)
            self.operands.append(self._operand(tensor))
        return self.numbers[tensor]

    def _operand(self, tensor: int) -> hal.Operand:
        said = self.graph.tensors[tensor]
        made = _typed(said.type)
        if said.array is not None:
            self._place(made, said.array)
        elif tensor in self.graph.inputs:
            made.lifetime = OperandLifeTime.MODEL_INPUT
        elif tensor in self.graph.outputs:
            made.lifetime = OperandLifeTime.MODEL_OUTPUT
        return made

    def constant(self, kind: OperandType, value: Any) -> int:
        """An operand that holds a number, or numbers."""
        dtype = np.float32 if kind == OperandType.FLOAT32 else bool if kind == OperandType.BOOL else np.int32
        array = np.array(value, dtype)
        self._place(operand := hal.Operand(kind, array.shape), array)
        self.operands.append(operand)
        return len(self.operands) - 1

    def scalar(self, value: int) -> int:
        """An INT32."""
        return self.constant(OperandType.INT32, value)

    def _place(self, operand: hal.Operand, array: np.ndarray[Any, Any]) -> None:
        operand.lifetime = OperandLifeTime.CONSTANT_COPY
        operand.location = hal.DataLocation(0, len(self.values), array.nbytes)
        self.values += np.ascontiguousarray(array).tobytes()

    def add(self, node: Node) -> None:
        """The operation of a node."""
        kind, further = _ROWS[node.op](self, node)
        taken = [self.operand(number) for number in node.inputs if number is not None]
        self.operations.append(hal.Operation(kind, taken + further, [self.operand(n) for n in node.outputs]))


def _typed(kind: TensorType) -> hal.Operand:
    scheme = kind.quantization
    if scheme is None:
        return hal.Operand(_TYPES[kind.dtype], kind.shape)
    if len(scheme.scales) == 1:
        return hal.Operand(_TYPES[kind.dtype], kind.shape, scale=scheme.scale, zeroPoint=scheme.zero_point)
    if kind.dtype == "int32":
        return hal.Operand(OperandType.TENSOR_INT32, kind.shape)
    assert scheme.axis is not None
    channels = hal.SymmPerChannelQuantParams(scheme.scales, scheme.axis)
    return hal.Operand(OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, kind.shape, extraParams=channels)


def _sliding(maker: _Maker, node: Node) -> list[int]:
    """Left, right, top, bottom, then the steps right and down."""
    (top, bottom), (left, right) = node.parameters.padding  # type: ignore[attr-defined]
    down, along = node.parameters.strides  # type: ignore[attr-defined]
    return [maker.scalar(value) for value in (left, right, top, bottom, along, down)]


def _activation(maker: _Maker, node: Node) -> int:
    return maker.scalar(_ACTIVATIONS[node.parameters.activation])  # type: ignore[attr-defined]


def _convolution(maker: _Maker, node: Node) -> tuple[OperationType, list[int]]:
    return OperationType.CONV_2D, [*_sliding(maker, node), _activation(maker, node)]


def _depthwise(maker: _Maker, node: Node) -> tuple[OperationType, list[int]]:
    multiplier = maker.scalar(node.parameters.depth_multiplier)  # type: ignore[attr-defined]
    return OperationType.DEPTHWISE_CONV_2D, [*_sliding(maker, node), multiplier, _activation(maker, node)]


def _pool(kind: OperationType) -> Callable[[_Maker, Node], tuple[OperationType, list[int]]]:
    def further(maker: _Maker, node: Node) -> tuple[OperationType, list[int]]:
        height, width = node.parameters.filter  # type: ignore[attr-defined]
        window = [maker.scalar(width), maker.scalar(height)]
        return kind, [*_sliding(maker, node), *window, _activation(maker, node)]

    return further


def _activated(kind: OperationType) -> Callable[[_Maker, Node], tuple[OperationType, list[int]]]:
    return lambda maker, node: (kind, [_activation(maker, node)])


def _mean(maker: _Maker, node: Node) -> tuple[OperationType, list[int]]:
    axes = maker.constant(OperandType.TENSOR_INT32, node.parameters.axes)  # type: ignore[attr-defined]
    return OperationType.MEAN, [axes, maker.scalar(node.parameters.keep_dims)]  # type: ignore[attr-defined]


def _reshape(maker: _Maker, node: Node) -> tuple[OperationType, list[int]]:
    shape = maker.constant(OperandType.TENSOR_INT32, node.parameters.shape)  # type: ignore[attr-defined]
    return OperationType.RESHAPE, [shape]


def _softmax(maker: _Maker, node: Node) -> tuple[OperationType, list[int]]:
    return OperationType.SOFTMAX, [maker.constant(OperandType.FLOAT32, node.parameters.beta)]  # type: ignore[attr-defined]


_ROWS: dict[str, Callable[[_Maker, Node], tuple[OperationType, list[int]]]] = {
    "conv_2d": _convolution,
    "depthwise_conv_2d": _depthwise,
    "average_pool_2d": _pool(OperationType.AVERAGE_POOL_2D),
    "max_pool_2d": _pool(OperationType.MAX_POOL_2D),
    "add": _activated(OperationType.ADD),
    "fully_connected": _activated(OperationType.FULLY_CONNECTED),
    "mean": _mean,
    "reshape": _reshape,
    "softmax": _softmax,
}


def model_of(graph: Graph) -> hal.Model:
    """A graph of these operators as a model of version 1.3; raises KeyError for others."""
    maker = _Maker(graph)
    inputs = [maker.operand(number) for number in graph.inputs]
    for node in graph.nodes:
        maker.add(node)
    uses = Counter(number for operation in maker.operations for number in operation.inputs)
    for number, operand in enumerate(maker.operands):
        operand.numberOfConsumers = uses[number]
    outputs = [maker.operand(number) for number in graph.outputs]
    return hal.Model(
        maker.operands,
        maker.operations,
        inputs,
        outputs,
        operandValues=bytes(maker.values),
        version=HalVersion.V1_3,
    )


def request_of(graph: Graph, values: list[np.ndarray[Any, Any]]) -> tuple[hal.Request, bytearray]:
    """A request with these inputs, and the pool that all outputs go to, one behind the other."""
    given, arguments = bytearray(), []
    for value in values:
        location = hal.DataLocation(0, len(given), value.nbytes)
        arguments.append(hal.RequestArgument(location=location))
        given += value.tobytes()
    sizes = [graph.tensors[number].type.size_bytes for number in graph.outputs]
    written = bytearray(sum(sizes))
    results = [
        hal.RequestArgument(location=hal.DataLocation(1, sum(sizes[:position]), size))
        for position, size in enumerate(sizes)
    ]
    return hal.Request(arguments, results, [given, written]), written


def of_one_scale(graph: Graph) -> Graph:
    """A graph whose means have the scale of their input, which NNAPI demands; biases behind them have the product."""
    tensors = list(graph.tensors)

    def scaled(number: int, like: int, *by: int) -> None:
        first = tensors[like].type.quantization
        assert first is not None
        scales = first.scales
        for other in by:
            scheme = tensors[other].type.quantization
            assert scheme is not None
            scales = tuple(float(np.float32(scales[0] * scale)) for scale in scheme.scales)
        zeros = (0,) * len(scales) if by else first.zero_points
        kind = replace(tensors[number].type, quantization=Quantization(scales, zeros))
        tensors[number] = replace(tensors[number], type=kind)

    for node in graph.nodes:
        if node.op == "mean":
            scaled(node.outputs[0], _number(node, 0))
        elif node.op == "fully_connected":
            scaled(_number(node, 2), _number(node, 0), _number(node, 1))
    return replace(graph, tensors=tuple(tensors))


def _number(node: Node, position: int) -> int:
    number = node.inputs[position]
    assert number is not None
    return number
