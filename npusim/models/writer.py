"""Writes TensorFlow Lite models: add tensors and operators, get the bytes of a `.tflite` file.

Outputs get the shape that the operators of npusim infer; the caller gives their quantization. Names of operators,
activations ("none", "relu", "relu6", "relu_n1_to_1") and paddings ("same", "valid") are those of the rest of npusim.

    writer = ModelWriter("tiny")
    image = writer.input("image", TensorType("int8", (1, 8, 8, 1), Quantization((0.5,), (0,))))
    weights = writer.constant("weights", codes, Quantization(scales, zero_points, axis=0))
    features = writer.conv_2d(image, weights, bias, Quantization((0.1,), (-128,)), activation="relu")
    data = writer.finish([features])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from npusim.frontends.tflite.flatbuffer import Fields, FileOperator, FileSubgraph, FileTensor, serialize
from npusim.frontends.tflite.flatbuffer import version as version_of
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.table import operator
from npusim.models.options import ACTIVATIONS, borders, dilation_fields, window_fields

Shape = tuple[int, ...]
_INT32 = 2
"""The schema's TensorType of int32."""
Pair = tuple[int, int]

SOFTMAX_INT8 = Quantization((1 / 256,), (-128,))
"""The output quantization that the int8 kernels of softmax and logistic require."""


def per_tensor(scale: float, zero_point: int) -> Quantization:
    """Return one scale, rounded to the float32 that a file holds, and one zero point."""
    return Quantization((float(np.float32(scale)),), (int(zero_point),))


