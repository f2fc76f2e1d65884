"""Convolutions, pools and matrix products: rules of windows and filters, and the padding of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from npusim.frontends.forms.windows import Window, same, unwound
from npusim.frontends.nn_hal.enumerations import HalVersion, OperationType
from npusim.frontends.nn_hal.fault import Fault, Refused
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import at_least, rank_of
from npusim.frontends.nn_hal.operations.named_arguments import Call
from npusim.frontends.nn_hal.operations.operation_row import Conversion, Row, Rule
from npusim.frontends.nn_hal.operations.signatures import OLD_TYPES, Words
from npusim.kernels.operator.parameters import NO_BORDERS, Border

_T = OperationType
SIDES = ("padding_left", "padding_right", "padding_top", "padding_bottom")
"""The arguments of explicit padding."""
WORDS: dict[str, Words] = {
    "filter": ("filter_height", "filter_width"),
    "strides": ("stride_height", "stride_width"),
    "dilations": ("dilation_height", "dilation_width"),
    "padding": (("padding_top", "padding_bottom"), ("padding_left", "padding_right")),
    "depth_multiplier": "multiplier",
}
"""The arguments that say a window."""

_SAME = 1
_EXPLICIT = " ".join(f"{side}:i" for side in SIDES)
_FILTERED = (
    "T F B: F32,F32,F32@1.0 Q8,Q8,I32@1.0 F16,F16,F16@1.2 Q8,Q8C,I32@1.2 Q8S,Q8S,I32@1.3 Q8S,Q8C,I32@1.3"
)
_SINCE_1_2 = _FILTERED.replace("@1.0", "@1.2")


def _forms(*texts: str) -> tuple[str, ...]:
    """Return the two signatures of a window: with explicit padding and with a padding scheme."""
    return tuple(text.format(padding) for text in texts for padding in (_EXPLICIT, "padding:i"))


# Windows


def _window(c: Conversion, image: Sequence[int], kernel: Sequence[int]) -> Window:
    """Return the window of a call over an image of (height, width), with its padding as stated or by its scheme."""
    names = {slot.name for slot in c.call.slots}
    strides = c.whole("stride_height"), c.whole("stride_width")
    dilations = (1, 1)
    if "dilation_height" in names:
        dilations = c.whole("dilation_height"), c.whole("dilation_width")
    padding: tuple[Border, ...] = NO_BORDERS
    if not c.call.all("padding"):
        left, right, top, bottom = (c.whole(side) for side in SIDES)
        padding = (top, bottom), (left, right)
    elif c.whole("padding") == _SAME:
        padding = same(image, kernel, strides, dilations)
    return Window(tuple(kernel), strides, dilations, padding, padding)


def _windowed(c: Conversion) -> Sequence[int]:
    """Add a convolution or a pool. Raises Refused if its window does not fit into the image once."""
    is_pool = not c.call.all("filter")
    kernel = (c.whole("filter_height"), c.whole("filter_width")) if is_pool else c.shape("filter")[1:3]
    image = c.sizes()[1:3]
    window = _window(c, image, kernel)
    positions = window.positions(image)
    if min(positions) < 1:
        text = f"the window is larger than the padded image: {positions} positions in height and width"
        raise Refused(Fault(c.call["output"].place, text, "O6"))
    return c.add(padding=window.padding)


def not_empty(call: Call) -> str | None:
    """height, width and depth of the input are not 0"""
    image = call.image("input")
    return "input" if image is not None and 0 in image[1:] else None


def _padding_below_filter(call: Call) -> str | None:
    """explicit padding is less than the filter, so that every window sees some of the image"""
    for side, size in zip(SIDES, ("filter_width",) * 2 + ("filter_height",) * 2, strict=True):
        padding, filter_ = call.whole(side), call.whole(size)
        if padding is not None and filter_ is not None and padding >= filter_:
            return side
    return None


def _sizes(wording: Mapping[str, str], *scalars: str) -> tuple[Rule, ...]:
    """Return the rules of `constraints.dimensions`, with "input" and "output" as images."""
    return constraints.dimensions(wording, images=("input", "output"), scalars=scalars)


def _pool(type_: OperationType, types: str, *quantization: Rule) -> Row:
    form = "stride_width:i stride_height:i filter_width:i filter_height:i activation:i | nchw:b=0 @1.2 > output:T"
    return Row(
        type_,
        _forms(f"input:T {{}} {form}"),
        f"T: {types}",
        type_.name.lower(),
        parameters=(
            *(constraints.activation, constraints.padding_scheme, at_least(0, *SIDES)),
            at_least(1, "stride_width", "stride_height", "filter_width", "filter_height"),
            _padding_below_filter,
        ),
        shapes=(*_sizes({"input": "batch ? ? depth", "output": "batch ? ? depth"}), not_empty),
        quantization=quantization,
        words=WORDS,
        convert=_windowed,
    )


# Filters


def _filters(call: Call) -> str | None:
    """no size of the filter is 0"""
    return "filter" if 0 in (call.shape("filter") or ()) else None


def _grouped_filters(call: Call) -> str | None:
    """the number of filters, dimension 0 of the filter, is divisible by the number of groups"""
    filters, groups = call.size("filter", 0), call.whole("groups")
    return None if filters is None or groups is None or filters % groups == 0 else "filter"


def _convolution(
    type_: OperationType,
    form: str,
    types: str,
    op: str,
    parameters: tuple[Rule, ...],
    shapes: tuple[Rule, ...],
    quantization: tuple[Rule, ...],
    **more: Any,
) -> Row:
    """Return the row of a convolution; form: its signature behind the operands, with {} for the padding."""
    parameters = (constraints.activation, constraints.padding_scheme, at_least(0, *SIDES), *parameters)
    return Row(
        type_,
        more.pop("forms", None) or _forms(f"input:T filter:F bias:B {form}"),
        types,
        op,
        parameters,
        (*shapes, not_empty, _filters),
        quantization,
        words=WORDS,
        **{"convert": _windowed, **more},
    )


# Transposed convolutions


def _transposed(c: Conversion) -> Sequence[int]:
    """Add a transposed convolution. Its padding is that of the convolution from the output back to the input."""
    image, extents = c.sizes()[1:3], list[int]()
    window = _window(c, image, c.shape("filter")[1:3])
    if c.has("output_shape"):
        sizes = c.wholes("output_shape")
        extents = sizes[2:4] if c.flag("nchw") else sizes[1:3]
        if c.whole("padding") == _SAME:
            window = window._replace(padding=())
    output, window = unwound(image, window, extents=extents)
    if min(output) < 1:
        text = f"padding leaves {output[0]} rows and {output[1]} columns of the output"
        raise Refused(Fault(c.call["output"].place, text, "O6"))
    inputs = [c.image(), c.tensor("filter"), c.tensor("bias")]
    return c.add(inputs=inputs, padding=window.padding, size=tuple(output))


def _output_shape(call: Call) -> str | None:
    """output_shape has a size above 0 per dimension of the output: batch of the input, a channel per filter"""
    sizes, nchw = call.wholes("output_shape"), call.nchw
    if sizes is None or nchw is None:
        return None
    if len(sizes) != 4 or min(sizes[1:]) < 1:
        return "output_shape"
    ends = (sizes[0], call.size("input", 0)), (sizes[1 if nchw else 3], call.size("filter", 0))
    return None if all(constraints.may_be_same(*pair) for pair in ends) else "output_shape"


# Matrix products


def _weights(call: Call) -> str | None:
    """the elements of the input are vectors as long as dimension 1 of the weights"""
    sizes, length = call.shape("input"), call.size("filter", 1)
    if sizes is None or length is None or None in sizes:
        return None
    return None if length and prod(size or 0 for size in sizes) % length == 0 else "input"


def _units(call: Call) -> str | None:
    """the last dimension of the output is the number of units, dimension 0 of the weights"""
    same = constraints.may_be_same(call.size("output", -1), call.size("filter", 0))
    return None if same else "output"


def _matrices(call: Call) -> str | None:
    """the last two dimensions of the operands, exchanged where their flags say so, fit as those of matrices"""
    inner = call.size("first", -2 if call.whole("adj_first") else -1)
    other = call.size("second", -1 if call.whole("adj_second") else -2)
    known = call.whole("adj_first") is not None and call.whole("adj_second") is not None
    return None if not known or constraints.may_be_same(inner, other) else "second"


def _batches(call: Call) -> str | None:
    """the dimensions of the operands in front of the last two are equal or 1; output has the larger ones"""
    first, second, output = (call.shape(name) for name in ("first", "second", "output"))
    if first is None or second is None:
        return None
    batches = constraints.broadcast(first[:-2], second[:-2])
    if batches is None:
        return "second"
    return None if constraints.may_equal(batches, None if output is None else output[:-2]) else "output"


_STRIDES = ("stride_width", "stride_height")
_STEPS = at_least(1, *_STRIDES, "dilation_width", "dilation_height")
_FURTHER = "| nchw:b=0 @1.2 | dilation_width:i=1 dilation_height:i=1 @1.2 > output:T"
_STEP_SLOTS = "stride_width:i stride_height:i"
_SIZES = {"filter": "filters ? ? depth", "input": "? ? ? depth", "bias": "filters", "output": "? ? ? filters"}
_CONVOLUTION = _sizes(_SIZES)
_GROUPED = _sizes(_SIZES | {"input": "? ? ? groups*depth"}, "groups")
_DEPTHWISE = _sizes(
    {"input": "? ? ? depth", "filter": "1 ? ? filters", "bias": "filters", "output": "? ? ? filters"}
)
_MULTIPLIED = _sizes({"input": "? ? ? depth", "filter": "1 ? ? multiplier*depth"}, "multiplier")
_BY_FILTER = (constraints.channel_dimension(0), constraints.bias_scale)
_BELOW_1_2 = constraints.output_above_product("input", "filter", until=HalVersion.V1_2)
_ALIKE = constraints.same_quantization("input", "output")

ROWS: tuple[Row, ...] = (
    _convolution(
        _T.CONV_2D,
        f"{{}} {_STEP_SLOTS} activation:i {_FURTHER}",
        _FILTERED,
        "conv_2d",
        (_STEPS,),
        _CONVOLUTION,
        (*_BY_FILTER, _BELOW_1_2),
    ),
    _convolution(
        _T.DEPTHWISE_CONV_2D,
        f"{{}} {_STEP_SLOTS} multiplier:i activation:i {_FURTHER}",
        _FILTERED,
        "depthwise_conv_2d",
        (_STEPS, at_least(1, "multiplier")),
        (*_DEPTHWISE, *_MULTIPLIED),
        (constraints.channel_dimension(3), constraints.bias_scale, _BELOW_1_2),
    ),
    _convolution(
        _T.GROUPED_CONV_2D,
        f"{{}} {_STEP_SLOTS} groups:i activation:i nchw:b > output:T",
        _SINCE_1_2,
        "conv_2d",
        (at_least(1, *_STRIDES, "groups"),),
        (*_GROUPED, _grouped_filters),
        _BY_FILTER,
    ),
    _convolution(
        _T.TRANSPOSE_CONV_2D,
        "",
        _SINCE_1_2,
        "transpose_conv",
        (at_least(1, *_STRIDES), _output_shape),
        _CONVOLUTION,
        _BY_FILTER,
        forms=tuple(
            f"input:T filter:F bias:B {padding} {_STEP_SLOTS} activation:i nchw:b > output:T"
            for padding in (_EXPLICIT, "output_shape:I32 padding:i")
        ),
        convert=_transposed,
    ),
    Row(
        _T.FULLY_CONNECTED,
        ("input:T filter:F bias:B activation:i > output:T",),
        "T F B: F32,F32,F32@1.0 Q8,Q8,I32@1.0 F16,F16,F16@1.2 Q8S,Q8S,I32@1.3",
        "fully_connected",
        (constraints.activation,),
        (rank_of("input", 2, 4), *_sizes({"filter": "units ?", "bias": "units"}), _filters, _weights, _units),
        (constraints.bias_scale, _BELOW_1_2),
    ),
    Row(
        _T.BATCH_MATMUL,
        ("first:T second:T adj_first:b adj_second:b > output:T",),
        "T: F16@6 F32@6 I32@6 Q8S@6",
        "batch_matmul",
        shapes=(rank_of("first", 2, 4), rank_of("second", 2, 4), _matrices, _batches),
        words={"adj_x": "adj_first", "adj_y": "adj_second"},
    ),
    _pool(_T.AVERAGE_POOL_2D, OLD_TYPES, _ALIKE),
    _pool(_T.MAX_POOL_2D, OLD_TYPES, _ALIKE),
    _pool(_T.L2_POOL_2D, "F32@1.0 F16@1.2"),
)
