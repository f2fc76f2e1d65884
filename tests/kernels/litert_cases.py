"""One-operator cases with the bytes of the LiteRT reference kernels, as npusim's calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6"}
SAME = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A call of the operator named `operator`, the values of its inputs and the expected outputs."""

    name: str
    operator: str
    call: Call
    values: list[Array | None]
    expected: list[Array]


@dataclass(frozen=True, slots=True)
class Source:
    """What parameters are made of: TFLite options, types and values of all operands, the output type."""

    options: Mapping[str, Any]
    types: Sequence[TensorType]
    data: Sequence[Array]
    ofm: TensorType


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a TFLite operator becomes ours: its name, its parameters, how many of its inputs stay."""

    operator: str
    inputs: int | None
    parameters: Callable[[Source], dict[str, Any]]


def litert_cases(shared: Path, op: str, dtype: str) -> Iterator[Case]:
    """All cases of `shared`/ops_litert_ref for a TFLite operator ("CONV_2D") and an element type ("int8")."""
    stem = shared / "ops_litert_ref" / f"{op}.{dtype}"
    with np.load(f"{stem}.npz") as arrays:
        for entry in json.loads(Path(f"{stem}.json").read_text())["cases"]:
            yield _case(f"{op}.{dtype}[{entry['case']}]", RECIPES[op], entry, arrays)


def _case(name: str, recipe: Recipe, entry: Mapping[str, Any], arrays: Mapping[str, Array]) -> Case:
    tensors = entry["tensors"]
    operands = [tensors[index] for index in entry["inputs"]]
    types = [_type(tensor) for tensor in operands]
    data = [arrays[tensor["key"]] for tensor in operands]
    outputs = tuple(_type(tensors[index]) for index in entry["outputs"])
    kept = len(operands) if recipe.inputs is None else recipe.inputs
    source = Source(entry["options"], types, data, outputs[0])
    call = Call(
        parameters=operator(recipe.operator).parameters(**recipe.parameters(source)),
        inputs=tuple(types[:kept]),
        outputs=outputs,
        constants={i: data[i] for i in range(kept) if operands[i]["role"] == "const"},
    )
    expected = [arrays[tensors[index]["key"]] for index in entry["outputs"]]
    return Case(name, recipe.operator, call, list(data[:kept]), expected)


def _type(tensor: Mapping[str, Any]) -> TensorType:
    scales, zero_points = tensor["scale"], tensor["zero_point"]
    quantization = None
    if scales:
        axis = tensor["quantized_dimension"] if len(scales) > 1 else None
        quantization = Quantization(tuple(scales), tuple(zero_points), axis)
    return TensorType(tensor["dtype"], tuple(tensor["shape"]), quantization)


def _no_parameters(source: Source) -> dict[str, Any]:
    return {}


def _activation(source: Source) -> dict[str, Any]:
    return {"activation": ACTIVATIONS[source.options["FusedActivationFunction"]]}


def _same(size: int, out: int, extent: int, stride: int) -> list[int]:
    """Padding before and after one axis under TFLite's SAME."""
    total = max((out - 1) * stride + extent - size, 0)
    return [total // 2, total - total // 2]


def _window(source: Source, kernel: Sequence[int], dilations: Sequence[int]) -> dict[str, Any]:
    """Strides, explicit padding and activation of an operator that slides a window over height and width."""
    strides = [source.options["StrideH"], source.options["StrideW"]]
    padding = [[0, 0], [0, 0]]
    if source.options["Padding"] == SAME:
        axes = zip(source.types[0].shape[1:3], source.ofm.shape[1:3], kernel, dilations, strides, strict=True)
        padding = [_same(size, out, (k - 1) * d + 1, stride) for size, out, k, d, stride in axes]
    return {
        "strides": strides,
        "padding": padding,
        "activation": ACTIVATIONS[source.options["FusedActivationFunction"]],
    }


def _convolution(source: Source) -> dict[str, Any]:
    dilations = [source.options["DilationHFactor"], source.options["DilationWFactor"]]
    parameters = _window(source, source.types[1].shape[1:3], dilations) | {"dilations": dilations}
    if "DepthMultiplier" in source.options:
        parameters["depth_multiplier"] = source.options["DepthMultiplier"]
    return parameters


def _batch_matmul(source: Source) -> dict[str, Any]:
    return {"adj_x": source.options["AdjX"], "adj_y": source.options["AdjY"]}


def _fully_connected(source: Source) -> dict[str, Any]:
    return _activation(source) | {"keep_num_dims": source.options.get("KeepNumDims", False)}


def _pool(source: Source) -> dict[str, Any]:
    kernel = [source.options["FilterHeight"], source.options["FilterWidth"]]
    return _window(source, kernel, [1, 1]) | {"filter": kernel}


def _axes(axes: Array, rank: int) -> list[int]:
    return sorted({int(axis) % rank for axis in axes.reshape(-1)})


def _mean(source: Source) -> dict[str, Any]:
    return {
        "axes": _axes(source.data[1], len(source.types[0].shape)),
        "keep_dims": source.options["KeepDims"],
    }


def _arg_max(source: Source) -> dict[str, Any]:
    return {"axis": _axes(source.data[1], len(source.types[0].shape))[0]}


def _softmax(source: Source) -> dict[str, Any]:
    return {"beta": source.options["Beta"]}


def _leaky_relu(source: Source) -> dict[str, Any]:
    return {"alpha": source.options["Alpha"]}


def _pad(source: Source) -> dict[str, Any]:
    return {"paddings": source.data[1].tolist()}


def _concatenation(source: Source) -> dict[str, Any]:
    axis = source.options["Axis"] % len(source.ofm.shape)
    return {"axis": axis, "activation": ACTIVATIONS[source.options["FusedActivationFunction"]]}


def _resize(source: Source) -> dict[str, Any]:
    return {
        "size": source.ofm.shape[1:3],
        "align_corners": source.options["AlignCorners"],
        "half_pixel_centers": source.options["HalfPixelCenters"],
    }


RECIPES: dict[str, Recipe] = {
    "CONV_2D": Recipe("conv_2d", None, _convolution),
    "DEPTHWISE_CONV_2D": Recipe("depthwise_conv_2d", None, _convolution),
    "BATCH_MATMUL": Recipe("batch_matmul", None, _batch_matmul),
    "FULLY_CONNECTED": Recipe("fully_connected", None, _fully_connected),
    "ADD": Recipe("add", 2, _activation),
    "SUB": Recipe("sub", 2, _activation),
    "MUL": Recipe("mul", 2, _activation),
    "AVERAGE_POOL_2D": Recipe("average_pool_2d", 1, _pool),
    "MAX_POOL_2D": Recipe("max_pool_2d", 1, _pool),
    "MEAN": Recipe("mean", 1, _mean),
    "SOFTMAX": Recipe("softmax", 1, _softmax),
    "LOGISTIC": Recipe("logistic", 1, _no_parameters),
    "TANH": Recipe("tanh", 1, _no_parameters),
    "RELU": Recipe("relu", 1, _no_parameters),
    "RELU6": Recipe("relu6", 1, _no_parameters),
    "HARD_SWISH": Recipe("hard_swish", 1, _no_parameters),
    "LEAKY_RELU": Recipe("leaky_relu", 1, _leaky_relu),
    "RESIZE_BILINEAR": Recipe("resize_bilinear", 1, _resize),
    "ARG_MAX": Recipe("arg_max", 1, _arg_max),
    "QUANTIZE": Recipe("quantize", 1, _no_parameters),
    "DEQUANTIZE": Recipe("dequantize", 1, _no_parameters),
    "PAD": Recipe("pad", 1, _pad),
    "CONCATENATION": Recipe("concatenation", None, _concatenation),
}
"""TFLite operators of ops_litert_ref that npusim has; inputs beyond the count are folded into parameters."""
