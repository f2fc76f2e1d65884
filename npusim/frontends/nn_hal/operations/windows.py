"""Windows that slide over images: their padding, and pools."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nn_hal.enumerations import OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.row import Row, Rule
from npusim.kernels.operator.geometry import same_padding
from npusim.kernels.operator.parameters import Borders

SIDES = ("padding_left", "padding_right", "padding_top", "padding_bottom")
"""The arguments of explicit padding."""

_SAME = 1
_EXPLICIT = " ".join(f"{side}:i" for side in SIDES)
_WINDOW = (
    "stride_width:i stride_height:i filter_width:i filter_height:i activation:i | nchw:b=0 @1.2 > output:T"
)


def padding_of(
    c: Conversion,
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int] = (1, 1),
) -> Borders:
    """((top, bottom), (left, right)) for a window over an image of (height, width): what is said, or by the scheme."""
    if not c.call.all("padding"):
        left, right, top, bottom = (c.whole(side) for side in SIDES)
        return (top, bottom), (left, right)
    if c.whole("padding") != _SAME:
        return (0, 0), (0, 0)
    rows, columns = (same_padding(*axis) for axis in zip(image, kernel, strides, dilations, strict=True))
    return rows, columns


def _pool(c: Conversion) -> Sequence[int]:
    _, height, width, _ = c.sizes()
    kernel = c.whole("filter_height"), c.whole("filter_width")
    strides = c.whole("stride_height"), c.whole("stride_width")
    (result,) = c.node(
        c.call.operation.type.name.lower(),
        [c.image()],
        filter=kernel,
        strides=strides,
        padding=padding_of(c, (height, width), kernel, strides),
        activation=c.activation(),
    )
    return [c.stored(result)]


def _same_depth(call: Call) -> str | None:
    """batch and depth of the output are those of the input"""
    image, output = call.image("input"), call.image("output")
    if image is None or output is None:
        return None
    same = all(constraints.may_be_same(image[axis], output[axis]) for axis in (0, 3))
    return None if same else "output"


def _row(type_: OperationType, types: str, quantization: tuple[Rule, ...]) -> Row:
    return Row(
        type_,
        (f"input:T {_EXPLICIT} {_WINDOW}", f"input:T padding:i {_WINDOW}"),
        f"T: {types}",
        (
            constraints.activation,
            constraints.padding_scheme,
            constraints.at_least(0, *SIDES),
            constraints.at_least(1, "stride_width", "stride_height", "filter_width", "filter_height"),
        ),
        (constraints.rank_of("input", 4), constraints.rank_of("output", 4), _same_depth),
        quantization,
        _pool,
        (type_.name.lower(), "transpose"),
    )


_ALIKE = (constraints.same_quantization("input", "output"),)

ROWS: tuple[Row, ...] = (
    _row(OperationType.AVERAGE_POOL_2D, "F32@1.0 Q8@1.0 F16@1.2 Q8S@1.3", _ALIKE),
    _row(OperationType.MAX_POOL_2D, "F32@1.0 Q8@1.0 F16@1.2 Q8S@1.3", _ALIKE),
    _row(OperationType.L2_POOL_2D, "F32@1.0 F16@1.2", ()),
)
