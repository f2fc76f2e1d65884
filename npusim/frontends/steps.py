"""Steps that the conversions of several doors take alike: tensors under other shapes, in other orders, as reals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.operator.in_reals import reals_of_codes


class Steps:
    """What a conversion of a door is built on. A subclass says how its door makes constants and nodes, and what it
    raises.
    """

    builder: GraphBuilder

    def shape(self, tensor: str | int) -> tuple[int, ...]:
        """The shape of a tensor, or of an argument."""
        raise NotImplementedError

    def require(self, holds: bool, text: str) -> None:
        """Raises the door's error with a text where something does not hold."""
        raise NotImplementedError

    def constant(self, data: Array, quantization: Quantization | None = None) -> int:
        """A new constant."""
        raise NotImplementedError

    def one(self, op: str, tensor: int, kind: TensorType, **parameters: Any) -> int:
        """Adds a node of one operand and one result of this type, and returns the result."""
        raise NotImplementedError

    def like(self, tensor: int) -> TensorType:
        """The type of a tensor, without its shape."""
        kind = self.builder.type(tensor)
        return unshaped(kind.dtype, kind.quantization)

    def reshaped(self, tensor: int, shape: Sequence[int]) -> int:
        """A tensor under another shape; a constant becomes another one."""
        held, shape = self.builder.tensors[tensor], tuple(shape)
        if shape == held.type.shape:
            return tensor
        kind = _reshaped_scales(self.like(tensor), held.type.shape, shape)
        if held.array is not None and held.array.size == prod(shape):
            return self.constant(held.array.reshape(shape), kind.quantization)
        return self.one("reshape", tensor, kind, shape=shape)

    def transposed(self, tensor: int, perm: Sequence[int]) -> int:
        """A tensor with its axes in another order; a constant becomes another one."""
        if list(perm) == sorted(perm):
            return tensor
        held, kind = self.builder.tensors[tensor], self.like(tensor)
        scaling = kind.quantization
        if scaling is not None and scaling.axis is not None:
            scaling = replace(scaling, axis=list(perm).index(scaling.axis))
        if held.array is not None:
            return self.constant(held.array.transpose(perm), scaling)
        return self.one("transpose", tensor, replace(kind, quantization=scaling), perm=tuple(perm))

    def as_real(self, tensor: int) -> int:
        """A tensor as real numbers, if it has codes: f32(f32(code - zero point) * scale), in a constant, too."""
        held = self.builder.tensors[tensor]
        if held.type.quantization is None:
            return tensor
        if held.array is not None:
            return self.constant(reals_of_codes(held.array, held.type))
        return self.one("dequantize", tensor, unshaped("float32"))


def _reshaped_scales(kind: TensorType, own: Sequence[int], shape: Sequence[int]) -> TensorType:
    """A type under another shape, which adds or drops axes of one element: scales stay those of their channels.

    Where the channels are no axis any more it stays as it is, and the operator's rules say what is wrong.
    """
    scaling = kind.quantization
    if scaling is None or scaling.axis is None:
        return kind
    before = prod(own[: scaling.axis])
    for axis, extent in enumerate(shape):
        if extent == len(scaling.scales) and prod(shape[:axis]) == before:
            return replace(kind, quantization=replace(scaling, axis=axis))
    return kind
