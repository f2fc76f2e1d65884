"""Convolutions, matrix products and pools of NNEF, with their borders and biases."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from npusim.frontends.bias_scales import bias_fault, of_sums
from npusim.frontends.forms import convolutions as forms
from npusim.frontends.forms import pools, windows
from npusim.frontends.forms.axes import by_pairs, on_images
from npusim.frontends.forms.conversion import MOST_MADE
from npusim.frontends.forms.windows import NO_BORDER, Window, fitted, same
from npusim.frontends.nnef.operations.call_conversion import CallConversion, Row
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.operator.parameters import Border


def per_axis(c: CallConversion, name: str, rank: int) -> list[int]:
    """Return an attribute with a number of 1 or more for each axis; [] is ones."""
    numbers = c.wholes(name) or [1] * rank
    fits = len(numbers) == rank and min(numbers) >= 1
    c.require(fits, f"{name} {numbers} is not one number above 0 for each of {rank} axes")
    return numbers


def borders(c: CallConversion, rank: int) -> list[Border]:
    """Return the attribute `padding`, a pair for each axis or []."""
    pairs: list[Border] = [tuple(pair) for pair in c.value("padding")]
    c.require(
        len(pairs) in (0, rank) and min((min(pair) for pair in pairs), default=0) >= 0,
        f"padding {pairs} is not a pair of numbers, 0 or more, for each of {rank} axes",
    )
    return pairs


def window_of(c: CallConversion, extents: Sequence[int], size: Sequence[int]) -> Window:
    """Return the window of a call over these extents; padding [] is automatic (rule S4)."""
    rank = len(extents)
    stride, dilation = per_axis(c, "stride", rank), per_axis(c, "dilation", rank)
    padding = tuple(borders(c, rank)) or same(extents, size, stride, dilation)
    return fitted(c, extents, Window(tuple(size), tuple(stride), tuple(dilation), padding, padding))


def sized(c: CallConversion, extents: Sequence[int]) -> list[int]:
    """Return the attribute `size`."""
    size = c.wholes("size")
    fits = len(size) == len(extents) and min(size, default=1) >= 1
    c.require(fits, f"size {size} is not one number above 0 for each axis of {list(extents)}")
    return size


def padded(c: CallConversion, tensor: int, pairs: Sequence[Border], border: str, value: float = 0.0) -> int:
    """Pad a tensor by a border mode; 'ignore' pads with zeros here."""
    shape = c.shape(tensor)
    pairs = tuple(pairs)
    fits = len(pairs) == len(shape) and min((min(pair) for pair in pairs), default=0) >= 0
    c.require(
        fits,
        f"padding {[*map(list, pairs)]} is not a pair of numbers, 0 or more, for each axis of {list(shape)}",
    )
    if all(pair == NO_BORDER for pair in pairs):
        return tensor
    if border == "replicate":
        return c.moved("edge_pad", [tensor], paddings=pairs)[0]
    if border in ("reflect", "reflect-even"):
        even = border == "reflect-even"
        for extent, pair in zip(shape, pairs, strict=True):
            c.require(max(pair) < extent + even, f"padding {pair} mirrors more than extent {extent} has")
        return c.moved("mirror_pad", [tensor], paddings=pairs, mode="symmetric" if even else "reflect")[0]
    kind = c.builder.type(tensor)
    if value == 0.0:
        return c.moved("pad", [tensor], paddings=pairs)[0]
    if kind.quantization is not None:
        step = round(value / kind.quantization.scale) + kind.quantization.zero_point
        least, most = kind.element.limits
        return c.moved("pad", [tensor], paddings=pairs, pad_value=min(max(step, least), most))[0]
    return c.moved("pad", [tensor], paddings=pairs, pad_value=value)[0]


def bias_of(c: CallConversion, channels: int, image: int, weights: int) -> int | None:
    """Return the argument `bias` as a vector; None for zero.

    With quantized operands, a constant on another scale is requantized to input scale times weight scale. A bias that
    is computed by the run makes the whole sum a floating-point one.
    """
    number = c.number("bias")
    if number == 0.0:
        return None
    tensor = c.tensor("bias")
    count = prod(c.shape(tensor))
    c.require(
        count in (1, channels) and max(c.shape(tensor), default=1) == count,
        f"bias has shape {list(c.shape(tensor))}, not [1,{channels}] or one element",
    )
    held = c.builder.tensors[tensor]
    own, kinds = held.type.quantization, [c.builder.type(operand) for operand in (image, weights)]
    scalings = [kind.quantization for kind in kinds]
    if held.array is not None and count == 1 < channels:
        c.require(channels <= MOST_MADE, f"{channels} channels are more than {MOST_MADE:,}")
        tensor = c.constant(np.full((channels,), held.array.reshape(-1)[0], held.array.dtype), own)
        held = c.builder.tensors[tensor]
    tensor = c.reshaped(tensor, (channels,))
    held = c.builder.tensors[tensor]
    own = held.type.quantization
    if scalings[0] is None or scalings[1] is None or c.kind().quantization is None:
        return tensor
    if bias_fault(held.type.dtype, own, scalings[0], scalings[1]) is None:
        return tensor
    real = c.as_real(tensor)
    reals = c.builder.tensors[real].array
    if reals is None:
        return real
    along = of_sums(scalings[0], scalings[1])
    steps = reals.astype(np.float64) / np.array(along.scales)
    limits = np.iinfo(np.int32)
    codes = np.clip(np.copysign(np.floor(np.abs(steps) + 0.5), steps), limits.min, limits.max)
    return c.constant(codes.astype(np.int32), along)


def _linear(c: CallConversion) -> Sequence[int]:
    vectors, weights = c.tensor("input"), c.tensor("filter")
    shapes = c.shape(vectors), c.shape(weights)
    fits = len(shapes[0]) == len(shapes[1]) == 2 and shapes[0][1] == shapes[1][1]
    c.require(fits, f"input {list(shapes[0])} and filter {list(shapes[1])} are not [batch,in] and [out,in]")
    bias = bias_of(c, shapes[1][0], vectors, weights)
    return [c.node("fully_connected", [vectors, weights, bias], activation=c.activation)]


def _matmul(c: CallConversion) -> Sequence[int]:
    """Add a matrix product, whose leading axes broadcast from the right end of the shorter shape."""
    pair = [c.tensor("A"), c.tensor("B")]
    shapes = [c.shape(tensor) for tensor in pair]
    c.require(min(map(len, shapes)) >= 2, f"shapes {[*map(list, shapes)]} are of rank below 2")
    batches = max(map(len, shapes)) - 2
    for place, shape in enumerate(shapes):
        ones = (1,) * (batches - len(shape) + 2)
        pair[place] = c.reshaped(pair[place], (*shape[:-2], *ones, *shape[-2:]))
    turned = [bool(c.value(name)) for name in ("transposeA", "transposeB")]
    return [c.node("batch_matmul", pair, adj_x=turned[0], adj_y=turned[1])]


def _convolution(c: CallConversion) -> Sequence[int]:
    """Add a convolution; groups 0 stands for one group per channel."""
    image, weights = c.tensor("input"), c.tensor("filter")
    shape, filter_ = c.shape(image), c.shape(weights)
    groups = int(c.value("groups")) or (shape[1] if len(shape) > 1 else 1)
    forms.check_filter(c, shape, filter_, groups)
    window = window_of(c, shape[2:], filter_[2:])
    border = c.value("border")
    if border not in ("constant", "ignore"):
        image = padded(c, image, (NO_BORDER, NO_BORDER, *window.padding), border)
        window = window.unpadded()
    bias = bias_of(c, filter_[0], image, weights)
    return [forms.convolution(c, image, weights, bias, window, groups, activation=c.activation)]


# Transposed convolutions


def unwound(
    c: CallConversion, shape: Sequence[int], size: Sequence[int], target: Sequence[int]
) -> tuple[list[int], Window]:
    """Return the extents of a transposed operation's result, and its window (rule S4, inverted)."""
    rank = len(shape)
    c.require(len(target) in (0, rank), f"output_shape {list(target)} has not {rank} extents")
    stride, dilation = per_axis(c, "stride", rank), per_axis(c, "dilation", rank)
    padding = tuple(borders(c, rank))
    window = Window(tuple(size), tuple(stride), tuple(dilation), padding, padding)
    extents, window = windows.unwound(shape, window, extents=target)
    windows.positive(c, extents)
    if target:
        counts = window.positions(extents)
        c.require(
            counts == list(shape), f"output_shape {list(target)} has windows {counts}, not {list(shape)}"
        )
    return extents, window


