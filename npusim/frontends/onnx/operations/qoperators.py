"""Operations of com.microsoft on quantized values, whose scales and zero points are inputs of the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.node_conversion import ITSELF, NodeConversion
from npusim.frontends.forms.node_rows import Row, microsoft
from npusim.frontends.forms.pools import elements_seen, sums_by_taps
from npusim.frontends.forms.windows import Window
from npusim.frontends.onnx.operations.block_quantized import (
    channels_as_they_were,
    channels_first,
    codes,
    requantized,
    result,
)
from npusim.frontends.onnx.operations.onnx_windows import window_of
from npusim.isa.base.tensor import Quantization, TensorType

# Operations with two operands


def _added(c: NodeConversion) -> Sequence[int]:
    """Add QLinearAdd; the sum takes its first operand last if that is one number per row."""
    a, b = _pair(c)
    if _repeats(c.shape(a), c.shape(b)) and not _repeats(c.shape(b), c.shape(a)):
        a, b = b, a
    return [c.node("add", [a, b], _result(c, a, "C"), rescale="fused")]


def _multiplied(c: NodeConversion) -> Sequence[int]:
    a, b = _pair(c)
    return [c.node("mul", [a, b], _result(c, a, "C"), rescale="fused")]


def _pair(c: NodeConversion) -> tuple[int, int]:
    first, second = (codes(c, name, f"{name}_scale", f"{name}_zero_point") for name in "AB")
    return first, second


def _result(c: NodeConversion, like: int, name: str) -> TensorType:
    return result(c, like, f"{name}_scale", f"{name}_zero_point")


def _repeats(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether an operand has one number along the innermost axis along which the result has several."""
    rank = max(len(shape), len(other))
    both = [(*(1,) * (rank - len(sizes)), *sizes) for sizes in (shape, other)]
    return next(
        (size == 1 for size, across in zip(*map(reversed, both), strict=True) if (size, across) != (1, 1)),
        False,
    )


def _where(c: NodeConversion) -> Sequence[int]:
    first = codes(c, "X", "x_scale", "x_zero_point")
    second = codes(c, "Y", "y_scale", "y_zero_point")
    kind = result(c, first, "z_scale", "z_zero_point")
    both = [requantized(c, operand, kind) for operand in (first, second)]
    return [c.node("select_v2", [c.real("condition"), *both], kind, rescale="fixed_point")]


def _concatenated(c: NodeConversion) -> Sequence[int]:
    """Add QLinearConcat, whose inputs come in threes: values, scale, zero point."""
    tensors = c.tensors("inputs")
    c.require(len(tensors) % 3 == 0, f"has {len(tensors)} inputs behind those of the result, not threes")
    kind = _result(c, tensors[0], "Y")
    parts = []
    for place in range(0, len(tensors), 3):
        data, scale, zero = tensors[place : place + 3]
        pair: Any = [c.builder.tensors[number].array for number in (scale, zero)]
        c.require(
            all(array is not None and array.size == 1 for array in pair),
            "scales and zero points must be constants",
        )
        parts.append(requantized(c, c.coded(data, Quantization((float(pair[0]),), (int(pair[1]),))), kind))
    axis = c.axis(int(c.attribute("axis", 0)), len(c.shape(parts[0])))
    return [c.node("concatenation", parts, kind, axis=axis, rescale="fixed_point")]


# Operations with one operand


