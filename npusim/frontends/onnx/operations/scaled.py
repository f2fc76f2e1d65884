"""Operands and results whose scale and zero point are inputs of the same node, as QOperator models have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import unshaped


def numbers(c: NodeConversion, name: str, default: float = 0) -> Array:
    """A scale or zero point as a vector. Raises GraphError where only a run gives it."""
    if not c.has(name):
        return np.full(1, default, np.float32)
    return c.value(name).reshape(-1)


def quantization(c: NodeConversion, scale: str, zero: str, axis: int | None = None) -> Quantization:
    """What two inputs say; along an axis where they have several elements."""
    scales: Any = numbers(c, scale, 1)
    zeros: Any = numbers(c, zero)
    c.require(
        scales.dtype in (np.float16, np.float32), f"{scale} is {scales.dtype}, must be float32 or float16"
    )
    count = max(scales.size, zeros.size)
    fitting = axis is not None or count == 1
    c.require(
        fitting and {scales.size, zeros.size} <= {1, count},
        f"{scale} and {zero} have {scales.size} and {zeros.size} elements, must have one"
        + ("" if axis is None else " or one for each channel"),
    )
    values = np.broadcast_to(scales, count), np.broadcast_to(zeros, count)
    return Quantization(tuple(map(float, values[0])), tuple(map(int, values[1])), axis if count > 1 else None)


def codes(c: NodeConversion, name: str, scale: str, zero: str, axis: int | None = None) -> int:
    """The codes of an input, with the scale and zero point that other inputs say."""
    tensor = c.real(name)
    found = quantization(c, scale, zero, axis)
    c.require(c.builder.type(tensor).element.codes, f"{name} is {c.builder.type(tensor).dtype}, no codes")
    return c.coded(tensor, found)


def result(c: NodeConversion, like: int, scale: str, zero: str) -> TensorType:
    """The type of a result in the codes that inputs say; without a zero point those of another tensor."""
    zeros = c.known(zero) if c.has(zero) else None
    dtype = c.builder.type(like).dtype if zeros is None else zeros.dtype.name
    return unshaped(dtype, quantization(c, scale, zero))


def requantized(c: NodeConversion, tensor: int, kind: TensorType) -> int:
    """Codes in those of another type, as DequantizeLinear and QuantizeLinear make them; equal ones stay."""
    own = c.builder.type(tensor)
    if (own.dtype, own.quantization) == (kind.dtype, kind.quantization):
        return tensor
    return c.node("quantize", [tensor], kind, rescale="float32")


def channels_first(c: NodeConversion, image: int) -> int:
    """An image in [N, C, ...], which com.microsoft has in another order where `channels_last` is 1."""
    rank = len(c.shape(image))
    c.require(rank > 2, f"the input has shape {list(c.shape(image))}, must have 3 axes or more")
    return c.transposed(image, (0, rank - 1, *range(1, rank - 1))) if _channels_last(c) else image


def channels_as_they_were(c: NodeConversion, image: int) -> int:
    """A result of such an image in the order of the operand."""
    return c.transposed(image, (0, *range(2, len(c.shape(image))), 1)) if _channels_last(c) else image


def _channels_last(c: NodeConversion) -> bool:
    return c.flag("channels_last")