def _transposed(c: CallConversion) -> Sequence[int]:
    image, weights = c.tensor("input"), c.tensor("filter")
    shape, filter_ = c.shape(image), c.shape(weights)
    c.require(c.value("border") in ("constant", "ignore"), f"border is {c.value('border')!r}, not 'constant'")
    target = c.wholes("output_shape")
    groups = int(c.value("groups")) or (target[1] if len(target) > 1 else shape[1] if len(shape) > 1 else 1)
    forms.check_transposed_filter(c, shape, filter_, groups)
    channels = filter_[1] * groups
    c.require(
        not target or (len(target) == len(shape) and list(target[:2]) == [shape[0], channels]),
        f"output_shape is {target}, must begin with [{shape[0]},{channels}] and have rank {len(shape)}",
    )
    extents, window = unwound(c, shape[2:], filter_[2:], target[2:])
    bias = bias_of(c, channels, image, weights)
    return [forms.transposed(c, image, weights, bias, window, extents, groups, activation=c.activation)]


# Separable convolutions


def _separable(c: CallConversion) -> Sequence[int]:
    """Add a convolution of each channel by itself, then one with a window of one pixel."""
    steps = {name: c.value(name) for name in ("border", "padding", "stride", "dilation")}
    filters = [c.tensor(name) for name in ("plane_filter", "point_filter")]
    zero = c.literal(0.0, filters[0])
    planes = c.apply("conv", c.tensor("input"), filters[0], c.reshaped(zero, (1,)), groups=0, **steps)
    return [c.apply("conv", planes, filters[1], c.tensor("bias"), groups=c.value("groups"))]


