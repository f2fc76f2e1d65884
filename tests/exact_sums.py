"""Weighted sums with the rescale "float32", drawn at random, and what ONNX's formulas make of them, written out.

The formulas are those of QLinearConv, QLinearMatMul and ConvInteger (onnx.ai/onnx/operators) with one float32 rescale.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operator.operator import Call

from .graphs import Sketch
from .random_graphs import Pick

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
EIGHT = ("int8", "uint8")
OPERATORS = ("conv_2d", "depthwise_conv_2d", "transpose_conv", "fully_connected", "batch_matmul")
Ints = NDArray[np.int64]


def _scale(rng: np.random.Generator, around: float) -> float:
    return float(np.float32(around * rng.uniform(0.5, 2)))


def codes(
    rng: np.random.Generator, dtype: str, shape: Sequence[int], around: float, axis: int | None = None
) -> TensorType:
    """A type of codes, with a scale and zero point each along an axis."""
    count = 1 if axis is None else shape[axis]
    low, high = LIMITS[dtype]
    zeros = tuple(int(each) for each in rng.integers(low, high + 1, count))
    return TensorType(
        dtype, tuple(shape), Quantization(tuple(_scale(rng, around) for _ in range(count)), zeros, axis)
    )


def one_zero(kind: TensorType) -> TensorType:
    """The same with the first zero point for all."""
    scaling = kind.quantization
    assert scaling is not None
    zeros = (scaling.zero_points[0],) * len(scaling.scales)
    return TensorType(kind.dtype, kind.shape, Quantization(scaling.scales, zeros, scaling.axis))


class Drawn:
    """A call: shapes, types, which operands are constants."""

    def __init__(
        self, pick: Pick, dtypes: Sequence[str] = EIGHT, words: bool = True, zeros: bool = False
    ) -> None:
        self.pick = pick
        self.sketch = Sketch("exact", seed=pick(0, 1 << 20))
        self.dtypes = dtypes
        self.several_zeros = zeros
        self.output = "int32" if words and pick(0, 3) == 0 else self.any(dtypes)

    def any(self, options: Sequence[Any]) -> Any:
        """One of some."""
        return options[self.pick(0, len(options) - 1)]

    def graph(self, operator: str) -> Graph:
        """A graph of one call."""
        return getattr(self, f"_{operator}")() if operator != "conv_2d" else self._conv_2d()

    def operand(self, shape: Sequence[int], axis: int | None, constant: bool) -> int:
        """An operand of codes, a constant or an input."""
        kind = codes(self.sketch.rng, self.any(self.dtypes), shape, 0.05, axis)
        if not self.several_zeros:
            kind = one_zero(kind)
        if not constant:
            return self.sketch.builder.as_input(self.sketch.add_tensor(kind))
        low, high = LIMITS[kind.dtype]
        return self.sketch.add_tensor(kind, self.sketch.rng.integers(low, high + 1, shape).astype(kind.dtype))

    def result(self, operator: str, x: int, w: int, channels: int, terms: int, **how: Any) -> Graph:
        """The graph whose call has this feature map, these weights and perhaps a bias."""
        sketch, rng = self.sketch, self.sketch.rng
        x_type, w_type = sketch.type_of(x), sketch.type_of(w)
        inputs = [x, w]
        if operator != "batch_matmul":
            bias = rng.integers(-(1 << 14), 1 << 14, channels).astype(np.int32)
            drawn = self.pick(0, 3)
            kind = TensorType("int32", (channels,))
            if drawn == 1:
                inputs.append(sketch.builder.as_input(sketch.add_tensor(kind)))
            elif drawn > 1:
                inputs.append(sketch.add_tensor(kind, bias))
            if self.output != "int32":
                how["activation"] = self.any(("none", "none", "relu", "relu6", "relu_n1_to_1"))
        if self.output == "int32":
            output = unshaped("int32", None)
        else:
            assert x_type.quantization is not None
            assert w_type.quantization is not None
            bits = (x_type.element.bits + w_type.element.bits, 8 if self.output in EIGHT else 16)
            spread = 2.0 ** (bits[0] - 4) * terms**0.5 / 2.0 ** (bits[1] - 2)
            around = x_type.quantization.scale * w_type.quantization.scale * spread
            if self.pick(0, 3) == 0:  # scales whose quotient is a power of two: ties
                around = float(2.0 ** np.round(np.log2(around)))
            output = unshaped(self.output, codes(rng, self.output, (), around).quantization)
        sketch.node(operator, inputs, output, rescale="float32", **how)
        return sketch.graph()

    def _axis(self, axis: int) -> int | None:
        return axis if self.pick(0, 1) else None

    def _window(self, most: int = 3) -> dict[str, Any]:
        pick = self.pick
        return {
            "strides": [pick(1, most), pick(1, most)],
            "padding": [[pick(0, 2), pick(0, 2)], [pick(0, 2), pick(0, 2)]],
        }

    def _conv_2d(self) -> Graph:
        pick = self.pick
        groups, depth, filters = self.any((1, 1, 1, 2, 3)), pick(1, 6), pick(1, 9)
        kernel = pick(1, 3), pick(1, 3)
        x = self.operand((pick(1, 2), pick(5, 14), pick(5, 14), groups * depth), None, False)
        w = self.operand((groups * filters, *kernel, depth), self._axis(0), pick(0, 5) > 0)
        terms = prod(kernel) * depth
        how = self._window() | {"dilations": [pick(1, 2), pick(1, 2)]}
        return self.result("conv_2d", x, w, groups * filters, terms, **how)

    def _depthwise_conv_2d(self) -> Graph:
        pick = self.pick
        depth, times, kernel = pick(1, 12), self.any((1, 1, 2)), (pick(1, 3), pick(1, 3))
        x = self.operand((pick(1, 2), pick(5, 14), pick(5, 14), depth), None, False)
        w = self.operand((1, *kernel, depth * times), self._axis(3), pick(0, 5) > 0)
        how = self._window() | {"depth_multiplier": times}
        return self.result("depthwise_conv_2d", x, w, depth * times, prod(kernel), **how)

    def _transpose_conv(self) -> Graph:
        pick = self.pick
        groups, depth, filters, kernel = self.any((1, 1, 2)), pick(1, 5), pick(1, 6), (pick(2, 4), pick(2, 4))
        x = self.operand((1, pick(2, 8), pick(2, 8), groups * depth), None, False)
        w = self.operand((groups * filters, *kernel, depth), self._axis(0), pick(0, 5) > 0)
        how = {
            "strides": [pick(1, 3), pick(1, 3)],
            "padding": [[pick(0, 1), pick(0, 1)], [pick(0, 1), pick(0, 1)]],
        }
        return self.result("transpose_conv", x, w, groups * filters, prod(kernel) * depth, **how)

    def _fully_connected(self) -> Graph:
        pick = self.pick
        rows, inner, units = pick(1, 30), pick(1, 200), pick(1, 60)
        x = self.operand((rows, inner), None, False)
        w = self.operand((units, inner), self._axis(0), pick(0, 2) > 0)
        return self.result("fully_connected", x, w, units, inner)

    def _batch_matmul(self) -> Graph:
        pick = self.pick
        rows, inner, columns = pick(1, 30), pick(1, 100), pick(1, 40)
        flips = bool(pick(0, 1)), bool(pick(0, 1))
        batch = tuple(pick(1, 3) for _ in range(pick(0, 2)))
        sizes = (rows, inner)[:: -1 if flips[0] else 1], (inner, columns)[:: -1 if flips[1] else 1]
        batches = batch, batch if pick(0, 1) else ()
        axis = self._axis(-2 if flips[1] else -1)
        second = (*batches[1], *sizes[1])
        x = self.operand((*batches[0], *sizes[0]), None, False)
        w = self.operand(second, None if axis is None else len(second) + axis, bool(pick(0, 1)))
        return self.result("batch_matmul", x, w, columns, inner, adj_x=flips[0], adj_y=flips[1])


def _centred(value: Any, kind: TensorType) -> Ints:
    scaling = kind.quantization
    assert scaling is not None
    shape = [1] * value.ndim
    if scaling.axis is not None:
        shape[scaling.axis] = -1
    return np.asarray(value.astype(np.int64) - np.array(scaling.zero_points, np.int64).reshape(shape))


def _of_taps(call: Call, x: Ints, w: Ints) -> Ints:
    """A convolution, weights [o, height, width, i of a group], tap by tap and group by group."""
    n, rows, columns, channels = call.outputs[0].shape
    how = call.parameters
    sums = np.zeros((n, rows, columns, channels), np.int64)
    dilations = getattr(how, "dilations", (1, 1))
    (top, bottom), (left, right) = how.padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))  # padding is the zero point
    depth, groups = w.shape[3], x.shape[3] // w.shape[3]
    filters = channels // groups
    for a, b, group in product(range(w.shape[1]), range(w.shape[2]), range(groups)):
        y, z = a * dilations[0], b * dilations[1]
        seen = padded[
            :, y : y + (rows - 1) * how.strides[0] + 1 : how.strides[0],
            z : z + (columns - 1) * how.strides[1] + 1 : how.strides[1], group * depth : (group + 1) * depth,
        ]  # fmt: skip
        part = slice(group * filters, (group + 1) * filters)
        sums[..., part] += seen @ w[part, a, b].T
    return sums


def _of_scattered_taps(call: Call, x: Ints, w: Ints) -> Ints:
    """The transposed one: every pixel adds to a window."""
    n, height, width, channels_in = x.shape
    channels, kernel_height, kernel_width, depth = w.shape
    how = call.parameters
    down, right = how.strides
    whole = np.zeros(
        (n, (height - 1) * down + kernel_height, (width - 1) * right + kernel_width, channels), np.int64
    )
    groups = channels_in // depth
    filters = channels // groups
    for i, j, group in product(range(height), range(width), range(groups)):
        part = slice(group * filters, (group + 1) * filters)
        pixel = x[:, i, j, group * depth : (group + 1) * depth]
        window = np.einsum("nd,oabd->nabo", pixel, w[part])
        whole[:, i * down : i * down + kernel_height, j * right : j * right + kernel_width, part] += window
    (top, _), (left, _) = how.padding
    _, rows, columns, _ = call.outputs[0].shape
    return whole[:, top : top + rows, left : left + columns]


def formula(operator: str, call: Call, values: Sequence[Any]) -> Any:
    """What the formulas give, in int64 and single float32 operations."""
    x_type, w_type, ofm = call.inputs[0], call.inputs[1], call.outputs[0]
    assert x_type is not None
    assert w_type is not None
    x, w = _centred(values[0], x_type), _centred(values[1], w_type)
    if operator == "batch_matmul":
        x = np.swapaxes(x, -1, -2) if call.parameters.adj_x else x
        w = np.swapaxes(w, -1, -2) if call.parameters.adj_y else w
        sums = np.matmul(x, w)
    elif operator == "fully_connected":
        sums = x @ w.T
    elif operator == "depthwise_conv_2d":
        times = call.parameters.depth_multiplier
        sums = _of_taps(call, np.repeat(x, times, axis=3), np.moveaxis(w, 3, 0)[:, 0, :, :, None])
    elif operator == "transpose_conv":
        sums = _of_scattered_taps(call, x, w)
    else:
        sums = _of_taps(call, x, w)
    if len(values) > 2 and values[2] is not None:
        sums = sums + values[2].astype(np.int64)
    return rescaled(call, sums, x_type, w_type, ofm)


def rescaled(call: Call, sums: Ints, x: TensorType, w: TensorType, ofm: TensorType) -> Any:
    """sat(rint(f32(f32(sum) * f32(f32(sx * sw) / sy))) + zy), between the bounds of the activation."""
    if ofm.dtype == "int32":
        return (sums & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    assert x.quantization is not None
    assert w.quantization is not None
    assert ofm.quantization is not None
    scale = np.float32(x.quantization.scale) * np.array(w.quantization.scales, np.float32)
    factor = scale / np.float32(ofm.quantization.scale)
    steps = np.rint(sums.astype(np.float32) * factor).astype(np.float64)
    bounds = {"relu": (0, np.inf), "relu6": (0, 6), "relu_n1_to_1": (-1, 1)}
    low, high = bounds.get(getattr(call.parameters, "activation", "none"), (-np.inf, np.inf))
    ends = [np.rint(np.float32(end) / np.float32(ofm.quantization.scale)) for end in (low, high)]
    return np.clip(np.clip(steps, *ends) + ofm.quantization.zero_point, *LIMITS[ofm.dtype]).astype(ofm.dtype)
