"""QuantizeLinear and DequantizeLinear: the quantization that they state, and element types narrower than a byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from npusim.frontends.forms.networks import Node
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Quantization

NARROW = {"int4": ("int8", 4), "uint4": ("uint8", 4), "int2": ("int8", 2), "uint2": ("uint8", 2)}
"""The types that hold elements of less than a byte, one per byte, and the bits per element."""


def type_name(code: int) -> str:
    """Return the name that npusim or numpy has for a number of TensorProto.DataType."""
    import onnx

    if code not in onnx.TensorProto.DataType.values():
        return f"number {code}"
    name: str = onnx.TensorProto.DataType.Name(code).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def held_type(code: int) -> tuple[str, int]:
    """Return the type that stores an element type, and how many of its bits an element uses (0 for all)."""
    name = type_name(code)
    return NARROW.get(name, (name, 0))


QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True, slots=True)
class Codes:
    """The quantization that a QuantizeLinear or DequantizeLinear states.

    dtype: the element type; "" if only the quantized values tell.
    bits: the bits of it that elements use; 0 for all.
    """

    dtype: str
    quantization: Quantization
    bits: int = 0


_NUMBERS = {"block_size": 0, "output_dtype": 0, "axis": 1}
"""Attributes of both operations, with their defaults."""


def codes_of(
    node: Node,
    constants: Mapping[str, Array],
    narrow: Mapping[str, int] = MappingProxyType({}),
    dtype: str = "",
) -> Codes | None:
    """Return the quantization that a node states; None if it depends on data or has blocks.

    narrow: bits per element of constants that are stored one element per byte.
    dtype: the element type of the operand of a DequantizeLinear.
    """
    scale: Any = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    numbers = [node.attributes.get(name, default) for name, default in _NUMBERS.items()]
    if scale is None or not all(isinstance(number, int) for number in numbers):
        return None
    block, type_code, axis = numbers
    if block:
        return None
    zero: Any = None
    if len(node.inputs) > 2 and node.inputs[2]:
        zero = constants.get(node.inputs[2])
        if zero is None:
            return None
    if scale.dtype != np.float32 or scale.ndim > 1 or scale.size == 0:
        return None
    zeros = np.zeros(scale.size, np.int64) if zero is None else zero.reshape(-1)
    if zeros.size != scale.size:
        return None
    bits = 0
    if zero is not None:
        dtype, bits = zero.dtype.name, narrow.get(node.inputs[2], 0)
    elif node.operation == QUANTIZE:
        dtype, bits = held_type(type_code) if type_code else ("uint8", 0)
    along = axis if scale.ndim == 1 and scale.size > 1 else None
    scaling = Quantization(tuple(map(float, scale.reshape(-1))), tuple(map(int, zeros)), along)
    return Codes(dtype, scaling, bits)


def moved_axis(
    node: Node, codes: Codes, shape: tuple[int, ...] | None, constants: Mapping[str, Array]
) -> tuple[Codes, tuple[int, ...]] | None:
    """Return the quantization per channel of a constant after a reshape or transpose, and its new shape.

    None if the channels are no axis of the result, or the new shape is no constant.
    """
    node, axis = node.role, codes.quantization.axis
    if shape is None or axis is None or not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    if node.operation == "Identity":
        return codes, shape
    if node.operation == "Transpose":
        perm = list(node.attributes.get("perm") or range(len(shape) - 1, -1, -1))
        if sorted(perm) != list(range(len(shape))):
            return None
        moved, target = perm.index(axis), tuple([shape[place] for place in perm])
    else:
        target_shape = _other_shape(node, shape, constants)
        if target_shape is None:
            return None
        target, before = target_shape, prod(shape[:axis])
        places = [place for place in range(len(target)) if prod(target[:place]) == before]
        moved = next((place for place in places if target[place] == shape[axis]), -1)
        if moved < 0:
            return None
    return replace(codes, quantization=replace(codes.quantization, axis=moved)), target


def _other_shape(
    node: Node, shape: tuple[int, ...], constants: Mapping[str, Array]
) -> tuple[int, ...] | None:
    """Return the shape that Reshape, Flatten, Squeeze or Unsqueeze gives; None if it is no constant."""
    if node.operation == "Flatten":
        axis = int(node.attributes.get("axis", 1))
        axis = axis + len(shape) if axis < 0 else axis
        return prod(shape[:axis]), prod(shape[axis:])
    given_axes: Any = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        given_axes = constants.get(node.inputs[1])
    if given_axes is None:
        return tuple([size for size in shape if size != 1]) if node.operation == "Squeeze" else None
    numbers = [int(number) for number in np.asarray(given_axes).reshape(-1)]
    if node.operation == "Reshape":
        return _reshaped(numbers, shape, bool(node.attributes.get("allowzero", 0)))
    if node.operation == "Squeeze":
        gone = {number % len(shape) for number in numbers}
        return tuple([size for place, size in enumerate(shape) if place not in gone])
    if node.operation == "Unsqueeze":
        rest, rank = iter(shape), len(shape) + len(numbers)
        new = {number % rank for number in numbers}
        return tuple([1 if place in new else next(rest, 1) for place in range(rank)])
    return None


def _reshaped(sizes: Sequence[int], shape: tuple[int, ...], zeros: bool) -> tuple[int, ...] | None:
    if not zeros:
        if any(size == 0 and place >= len(shape) for place, size in enumerate(sizes)):
            return None
        sizes = [size or shape[place] for place, size in enumerate(sizes)]
    rest = prod(size for size in sizes if size != -1)
    result = tuple([prod(shape) // rest if size == -1 and rest else size for size in sizes])
    return result if prod(result) == prod(shape) else None
