"""A rewritten graph as the structs of a HAL model: operands, operations, and the memory of constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npusim.frontends.nn_hal.enumerations import HalVersion, OperandLifeTime, OperandType, row_of
from npusim.frontends.nn_hal.export.nnapi_wording import Wording, wording
from npusim.frontends.nn_hal.operations.operation_row import ACTIVATIONS
from npusim.frontends.nn_hal.operations.operation_table import row
from npusim.frontends.nn_hal.operations.signatures import TENSORS, Slot, form
from npusim.frontends.nn_hal.structs import DataLocation, Model, Operand, Operation, SymmPerChannelQuantParams
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.graph import Graph, Node, call_of, quoted

VERSION = HalVersion.AIDL_V3
_ALIGNMENT = 4
_SCALARS = {"i": OperandType.INT32, "f": OperandType.FLOAT32, "h": OperandType.FLOAT16, "b": OperandType.BOOL}
_REALS = {"float32": OperandType.FLOAT32, "float16": OperandType.FLOAT16}
_ACTIVATIONS = {name: number for number, name in ACTIVATIONS.values.items()}
_WEIGHTED = ("conv_2d", "depthwise_conv_2d", "transpose_conv", "fully_connected")
_PLAIN = {
    "float32": OperandType.TENSOR_FLOAT32,
    "float16": OperandType.TENSOR_FLOAT16,
    "int32": OperandType.TENSOR_INT32,
    "bool": OperandType.TENSOR_BOOL8,
}
_CODES = {
    "uint8": OperandType.TENSOR_QUANT8_ASYMM,
    "int8": OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    "int16": OperandType.TENSOR_QUANT16_SYMM,
    "uint16": OperandType.TENSOR_QUANT16_ASYMM,
}


def model_of(graph: Graph) -> tuple[Model, dict[int, str]]:
    """Return the model of a graph, unchecked, and the names of its tensors by operand.

    Raises GraphError for a node or tensor that NNAPI does not have.
    """
    writing = _Writing(graph)
    model = writing.model()
    return model, {index: graph.tensors[number].name for (number, _), index in writing.at.items()}


def tensor_type(kind: TensorType, slot: str = "") -> OperandType:
    """Return the operand type of a tensor; slot: the kind in the signature, which may ask for a symmetric type."""
    scaling = kind.quantization
    if scaling is None and kind.dtype in _PLAIN:
        return _PLAIN[kind.dtype]
    if (
        scaling is not None
        and scaling.axis is not None
        and kind.dtype == "int8"
        and not any(scaling.zero_points)
    ):
        return OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
    if scaling is not None and scaling.axis is None and kind.dtype in _CODES:
        return TENSORS[slot] if slot in ("Q8SY", "Q16S") and kind.dtype != "uint8" else _CODES[kind.dtype]
    words = (
        ""
        if scaling is None
        else " values with one scale"
        if scaling.axis is None
        else " values with several scales"
    )
    raise GraphError(f"NNAPI has no tensors of {kind.dtype}{words}")


class _Writing:
    """A HAL model under construction; `at` maps a tensor of the graph and an operand type to the operand."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.operands: list[Operand] = []
        self.operations: list[Operation] = []
        self.memory = bytearray()
        self.at: dict[tuple[int, OperandType], int] = {}
        self.scales = {node.inputs[2]: self.sum_scale(node) for node in graph.nodes if node.op in _WEIGHTED}

    def model(self) -> Model:
        graph = self.graph
        inputs = [self.tensor(number) for number in graph.inputs]
        for node in graph.nodes:
            self.node(node)
        outputs = [self.tensor(number) for number in graph.outputs]
        for index in inputs:
            self.operands[index].lifetime = OperandLifeTime.MODEL_INPUT
        for number, index in zip(graph.outputs, outputs, strict=True):
            if self.operands[index].lifetime != OperandLifeTime.TEMPORARY_VARIABLE:
                name = quoted(graph.tensors[number].name)
                raise GraphError(
                    f"output {name} is an input, a constant or an output already, which NNAPI does not have"
                )
            self.operands[index].lifetime = OperandLifeTime.MODEL_OUTPUT
        for operation in self.operations:
            for index in operation.inputs:
                self.operands[index].numberOfConsumers += 1
        return Model(
            self.operands, self.operations, inputs, outputs, operandValues=bytes(self.memory), version=VERSION
        )

    # Operands

    def operand(self, operand: Operand) -> int:
        self.operands.append(operand)
        return len(self.operands) - 1

    def constant(self, operand: Operand, data: Array) -> int:
        """Add an operand with its value in the model's memory, and return its index."""
        self.memory += bytes(-len(self.memory) % _ALIGNMENT)
        content = np.ascontiguousarray(data).tobytes()
        operand.location = DataLocation(0, len(self.memory), len(content))
        operand.lifetime = OperandLifeTime.CONSTANT_COPY
        self.memory += content
        return self.operand(operand)

    def scalar(self, type_: OperandType, value: Any) -> int:
        """Add a scalar constant, and return its index."""
        element = row_of(type_).element
        assert element is not None
        return self.constant(Operand(type_), np.array(value, element))

    def whole_numbers(self, values: Any) -> int:
        """Add a constant TENSOR_INT32, and return its index."""
        data = np.asarray(values, np.int32)
        return self.constant(Operand(OperandType.TENSOR_INT32, list(data.shape)), data)

    def tensor(self, number: int, slot: str = "") -> int:
        """Return the operand of a tensor, with the type that a slot asks for."""
        tensor = self.graph.tensors[number]
        type_ = tensor_type(tensor.type, slot)
        key = number, type_
        if key not in self.at:
            operand = _operand(tensor.type, type_, self.scales.get(number, 0.0))
            if tensor.constant and tensor.array is None:
                raise GraphError(f"constant {quoted(tensor.name)} is known by its size only")
            index = self.operand(operand) if tensor.array is None else self.constant(operand, tensor.array)
            self.at[key] = index
        return self.at[key]

    def nothing(self, type_: OperandType) -> int:
        """Add an omitted operand, and return its index."""
        return self.operand(Operand(type_, lifetime=OperandLifeTime.NO_VALUE))

    # Operations

    def node(self, node: Node) -> None:
        words = wording(node.op, call_of(self.graph, node))
        entry = row(words.type)
        assert entry is not None, words.type
        signature = form(entry.forms[words.form])
        operands = iter(node.inputs)
        inputs: list[int] = []
        for slot in signature.inputs.every:
            inputs += self.argument(slot, node, words, operands)
        left = [number for number in operands if number is not None]
        if left:
            raise GraphError(f"NNAPI's {words.type.name} takes {len(left)} operands less")
        order = words.results or tuple(range(len(node.outputs)))
        if not any(slot.repeats for slot in signature.outputs.every):
            order = order[: len(signature.outputs.every)]
        outputs = [self.result(node, words, place) for place in order]
        self.operations.append(Operation(words.type, inputs, outputs))

    def argument(self, slot: Slot, node: Node, words: Wording, operands: Iterator[int | None]) -> list[int]:
        """Return the operands of an argument: its worded value, a parameter, or the next inputs of the node."""
        if slot.name in words.values:
            return [self.value(slot, words.values[slot.name], node)]
        parameters = node.parameters
        if slot.kind in _SCALARS or slot.kind == "s":
            if not hasattr(parameters, slot.name) and slot.default is None:
                raise GraphError(f"NNAPI's {words.type.name} asks for {slot.name}")
            return [self.value(slot, getattr(parameters, slot.name, slot.default), node)]
        if slot.kind == "I32" and hasattr(parameters, slot.name):
            return [self.whole_numbers(getattr(parameters, slot.name))]
        if slot.repeats:
            return [self.tensor(number, slot.kind) for number in operands if number is not None]
        number = next(operands, None)
        if number is None:
            return [self.nothing(_omitted(slot, words, self.main(node)))]
        return [self.tensor(number, slot.kind)]

    def value(self, slot: Slot, value: Any, node: Node) -> int:
        """Add a constant argument with the type of its slot, and return its index."""
        if isinstance(value, str):
            value = _ACTIVATIONS.get(value, 4)  # tanh, of cells
        if slot.kind == "I32":
            return self.whole_numbers(value)
        if slot.kind in _SCALARS:
            return self.scalar(_SCALARS[slot.kind], value)
        if slot.kind == "s":
            return self.scalar(_REALS.get(self.main(node).dtype, OperandType.FLOAT32), value)
        return self.scalar(_REALS.get(self.main(node).dtype, OperandType.INT32), value)

    def main(self, node: Node) -> TensorType:
        """Return the type of the first operand."""
        return self.graph.tensors[next(number for number in node.inputs if number is not None)].type

    def sum_scale(self, node: Node) -> float:
        """Return the bias scale that NNAPI requires: image scale times weight scale; 0 for per-channel weights."""
        kinds = [None if number is None else self.graph.tensors[number].type for number in node.inputs[:2]]
        scalings = [None if kind is None else kind.quantization for kind in kinds]
        if len(scalings) < 2 or any(scaling is None or scaling.axis is not None for scaling in scalings):
            return 0.0
        first, second = (np.float32(scaling.scale) for scaling in scalings if scaling is not None)
        return float(first * second)

    def result(self, node: Node, words: Wording, place: int) -> int:
        """Return the operand of a result of the node; place -1 is scratch memory that nobody reads."""
        if place >= len(node.outputs):
            raise GraphError(f"NNAPI's {words.type.name} gives its state, too")
        if place >= 0:
            return self.tensor(node.outputs[place])
        kind = self.main(node)
        return self.operand(Operand(tensor_type(kind), list(words.scratch)))


def _omitted(slot: Slot, words: Wording, main: TensorType) -> OperandType:
    """Return the type of an operand that has no value."""
    if slot.kind in TENSORS:
        return TENSORS[slot.kind]
    if not slot.optional:
        raise GraphError(f"NNAPI's {words.type.name} asks for {slot.name}")
    return tensor_type(main)


def _operand(kind: TensorType, type_: OperandType, scale: float) -> Operand:
    scaling = kind.quantization
    if not kind.shape:
        raise GraphError("NNAPI has no tensors without axes")
    if 0 in kind.shape:
        raise GraphError("NNAPI's sizes of 0 are sizes that are not known")
    operand = Operand(type_, list(kind.shape), scale=scale if type_ is OperandType.TENSOR_INT32 else 0.0)
    if scaling is not None and scaling.axis is not None:
        operand.extraParams = SymmPerChannelQuantParams(list(scaling.scales), scaling.axis)
    elif scaling is not None:
        operand.scale, operand.zeroPoint = scaling.scale, scaling.zero_point
    return operand