def _function(op: str, **attributes: float) -> Callable[[NodeConversion], Sequence[int]]:
    """Return the row of a function between quantized values; attributes have these defaults."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x = codes(c, "X", "X_scale", "X_zero_point")
        parameters = {name: float(c.attribute(name, default)) for name, default in attributes.items()}
        return [c.node(op, [x], _result(c, x, "Y"), rescale="float32", **parameters)]

    return convert


def _averaged(c: NodeConversion) -> Sequence[int]:
    x = channels_first(c, codes(c, "X", "x_scale", "x_zero_point"))
    shape, size = c.shape(x), [int(number) for number in c.attribute("kernel_shape", ())]
    c.require(3 <= len(shape) <= 5, f"the input has shape {list(shape)}; npusim has pools along 1 to 3 axes")
    c.require(len(size) == len(shape) - 2, f"kernel_shape {size} is not one number for each axis")
    window = window_of(c, shape[2:], size, ceil=c.flag("ceil_mode"))
    c.require(set(window.dilation) == {1}, "npusim has such pools without dilations")
    kind = result(c, x, "y_scale", "y_zero_point")
    if len(shape) == 5:
        return [channels_as_they_were(c, _averaged_by_taps(c, x, window, kind))]
    row = len(shape) == 3
    if row:
        x = c.reshaped(x, (*shape[:2], 1, shape[2]))
    one, none = ((1,), ((0, 0),)) if row else ((), ())
    padding = (*none, *window.padding)
    parameters: dict[str, Any] = {
        "filter": (*one, *window.size),
        "strides": (*one, *window.stride),
        "padding": padding,
    }
    if c.flag("count_include_pad"):
        parameters["counted"] = padding  # all of the padding, also that of a last window that is cut off
    means = c.node("average_pool_2d", [x], kind, rescale="fused", **parameters)
    means = c.reshaped(means, (*c.shape(means)[:2], *c.shape(means)[3:])) if row else means
    return [channels_as_they_were(c, means)]


def _averaged_by_taps(c: NodeConversion, x: int, window: Window, kind: TensorType) -> int:
    """Return averages in float32, quantized as the operator does: rounded together with the zero point."""
    assert kind.quantization is not None
    sums, shape = sums_by_taps(c, c.as_real(x), window), c.shape(x)
    whole = c.flag("count_include_pad")
    seen: Any = np.array(prod(window.size)) if whole else elements_seen(window, shape)
    averages = c.step("div", [sums, c.constant(seen.astype(np.float32))])
    steps = c.step("div", [averages, c.scalar(kind.quantization.scale, averages)])
    steps = c.step("add", [steps, c.scalar(kind.quantization.zero_point, steps)])
    means = c.node("quantize", [steps], replace(kind, quantization=ITSELF), rescale="float32")
    return c.coded(means, kind.quantization)


def _largest(c: NodeConversion) -> Sequence[int]:
    """Add a max pool of images whose channels may come last."""
    x = c.real("x")
    rank, size = len(c.shape(x)), [int(number) for number in c.attribute("kernel_shape", ())]
    c.require(rank == 4 and len(size) == 2, "npusim has such pools of images [N, H, W, C]")
    x = c.transposed(x, (0, 3, 1, 2))
    window = window_of(c, c.shape(x)[2:], size, ceil=c.flag("ceil_mode"))
    c.require(set(window.dilation) == {1}, "npusim has such pools without dilations")
    return [c.transposed(c.node("max_pool_2d", [x], **window.pool), (0, 2, 3, 1))]


def _averaged_wholly(c: NodeConversion) -> Sequence[int]:
    x = channels_first(c, codes(c, "X", "x_scale", "x_zero_point"))
    kind = result(c, x, "y_scale", "y_zero_point")
    axes = tuple(range(2, len(c.shape(x))))
    return [channels_as_they_were(c, c.node("mean", [x], kind, axes=axes, keep_dims=True, rescale="fused"))]


def _softmax(c: NodeConversion) -> Sequence[int]:
    """Add QLinearSoftmax; before version 13, all axes from one on are flattened."""
    x = codes(c, "X", "X_scale", "x_zero_point")
    shape, kind = c.shape(x), result(c, x, "y_scale", "y_zero_point")
    axis = c.axis(int(c.attribute("axis", -1)), len(shape))
    if int(c.attribute("opset", 13)) >= 13:
        return [c.node("softmax", [x], kind, axis=axis, rescale="fused")]
    flat = c.reshaped(x, (prod(shape[:axis]), prod(shape[axis:])))
    return [c.reshaped(c.node("softmax", [flat], kind, axis=1, rescale="fused"), shape)]


_STEPS = "dequantize pad strided_slice add div quantize"
_TWO = "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point?"
_ONE = "X X_scale X_zero_point Y_scale Y_zero_point?"
_POOL = "X x_scale x_zero_point y_scale y_zero_point?"

ROWS: tuple[Row, ...] = (
    microsoft("QLinearAdd", _TWO, _added, "add"),
    microsoft("QLinearMul", _TWO, _multiplied, "mul"),
    microsoft(
        "QLinearWhere",
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point",
        _where,
        "select_v2 quantize",
    ),
    microsoft("QLinearConcat", "Y_scale Y_zero_point inputs*", _concatenated, "concatenation quantize"),
    microsoft("QLinearLeakyRelu", _ONE, _function("leaky_relu", alpha=0.01), "leaky_relu"),
    microsoft("QLinearSigmoid", _ONE, _function("logistic"), "logistic"),
    microsoft("QLinearAveragePool", _POOL, _averaged, f"average_pool_2d {_STEPS} transpose"),
    microsoft("QLinearGlobalAveragePool", _POOL, _averaged_wholly, "mean transpose"),
    microsoft("NhwcMaxPool", "x", _largest, "max_pool_2d transpose"),
    microsoft("QLinearSoftmax", "X X_scale x_zero_point y_scale y_zero_point", _softmax, "softmax"),
)
