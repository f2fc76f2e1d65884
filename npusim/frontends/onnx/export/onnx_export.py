"""The construction of an ONNX model from a graph: nodes, constants, dequantized and quantized tensors.

Images are channels-first in ONNX. They are transposed when an operation needs the other order, and stay as they are
through operations that can follow either order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npusim.frontends.written_layers import LIMITS, Layer, Writing
from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import Graph, unique

OPSET = 21
"""The first version that has 16-bit quantized values."""
_FORMAT = 10
"""The file format version that goes with it."""
TO_FIRST = (0, 3, 1, 2)
TO_LAST = (0, 2, 3, 1)
FIRST_AXIS = (0, 2, 3, 1)
"""The place of each axis of an image when its channels come first."""
_CODES = ("int8", "uint8", "int16", "uint16")

MICROSOFT = "com.microsoft"
FUSED = ("QLinearAdd", "QLinearMul", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax")
"""The domain of ONNX Runtime's operations on quantized values."""

Convert = Callable[["Export", Layer], None]


@dataclass(slots=True)
class Operation:
    """A node of the model."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]

    @property
    def domain(self) -> str:
        """The domain of the operation."""
        return MICROSOFT if self.kind in FUSED else ""


class Export(Writing):
    """An ONNX model under construction. The model quantizes the same tensors as the graph that it is made from."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.operations: list[Operation] = []
        self.constants: dict[str, Array] = {}
        self._uses: dict[str, int] = {}
        self._names = {
            number: unique(graph.tensors[number].name.split(";")[0] or "tensor", self._uses)
            for number in dict.fromkeys((*graph.inputs, *graph.outputs, *range(len(graph.tensors))))
        }
        self._dequantized: dict[str, str] = {}

    def model(self, convert: Convert) -> Any:
        """Return the ModelProto; `convert` adds the operations of a node."""
        from onnx import helper

        graph = self.graph
        for number in graph.inputs:
            self.lasts[number] = self._names[number]
        self.convert_all(lambda layer: convert(self, layer))
        outputs = [self._output(number, position) for position, number in enumerate(graph.outputs)]
        body = helper.make_graph(
            [
                helper.make_node(op.kind, op.inputs, op.outputs, domain=op.domain, **op.attributes)
                for op in self.operations
            ],
            graph.name or "graph",
            [_value(self.lasts[number], self.kind(number)) for number in graph.inputs],
            [_value(name, self.kind(number)) for name, number in zip(outputs, graph.outputs, strict=True)],
            [_initializer(name, array) for name, array in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        if any(op.domain for op in self.operations):
            opsets.append(helper.make_opsetid(MICROSOFT, 1))
        model = helper.make_model(body, producer_name="npusim", opset_imports=opsets)
        model.ir_version = _FORMAT
        return model

    def _output(self, number: int, position: int) -> str:
        """Return an output under the tensor's name, unless an input, a constant or another output has it."""
        name, own = self.last(number), self._names[number]
        taken = {*self.constants, *(self._names[other] for other in self.graph.inputs)}
        if name == own and own not in taken and number not in self.graph.outputs[:position]:
            return name
        copy = self.op("Identity", name, label=f"{own}_out")
        if name != own and own not in taken and number not in self.graph.outputs[:position]:
            self.settle(number, copy)
            return own
        return copy

    # Names, constants, operations

    def op(self, kind: str, *inputs: str, label: str = "", **attributes: Any) -> str:
        """Add an operation with one result, and return its name."""
        return self.ops(kind, inputs, 1, label=label, **attributes)[0]

    def ops(
        self, kind: str, inputs: Sequence[str], count: int, label: str = "", **attributes: Any
    ) -> list[str]:
        """Add an operation with several results, and return their names."""
        stem = label or f"{inputs[0] or kind}/{kind}"
        outputs = [unique(stem, self._uses) for _ in range(count)]
        self.operations.append(Operation(kind, list(inputs), outputs, attributes))
        return outputs

    def constant(self, values: Any, dtype: str, label: str = "constant") -> str:
        """Add a constant, and return its name."""
        name = unique(label, self._uses)
        self.constants[name] = np.ascontiguousarray(np.asarray(values, dtype)).reshape(np.shape(values))
        return name

    def whole(self, *values: int) -> str:
        """Add a constant list of integers."""
        return self.constant(np.array(values, np.int64), "int64", "sizes")

    def number(self, value: float, number: int) -> str:
        """Add a constant number of the float type in which a tensor is computed."""
        return self.constant(np.array(value), self.real_type(number), "number")

    def real_type(self, number: int) -> str:
        """Return the float type in which a tensor is computed."""
        kind = self.kind(number)
        return "float32" if kind.quantization is not None else kind.dtype

    # Tensors

    def array(self, number: int) -> Array | None:
        """Return the data of a constant; None for others."""
        tensor = self.graph.tensors[number]
        if tensor.constant and tensor.array is None:
            raise GraphError(f"its constant {tensor.name!r} is known by its size only")
        return tensor.array

    def last(self, number: int) -> str:
        """Return a tensor in the graph's order of axes."""
        if number not in self.lasts:
            data = self.array(number)
            if data is not None:
                self.constants[self._names[number]] = data
                self.lasts[number] = self._names[number]
            else:
                self.settle(number, self.op("Transpose", self.firsts[number], perm=TO_LAST))
        return self.lasts[number]

    def first(self, number: int) -> str:
        """Return an image channels-first."""
        if number not in self.firsts:
            data, name = self.array(number), f"{self._names[number]}_nchw"
            if data is not None:
                self.firsts[number] = self.constant(data.transpose(TO_FIRST), data.dtype.name, name)
            else:
                self.firsts[number] = self.op("Transpose", self.last(number), label=name, perm=TO_FIRST)
        return self.firsts[number]

    def follows(self, *numbers: int) -> bool:
        """Return whether images may stay channels-first: one is so, and all have four axes."""
        return any(map(self.is_first, numbers)) and all(len(self.shape(number)) == 4 for number in numbers)

    def at(self, number: int, first: bool) -> str:
        """Return a tensor in one of the two orders."""
        return self.first(number) if first else self.last(number)

    def real(self, number: int, first: bool = False) -> str:
        """Return a tensor dequantized, or as it is if it is not quantized."""
        return self.dequantised(self.at(number, first), self.kind(number), first)

    def dequantised(self, name: str, kind: TensorType, first: bool = False) -> str:
        """Return the dequantized value of a quantized tensor."""
        if kind.quantization is None:
            return name
        if name not in self._dequantized:
            scaling = kind.quantization
            axis = scaling.axis
            if axis is not None and first:
                axis = FIRST_AXIS[axis]
            self._dequantized[name] = self.dequantize(name, kind.dtype, scaling, axis)
        return self._dequantized[name]

    def dequantize(self, name: str, dtype: str, scaling: Quantization, axis: int | None) -> str:
        """Return DequantizeLinear with scales along an axis."""
        along: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.op("DequantizeLinear", name, *self._scale(name, dtype, scaling, axis), **along)

    def _scale(self, name: str, dtype: str, scaling: Quantization, axis: int | None) -> tuple[str, str]:
        scales, zeros = np.array(scaling.scales, np.float32), np.array(scaling.zero_points, np.int64)
        if axis is None:
            scales, zeros = scales.reshape(()), zeros.reshape(())
        return (
            self.constant(scales, "float32", f"{name}/scale"),
            self.constant(zeros, dtype, f"{name}/zero_point"),
        )

    def wide(self, name: str, dtype: str, back: bool = False) -> str:
        """Return a tensor of a rare type as int32; `back` converts the result to its type again."""
        return self.op("Cast", name, to=_element(dtype if back else "int32"))

    # Results

    def settle(self, number: int, name: str, first: bool = False) -> None:
        """Make the last operation's result, called `name`, a tensor of the graph; in the graph's order it has its
        name.
        """
        if first:
            self.firsts[number] = name
            return
        operation = self.operations[-1]
        if name in operation.outputs:
            operation.outputs[operation.outputs.index(name)] = self._names[number]
            name = self._names[number]
        self.lasts[number] = name

    def result(self, layer: Layer, name: str, first: bool = False) -> None:
        """Set the float result of a layer, followed by its activation and quantization."""
        number = layer.result
        activation = getattr(layer.params, "activation", "none")
        if activation != "none" and self.real_type(number) not in ("float32", "float16"):
            name = self._limited(name, number, activation)
        elif activation == "relu":
            name = self.op("Relu", name)
        elif activation in LIMITS:
            limits = (self.number(limit, number) for limit in LIMITS[activation])
            name = self.op("Clip", name, *limits)
        self.settle(number, self.quantised(name, self.kind(number), first), first)

    def _limited(self, name: str, number: int, activation: str) -> str:
        """Return integers limited as an activation does, where Relu and Clip do not take the type."""
        least, most = LIMITS.get(activation, (0.0, None))
        name = self.op("Max", name, self.number(int(least), number))
        return name if most is None else self.op("Min", name, self.number(int(most), number))

    def quantised(self, name: str, kind: TensorType, first: bool = False) -> str:
        """Return floats quantized to a type; as they are for a type without quantization."""
        scaling = kind.quantization
        if scaling is None:
            return name
        if kind.dtype not in _CODES:
            raise GraphError(f"ONNX computes on no quantized values of {kind.dtype}")
        axis = scaling.axis
        if axis is not None and first:
            axis = FIRST_AXIS[axis]
        along: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.op("QuantizeLinear", name, *self._scale(name, kind.dtype, scaling, axis), **along)

    def coded(self, number: int, first: bool = False) -> tuple[str, str, str]:
        """Return a tensor's quantized values, scale and zero point, as operations on quantized values take them."""
        kind, name = self.kind(number), self.at(number, first)
        if kind.quantization is None or kind.quantization.axis is not None:
            raise GraphError("ONNX's operations on quantized values take one scale")
        return (name, *self._scale(name, kind.dtype, kind.quantization, None))

    def scale_of(self, number: int) -> tuple[str, str]:
        """Return the scale and zero point of a result."""
        kind = self.kind(number)
        if kind.quantization is None or kind.quantization.axis is not None:
            raise GraphError("ONNX's operations on quantized values give one scale")
        return self._scale(self._names[number], kind.dtype, kind.quantization, None)


def _value(name: str, kind: TensorType) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, _element(kind.dtype), list(kind.shape))


def _element(dtype: str) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _initializer(name: str, array: Array) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