def affine(low: float, high: float) -> Quantization:
    """Return the int8 quantization of the range from `low` to `high`, with a zero point that represents 0 exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255
    return per_tensor(scale, round(-128 - low / scale))


def per_channel(scales: ArrayLike, axis: int) -> Quantization:
    """Return a symmetric quantization with one scale per index of `axis`, rounded to float32; zero points are 0."""
    values = tuple(np.asarray(scales, np.float32).tolist())
    return Quantization(values, (0,) * len(values), axis)


class ModelWriter:
    """A model with one subgraph under construction; tensors are known by their index."""

    def __init__(self, name: str, description: str = "Written by npusim.") -> None:
        self._name = name
        self._description = description
        self._builder = GraphBuilder(name)
        self._operators: list[FileOperator] = []
        self._variables: set[int] = set()
        self._packed: set[int] = set()

    def type(self, tensor: int) -> TensorType:
        """Return element type, shape and quantization of a tensor."""
        return self._builder.type(tensor)

    def input(self, name: str, type: TensorType) -> int:
        """Add an input of the model; inputs keep the order in which they were added."""
        return self._builder.open_input(name, type)

    def tensor(self, name: str, type: TensorType, data: Array | None = None) -> int:
        """Add a tensor, a constant if it has data; the operators below call this for their outputs."""
        return self._builder.tensor(name, type, data)

    def state(self, name: str, type: TensorType) -> int:
        """Add a variable tensor: zero at first, kept and updated by the operator that takes it."""
        variable = self._builder.state(name, type)
        self._variables.add(variable)
        return variable

    def constant(
        self, name: str, data: Array, quantization: Quantization | None = None, packed: bool = False
    ) -> int:
        """Add a constant with the shape and dtype of `data`; packed: int8 values from -8 to 7, stored in 4 bits."""
        number = self.tensor(name, TensorType(data.dtype.name, data.shape, quantization), data)
        if packed:
            self._packed.add(number)
        return number

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
        """Add any builtin operator with one output, and return that output.

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
        """Add an operator with any number of outputs, and return them; otherwise as `operator`.

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
            weights = inputs[1] if len(inputs) > 1 else None
            version = version_of(code, self.type(first), None if weights is None else self.type(weights))
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
        quantization: Quantization | None,
        *,
        strides: Pair = (1, 1),
        dilations: Pair = (1, 1),
        padding: str = "same",
        activation: str = "none",
        name: str | None = None,
    ) -> int:
        """Add a convolution of an NHWC tensor with weights [output channel, height, width, input channel of its group].

        LiteRT refuses convolutions without bias.
        """
        _, *filter_size, depth = self.type(weights).shape
        _, *size, ifm_depth = self.type(ifm).shape
        fits = ifm_depth % depth == 0
        self._require(fits, "conv_2d", f"weights for {depth} input channels", f"a divisor of {ifm_depth}")
        return self._node(
            "conv_2d",
            (ifm, weights, bias),
            quantization,
            {"strides": strides, "dilations": dilations, "activation": activation,
             "padding": borders(size, filter_size, strides, padding, dilations), **self._rescale(ifm, weights)},
            name=name,
            options="Conv2DOptions",
            fields=window_fields(strides, padding, activation) | dilation_fields(dilations)
            | self.accumulator_fields(ifm, bias),
        )  # fmt: skip

    def depthwise_conv_2d(
        self,
        ifm: int,
        weights: int,
        bias: int | None,
        quantization: Quantization | None,
        *,
        strides: Pair = (1, 1),
        dilations: Pair = (1, 1),
        padding: str = "same",
        activation: str = "none",
        name: str | None = None,
    ) -> int:
        """Add a depthwise convolution of an NHWC tensor with weights [1, height, width, channel * multiplier]."""
        _, *filter_size, channels = self.type(weights).shape
        _, *size, depth = self.type(ifm).shape
        self._require(
            channels % depth == 0, "depthwise_conv_2d", f"{channels} filters", f"a multiple of {depth}"
        )
        fields = window_fields(strides, padding, activation) | dilation_fields(dilations)
        return self._node(
            "depthwise_conv_2d",
            # LiteRT wants two operands here for none of three, not -1.
            (ifm, weights) if bias is None else (ifm, weights, bias),
            quantization,
            {"strides": strides, "dilations": dilations, "activation": activation,
             "depth_multiplier": channels // depth, "padding": borders(size, filter_size, strides, padding, dilations),
             **self._rescale(ifm, weights)},
            name=name,
            options="DepthwiseConv2DOptions",
            fields=fields | {"DepthMultiplier": channels // depth},
        )  # fmt: skip

    def fully_connected(
        self,
        ifm: int,
        weights: int,
        bias: int | None,
        quantization: Quantization | None,
        *,
        activation: str = "none",
        keep_num_dims: bool = False,
        asymmetric: bool = False,
        name: str | None = None,
    ) -> int:
        """Add the product of the last axis of a tensor (or of rows of as many elements) with weights [N, K].

        asymmetric: rows of a float32 tensor get zero points when they are quantized at run time for int8 weights.
        """
        depth = self.type(weights).shape[1]
        ifm_type = self.type(ifm)
        self._require(ifm_type.elements % depth == 0, "fully_connected", f"weights for {depth} inputs",
                      f"a divisor of {ifm_type.elements}")  # fmt: skip
        return self._node(
            "fully_connected",
            (ifm, weights, bias),
            quantization,
            {"activation": activation, "keep_num_dims": keep_num_dims, **self._rescale(ifm, weights, asymmetric)},
            name=name,
            options="FullyConnectedOptions",
            fields={"FusedActivationFunction": ACTIVATIONS[activation], "KeepNumDims": keep_num_dims,
                    "AsymmetricQuantizeInputs": asymmetric} | self.accumulator_fields(ifm, bias),
        )  # fmt: skip

    def accumulator_fields(self, ifm: int, bias: int | None) -> dict[str, int]:
        """Return the option for an int32 bias beside int16 values, with which LiteRT's sums have 32 bits, else 64."""
        narrow = bias is not None and self.type(bias).dtype == "int32" and self.type(ifm).dtype == "int16"
        return {"QuantizedBiasType": _INT32} if narrow else {}

    def add(
        self, a: int, b: int, quantization: Quantization, *, activation: str = "none", name: str | None = None
    ) -> int:
        """Add an elementwise sum, with broadcasting."""
        return self._elementwise("add", a, b, quantization, activation, name)

    def sub(
        self, a: int, b: int, quantization: Quantization, *, activation: str = "none", name: str | None = None
    ) -> int:
        """Add an elementwise difference, with broadcasting."""
        return self._elementwise("sub", a, b, quantization, activation, name)

    def mul(
        self, a: int, b: int, quantization: Quantization, *, activation: str = "none", name: str | None = None
    ) -> int:
        """Add an elementwise product, with broadcasting."""
        return self._elementwise("mul", a, b, quantization, activation, name)

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
        """Add the mean over windows, without padded positions; strides default to the filter, scales stay."""
        return self._pool("average_pool_2d", ifm, filter_size, strides, padding, activation, name)

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
        """Add the maximum over windows; strides default to the filter, scales stay."""
        return self._pool("max_pool_2d", ifm, filter_size, strides, padding, activation, name)

    def mean(
        self,
        ifm: int,
        axes: Sequence[int],
        quantization: Quantization,
        *,
        keep_dims: bool = False,
        name: str | None = None,
    ) -> int:
        """Add the mean over `axes` (non-negative)."""
        operand = self._operand("axes", np.asarray(axes, np.int32))
        return self._node(
            "mean",
            (ifm,),
            quantization,
            {"axes": axes, "keep_dims": keep_dims},
            name=name,
            options="ReducerOptions",
            fields={"KeepDims": keep_dims},
            others=(operand,),
        )

    def softmax(self, ifm: int, *, beta: float = 1.0, name: str | None = None) -> int:
        """Add a softmax over the last axis of an int8 tensor."""
        values, fields = {"beta": beta}, {"Beta": beta}
        return self._node(
            "softmax", (ifm,), SOFTMAX_INT8, values, name=name, options="SoftmaxOptions", fields=fields
        )

    def unary(self, code: str, ifm: int, quantization: Quantization, *, name: str | None = None) -> int:
        """Add an elementwise operator without options: "LOGISTIC", "TANH", "RELU", "RELU6", "QUANTIZE"."""
        return self.operator(
            code, (ifm,), TensorType(self.type(ifm).dtype, self.type(ifm).shape, quantization), name=name
        )

    def reshape(self, ifm: int, shape: Shape, *, name: str | None = None) -> int:
        """Add a reshape to a shape without -1."""
        wanted, elements = TensorType("int8", tuple(shape)).elements, self.type(ifm).elements
        self._require(wanted == elements, "reshape", f"{wanted} elements in {shape}", f"{elements}")
        operand = self._operand("shape", np.asarray(shape, np.int32))
        return self._node(
            "reshape",
            (ifm,),
            self.type(ifm).quantization,
            {"shape": shape},
            name=name,
            options="ReshapeOptions",
            fields={"NewShape": tuple(shape)},
            others=(operand,),
        )

    def pad(self, ifm: int, paddings: Sequence[Pair], *, name: str | None = None) -> int:
        """Add zeros before and after along each axis."""
        operand = self._operand("paddings", np.asarray(paddings, np.int32))
        scaling, values = self.type(ifm).quantization, {"paddings": paddings}
        return self._node("pad", (ifm,), scaling, values, name=name, options="PadOptions", others=(operand,))

    def concatenation(self, parts: Sequence[int], axis: int, *, name: str | None = None) -> int:
        """Add a concatenation of tensors of one scale along `axis` (non-negative)."""
        scaling, values, fields = self.type(parts[0]).quantization, {"axis": axis}, {"Axis": axis}
        return self._node(
            "concatenation", parts, scaling, values, name=name, options="ConcatenationOptions", fields=fields
        )

    def finish(self, outputs: Sequence[int]) -> bytes:
        """Return the file. The writer may be used further; equal models give equal bytes."""
        return serialize(self._description, [self.subgraph(outputs)])

    def subgraph(self, outputs: Sequence[int]) -> FileSubgraph:
        """Return copies of the tensors, operators and inputs so far, for callers that write the file themselves."""
        tensors = [
            FileTensor(
                tensor.name, tensor.type, tensor.array, number in self._variables, number in self._packed
            )
            for number, tensor in enumerate(self._builder.tensors)
        ]
        return FileSubgraph(
            self._name, tensors, list(self._operators), list(self._builder.inputs), list(outputs)
        )

    def _elementwise(
        self, op: str, a: int, b: int, quantization: Quantization, activation: str, name: str | None
    ) -> int:
        return self._node(
            op,
            (a, b),
            quantization,
            {"activation": activation},
            name=name,
            options=f"{op.title()}Options",
            fields={"FusedActivationFunction": ACTIVATIONS[activation]},
        )

    def _pool(
        self,
        op: str,
        ifm: int,
        filter_size: Pair,
        strides: Pair | None,
        padding: str,
        activation: str,
        name: str | None,
    ) -> int:
        _, *size, _ = self.type(ifm).shape
        strides = strides or filter_size
        fields = window_fields(strides, padding, activation)
        fields |= {"FilterHeight": filter_size[0], "FilterWidth": filter_size[1]}
        around = borders(size, filter_size, strides, padding)
        return self._node(
            op,
            (ifm,),
            self.type(ifm).quantization,
            {"filter": filter_size, "strides": strides, "padding": around, "activation": activation},
            name=name,
            options="Pool2DOptions",
            fields=fields,
        )

    def _node(
        self,
        op: str,
        operands: Sequence[int | None],
        quantization: Quantization | None,
        parameters: dict[str, Any],
        *,
        name: str | None,
        version: int | None = None,
        options: str,
        fields: Fields | None = None,
        others: Sequence[int] = (),
    ) -> int:
        """Add an operator that npusim has, with one output of the first operand's element type.

        `others` are the operands that the file has and the operator takes as parameters.
        """
        name = name or f"{op}_{len(self._operators)}"
        dtype = next(self.type(operand).dtype for operand in operands if operand is not None)
        values = operator(op).parameters(**parameters)
        results = self._builder.node(op, operands, [unshaped(dtype, quantization)], values, name=name)
        self._require(self._builder.tensors[results[0]].bound, op, "no shape", "other operands")
        self._add(op.upper(), (*operands, *others), results, version, options=options, fields=fields)
        return results[0]

    def _rescale(self, ifm: int, weights: int, asymmetric: bool = False) -> dict[str, str]:
        """Return the parameter of float32 activations beside int8 weights."""
        if (self.type(ifm).dtype, self.type(weights).dtype) != ("float32", "int8"):
            return {}
        return {"rescale": "dynamic_asymmetric" if asymmetric else "dynamic"}

    def _operand(self, what: str, data: Array) -> int:
        return self.constant(f"{what}_{len(self._operators)}", data)

    def _require(self, holds: bool, operator: str, actual: str, wanted: str) -> None:
        if not holds:
            where = f"{operator} (operator {len(self._operators)} of {self._name!r})"
            raise GraphError(f"{where}: {actual}, but the input needs {wanted}")
