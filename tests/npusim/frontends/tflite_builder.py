"""TFLite files for tests, good and bad: every field of every table can be set, and nothing is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite


@dataclass
class Table:
    """A table of the schema; a field is a number, a str, a numpy vector, a Table or a list of Tables."""

    kind: str
    fields: dict[str, Any]


def table(kind: str, **fields: Any) -> Table:
    return Table(kind, {name: value for name, value in fields.items() if value is not None})


def serialize(root: Table, identifier: bytes = b"TFL3") -> bytes:
    """The bytes of a file. A table or vector that is the same object in several places is stored once."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(_write(builder, root, {}), identifier)
    return bytes(builder.Output())


def _write(builder: Any, value: Any, written: dict[int, Any]) -> Any:
    """Writes children first, as flatbuffers demand; the result goes into the parent's field."""
    if not isinstance(value, Table | str | bytes | np.ndarray | list):
        return value
    if id(value) not in written:
        written[id(value)] = _write_new(builder, value, written)
    return written[id(value)]


def _write_new(builder: Any, value: Any, written: dict[int, Any]) -> Any:
    if isinstance(value, str | bytes):
        return builder.CreateString(value)
    if isinstance(value, np.ndarray):
        return builder.CreateNumpyVector(value)
    if isinstance(value, list):
        offsets = [_write(builder, child, written) for child in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    children = {name: _write(builder, child, written) for name, child in value.fields.items()}
    getattr(tflite, f"{value.kind}Start")(builder)
    for name, child in children.items():
        getattr(tflite, f"{value.kind}Add{name}")(builder, child)
    return getattr(tflite, f"{value.kind}End")(builder)


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@dataclass
class Builder:
    """A model with one subgraph. Tensors go by their number; the tables can be changed until `file`."""

    tensors: list[Table] = field(default_factory=list)
    operators: list[Table] = field(default_factory=list)
    codes: list[Table] = field(default_factory=list)
    buffers: list[Table] = field(default_factory=lambda: [table("Buffer")])

    def tensor(
        self,
        name: str | None,
        shape: Sequence[int],
        kind: str = "INT8",
        data: np.ndarray | None = None,
        scales: Sequence[float] | None = (0.5,),
        zero_points: Sequence[int] | None = (0,),
        axis: int = 0,
        **fields: Any,
    ) -> int:
        buffer = 0
        if data is not None:
            buffer = len(self.buffers)
            self.buffers.append(table("Buffer", Data=np.frombuffer(data.tobytes(), np.uint8)))
        quantization = table(
            "QuantizationParameters",
            Scale=None if scales is None else np.array(scales, np.float32),
            ZeroPoint=None if zero_points is None else np.array(zero_points, np.int64),
            QuantizedDimension=axis,
        )
        row: dict[str, Any] = {
            "Name": name,
            "Shape": int32(*shape),
            "Type": getattr(tflite.TensorType, kind),
            "Buffer": buffer,
            "Quantization": quantization,
        }
        self.tensors.append(table("Tensor", **row | fields))
        return len(self.tensors) - 1

    def constant(self, *values: int) -> int:
        """A one-dimensional int32 operand without quantization."""
        return self.tensor(None, [len(values)], "INT32", int32(*values), scales=None, zero_points=None)

    def operator(
        self,
        code: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Table | None = None,
        version: int = 1,
        custom: str | None = None,
        **fields: Any,
    ) -> None:
        number = getattr(tflite.BuiltinOperator, code)
        self.codes.append(
            table(
                "OperatorCode",
                DeprecatedBuiltinCode=min(number, 127),
                BuiltinCode=number,
                Version=version,
                CustomCode=custom,
            )
        )
        row: dict[str, Any] = {
            "OpcodeIndex": len(self.codes) - 1,
            "Inputs": int32(*inputs),
            "Outputs": int32(*outputs),
            "BuiltinOptionsType": getattr(tflite.BuiltinOptions, options.kind) if options else None,
            "BuiltinOptions": options,
        }
        self.operators.append(table("Operator", **row | fields))

    def file(self, inputs: Sequence[int], outputs: Sequence[int], **fields: Any) -> bytes:
        subgraph = table(
            "SubGraph",
            Tensors=self.tensors,
            Inputs=int32(*inputs),
            Outputs=int32(*outputs),
            Operators=self.operators,
        )
        row: dict[str, Any] = {
            "Version": 3,
            "OperatorCodes": self.codes,
            "Subgraphs": [subgraph],
            "Buffers": self.buffers,
        }
        return serialize(table("Model", **row | fields))


def small_model() -> bytes:
    """Convolution with SAME padding and one scale per filter, mean, fully connected, softmax."""
    rng = np.random.default_rng(0)
    build = Builder()
    image = build.tensor("image", [1, 9, 9, 2], zero_points=[-3])
    filters = rng.integers(-127, 128, (4, 3, 3, 2), np.int8)
    weights = build.tensor(
        "filters", filters.shape, data=filters, scales=[0.1, 0.2, 0.3, 0.4], zero_points=[0] * 4
    )
    biases = rng.integers(-99, 100, 4, np.int32)
    bias = build.tensor("biases", [4], "INT32", biases, scales=[0.05, 0.1, 0.15, 0.2], zero_points=[0] * 4)
    features = build.tensor("features", [1, 5, 5, 4])
    options = table("Conv2DOptions", StrideH=2, StrideW=2, FusedActivationFunction=1)
    build.operator("CONV_2D", [image, weights, bias], [features], options, version=3)
    pooled = build.tensor("pooled", [1, 4])
    build.operator("MEAN", [features, build.constant(2, 1)], [pooled], table("ReducerOptions"), version=2)
    matrix = rng.integers(-127, 128, (3, 4), np.int8)
    scores = build.tensor("scores", [1, 3])
    dense = build.tensor("matrix", [3, 4], data=matrix)
    build.operator(
        "FULLY_CONNECTED", [pooled, dense, -1], [scores], table("FullyConnectedOptions"), version=4
    )
    output = build.tensor("probabilities", [1, 3], scales=[1 / 256], zero_points=[-128])
    build.operator("SOFTMAX", [scores], [output], table("SoftmaxOptions", Beta=1.0), version=2)
    return build.file([image], [output], Description="made for a test")
