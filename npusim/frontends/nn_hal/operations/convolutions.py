"""Convolutions and matrix products: windows of images, filters, biases."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nn_hal.enumerations import HalVersion, OperationType
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.conversion import Conversion, Refused
from npusim.frontends.nn_hal.operations.row import Row
from npusim.frontends.nn_hal.operations.windows import (
    SIDES,
    not_empty,
    padding_of,
    require_positions,
)
from npusim.kernels.operator.parameters import Borders

_FILTERED = (
    "T F B: F32,F32,F32@1.0 Q8,Q8,I32@1.0 F16,F16,F16@1.2 Q8,Q8C,I32@1.2 Q8S,Q8S,I32@1.3 Q8S,Q8C,I32@1.3"
)
_OPERANDS = "input:T filter:F bias:B"
_EXPLICIT = " ".join(f"{side}:i" for side in SIDES)
_STRIDES = "stride_width:i stride_height:i"
_FURTHER = "| nchw:b=0 @1.2 | dilation_width:i=1 dilation_height:i=1 @1.2 > output:T"
_STEPS = constraints.at_least(1, "stride_width", "stride_height", "dilation_width", "dilation_height")
_PARAMETERS = (
    constraints.activation,
    constraints.padding_scheme,
    constraints.at_least(0, *SIDES),
    _STEPS,
)
_RANKS = (
    constraints.rank_of("input", 4),
    constraints.rank_of("filter", 4),
    constraints.rank_of("output", 4),
    not_empty,
)


def _channels(call: Call, name: str) -> int | None:
    image = call.image(name)
    return None if image is None else image[3]


def _depth(call: Call) -> str | None:
    """the depth of the input is that of the filter, its dimension 3"""
    same = constraints.may_be_same(_channels(call, "input"), call.size("filter", 3))
    return None if same else "input"


def _output_depth(call: Call) -> str | None:
    """the depth of the output is the number of filters, dimension 0 of the filter"""
    same = constraints.may_be_same(_channels(call, "output"), call.size("filter", 0))
    return None if same else "output"


def _filters(call: Call) -> str | None:
    """no size of the filter is 0"""
    return "filter" if 0 in (call.shape("filter") or ()) else None


_BIAS = constraints.length_of("bias", "with an element per filter, dimension 0 of the filter", "filter", 0)
_CONVOLUTION_SHAPES = (*_RANKS, _filters, _depth, _BIAS, _output_depth)


# Depthwise


def _one_filter_image(call: Call) -> str | None:
    """dimension 0 of the filter is 1"""
    return None if call.size("filter", 0) in (None, 1) else "filter"


def _multiplied_depth(call: Call) -> str | None:
    """dimension 3 of the filter is the depth of the input times the multiplier, and the depth of the output"""
    depth, multiplier = _channels(call, "input"), call.whole("multiplier")
    filters = call.size("filter", 3)
    if None not in (depth, multiplier, filters) and depth * multiplier != filters:  # type: ignore[operator]
        return "filter"
    return None if constraints.may_be_same(filters, _channels(call, "output")) else "output"


# Grouped


def _grouped_depth(call: Call) -> str | None:
    """the depth of the input is the number of groups times dimension 3 of the filter"""
    depth, groups, inner = _channels(call, "input"), call.whole("groups"), call.size("filter", 3)
    if depth is None or groups is None or inner is None:
        return None
    return None if depth == groups * inner else "input"


def _grouped_filters(call: Call) -> str | None:
    """the number of filters, dimension 0 of the filter, is divisible by the number of groups"""
    filters, groups = call.size("filter", 0), call.whole("groups")
    return None if filters is None or groups is None or filters % groups == 0 else "filter"


# Conversion


def _steps(c: Conversion) -> dict[str, tuple[int, int]]:
    return {
        "strides": (c.whole("stride_height"), c.whole("stride_width")),
        "dilations": (c.whole("dilation_height"), c.whole("dilation_width")),
    }


def _convolution(c: Conversion, op: str, **more: int) -> Sequence[int]:
    _, height, width, _ = c.sizes()
    steps = _steps(c) if c.call.operation.type is not OperationType.GROUPED_CONV_2D else _strides(c)
    kernel = c.shape("filter")[1:3]
    padding = padding_of(c, (height, width), kernel, steps["strides"], steps.get("dilations", (1, 1)))
    require_positions(c, (height, width), kernel, steps, padding)
    operands = [c.image(), c.tensor("filter"), c.tensor("bias")]
    (result,) = c.node(op, operands, padding=padding, activation=c.activation(), **steps, **more)
    return [c.stored(result)]


def _strides(c: Conversion) -> dict[str, tuple[int, int]]:
    return {"strides": (c.whole("stride_height"), c.whole("stride_width"))}


def _conv(c: Conversion) -> Sequence[int]:
    return _convolution(c, "conv_2d")


def _depthwise(c: Conversion) -> Sequence[int]:
    return _convolution(c, "depthwise_conv_2d", depth_multiplier=c.whole("multiplier"))


def _transposed(c: Conversion) -> Sequence[int]:
    """Padding is that of the convolution that leads from the output back to the input."""
    strides = (c.whole("stride_height"), c.whole("stride_width"))
    kernel = c.shape("filter")[1:3]
    _, height, width, _ = c.sizes()
    if c.has("output_shape"):
        sizes = c.wholes("output_shape")
        rows, columns = sizes[2:4] if c.flag("nchw") else sizes[1:3]
        padding = _transposed_padding(c, (height, width), (rows, columns), kernel, strides)
    else:
        padding = padding_of(c, (height, width), kernel, strides)
        extents = zip((height, width), strides, kernel, padding, strict=True)
        rows, columns = ((size - 1) * step + length - sum(sides) for size, step, length, sides in extents)
        if min(rows, columns) < 1:
            text = f"padding leaves {rows} rows and {columns} columns of the output"
            raise Refused(Fault(c.call["output"].place, text, "O6"))
    operands = [c.image(), c.tensor("filter"), c.tensor("bias")]
    (output,) = c.node(
        "transpose_conv",
        operands,
        strides=strides,
        padding=padding,
        size=(rows, columns),
        activation=c.activation(),
    )
    return [c.stored(output)]


def _transposed_padding(
    c: Conversion,
    image: Sequence[int],
    output: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> Borders:
    if c.whole("padding") != 1:
        return ((0, 0), (0, 0))
    top, left = (
        max(0, (size - 1) * step + length - out)
        for size, out, length, step in zip(image, output, kernel, strides, strict=True)
    )
    return ((top // 2, top - top // 2), (left // 2, left - left // 2))


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
    elements = 1
    for size in sizes:
        elements *= size or 0
    return None if length and elements % length == 0 else "input"


def _units(call: Call) -> str | None:
    """the last dimension of the output is the number of units, dimension 0 of the weights"""
    same = constraints.may_be_same(call.size("output", -1), call.size("filter", 0))
    return None if same else "output"


def _fully_connected(c: Conversion) -> Sequence[int]:
    operands = [c.tensor("input"), c.tensor("filter"), c.tensor("bias")]
    return c.node("fully_connected", operands, activation=c.activation())


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


def _batch_matmul(c: Conversion) -> Sequence[int]:
    operands = [c.tensor("first"), c.tensor("second")]
    return c.node("batch_matmul", operands, adj_x=c.flag("adj_first"), adj_y=c.flag("adj_second"))


_BELOW_1_2 = constraints.output_above_product("input", "filter", until=HalVersion.V1_2)

ROWS: tuple[Row, ...] = (
    Row(
        OperationType.CONV_2D,
        (
            f"{_OPERANDS} {_EXPLICIT} {_STRIDES} activation:i {_FURTHER}",
            f"{_OPERANDS} padding:i {_STRIDES} activation:i {_FURTHER}",
        ),
        _FILTERED,
        _PARAMETERS,
        _CONVOLUTION_SHAPES,
        (constraints.channel_dimension(0), constraints.bias_scale, _BELOW_1_2),
        _conv,
        ("conv_2d", "transpose"),
    ),
    Row(
        OperationType.DEPTHWISE_CONV_2D,
        (
            f"{_OPERANDS} {_EXPLICIT} {_STRIDES} multiplier:i activation:i {_FURTHER}",
            f"{_OPERANDS} padding:i {_STRIDES} multiplier:i activation:i {_FURTHER}",
        ),
        _FILTERED,
        (*_PARAMETERS, constraints.at_least(1, "multiplier")),
        (
            *_RANKS,
            _filters,
            _one_filter_image,
            _multiplied_depth,
            constraints.length_of(
                "bias", "with an element per filter, dimension 3 of the filter", "filter", 3
            ),
        ),
        (constraints.channel_dimension(3), constraints.bias_scale, _BELOW_1_2),
        _depthwise,
        ("depthwise_conv_2d", "transpose"),
    ),
    Row(
        OperationType.GROUPED_CONV_2D,
        (
            f"{_OPERANDS} {_EXPLICIT} {_STRIDES} groups:i activation:i nchw:b > output:T",
            f"{_OPERANDS} padding:i {_STRIDES} groups:i activation:i nchw:b > output:T",
        ),
        _FILTERED.replace("@1.0", "@1.2"),
        (
            constraints.activation,
            constraints.padding_scheme,
            constraints.at_least(0, *SIDES),
            constraints.at_least(1, "stride_width", "stride_height", "groups"),
        ),
        (*_RANKS, _filters, _grouped_depth, _grouped_filters, _BIAS, _output_depth),
        (constraints.channel_dimension(0), constraints.bias_scale),
        _conv,
        ("conv_2d", "transpose"),
    ),
    Row(
        OperationType.TRANSPOSE_CONV_2D,
        (
            f"{_OPERANDS} {_EXPLICIT} {_STRIDES} activation:i nchw:b > output:T",
            f"{_OPERANDS} output_shape:I32 padding:i {_STRIDES} activation:i nchw:b > output:T",
        ),
        _FILTERED.replace("@1.0", "@1.2"),
        (
            constraints.activation,
            constraints.padding_scheme,
            constraints.at_least(0, *SIDES),
            constraints.at_least(1, "stride_width", "stride_height"),
            _output_shape,
        ),
        _CONVOLUTION_SHAPES,
        (constraints.channel_dimension(0), constraints.bias_scale),
        _transposed,
        ("transpose_conv", "transpose"),
    ),
    Row(
        OperationType.FULLY_CONNECTED,
        ("input:T filter:F bias:B activation:i > output:T",),
        "T F B: F32,F32,F32@1.0 Q8,Q8,I32@1.0 F16,F16,F16@1.2 Q8S,Q8S,I32@1.3",
        (constraints.activation,),
        (
            constraints.rank_of("input", 2, 4),
            constraints.rank_of("filter", 2),
            _filters,
            _weights,
            constraints.length_of(
                "bias", "with an element per unit, dimension 0 of the weights", "filter", 0
            ),
            _units,
        ),
        (constraints.bias_scale, _BELOW_1_2),
        _fully_connected,
        ("fully_connected",),
    ),
    Row(
        OperationType.BATCH_MATMUL,
        ("first:T second:T adj_first:b adj_second:b > output:T",),
        "T: F16@6 F32@6 I32@6 Q8S@6",
        shapes=(constraints.rank_of("first", 2, 4), constraints.rank_of("second", 2, 4), _matrices, _batches),
        convert=_batch_matmul,
        operators=("batch_matmul",),
    ),
)