def _separable_transposed(c: CallConversion) -> Sequence[int]:
    """Add a transposed convolution with a window of one pixel, then one of each channel by itself."""
    steps = {name: c.value(name) for name in ("border", "padding", "stride", "dilation")}
    filters = [c.tensor(name) for name in ("plane_filter", "point_filter")]
    zero = c.reshaped(c.literal(0.0, filters[0]), (1,))
    points = c.apply("deconv", c.tensor("input"), filters[1], zero, groups=c.value("groups"))
    target = c.wholes("output_shape")
    return [c.apply("deconv", points, filters[0], c.tensor("bias"), output_shape=target, groups=0, **steps)]


_CONVOLUTIONS = "conv_2d depthwise_conv_2d"


_REAL = unshaped("float32")


def _window(c: CallConversion) -> Window:
    extents = c.shape("input")
    return window_of(c, extents, sized(c, extents))


def _surrounded(c: CallConversion, x: int, window: Window) -> tuple[int, Window]:
    """Pad the input unless its border is to be ignored; return it with the window over it."""
    border = c.value("border")
    return (x, window) if border == "ignore" else (padded(c, x, window.padding, border), window.unpadded())


def _pooled(c: CallConversion, op: str, x: int, window: Window) -> int:
    """Add a pool along the axes that the window changes; means are computed in float32 if their scale differs."""
    x, window = _surrounded(c, x, window)
    axes = window.active
    if not axes:
        return x
    other_codes = c.builder.type(x).quantization != c.kind().quantization
    if window.dilated or (op == "average_pool_2d" and (len(axes) > 2 or other_codes)):
        x = c.as_real(x)
    return pools.pooled(c, op, x, window.along(axes), axes, kind=c.like(x), activation=c.activation)


def _average(c: CallConversion) -> Sequence[int]:
    return [_pooled(c, "average_pool_2d", c.tensor("input"), _window(c))]


def _largest(c: CallConversion) -> Sequence[int]:
    return [_pooled(c, "max_pool_2d", c.tensor("input"), _window(c))]


def _box(c: CallConversion) -> Sequence[int]:
    """Add sums as means of all elements of a window, those outside being zero, times their number."""
    x, window = c.tensor("input"), _window(c)
    if c.value("normalize"):
        return [_pooled(c, "average_pool_2d", x, window)]
    x = c.as_real(x)
    if not window.active:
        return [x]
    if c.value("border") == "ignore":
        x = padded(c, x, window.padding, "constant")
        window = window.unpadded()
    mean = _pooled(c, "average_pool_2d", x, window)
    return [c.node("mul", [mean, c.literal(float(prod(window.size)), mean)])]


def _rms(c: CallConversion) -> Sequence[int]:
    square = c.apply("sqr", c.tensor("input"))
    mean = c.apply("avg_pool", square, **{name: c.value(name) for name in c.call.attributes})
    return [c.node("sqrt", [mean])]


# Positions of maxima count row by row in the plane of the last two axes, including a border that is not
# ignored.


def _plane(c: CallConversion, window: Window) -> None:
    """Raise DocumentError for windows along other axes than the last two."""
    fits = len(window.size) == 4 and set(window.active) <= {2, 3} and set(window.dilation) == {1}
    c.require(fits, "npusim has positions along the last two of four axes, in windows without dilation")


def _with_positions(c: CallConversion) -> Sequence[int]:
    window = _window(c)
    _plane(c, window)
    x, window = _surrounded(c, c.tensor("input"), window)
    kinds = [c.like(x), unshaped("int32")]
    return c.nodes("max_pool_2d_with_positions", [x], kinds, **window.along([2, 3]).pool)


def _positions(c: CallConversion) -> Sequence[int]:
    return _with_positions(c)[1:]


