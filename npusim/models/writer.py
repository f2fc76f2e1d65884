"""Writes TensorFlow Lite models: add tensors and operators, get the bytes of a `.tflite` file.

Operators infer the shape of their output; the caller gives its quantization. Names of operators, activations
("none", "relu", "relu6", "relu_n1_to_1") and paddings ("same", "valid") are those of the rest of npusim.

    writer = ModelWriter("tiny")
    image = writer.input("image", TensorType("int8", (1, 8, 8, 1), Quantization((0.5,), (0,))))
    weights = writer.constant("weights", codes, Quantization(scales, zero_points, axis=0))
    features = writer.conv_2d(image, weights, bias, Quantization((0.1,), (-128,)), activation="relu")
    data = writer.finish([features])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.models.flatbuffer import Fields, FileOperator, FileTensor, serialize

Shape = tuple[int, ...]
Pair = tuple[int, int]

# Values of the schema's enumerations ActivationFunctionType and Padding.
_ACTIVATIONS = {"none": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}
_PADDINGS = {"same": 0, "valid": 1}

# Version of each operator that first accepts int8 tensors; those for uint8 and float32 are version 1.
# A reader refuses versions it does not know. Operators that are not here took int8 from the beginning.
_INT8_VERSIONS = {
    "ADD": 2, "AVERAGE_POOL_2D": 2, "CONCATENATION": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "DEQUANTIZE": 2,
    "ARG_MAX": 2, "FULLY_CONNECTED": 4, "LEAKY_RELU": 2, "LOGISTIC": 2, "MAXIMUM": 2, "MAX_POOL_2D": 2, "MEAN": 2,
    "MINIMUM": 2, "MUL": 2, "PAD": 2, "PADV2": 2, "RELU": 2, "RELU6": 2, "RESIZE_BILINEAR": 2,
    "RESIZE_NEAREST_NEIGHBOR": 2, "SLICE": 2, "SOFTMAX": 2, "SPLIT": 2, "SPLIT_V": 2, "STRIDED_SLICE": 2, "SUB": 2,
    "TANH": 2, "TRANSPOSE": 2,
}  # fmt: skip
_FULLY_CONNECTED_PER_CHANNEL_VERSION = 12

SOFTMAX_INT8 = Quantization((1 / 256,), (-128,))
"""What the int8 kernels require of the output of softmax and logistic."""


def per_tensor(scale: float, zero_point: int) -> Quantization:
    """One scale, rounded to the float32 that a file holds, and one zero point."""
    return Quantization((float(np.float32(scale)),), (int(zero_point),))


def affine(low: float, high: float) -> Quantization:
    """int8 quantization of the reals from `low` to `high`, with a zero point that represents 0 exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255
    return per_tensor(scale, round(-128 - low / scale))


def per_channel(scales: ArrayLike, axis: int) -> Quantization:
    """Symmetric quantization with one scale per index of `axis`, rounded to float32; zero points are 0."""
    values = tuple(np.asarray(scales, np.float32).tolist())
    return Quantization(values, (0,) * len(values), axis)


