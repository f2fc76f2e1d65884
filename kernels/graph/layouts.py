"""Tables of how operators treat image layouts: which operands are images, and which parameters name axes.

Operators take images as batch, height, width, channels (NHWC). A front end with another layout names axes in its own
order. By these tables `npusim.kernels.graph.layout` brings operands and parameters into NHWC; operands of operators in
no table go back to the front end's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from npusim.kernels.graph.graph import Order
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.table import NAMES, family

AS_IT_IS = ""
"""The role of an operand that is no image: it keeps the front end's order."""


class Spatial(NamedTuple):
    """An operator that always needs NHWC, because it knows height and width by their positions.

    operands: the roles of the leading operands, each a field of `Layout` or AS_IT_IS; others are AS_IT_IS.
    images:   True if its results are images.
    """

    operands: tuple[str, ...] = ("image",)
    images: bool = True


SPATIAL: Mapping[str, Spatial] = {
    "conv_2d": Spatial(("image", "filter")),
    "depthwise_conv_2d": Spatial(("image", "depthwise")),
    "transpose_conv": Spatial(("image", "transposed")),
    "deformable_conv_2d": Spatial(("image", "image", "image", "filter")),
    "roi_align": Spatial(("image",)),
    "roi_pooling": Spatial(("image",)),
    "yolo_box": Spatial(("image",), images=False),
    **dict.fromkeys(
        (
            *("average_pool_2d", "max_pool_2d", "l2_pool_2d", "max_pool_2d_with_positions"),
            *("adaptive_average_pool_2d", "adaptive_max_pool_2d", "adaptive_max_pool_2d_with_positions"),
            *("resize_bilinear", "resize_nearest_neighbor", "grid_sample", "instance_normalization"),
            *("space_to_depth", "depth_to_space", "space_to_batch_nd", "batch_to_space_nd"),
        ),
        Spatial(),
    ),
}

_BY_ELEMENT = ("tables", "elementwise")
_NOT_BROADCAST = frozenset({"select"})
"""Operators whose operands have different ranks, but not by numpy's rules."""

POINTWISE = frozenset(
    {name for name in NAMES if family(name) in _BY_ELEMENT} - _NOT_BROADCAST | {"quantize", "dequantize"}
)
"""Operators that compute element by element, in any order; operands broadcast."""


class Axes(NamedTuple):
    """How a call changes if its operands are in another order.

    parameters: the parameters in the new order.
    kept:       the axes of the operand, in the front end's numbers and the new order, that the results have; None: all.
    """

    parameters: Parameters
    kept: Sequence[int] | None = None


Turn = Callable[[Any, Order, Sequence[int]], Axes | None]
"""Brings parameters into NHWC, from them, the new order of operands, and the first operand's shape in the old order.

Returns None if the call has to stay in the front end's order.
"""


class ByAxis(NamedTuple):
    """An operator whose parameters name axes: it takes images in any order if its parameters follow.

    alone: True if only the first operand is an image; otherwise all are.
    """

    turn: Turn
    alone: bool = False


def _axis(parameters: Any, order: Order, shape: Sequence[int]) -> Axes:
    return Axes(parameters.changed(axis=order.index(parameters.axis % len(order))))


def _dropped_axis(parameters: Any, order: Order, shape: Sequence[int]) -> Axes:
    gone = parameters.axis % len(order)
    return Axes(parameters.changed(axis=order.index(gone)), [axis for axis in order if axis != gone])


def _axes(parameters: Any, order: Order, shape: Sequence[int]) -> Axes:
    return Axes(parameters.changed(axes=tuple(sorted(order.index(axis) for axis in parameters.axes))))


def _in_pairs(parameters: Any, order: Order, shape: Sequence[int]) -> Axes | None:
    """Return a rule for parameters with axes in pairs, which must keep their order or the call stays."""
    axes = tuple(order.index(axis) for axis in parameters.axes)
    return Axes(parameters.changed(axes=axes)) if list(axes) == sorted(axes) else None


def _reduced(parameters: Any, order: Order, shape: Sequence[int]) -> Axes:
    kept = None if parameters.keep_dims else [axis for axis in order if axis not in parameters.axes]
    return _axes(parameters, order, shape)._replace(kept=kept)


def _squeezed(parameters: Any, order: Order, shape: Sequence[int]) -> Axes:
    stated_axes = [axis % len(order) for axis in parameters.axes]
    gone = stated_axes or [axis for axis, size in enumerate(shape) if size == 1]
    kept = [axis for axis in order if axis not in gone]
    return Axes(parameters.changed(axes=tuple(sorted(order.index(axis) for axis in gone))), kept)


def _permuted(*names: str) -> Turn:
    """Return a rule for parameters with a value per axis; an empty one stays empty."""

    def turn(parameters: Any, order: Order, shape: Sequence[int]) -> Axes:
        values = {name: getattr(parameters, name) for name in names}
        permuted = {name: tuple(value[axis] for axis in order) for name, value in values.items() if value}
        return Axes(parameters.changed(**permuted))

    return turn


def _ranked(name: str) -> Turn:
    """Return a rule for a parameter that is a shape: only one of as many dimensions gives an image."""

    def turn(parameters: Any, order: Order, shape: Sequence[int]) -> Axes | None:
        every_axis = len(getattr(parameters, name)) == len(order)
        return _permuted(name)(parameters, order, shape) if every_axis else None

    return turn


def _sliced(parameters: Any, order: Order, shape: Sequence[int]) -> Axes | None:
    """Return the elements under another shape are no image."""
    if parameters.shape is not None:
        return None
    return _permuted("begin", "size", "strides")(parameters, order, shape)


def _planes(parameters: Any, order: Order, shape: Sequence[int]) -> Axes:
    """Return the parameters of prior_box, whose results are no images."""
    spatial = tuple(order.index(axis) for axis in parameters.spatial)
    return Axes(parameters.changed(spatial=spatial), ())


BY_AXIS: Mapping[str, ByAxis] = {
    **dict.fromkeys(
        ("concatenation", "split", "channel_shuffle", "softmax", "log_softmax", "cumsum", "l2_normalization"),
        ByAxis(_axis),
    ),
    **dict.fromkeys(
        ("local_response_normalization", "batch_normalization", "group_normalization"),
        ByAxis(_axis, alone=True),
    ),
    "interpolate": ByAxis(_in_pairs, alone=True),
    **dict.fromkeys(("arg_max", "arg_min", "unpack"), ByAxis(_dropped_axis, alone=True)),
    **dict.fromkeys(
        ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_all", "reduce_any"),
        ByAxis(_reduced),
    ),
    **dict.fromkeys(("reverse_v2", "lp_normalization"), ByAxis(_axes)),
    **dict.fromkeys(("pad", "mirror_pad", "edge_pad"), ByAxis(_permuted("paddings"))),
    "tile": ByAxis(_permuted("multiples")),
    "roll": ByAxis(_permuted("shifts")),
    "broadcast_to": ByAxis(_ranked("shape")),
    "slice": ByAxis(_permuted("begin", "size", "strides")),
    "strided_slice": ByAxis(_sliced),
    "squeeze": ByAxis(_squeezed),
    "prior_box": ByAxis(_planes),
}