def _sample(c: CallConversion) -> Sequence[int]:
    window = _window(c)
    _plane(c, window)
    x, window = _surrounded(c, c.tensor("input"), window)
    shape, index = c.shape(x), c.tensor("index")
    wanted = (*shape[:2], *window.positions(shape)[2:])
    c.require(c.shape(index) == wanted, f"index has shape {list(c.shape(index))}, the windows {list(wanted)}")
    flat = c.reshaped(x, (*shape[:2], prod(shape[2:])))
    places = c.reshaped(index, (*shape[:2], prod(wanted[2:])))
    [chosen] = c.nodes("gather", [flat, places], [c.like(flat)], axis=2, batch_dims=2)
    return [c.reshaped(chosen, wanted)]


def _desample(c: CallConversion) -> Sequence[int]:
    """Put each value at its position: a transposed convolution with one channel per tap that can hold it."""
    x, index = c.as_real(c.tensor("input")), c.tensor("index")
    shape, target = c.shape(x), c.wholes("output_shape")
    c.require(len(shape) == 4 and c.shape(index) == shape, "input and index are of one shape, of four axes")
    size = sized(c, shape)
    pools.limit_taps(c, size)
    extents, window = unwound(c, shape, size, target)
    _plane(c, window)
    before = [0, 0] if c.value("border") == "ignore" else [window.padding[2][0], window.padding[3][0]]
    width = extents[3] + (0 if c.value("border") == "ignore" else sum(window.padding[3]))
    taps = []
    for row, column in product(range(size[2]), range(size[3])):
        rows = np.arange(shape[2]) * window.stride[2] - window.padding[2][0] + before[0] + row
        columns = np.arange(shape[3]) * window.stride[3] - window.padding[3][0] + before[1] + column
        place = c.constant((rows[:, None] * width + columns).astype(np.int32)[None, None])
        is_largest = c.node("equal", [index, place], unshaped("bool"))
        taps.append(c.node("select_v2", [is_largest, x, c.literal(0.0, x)], _REAL))
    count = len(taps)
    [stacked] = c.moved("pack", taps, axis=2)
    channels = shape[1] * count
    image = c.reshaped(stacked, (shape[0], channels, *shape[2:]))
    ones = np.zeros((shape[1], count, 1, size[2], size[3]), np.float32)
    for tap, (row, column) in enumerate(product(range(size[2]), range(size[3]))):
        ones[:, tap, 0, row, column] = 1
    filter_ = c.constant(ones.reshape(channels, 1, size[2], size[3]))
    return [
        c.apply(
            "deconv",
            image,
            filter_,
            padding=[*window.padding[2:]],
            stride=[*window.stride[2:]],
            output_shape=[shape[0], shape[1], *extents[2:]],
            groups=shape[1],
        )
    ]


def _debox(c: CallConversion) -> Sequence[int]:
    """Add a transposed convolution of every channel with ones; `normalize` changes nothing, as in Khronos' runtime."""
    x = c.as_real(c.tensor("input"))
    shape, target = c.shape(x), c.wholes("output_shape")
    size = sized(c, shape)
    extents, window = unwound(c, shape, size, target)
    for axes in by_pairs(window.active):

        def spread(image: int, axes: Sequence[int] = axes) -> int:
            channels, missing = c.shape(image)[1], 2 - len(axes)
            ones = c.filled((channels, 1, *(1,) * missing, *(size[axis] for axis in axes)), 1.0)
            return c.apply(
                "deconv",
                image,
                ones,
                padding=[*(NO_BORDER,) * missing, *(window.padding[axis] for axis in axes)],
                stride=[*(1,) * missing, *(window.stride[axis] for axis in axes)],
                dilation=[*(1,) * missing, *(window.dilation[axis] for axis in axes)],
                output_shape=[*c.shape(image)[:2], *(1,) * missing, *(extents[axis] for axis in axes)],
                groups=channels,
            )

        x = on_images(c, x, axes, spread)
    return [x]


_MEAN = "average_pool_2d pad mul transpose reshape"


ROWS: tuple[Row, ...] = (
    Row("linear", _linear, "fully_connected", activated=True),
    Row("matmul", _matmul, "batch_matmul"),
    Row("conv", _convolution, f"{_CONVOLUTIONS} pad pack transpose reshape", activated=True),
    Row("deconv", _transposed, "transpose_conv", activated=True),
    Row("separable_conv", _separable, _CONVOLUTIONS),
    Row("separable_deconv", _separable_transposed, "transpose_conv"),
    Row("avg_pool", _average, "average_pool_2d pad transpose reshape", activated=True),
    Row("max_pool", _largest, "max_pool_2d pad transpose reshape", activated=True),
    Row("box", _box, _MEAN),
    Row("rms_pool", _rms, "square average_pool_2d sqrt"),
    Row("max_pool_with_index", _with_positions, "max_pool_2d_with_positions"),
    Row("argmax_pool", _positions, "max_pool_2d_with_positions"),
    Row("sample", _sample, "gather reshape"),
    Row("desample", _desample, "equal select_v2 pack transpose_conv"),
    Row("debox", _debox, "transpose_conv"),
)
