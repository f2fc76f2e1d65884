"""Base of the conversions of all front ends: reshaped, transposed and dequantized tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.operator.in_reals import reals_of_codes


class Steps:
    """Steps that every front end's conversion can take.

    A subclass says how its front end makes constants and nodes, and which error it raises.
    """

    builder: GraphBuilder

    def shape(self, tensor: str | int) -> tuple[int, ...]:
        """Return the shape of a tensor, or of an argument."""
        raise NotImplementedError

    def require(self, holds: bool, text: str) -> None:
        """Raise the front end's error with a text unless something holds."""
        raise NotImplementedError

    def constant(self, data: Array, quantization: Quantization | None = None) -> int:
        """Add a constant and return it."""
        raise NotImplementedError

    def one(self, op: str, tensor: int, kind: TensorType, **parameters: Any) -> int:
        """Add a node of one operand and one result of this type, and return the result."""
        raise NotImplementedError

    def like(self, tensor: int) -> TensorType:
        """Return the type of a tensor without its shape."""
        kind = self.builder.type(tensor)
        return unshaped(kind.dtype, kind.quantization)

    def reshaped(self, tensor: int, shape: Sequence[int]) -> int:
        """Return a tensor under another shape; a constant becomes another constant."""
        held, shape = self.builder.tensors[tensor], tuple(shape)
        if shape == held.type.shape:
            return tensor
        kind = _reshaped_scales(self.like(tensor), held.type.shape, shape)
        if held.array is not None and held.array.size == prod(shape):
            return self.constant(held.array.reshape(shape), kind.quantization)
        return self.one("reshape", tensor, kind, shape=shape)

    def transposed(self, tensor: int, perm: Sequence[int]) -> int:
        """Return a tensor with its axes in another order; a constant becomes another constant."""
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
        """Return a tensor dequantized, f32(f32(q - zero point) * scale), if it is quantized; constants too."""
        held = self.builder.tensors[tensor]
        if held.type.quantization is None:
            return tensor
        if held.array is not None:
            return self.constant(reals_of_codes(held.array, held.type))
        return self.one("dequantize", tensor, unshaped("float32"))


def _reshaped_scales(kind: TensorType, own: Sequence[int], shape: Sequence[int]) -> TensorType:
    """Return a type whose scales per channel follow a reshape that adds or drops axes of extent 1.

    If the channels are no axis of the new shape, the type is returned unchanged, and the operator's rules report the
    fault.
    """
    scaling = kind.quantization
    if scaling is None or scaling.axis is None:
        return kind
    before = prod(own[: scaling.axis])
    for axis, extent in enumerate(shape):
        if extent == len(scaling.scales) and prod(shape[:axis]) == before:
            return replace(kind, quantization=replace(scaling, axis=axis))
    return kind
