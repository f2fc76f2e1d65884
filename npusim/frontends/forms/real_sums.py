"""Weighted sums of 8-bit codes of which reals are made: whole sums first, then their scale, then a bias of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

from npusim.frontends.sums import bias_fault, products
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.layouts import SPATIAL
from npusim.kernels.graph.taking import takes

SUMS = frozenset({"conv_2d", "depthwise_conv_2d", "transpose_conv", "fully_connected", "batch_matmul"})
"""Weighted sums, which are exact in whole numbers."""


class Adding(Protocol):
    """What adds nodes to a graph: a conversion."""

    @property
    def builder(self) -> GraphBuilder:
        """What the nodes go to."""

    def nodes(
        self, op: str, inputs: Sequence[int | None], results: Sequence[TensorType], **parameters: Any
    ) -> tuple[int, ...]:
        """Adds a node and returns its results."""

    def as_real(self, tensor: int) -> int:
        """A tensor as real numbers."""

    def reshaped(self, tensor: int, shape: Sequence[int]) -> int:
        """A tensor under another shape."""

    def shape(self, tensor: str | int) -> tuple[int, ...]:
        """The shape of a tensor."""


def has_own_bias(kinds: Sequence[TensorType | None]) -> bool:
    """Whether operands of a weighted sum have a bias that is no part of it: real, or on a scale of its own."""
    x, weights, bias = (*kinds, None)[:3]
    if x is None or weights is None or bias is None:
        return False
    if x.quantization is None or weights.quantization is None or bias.quantization is None:
        return bias.real
    return bias_fault(bias.dtype, bias.quantization, x.quantization, weights.quantization) is not None


def real_sum(c: Adding, op: str, inputs: Sequence[int | None], parameters: Mapping[str, Any]) -> int | None:
    """A weighted sum of codes in reals: f32(f32(sum) * f32(sx * sw)), then a bias of its own in float32.

    None where the operator does not have such sums.
    """
    x, weights, bias = (*inputs, None)[:3]
    kinds = [None if number is None else c.builder.type(number) for number in (x, weights)]
    scalings = [kind.quantization for kind in kinds if kind is not None and kind.quantized8]
    if len(scalings) < 2 or scalings[0] is None or scalings[1] is None or kinds[0] is None:
        return None
    scales = products(scalings[0], scalings[1])
    axis = None if scales.size == 1 else 1 if op in SPATIAL else len(kinds[0].shape) - 1
    apart = has_own_bias([*kinds, None if bias is None else c.builder.type(bias)])
    operands = [x, weights, *[None if apart else bias][: len(inputs) - 2]]
    types = [None if number is None else c.builder.type(number) for number in operands]
    whole = unshaped("int32", Quantization(tuple(map(float, scales)), (0,) * scales.size, axis))
    if not takes(op, types, [whole], parameters):
        return None
    real = c.as_real(c.nodes(op, operands, [whole], **parameters)[0])
    if not apart or bias is None:
        return real
    bias, count = c.as_real(bias), prod(c.shape(bias))
    shape = (count, *(1,) * (len(c.shape(real)) - 2)) if op in SPATIAL else (count,)
    return c.nodes("add", [real, c.reshaped(bias, shape)], [unshaped("float32")])[0]
