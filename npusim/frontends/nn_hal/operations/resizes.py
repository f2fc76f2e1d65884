"""Images in another size."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np

from npusim.frontends.nn_hal.enumerations import OperationType
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.conversion import Conversion, Refused
from npusim.frontends.nn_hal.operations.row import Row
from npusim.frontends.nn_hal.operations.windows import not_empty
from npusim.kernels.operator.parameters import MOST

_PARAMETERS = (
    constraints.at_least(1, "width", "height"),
    constraints.positive("width_scale", "height_scale"),
    constraints.finite("width_scale", "height_scale"),
)


def _corners_or_centers(call: Call) -> str | None:
    """align_corners and half_pixel_centers are not both true"""
    both = call.whole("align_corners") and call.whole("half_pixel_centers")
    return "half_pixel_centers" if both else None


def _height_first(call: Call) -> str:
    """Return a hint if inputs 1 and 2 only fit as height and width, their order in an earlier types.hal."""
    image, first, second = call.image("output"), call.whole("width"), call.whole("height")
    if image is None or None in image[1:3] or image[1:3] != (first, second):
        return ""
    return "input 1 is the width and input 2 the height, as drivers have it: exchange them"


def _scaled(size: int, scale: float) -> int:
    """A size times a scale, in float32, without its fraction; of what is far too large something too large."""
    with np.errstate(over="ignore"):
        scaled = np.float32(size) * np.float32(scale)
    return floor(min(scaled, np.float32(2 * MOST)))


def _resize(c: Conversion) -> Sequence[int]:
    if c.call.all("width"):
        size = c.whole("height"), c.whole("width")
    else:
        _, height, width, _ = c.sizes()
        size = _scaled(height, c.real("height_scale")), _scaled(width, c.real("width_scale"))
    if not all(1 <= pixels <= MOST for pixels in size):
        text = f"height and width are {list(size)}, may be 1..{MOST}"
        raise Refused(Fault(c.call["output"].place, text, "O6"))
    flags = {name: c.flag(name) for name in ("align_corners", "half_pixel_centers")}
    op = c.call.operation.type.name.lower()
    return [c.stored(c.node(op, [c.image()], size=size, **flags)[0])]


def _row(type_: OperationType, layout: str, further: str, types: str) -> Row:
    return Row(
        type_,
        (
            f"input:T width:i height:i {layout} {further}",
            f"@1.2 input:T width_scale:s height_scale:s {layout} {further}",
        ),
        f"T: {types}",
        (*_PARAMETERS, _corners_or_centers),
        (constraints.rank_of("input", 4), constraints.rank_of("output", 4), not_empty),
        (constraints.same_quantization("input", "output"),),
        _resize,
        (type_.name.lower(), "transpose"),
        other=_height_first,
    )


_FLAGS = "| align_corners:b=0 @1.3 | half_pixel_centers:b=0 @1.3 > output:T"

ROWS: tuple[Row, ...] = (
    _row(OperationType.RESIZE_BILINEAR, "| nchw:b=0 @1.2", _FLAGS, "F32@1.0 F16@1.2 Q8@1.2 Q8S@1.3"),
    _row(OperationType.RESIZE_NEAREST_NEIGHBOR, "nchw:b", _FLAGS, "F16@1.2 F32@1.2 Q8@1.2 Q8S@1.3"),
)
