"""Exact integer convolutions and matrix products of QOperator and dynamically quantized models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from npusim.frontends.bias_scales import of_sums
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row, microsoft
from npusim.frontends.forms.qdq_operations import dynamically, steps_of
from npusim.frontends.onnx.operations.block_quantized import (
    channels_as_they_were,
    channels_first,
    codes,
    quantization,
    result,
)
from npusim.frontends.onnx.operations.onnx_windows import convolved, window_of
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import unshaped

_WHOLE = unshaped("int32")
_REAL = unshaped("float32")


# Convolutions


def _qlinear_conv(c: NodeConversion) -> Sequence[int]:
    image = channels_first(c, codes(c, "x", "x_scale", "x_zero_point"))
    weights = codes(c, "w", "w_scale", "w_zero_point", axis=0)
    bias = _bias(c, c.real("B"), image, weights) if c.has("B") else None
    kind = result(c, image, "y_scale", "y_zero_point")
    return [channels_as_they_were(c, convolved(c, image, weights, bias, kind=kind, rescale="float32"))]


def _bias(c: NodeConversion, bias: int, x: int, weights: int) -> int:
    """Return a bias in units of the accumulator."""
    own, theirs = c.builder.type(x).quantization, c.builder.type(weights).quantization
    assert own is not None
    assert theirs is not None
    return c.coded(bias, of_sums(own, theirs))


def _conv_integer(c: NodeConversion) -> Sequence[int]:
    """Add ConvInteger; zero points that depend on data are subtracted afterwards, times the sums of the weights."""
    x, w = c.plainly(c.real("x")), c.plainly(c.real("w"))
    zero: Any = _zero(c, "x_zero_point")
    weights_zero: Any = c.value("w_zero_point") if c.has("w_zero_point") else np.zeros(1, np.int64)
    weights = c.coded(w, _counted(weights_zero, 0))
    if isinstance(zero, np.ndarray):
        c.require(zero.size == 1, "x_zero_point must be one number")
        return [convolved(c, c.coded(x, _counted(zero)), weights, None, kind=_WHOLE, rescale="float32")]
    sums = convolved(c, c.coded(x, _counted(0)), weights, None, kind=_WHOLE, rescale="float32")
    behind = c.constant(_weights_seen(c, c.shape(x), c.value("w"), weights_zero))
    return [_less(c, sums, _times(c, c.reshaped(_whole(c, zero), ()), behind))]


def _weights_seen(c: NodeConversion, shape: Sequence[int], weights: Any, zero: Any) -> Array:
    """Return the sums of the weights that lie on the image, for each window: [1, channels, ...], int32."""
    window = window_of(c, shape[2:], weights.shape[2:])
    by_channel = zero.reshape(-1, *(1,) * (weights.ndim - 1)).astype(np.int64)
    sums: Any = (weights.astype(np.int64) - by_channel).sum(1)
    for axis, (extent, count) in enumerate(zip(shape[2:], window.positions(shape[2:]), strict=True)):
        places = np.arange(count)[:, None] * window.stride[axis] - window.padding[axis][0]
        taps = places + np.arange(window.size[axis]) * window.dilation[axis]
        inside = ((taps >= 0) & (taps < extent)).astype(np.int64)
        sums = np.moveaxis(np.tensordot(inside, sums, (1, axis + 1)), 0, axis + 1)
    return np.asarray(sums[None].astype(np.int32))


# Products of matrices


class _Factor(NamedTuple):
    """A matrix of integers, and its zero point, known or a tensor."""

    codes: int
    zero: Array | int


def _zero(c: NodeConversion, name: str) -> Any:
    """Return a zero point as an array, or as the tensor that has it."""
    if not c.has(name):
        return np.zeros(1, np.int64)
    array = c.known(name)
    return c.plainly(c.real(name)) if array is None else array


def _counted(zero: Any, axis: int | None = None) -> Quantization:
    """Return a quantization with scale 1."""
    zeros = np.asarray(zero).reshape(-1)
    return Quantization((1.0,) * zeros.size, tuple(map(int, zeros)), axis if zeros.size > 1 else None)


def _whole(c: NodeConversion, tensor: int) -> int:
    return tensor if c.builder.type(tensor).dtype == "int32" else c.node("cast", [c.plainly(tensor)], _WHOLE)


def _times(c: NodeConversion, a: int, b: int) -> int:
    return c.node("mul", [a, b], _WHOLE)


def _less(c: NodeConversion, a: int, b: int) -> int:
    return c.node("sub", [a, b], _WHOLE)


def _sums(c: NodeConversion, a: _Factor, b: _Factor, bias: int | None = None) -> int:
    """Return the int32 sums of products, [..., rows, columns]; the bias is integers that broadcast with them.

    The MAC array subtracts one known zero point per matrix. Zero points by row or column, and those that depend on
    data, are subtracted from the sums: sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + k za zb.
    """
    first, rows = _taken_off(c, a, -2)
    second, columns = _taken_off(c, b, -1)
    sums = _products(c, a.codes, first, b.codes, second, bias)
    if rows is not None:
        sums = _less(c, sums, _times(c, rows, _added(c, b.codes, second, -2)))
    if columns is not None:
        off = _added(c, a.codes, first, -1)
        if rows is not None:
            inner = c.constant(np.array(c.shape(a.codes)[-1], np.int32))
            off = _less(c, off, _times(c, inner, rows))
        sums = _less(c, sums, _times(c, off, columns))
    return sums


def _products(c: NodeConversion, a: int, first: int, b: int, second: int, bias: int | None) -> int:
    x = c.coded(a, _counted(first))
    layer = _layer(c, b, second)
    biased = bias is not None and c.shape(bias) == c.shape(b)[-1:] and layer
    if layer:
        weights = c.coded(c.transposed(b, (1, 0)), _counted(second))
        sums = _layered(c, x, weights, bias if biased else None, _WHOLE)
    else:
        sums = c.node("batch_matmul", [x, c.coded(b, _counted(second))], _WHOLE, rescale="float32")
    return sums if bias is None or biased else c.node("add", [sums, bias], _WHOLE)


def _layer(c: NodeConversion, b: int, zero: Any) -> bool:
    """Return whether a matrix can be the weights of a layer: constant, with one zero point."""
    shape = c.shape(b)
    return c.builder.tensors[b].constant and len(shape) == 2 and min(shape) > 0 and np.unique(zero).size == 1


def _layered(c: NodeConversion, x: int, weights: int, bias: int | None, kind: TensorType) -> int:
    return c.node("fully_connected", [x, weights, bias], kind, keep_num_dims=True, rescale="float32")


def _taken_off(c: NodeConversion, factor: _Factor, axis: int) -> tuple[int, int | None]:
    """Return the zero point that the MAC array subtracts, and the rest for rows (axis -2) or columns (-1), int32."""
    zero = factor.zero
    if isinstance(zero, np.ndarray):
        if np.unique(zero).size == 1:
            return int(zero.flat[0]), None
        zero = c.constant(zero.astype(np.int32))
    zero = _whole(c, zero)
    shape = c.shape(zero)
    if prod(shape) == 1:
        return 0, c.reshaped(zero, ())
    if len(shape) > 1:
        return 0, zero
    c.require(shape[0] == c.shape(factor.codes)[axis], f"{shape[0]} zero points do not fit the matrix")
    return 0, c.reshaped(zero, (*shape, 1) if axis == -2 else shape)


def _added(c: NodeConversion, tensor: int, zero: int, axis: int) -> int:
    """Return the sums along an axis, without the zero point."""
    wide, rank = _whole(c, tensor), len(c.shape(tensor))
    sums = c.node("sum", [wide], _WHOLE, axes=(rank + axis,), keep_dims=True)
    return _less(c, sums, c.constant(np.array(zero * c.shape(tensor)[axis], np.int32))) if zero else sums


def _factors(c: NodeConversion, a: int, b: int) -> tuple[int, int, tuple[int, ...]]:
    """Return vectors as matrices, and the shape that the product has then."""
    shapes = c.shape(a), c.shape(b)
    c.require(bool(shapes[0]) and bool(shapes[1]), "multiplies matrices or vectors, not scalars")
    inner = shapes[0][-1], shapes[1][-2:][0]
    c.require(inner[0] == inner[1], f"{list(shapes[0])} and {list(shapes[1])} do not fit")
    rows = c.reshaped(a, (1, *shapes[0])) if len(shapes[0]) == 1 else a
    columns = c.reshaped(b, (*shapes[1], 1)) if len(shapes[1]) == 1 else b
    batch = np.broadcast_shapes(c.shape(rows)[:-2], c.shape(columns)[:-2])
    return rows, columns, (*batch, *shapes[0][-2:-1], *(shapes[1][-1:] if len(shapes[1]) > 1 else ()))


def _matmul_integer(c: NodeConversion) -> Sequence[int]:
    a, b, shape = _factors(c, c.plainly(c.real("A")), c.plainly(c.real("B")))
    sums = _sums(c, _Factor(a, _zero(c, "a_zero_point")), _Factor(b, _zero(c, "b_zero_point")))
    return [c.reshaped(sums, shape)]


def _scaled_sums(c: NodeConversion, sums: int, *factors: int) -> int:
    """Return f32(f32(sums) * f32(product of factors)); known factors become the scale of the sums."""
    factor = factors[0]
    for other in factors[1:]:
        factor = c.node("mul", [factor, other], _REAL)
    known, shape = c.builder.tensors[factor].array, c.shape(sums)
    if known is not None and (known.size == 1 or known.shape == shape[-1:]):
        axis = None if known.size == 1 else len(shape) - 1
        scales = tuple(map(float, known.reshape(-1)))
        return c.as_real(c.coded(sums, Quantization(scales, (0,) * known.size, axis)))
    return c.node("mul", [c.node("cast", [sums], _REAL), factor], _REAL)


def _in_codes(c: NodeConversion, reals: int, kind: TensorType) -> int:
    """Return floats, in units of the scale, as quantized values: rounded, plus the zero point."""
    assert kind.quantization is not None
    steps = replace(kind, quantization=replace(kind.quantization, scales=(1.0,)))
    assert steps.quantization is not None
    return c.coded(c.node("quantize", [reals], steps, rescale="float32"), kind.quantization)


def _by_column(c: NodeConversion, name: str) -> int:
    """Return a float32 scale: one number, or one per column."""
    number = c.cast(c.real(name), "float32")
    return c.reshaped(number, ()) if prod(c.shape(number)) == 1 else number


def _by_row(c: NodeConversion, name: str) -> int:
    number = _by_column(c, name)
    return c.reshaped(number, (*c.shape(number), 1)) if len(c.shape(number)) == 1 else number


def _qlinear_matmul(c: NodeConversion) -> Sequence[int]:
    a, b, shape = _factors(c, c.plainly(c.real("a")), c.plainly(c.real("b")))
    scales: Any = [c.known(f"{name}_scale") for name in "aby"]
    zeros = [_zero(c, f"{name}_zero_point") for name in "aby"]
    known = all(isinstance(array, np.ndarray) for array in (*scales, *zeros))
    if known and np.size(scales[0]) == np.size(zeros[0]) == 1 and _columns(c, b, scales[1], zeros[1]):
        kind = result(c, a, "y_scale", "y_zero_point")
        x = c.coded(a, quantization(c, "a_scale", "a_zero_point"))
        if _layer(c, b, zeros[1]):
            weights = c.coded(c.transposed(b, (1, 0)), quantization(c, "b_scale", "b_zero_point", 0))
            return [c.reshaped(_layered(c, x, weights, None, kind), shape)]
        y = c.coded(b, quantization(c, "b_scale", "b_zero_point"))
        return [c.reshaped(c.node("batch_matmul", [x, y], kind, rescale="float32"), shape)]
    sums = _sums(c, _Factor(a, zeros[0]), _Factor(b, zeros[1]))
    factor = c.node("mul", [_by_row(c, "a_scale"), _by_column(c, "b_scale")], _REAL)
    steps = _scaled_sums(c, sums, c.node("div", [factor, _by_row(c, "y_scale")], _REAL))
    zero = c.plainly(c.real("y_zero_point"))
    zero = c.reshaped(zero, (*c.shape(zero), 1) if prod(c.shape(zero)) > 1 else ())
    output = c.reshaped(steps_of(c, steps, zero, c.builder.type(zero).dtype), shape)
    one = scales[2] is not None and np.size(scales[2]) == 1 and isinstance(zeros[2], np.ndarray)
    return [c.coded(output, quantization(c, "y_scale", "y_zero_point")) if one else output]


def _columns(c: NodeConversion, b: int, scales: Any, zeros: Any) -> bool:
    """Return whether one operator takes these weights: one scale, or one per column of constant weights."""
    if np.size(scales) == np.size(zeros) == 1:
        return True
    return _layer(c, b, zeros) and np.size(scales) in (1, c.shape(b)[-1])


def _qgemm(c: NodeConversion) -> Sequence[int]:
    """Add QGemm, in which f32(alpha * a scale) is the scale of a."""
    a, b = (
        c.transposed(c.plainly(c.real(name)), (1, 0) if c.flag(f"trans{name}") else (0, 1)) for name in "AB"
    )
    c.require(len(c.shape(a)) == len(c.shape(b)) == 2, "multiplies matrices")
    _factors(c, a, b)
    kind = result(c, a, "y_scale", "y_zero_point") if c.has("y_scale") else _REAL
    x = quantization(c, "a_scale", "a_zero_point")
    y = quantization(c, "b_scale", "b_zero_point", 1)
    alpha = np.float32(c.attribute("alpha", 1.0)) * np.float32(x.scale)
    third = c.plainly(c.real("C")) if c.has("C") else None
    columns = c.shape(b)[1]
    biased = third is None or (prod(c.shape(third)) == columns and c.shape(third)[-1:] == (columns,))
    if third is not None and biased:
        third = c.reshaped(third, (columns,))
    if _layer(c, b, y.zero_points) and biased and kind.quantization is not None:
        image = c.coded(a, replace(x, scales=(float(alpha),)))
        weights = c.coded(c.transposed(b, (1, 0)), y if y.axis is None else replace(y, axis=0))
        bias = None if third is None else _bias(c, third, image, weights)
        return [_layered(c, image, weights, bias, kind)]
    factors = _Factor(a, np.array(x.zero_points)), _Factor(b, np.array(y.zero_points))
    sums = _sums(c, *factors, third)
    factor = alpha * np.array(y.scales, np.float32)
    if kind.quantization is None:
        return [_scaled_sums(c, sums, c.constant(factor))]
    factor = factor / np.float32(kind.quantization.scale)
    return [_in_codes(c, _scaled_sums(c, sums, c.constant(factor)), kind)]


def _matmul_to_float(c: NodeConversion) -> Sequence[int]:
    return [_plus_bias(c, product_in_floats(c, ("A", "a"), ("B", "b")))]


def product_in_floats(c: NodeConversion, first: tuple[str, str], second: tuple[str, str]) -> int:
    """Return f32(f32(sum) * f32(sx * sw)) of two inputs, given the prefixes of their scales' and zero points' names."""
    a, b, shape = _factors(c, *(c.plainly(c.real(name)) for name, _ in (first, second)))
    left, right = (
        _Factor(a, _zero(c, f"{first[1]}_zero_point")),
        _Factor(b, _zero(c, f"{second[1]}_zero_point")),
    )
    scales = _by_row(c, f"{first[1]}_scale"), _by_column(c, f"{second[1]}_scale")
    return c.reshaped(_scaled_sums(c, _sums(c, left, right), *scales), shape)


def _plus_bias(c: NodeConversion, reals: int) -> int:
    return c.node("add", [reals, c.real("bias")], _REAL) if c.has("bias") else reals


def _dynamic_matmul(c: NodeConversion) -> Sequence[int]:
    weights = DynamicWeights(c.plainly(c.real("B")), _by_column(c, "b_scale"), _zero(c, "b_zero_point"))
    return [_plus_bias(c, dynamic_product(c, c.real("A"), weights))]


class DynamicWeights(NamedTuple):
    """A matrix of integers, its scale (one number, or one per column), and its zero point."""

    codes: int
    scale: int
    zero: Array | int


def dynamic_product(c: NodeConversion, x: int, weights: DynamicWeights) -> int:
    """Quantize floats by their range and multiply by a matrix: f32(f32(sum) * f32(sx * sw))."""
    codes, scale, zero = dynamically(c, x)
    a, b, shape = _factors(c, codes, weights.codes)
    sums = _sums(c, _Factor(a, zero), _Factor(b, weights.zero))
    return c.reshaped(_scaled_sums(c, sums, scale, weights.scale), shape)


_PRODUCTS = "fully_connected batch_matmul"
_CORRECTIONS = "sum cast mul sub"


_CONVOLUTION = "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?"

ROWS: tuple[Row, ...] = (
    Row("QLinearConv", _CONVOLUTION, _qlinear_conv, "conv_2d depthwise_conv_2d", groups=False),
    Row(
        "ConvInteger", "x w x_zero_point? w_zero_point?", _conv_integer, "conv_2d cast mul sub", groups=False
    ),
    Row(
        "MatMulInteger",
        "A B a_zero_point? b_zero_point?",
        _matmul_integer,
        f"{_PRODUCTS} {_CORRECTIONS}",
        groups=False,
    ),
    Row(
        "QLinearMatMul",
        "a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point",
        _qlinear_matmul,
        f"{_PRODUCTS} {_CORRECTIONS} div quantize",
        groups=False,
    ),
    microsoft(
        "QGemm",
        "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?",
        _qgemm,
        f"{_PRODUCTS} {_CORRECTIONS} add quantize",
    ),
    microsoft(
        "MatMulIntegerToFloat",
        "A B a_scale b_scale a_zero_point? b_zero_point? bias?",
        _matmul_to_float,
        f"{_PRODUCTS} {_CORRECTIONS} add",
    ),
    microsoft(
        "DynamicQuantizeMatMul",
        "A B b_scale b_zero_point? bias?",
        _dynamic_matmul,
        f"{_PRODUCTS} {_CORRECTIONS} dynamic_quantize add",
    ),
    microsoft("MatMulInteger16", "A B", _matmul_integer, _PRODUCTS),
    microsoft("QLinearConv", _CONVOLUTION, _qlinear_conv, "conv_2d depthwise_conv_2d transpose"),
)