class ModelWriter:
    """A model with one subgraph under construction; tensors are known by their index."""

    def __init__(self, name: str, description: str = "Written by npusim.") -> None:
        self._name = name
        self._description = description
        self._tensors: list[FileTensor] = []
        self._operators: list[FileOperator] = []
        self._inputs: list[int] = []

    def type(self, tensor: int) -> TensorType:
        """Element type, shape and quantization of a tensor."""
        return self._tensors[tensor].type

    def input(self, name: str, type: TensorType) -> int:
        """A new input of the model; inputs keep the order in which they were added."""
        self._inputs.append(self.tensor(name, type))
        return self._inputs[-1]

    def tensor(self, name: str, type: TensorType, data: Array | None = None) -> int:
        """A new tensor, constant where it has data; the operators below call this for their outputs."""
        self._tensors.append(FileTensor(name, type, data))
        return len(self._tensors) - 1

    def state(self, name: str, type: TensorType) -> int:
        """A new variable tensor: zero at first, kept and updated by the operator that takes it."""
        self._tensors.append(FileTensor(name, type, variable=True))
        return len(self._tensors) - 1

    def constant(self, name: str, data: Array, quantization: Quantization | None = None) -> int:
        """A new constant with the shape and dtype of `data`."""
        return self.tensor(name, TensorType(data.dtype.name, data.shape, quantization), data)

    def operator(
        self,
        code: str,
        inputs: Sequence[int | None],
        output: TensorType,
        *,
        name: str | None = None,
        version: int | None = None,
        options: str = "",
        fields: Fields | None = None,
        intermediates: Sequence[int] = (),
    ) -> int:
        """Adds any builtin operator with one output and returns that output.

        `code`, `options` and the keys of `fields` are names of the TFLite schema ("CONV_2D", "Conv2DOptions",
        "StrideW"). `name` names the output. Without `version`, that of the first input's dtype is written.
        """
        name = name or f"{code.lower()}_{len(self._operators)}"
        result = self.tensor(name, output)
        self._add(
            code, inputs, (result,), version, options=options, fields=fields, intermediates=intermediates
        )
        return result

    def operator_of_many(
        self,
        code: str,
        inputs: Sequence[int | None],
        outputs: Sequence[TensorType],
        *,
        version: int | None = None,
        options: str = "",
        fields: Fields | None = None,
        custom_options: bytes = b"",
    ) -> tuple[int, ...]:
        """Adds an operator with any number of outputs and returns them; otherwise as `operator`.

        A custom operator has the code "CUSTOM" and its name, and `custom_options` instead of `options`.
        """
        stem = f"{code.split()[-1].lower()}_{len(self._operators)}"
        results = tuple(self.tensor(f"{stem}_{i}", output) for i, output in enumerate(outputs))
        self._add(
            code, inputs, results, version, options=options, fields=fields, custom_options=custom_options
        )
        return results

    def _add(
        self,
        code: str,
        inputs: Sequence[int | None],
        outputs: tuple[int, ...],
        version: int | None,
        *,
        options: str,
        fields: Fields | None,
        custom_options: bytes = b"",
        intermediates: Sequence[int] = (),
    ) -> None:
        if version is None:
            first = next(tensor for tensor in inputs if tensor is not None)
            version = _INT8_VERSIONS.get(code, 1) if self.type(first).dtype == "int8" else 1
        operands = tuple(-1 if tensor is None else tensor for tensor in inputs)
        self._operators.append(
            FileOperator(
                code, version, operands, outputs, options, fields, custom_options, tuple(intermediates)
            )
        )

    def conv_2d(
        self,
        ifm: int,
        weights: int,
        bias: int,
        quantization: Quantization,
        *,
        strides: Pair = (1, 1),
        dilations: Pair = (1, 1),
        padding: str = "same",
        activation: str = "none",
        name: str | None = None,
    ) -> int:
        """Convolution of an NHWC tensor with weights [output channel, height, width, input channel].

        LiteRT refuses convolutions without bias.
        """
        channels, *filter_size, depth = self.type(weights).shape
        batch, *size, ifm_depth = self.type(ifm).shape
        self._require(depth == ifm_depth, "conv_2d", f"weights for {depth} input channels", f"{ifm_depth}")
        window = _window_output(size, filter_size, strides, padding, dilations)
        return self.operator(
            "CONV_2D",
            (ifm, weights, bias),
            TensorType(self.type(ifm).dtype, (batch, *window, channels), quantization),
            name=name,
            options="Conv2DOptions",
            fields=_window_fields(strides, padding, activation) | _dilation_fields(dilations),
        )

    def depthwise_conv_2d(
        self,
        ifm: int,
        weights: int,
        bias: int | None,
        quantization: Quantization,
        *,
        strides: Pair = (1, 1),
        dilations: Pair = (1, 1),
        padding: str = "same",
        activation: str = "none",
        name: str | None = None,
    ) -> int:
        """Depthwise convolution of an NHWC tensor with weights [1, height, width, channel * multiplier]."""
        _, *filter_size, channels = self.type(weights).shape
        batch, *size, depth = self.type(ifm).shape
        self._require(
            channels % depth == 0, "depthwise_conv_2d", f"{channels} filters", f"a multiple of {depth}"
        )
        window = _window_output(size, filter_size, strides, padding, dilations)
        fields = _window_fields(strides, padding, activation) | _dilation_fields(dilations)
        return self.operator(
            "DEPTHWISE_CONV_2D",
            # LiteRT wants two operands here for none of three, not -1.
            (ifm, weights) if bias is None else (ifm, weights, bias),
            TensorType(self.type(ifm).dtype, (batch, *window, channels), quantization),
            name=name,
            options="DepthwiseConv2DOptions",
            fields=fields | {"DepthMultiplier": channels // depth},
        )

    def fully_connected(
        self,
        ifm: int,
        weights: int,
        bias: int | None,
        quantization: Quantization,
        *,
        activation: str = "none",
        keep_num_dims: bool = False,
        name: str | None = None,
    ) -> int:
        """Product of the last axis of a tensor (or of rows of as many elements) with weights [N, K]."""
        channels, depth = self.type(weights).shape
        ifm_type, weights_type = self.type(ifm), self.type(weights)
        self._require(ifm_type.elements % depth == 0, "fully_connected", f"weights for {depth} inputs",
                      f"a divisor of {ifm_type.elements}")  # fmt: skip
        rows = ifm_type.shape[:-1] if keep_num_dims else (ifm_type.elements // depth,)
        per_axis = weights_type.quantization is not None and weights_type.quantization.axis is not None
        return self.operator(
            "FULLY_CONNECTED",
            (ifm, weights, bias),
            TensorType(ifm_type.dtype, (*rows, channels), quantization),
            name=name,
            version=_FULLY_CONNECTED_PER_CHANNEL_VERSION if per_axis else None,
            options="FullyConnectedOptions",
            fields={"FusedActivationFunction": _ACTIVATIONS[activation], "KeepNumDims": keep_num_dims},
        )

    def add(
        self, a: int, b: int, quantization: Quantization, *, activation: str = "none", name: str | None = None
    ) -> int:
        """Elementwise sum, with broadcasting."""
        return self._elementwise("ADD", "AddOptions", a, b, quantization, activation, name)

    def sub(
        self, a: int, b: int, quantization: Quantization, *, activation: str = "none", name: str | None = None
    ) -> int:
        """Elementwise difference, with broadcasting."""
        return self._elementwise("SUB", "SubOptions", a, b, quantization, activation, name)

    def mul(
        self, a: int, b: int, quantization: Quantization, *, activation: str = "none", name: str | None = None
    ) -> int:
        """Elementwise product, with broadcasting."""
        return self._elementwise("MUL", "MulOptions", a, b, quantization, activation, name)

    def average_pool_2d(
        self,
        ifm: int,
        filter_size: Pair,
        *,
        strides: Pair | None = None,
        padding: str = "valid",
        activation: str = "none",
        name: str | None = None,
    ) -> int:
        """Mean over windows, without padded positions; strides default to the filter, scales stay."""
        return self._pool("AVERAGE_POOL_2D", ifm, filter_size, strides, padding, activation, name)

    def max_pool_2d(
        self,
        ifm: int,
        filter_size: Pair,
        *,
        strides: Pair | None = None,
        padding: str = "valid",
        activation: str = "none",
        name: str | None = None,
    ) -> int:
        """Maximum over windows; strides default to the filter, scales stay."""
        return self._pool("MAX_POOL_2D", ifm, filter_size, strides, padding, activation, name)

    def mean(
        self,
        ifm: int,
        axes: Sequence[int],
        quantization: Quantization,
        *,
        keep_dims: bool = False,
        name: str | None = None,
    ) -> int:
        """Mean over `axes` (non-negative)."""
        shape = self.type(ifm).shape
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep_dims or i not in axes)
        operand = self._operand("axes", np.asarray(axes, np.int32))
        output = TensorType(self.type(ifm).dtype, kept, quantization)
        fields = {"KeepDims": keep_dims}
        return self.operator(
            "MEAN", (ifm, operand), output, name=name, options="ReducerOptions", fields=fields
        )

    def softmax(self, ifm: int, *, beta: float = 1.0, name: str | None = None) -> int:
        """Softmax over the last axis of an int8 tensor."""
        output = TensorType(self.type(ifm).dtype, self.type(ifm).shape, SOFTMAX_INT8)
        return self.operator(
            "SOFTMAX", (ifm,), output, name=name, options="SoftmaxOptions", fields={"Beta": beta}
        )

    def unary(self, code: str, ifm: int, quantization: Quantization, *, name: str | None = None) -> int:
        """An elementwise operator without options: "LOGISTIC", "TANH", "RELU", "RELU6", "QUANTIZE"."""
        return self.operator(
            code, (ifm,), TensorType(self.type(ifm).dtype, self.type(ifm).shape, quantization), name=name
        )

    def reshape(self, ifm: int, shape: Shape, *, name: str | None = None) -> int:
        """The same elements in another shape (without -1)."""
        output = TensorType(self.type(ifm).dtype, tuple(shape), self.type(ifm).quantization)
        elements = self.type(ifm).elements
        self._require(
            output.elements == elements, "reshape", f"{output.elements} elements in {shape}", f"{elements}"
        )
        operand = self._operand("shape", np.asarray(shape, np.int32))
        fields = {"NewShape": tuple(shape)}
        return self.operator(
            "RESHAPE", (ifm, operand), output, name=name, options="ReshapeOptions", fields=fields
        )

    def pad(self, ifm: int, paddings: Sequence[Pair], *, name: str | None = None) -> int:
        """Real zeros added before and after along each axis."""
        sizes = zip(self.type(ifm).shape, paddings, strict=True)
        shape = tuple(n + before + after for n, (before, after) in sizes)
        operand = self._operand("paddings", np.asarray(paddings, np.int32))
        output = TensorType(self.type(ifm).dtype, shape, self.type(ifm).quantization)
        return self.operator("PAD", (ifm, operand), output, name=name, options="PadOptions")

    def concatenation(self, parts: Sequence[int], axis: int, *, name: str | None = None) -> int:
        """Tensors of one scale, joined along `axis` (non-negative)."""
        first = self.type(parts[0])
        length = sum(self.type(part).shape[axis] for part in parts)
        shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
        output = TensorType(first.dtype, shape, first.quantization)
        return self.operator(
            "CONCATENATION", parts, output, name=name, options="ConcatenationOptions", fields={"Axis": axis}
        )

    def finish(self, outputs: Sequence[int]) -> bytes:
        """The file. The writer may be used further; equal models give equal bytes."""
        return serialize(self._name, self._description, self._tensors, self._operators, self._inputs, outputs)

    def tables(self) -> tuple[list[FileTensor], list[FileOperator], list[int]]:
        """Tensors, operators and inputs so far, as new lists: for who wants to write other tables than these."""
        return list(self._tensors), list(self._operators), list(self._inputs)

    def _elementwise(
        self,
        code: str,
        options: str,
        a: int,
        b: int,
        quantization: Quantization,
        activation: str,
        name: str | None,
    ) -> int:
        shape = np.broadcast_shapes(self.type(a).shape, self.type(b).shape)
        output = TensorType(self.type(a).dtype, shape, quantization)
        fields = {"FusedActivationFunction": _ACTIVATIONS[activation]}
        return self.operator(code, (a, b), output, name=name, options=options, fields=fields)

    def _pool(
        self,
        code: str,
        ifm: int,
        filter_size: Pair,
        strides: Pair | None,
        padding: str,
        activation: str,
        name: str | None,
    ) -> int:
        batch, *size, channels = self.type(ifm).shape
        strides = strides or filter_size
        window = _window_output(size, filter_size, strides, padding)
        output = TensorType(self.type(ifm).dtype, (batch, *window, channels), self.type(ifm).quantization)
        fields = _window_fields(strides, padding, activation)
        fields |= {"FilterHeight": filter_size[0], "FilterWidth": filter_size[1]}
        return self.operator(code, (ifm,), output, name=name, options="Pool2DOptions", fields=fields)

    def _operand(self, what: str, data: Array) -> int:
        return self.constant(f"{what}_{len(self._operators)}", data)

    def _require(self, holds: bool, operator: str, found: str, wanted: str) -> None:
        if not holds:
            where = f"{operator} (operator {len(self._operators)} of {self._name!r})"
            raise GraphError(f"{where}: {found}, but the input needs {wanted}")


def _window_output(
    size: Sequence[int], filter_size: Sequence[int], strides: Pair, padding: str, dilations: Pair = (1, 1)
) -> Pair:
    """Output height and width of a convolution or pooling, by TFLite's definition of the two paddings."""
    rows, columns = (
        -(-n // stride) if padding == "same" else -(-(n - (f - 1) * dilation) // stride)
        for n, f, stride, dilation in zip(size, filter_size, strides, dilations, strict=True)
    )
    if min(rows, columns) < 1:
        raise GraphError(
            f"a filter of {tuple(filter_size)} with dilations {dilations} does not fit into an input of "
            f"{tuple(size)} without padding; use padding 'same' or a smaller filter"
        )
    return rows, columns


def _window_fields(strides: Pair, padding: str, activation: str) -> dict[str, int]:
    return {
        "Padding": _PADDINGS[padding],
        "StrideH": strides[0],
        "StrideW": strides[1],
        "FusedActivationFunction": _ACTIVATIONS[activation],
    }


def _dilation_fields(dilations: Pair) -> dict[str, int]:
    return {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
