"""Turns lists of tensors and operators into the bytes of a TensorFlow Lite file, with the versions of operators.

The file is a FlatBuffer of the public schema; the table builders are those of the PyPI package `tflite`.
Nothing here knows an operator: see `npusim.frontends.tflite.export` and `npusim.models.writer` for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Quantization, TensorType

SCHEMA_VERSION = 3
FILE_IDENTIFIER = b"TFL3"

# The schema wants the data of every buffer 16-byte aligned (`force_align: 16`), so that it can be mapped.
_BUFFER_ALIGNMENT = 16

# BuiltinOperator codes above this one do not fit the int8 field of the first schema versions.
_PLACEHOLDER_CODE = 127

Fields = Mapping[str, int | float | bool | tuple[int, ...]]
"""Values of an options table by the schema's names; a tuple stands for a vector of int32."""


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor of the file; `data` is None for activations and for variables, which keep a state.

    packed: int8 values that 4 bits hold are stored so, as INT4, two in a byte.
    """

    name: str
    type: TensorType
    data: Array | None = None
    variable: bool = False
    packed: bool = False

    @property
    def stored(self) -> Array | None:
        """The data as the file holds it."""
        if self.data is None or not self.packed:
            return self.data
        halves: Any = np.append(self.data.ravel(), np.zeros(self.data.size % 2, np.int8)).reshape(-1, 2)
        return np.asarray((halves[:, 0] & 15) | np.left_shift(halves[:, 1], 4))


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An operator of the file.

    `code` is a name of the schema's BuiltinOperator, `options` the table of BuiltinOptions that goes with it
    ("" for none) and `fields` the values of that table. A custom operator is "CUSTOM" and its name, and has
    `custom_options`. `intermediates` are tensors that only hold scales.
    """

    code: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: str = ""
    fields: Fields | None = None
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileSubgraph:
    """A subgraph of the file; operators, inputs and outputs number its tensors."""

    name: str
    tensors: Sequence[FileTensor]
    operators: Sequence[FileOperator]
    inputs: Sequence[int]
    outputs: Sequence[int]


def serialize(description: str, subgraphs: Sequence[FileSubgraph]) -> bytes:
    """Return the bytes of a model, whose first subgraph is the network; equal arguments give equal bytes."""
    return _Serializer(subgraphs).model(description)


