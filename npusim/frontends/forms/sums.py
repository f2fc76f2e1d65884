"""Whether a weighted sum of a group is one of whole numbers: exact, with one rescale of the sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.frontends.forms.codes import Codes
from npusim.frontends.forms.network import Node
from npusim.frontends.sums import bias_fault
from npusim.isa.base.tensor import Array, Quantization

_CONVOLUTIONS = {"Conv": 0, "ConvTranspose": 1}
"""Which axis of the weights has the output channels."""

_BYTES = {"int8", "uint8"}


def misfit(
    node: Node,
    held: Sequence[Codes | None],
    constants: Mapping[str, Array],
    fixed: Mapping[str, tuple[int, ...]],
) -> str | None:
    """Why the sums of a node are not those of codes; None where they are, or it has none.

    held:  the codes of its operands.
    fixed: the shapes of those that are constants.
    """
    node = node.role
    if node.domain or node.operation not in (*_CONVOLUTIONS, "Gemm", "MatMul"):
        return None
    ifm, weights = (held[place] if place < len(held) else None for place in (0, 1))
    if ifm is None or weights is None:
        return "one factor of the weighted sum is real"
    if ifm.quantization.axis is not None:
        return "the left factor of the weighted sum has a scale per channel"
    scaling = weights.quantization
    if scaling.axis is not None and not _by_output_channel(node, scaling.axis, fixed.get(node.inputs[1])):
        return "the weights have scales along an axis that is summed up"
    if scaling.axis is not None and len(set(scaling.zero_points)) > 1:
        return "the weights have different zero points"
    if node.operation == "Gemm" and node.attributes.get("alpha", 1.0) != 1.0:
        return "alpha of Gemm is not 1"
    if len(node.inputs) < 3 or not node.inputs[2]:
        return None
    if {ifm.dtype, weights.dtype} <= _BYTES:
        return None  # what is no part of the sum is added to it in reals
    return _bias_misfit(node, held[2], ifm.quantization, scaling)


def has_sums(node: Node, held: Sequence[Codes | None]) -> bool:
    """Whether a node that has no misfit adds up products of 8-bit codes, which 32 bits hold."""
    node = node.role
    if node.domain or node.operation not in (*_CONVOLUTIONS, "Gemm", "MatMul"):
        return False
    return all(codes is not None and codes.dtype in _BYTES for codes in held[:2])


def _by_output_channel(node: Node, axis: int, shape: tuple[int, ...] | None) -> bool:
    """Whether an axis of the weights is that of the output channels."""
    if not shape:
        return False
    axis %= len(shape)
    if node.operation in _CONVOLUTIONS:
        return axis == _CONVOLUTIONS[node.operation] and (
            node.operation == "Conv" or node.attributes.get("group", 1) == 1
        )
    if node.operation == "Gemm":
        return axis == (0 if node.attributes.get("transB", 0) else 1)
    return len(shape) == 2 and axis == 1


def _bias_misfit(node: Node, bias: Codes | None, ifm: Quantization, weights: Quantization) -> str | None:
    if bias is None:
        return "the bias is real (quantised to int32 it is a part of the sum)"
    if bias_fault(bias.dtype, bias.quantization, ifm, weights):
        return "the bias is no int32 on the scale of the weights times that of the feature map"
    if node.operation == "Gemm" and node.attributes.get("beta", 1.0) != 1.0:
        return "beta of Gemm is not 1"
    return None
