"""Matrix products, conversions between element types, and limits: Relu and Clip, also on quantized values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npusim.frontends.forms.conversion import Conversion
from npusim.isa.base.elements import element
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.operator.element_types import quantize_results
from npusim.kernels.operator.rescale import REAL_RANGES


def limited(c: Conversion, x: int, least: float, most: float) -> int:
    """Limit elements to a range, whose ends may be infinite."""
    named = {
        (0.0, np.inf): "relu",
        (0.0, 6.0): "relu6",
        (-1.0, 1.0): "relu_n1_to_1",
        (0.0, 1.0): "relu_0_to_1",
    }
    op = named.get((least, most))
    if op is not None:
        return c.node(op, [x])
    if least == -np.inf and most == np.inf:
        return c.node("reshape", [x], shape=c.shape(x))
    limits = np.finfo(np.float32)
    return c.node("clip", [x], least=max(least, float(limits.min)), most=min(most, float(limits.max)))


def converted(c: Conversion, x: int, dtype: str) -> int:
    """Convert to another element type: floats are truncated, integers wrap, and booleans are what is not 0."""
    kind = c.builder.type(x)
    if kind.dtype == dtype:
        return c.step("reshape", [x], shape=kind.shape)
    if dtype == "bool":
        return c.step("not_equal", [x, c.scalar(0, x)], "bool")
    if kind.real and dtype in ("int8", "uint8", "int16", "uint16"):
        return c.cast(c.cast(x, "int32"), dtype)
    return c.cast(x, dtype)


def product(c: Conversion, a: int, b: int, *, final: bool = True) -> int:
    """Multiply matrices as numpy does; by a constant matrix it is a fully connected layer.

    final: whether the product is the node's result, not an intermediate.
    """
    shapes = c.shape(a), c.shape(b)
    c.require(bool(shapes[0]) and bool(shapes[1]), "multiplies matrices or vectors, not scalars")
    inner = shapes[0][-1], shapes[1][-2] if len(shapes[1]) > 1 else shapes[1][0]
    c.require(
        inner[0] == inner[1], f"{list(shapes[0])} and {list(shapes[1])} do not fit: {inner[0]} by {inner[1]}"
    )
    add = c.node if final else c.step
    if c.builder.tensors[b].constant and len(shapes[1]) == 2 and 0 not in shapes[0] and min(shapes[1]) > 0:
        kind = c.builder.type(a)
        if kind.real or kind.quantization is not None:
            return add("fully_connected", [a, c.transposed(b, (1, 0)), None], keep_num_dims=True)
    if len(shapes[0]) == 1:
        a = c.reshaped(a, (1, *shapes[0]))
    if len(shapes[1]) == 1:
        b = c.reshaped(b, (*shapes[1], 1))
    kind = c.builder.type(a)
    if not kind.real and kind.quantization is None:
        return _whole(c, a, b, shapes)
    result = add("batch_matmul", [a, b])
    return _without_ones(c, result, shapes)


def _without_ones(c: Conversion, result: int, shapes: tuple[Sequence[int], Sequence[int]]) -> int:
    shape = list(c.shape(result))
    if len(shapes[1]) == 1:
        del shape[-1]
    if len(shapes[0]) == 1:
        del shape[-1 if len(shapes[1]) == 1 else -2]
    return c.reshaped(result, shape)


def _whole(c: Conversion, a: int, b: int, shapes: tuple[Sequence[int], Sequence[int]]) -> int:
    """Multiply matrices of integers, which wrap; the operator has int32."""
    dtype = c.builder.type(a).dtype
    c.require(dtype in ("int32", "uint32"), f"npusim has no products of matrices of {dtype}")
    result = c.step("batch_matmul", [c.cast(a, "int32"), c.cast(b, "int32")])
    return _without_ones(c, c.cast(result, dtype), shapes)


class Limits(NamedTuple):
    """The range of floats that a Relu or Clip lets through, and whether it is the only reader of its operand."""

    least: float
    most: float
    alone: bool = False


def lets_all_through(kind: TensorType, limits: Limits) -> bool:
    """Return whether every quantized value of a type stands for a float within the limits."""
    scaling = kind.quantization
    if scaling is None or scaling.axis is not None:
        return False
    lowest, highest = element(kind.dtype).limits
    low, high = (
        int(quantize_results(np.array(bound, np.float32), kind)) for bound in (limits.least, limits.most)
    )
    return low <= lowest and high >= highest


def fused(builder: GraphBuilder, node: int, limits: Limits) -> bool:
    """Make limits the fused activation of a node that is already in the graph; return False if that is impossible."""
    if not limits.alone:
        return False
    name = next((name for name, reals in REAL_RANGES.items() if reals == (limits.least, limits.most)), None)
    parameters: Any = builder.nodes[node].parameters
    if name is None or getattr(parameters, "activation", "") != "none" or parameters.rescale != "float32":
        return False
    builder.nodes[node] = replace(builder.nodes[node], parameters=parameters.changed(activation=name))
    return True