class _Serializer:
    """One FlatBuffer under construction. FlatBuffers grow from the end: children come before parents."""

    def __init__(self, subgraphs: Sequence[FileSubgraph]) -> None:
        # Not at the top of the file: these two take longer to import than a stored model takes to load.
        import flatbuffers
        import tflite

        self._schema: Any = tflite
        self._subgraphs = subgraphs
        self._codes = list(
            dict.fromkeys((op.code, op.version) for subgraph in subgraphs for op in subgraph.operators)
        )
        self._constants = [
            data
            for subgraph in subgraphs
            for tensor in subgraph.tensors
            if (data := tensor.stored) is not None
        ]
        payload = sum(data.nbytes for data in self._constants)
        # A builder that is too small doubles its buffer by copying it, which is slow for large models.
        self._builder: Any = flatbuffers.Builder(payload + payload // 4 + 65536)

    def model(self, description: str) -> bytes:
        # Buffer 0 is empty by convention: tensors without data refer to it.
        buffers = self._tables([self._table("Buffer"), *(self._buffer(data) for data in self._constants)])
        numbers = iter(range(1, len(self._constants) + 1))
        subgraphs = self._tables([self._subgraph(subgraph, numbers) for subgraph in self._subgraphs])
        model = self._table(
            "Model",
            Version=SCHEMA_VERSION,
            Description=self._builder.CreateString(description),
            OperatorCodes=self._tables([self._operator_code(code, version) for code, version in self._codes]),
            Subgraphs=subgraphs,
            Buffers=buffers,
        )
        self._builder.Finish(model, FILE_IDENTIFIER)
        return bytes(memoryview(self._builder.Bytes)[self._builder.Head() :])

    def _subgraph(self, subgraph: FileSubgraph, numbers: Iterator[int]) -> int:
        rows = [self._tensor(t, 0 if t.data is None else next(numbers)) for t in subgraph.tensors]
        return self._table(
            "SubGraph",
            Name=self._builder.CreateString(subgraph.name),
            Tensors=self._tables(rows),
            Inputs=self._vector(subgraph.inputs, np.int32),
            Outputs=self._vector(subgraph.outputs, np.int32),
            Operators=self._tables([self._operator(operator) for operator in subgraph.operators]),
        )

    def _buffer(self, data: Array) -> int:
        raw = np.ascontiguousarray(data).tobytes()
        # Leaves room such that the first byte of the vector written next lands on the alignment.
        self._builder.Prep(_BUFFER_ALIGNMENT, len(raw))
        return self._table("Buffer", Data=self._builder.CreateByteVector(raw))

    def _tensor(self, tensor: FileTensor, buffer: int) -> int:
        fields: dict[str, Any] = {
            "Shape": self._vector(tensor.type.shape, np.int32),
            "Type": getattr(self._schema.TensorType, "INT4" if tensor.packed else tensor.type.dtype.upper()),
            "Buffer": buffer,
            "Name": self._builder.CreateString(tensor.name),
        }
        if tensor.variable:
            fields["IsVariable"] = True
        if tensor.type.quantization is not None:
            fields["Quantization"] = self._quantization(tensor.type.quantization)
        return self._table("Tensor", **fields)

    def _quantization(self, quantization: Quantization) -> int:
        return self._table(
            "QuantizationParameters",
            Scale=self._vector(quantization.scales, np.float32),
            ZeroPoint=self._vector(quantization.zero_points, np.int64),
            QuantizedDimension=quantization.axis or 0,
        )

    def _operator_code(self, code: str, version: int) -> int:
        builtin, _, custom = code.partition(" ")
        number = getattr(self._schema.BuiltinOperator, builtin)
        fields = {
            "DeprecatedBuiltinCode": min(number, _PLACEHOLDER_CODE),
            "BuiltinCode": number,
            "Version": version,
        }
        if custom:
            fields["CustomCode"] = self._builder.CreateString(custom)
        return self._table("OperatorCode", **fields)

    def _operator(self, operator: FileOperator) -> int:
        fields: dict[str, Any] = {
            "OpcodeIndex": self._codes.index((operator.code, operator.version)),
            "Inputs": self._vector(operator.inputs, np.int32),
            "Outputs": self._vector(operator.outputs, np.int32),
        }
        if operator.options:
            values = {
                key: self._vector(value, np.int32) if isinstance(value, tuple) else value
                for key, value in (operator.fields or {}).items()
            }
            fields["BuiltinOptionsType"] = getattr(self._schema.BuiltinOptions, operator.options)
            fields["BuiltinOptions"] = self._table(operator.options, **values)
        if operator.custom_options:
            fields["CustomOptions"] = self._builder.CreateByteVector(operator.custom_options)
        if operator.intermediates:
            fields["Intermediates"] = self._vector(operator.intermediates, np.int32)
        return self._table("Operator", **fields)

    def _table(self, table: str, **fields: Any) -> int:
        getattr(self._schema, f"{table}Start")(self._builder)
        for field, value in fields.items():
            getattr(self._schema, f"{table}Add{field}")(self._builder, value)
        return int(getattr(self._schema, f"{table}End")(self._builder))

    def _vector(self, values: Sequence[float] | Sequence[int], dtype: type[np.generic]) -> int:
        return int(self._builder.CreateNumpyVector(np.asarray(values, dtype)))

    def _tables(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())


_INT8_VERSIONS = {
    "ADD": 2, "AVERAGE_POOL_2D": 2, "CONCATENATION": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "DEQUANTIZE": 2,
    "ARG_MAX": 2, "FULLY_CONNECTED": 4, "LEAKY_RELU": 2, "LOGISTIC": 2, "MAXIMUM": 2, "MAX_POOL_2D": 2, "MEAN": 2,
    "MINIMUM": 2, "MUL": 2, "PAD": 2, "PADV2": 2, "RELU": 2, "RELU6": 2, "RESIZE_BILINEAR": 2,
    "RESIZE_NEAREST_NEIGHBOR": 2, "SLICE": 2, "SOFTMAX": 2, "SPLIT": 2, "SPLIT_V": 2, "STRIDED_SLICE": 2, "SUB": 2,
    "TANH": 2, "TRANSPOSE": 2,
}  # fmt: skip
"""Version of each operator that first accepts int8 tensors; those for uint8 and float32 are version 1.
A reader refuses versions it does not know. Operators that are not here took int8 from the beginning."""
_DYNAMIC_VERSIONS = {"CONV_2D": 5, "DEPTHWISE_CONV_2D": 6, "FULLY_CONNECTED": 9, "BATCH_MATMUL": 3}
"""Version of each operator that first accepts int8 weights beside float32 activations, with a scale per channel or
with asymmetric rows."""
_FULLY_CONNECTED_PER_CHANNEL = 12
_FIRST = {"BROADCAST_TO": 2}
"""First version of operators without a version 1."""


def version(code: str, first: TensorType, weights: TensorType | None = None) -> int:
    """Return the version of a builtin operator; first, weights: the types of its first and second operand."""
    by_channel = (
        weights is not None and weights.quantization is not None and weights.quantization.axis is not None
    )
    if code == "FULLY_CONNECTED" and by_channel:
        return _FULLY_CONNECTED_PER_CHANNEL
    if weights is not None and (first.dtype, weights.dtype) == ("float32", "int8"):
        return _DYNAMIC_VERSIONS.get(code, 1)
    least = _FIRST.get(code, 1)
    return _INT8_VERSIONS.get(code, least) if first.dtype == "int8" else least
