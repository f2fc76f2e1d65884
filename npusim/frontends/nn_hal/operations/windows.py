"""Windows that slide over images: their padding, and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.frontends.nn_hal.enumerations import OperationType
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.conversion import Conversion, Refused
from npusim.frontends.nn_hal.operations.row import Row, Rule
from npusim.kernels.operator.geometry import positions, same_padding
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


def not_empty(call: Call) -> str | None:
    """height, width and depth of the input are not 0"""
    image = call.image("input")
    return "input" if image is not None and 0 in image[1:] else None


def require_positions(
    c: Conversion,
    image: Sequence[int],
    kernel: Sequence[int],
    steps: Mapping[str, Sequence[int]],
    padding: Borders,
) -> None:
    """Raises Refused where a window of `kernel` (height, width) does not fit into an image once."""
    dilations = steps.get("dilations", (1, 1))
    axes = zip(image, kernel, steps["strides"], dilations, padding, strict=True)
    sizes = [positions(*axis) for axis in axes]
    if min(sizes) < 1:
        place = c.call["output"].place
        text = f"the window is larger than the padded image: {sizes} positions in height and width"
        raise Refused(Fault(place, text, "O6"))


def _padding_below_filter(call: Call) -> str | None:
    """explicit padding is less than the filter, so that every window sees some of the image"""
    for side, size in zip(SIDES, ("filter_width",) * 2 + ("filter_height",) * 2, strict=True):
        padding, filter_ = call.whole(side), call.whole(size)
        if padding is not None and filter_ is not None and padding >= filter_:
            return side
    return None


def _pool(c: Conversion) -> Sequence[int]:
    _, height, width, _ = c.sizes()
    kernel = c.whole("filter_height"), c.whole("filter_width")
    strides = c.whole("stride_height"), c.whole("stride_width")
    padding = padding_of(c, (height, width), kernel, strides)
    require_positions(c, (height, width), kernel, {"strides": strides}, padding)
    op, activation = c.call.operation.type.name.lower(), c.activation()
    (result,) = c.node(
        op, [c.image()], filter=kernel, strides=strides, padding=padding, activation=activation
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
            _padding_below_filter,
        ),
        (constraints.rank_of("input", 4), constraints.rank_of("output", 4), not_empty, _same_depth),
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
