"""Functions of the elements of one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isinf, isnan, prod

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row, unary
from npusim.kernels.graph.builder import unshaped


def _with_reals(type_: OperationType, text: str, *names: str) -> Row:
    """A function whose parameters are real numbers, called here as there."""
    op = type_.name.lower()

    def convert(c: Conversion) -> Sequence[int]:
        return c.node(op, [c.tensor("input")], **{name: c.real(name) for name in names})

    return Row(type_, f"input {text} > output=input", convert, (op,))


def _gelu(c: Conversion) -> Sequence[int]:
    return c.node("gelu", [c.tensor("input")], approximate=c.flag("approximate"))


def _prelu(c: Conversion) -> Sequence[int]:
    """Add a PRELU node; the slope has one element, or one for each channel."""
    shape, slope = c.shape("input"), c.shape("slope")
    rank, channels = len(shape), shape[1:2]
    c.require(
        slope in ((), (1,), channels),
        f"slope has shape {list(slope)}, must be [1] or {list(channels)}, the channels",
    )
    one = prod(slope) == 1
    aligned = (1,) * min(rank, 1) if one else (*channels, *(1,) * (rank - 2))
    return c.node("prelu", [c.tensor("input"), c.in_type_of_input(c.reshaped(c.tensor("slope"), aligned))])


def _clip(c: Conversion) -> Sequence[int]:
    """Limits that are fixed are parameters; others are operands."""
    names = ("min", "max")
    for name in names:
        sizes = c.shape(name)
        c.require(prod(sizes) == 1, f"{name} has shape {list(sizes)}, must have one element")
    if all(c.known(name) is not None for name in names):
        least, most = (c.real_of(name) for name in names)
        c.require(not isnan(least) and not isnan(most), f"min is {least}, max {most}: must be numbers")
        c.require(least <= most, f"min is {least}, max {most}: min must be at most max")
        c.require(least < inf and most > -inf, f"min is {least}, max {most}: nothing lies between")
        if c.result().real or c.result().quantized:
            limits = {"least": None if isinf(least) else least, "most": None if isinf(most) else most}
            return c.node("clip", [c.tensor("input")], **limits)
    kind = unshaped(c.result().dtype, c.result().quantization)
    low, high = (c.reshaped(c.tensor(name), (1,) * min(len(c.shape("input")), 1)) for name in names)
    above = c.node("maximum", [c.tensor("input"), low], kind, by_value=True)[0]
    return c.node("minimum", [above, high], kind, by_value=True)


ROWS: tuple[Row, ...] = (
    unary(OperationType.ABS),
    unary(OperationType.COS),
    unary(OperationType.EXP),
    unary(OperationType.FLOOR),
    unary(OperationType.LOG),
    unary(OperationType.NOT, "logical_not"),
    unary(OperationType.RELU),
    unary(OperationType.RELU6),
    unary(OperationType.RSQRT),
    unary(OperationType.SIGMOID, "logistic"),
    unary(OperationType.SIN),
    unary(OperationType.SQUARE),
    unary(OperationType.SWISH),
    unary(OperationType.TANH),
    _with_reals(OperationType.HARD_SIGMOID, "alpha:f=0.16666667 beta:f=0.5", "alpha", "beta"),
    _with_reals(OperationType.HARD_SWISH, "alpha:f=0.16666667 beta:f=0.5", "alpha", "beta"),
    _with_reals(OperationType.LEAKY_RELU, "alpha:f=0.01", "alpha"),
    _with_reals(OperationType.SOFTPLUS, "beta:f=1.0 threshold:f=20.0", "beta", "threshold"),
    Row(OperationType.GELU, "input approximate:b=False > output=input", _gelu, ("gelu",)),
    Row(OperationType.PRELU, "input slope > output=input", _prelu, ("prelu",)),
    Row(OperationType.CLIP, "input min max > output=input", _clip, ("clip", "maximum", "minimum")),
)
