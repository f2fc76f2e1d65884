"""The table of operators that are written as NNEF calls, with their conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from npusim.frontends.nnef.export.call_parts import PARTS, bias_of
from npusim.frontends.nnef.export.nnef_export import LIMITS, TO_CHANNELS_FIRST, Export
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import Node
from npusim.kernels.graph.layout import permuted_tensor

_ELEMENTWISE = {
    **{name: name for name in ("add", "sub", "mul", "div", "pow", "prelu")},
    "maximum": "max",
    "minimum": "min",
    "equal": "eq",
    "not_equal": "ne",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "logical_and": "and",
    "logical_or": "or",
    **{name: name for name in ("abs", "neg", "exp", "log", "sin", "cos", "sqrt", "rsqrt", "floor", "ceil")},
    **{name: name for name in ("sign", "tanh", "relu", "softplus")},
    "logistic": "sigmoid",
    "square": "sqr",
    "swish": "silu",
    "logical_not": "not",
    **{name: name for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")},
    "select_v2": "select",
    "quantize": "copy",
    "dequantize": "copy",
}
"""NNEF's names of elementwise operators."""


def _inputs(node: Node) -> list[int]:
    return [number for number in node.inputs if number is not None]


def _elements(e: Export, node: Node) -> None:
    """Add an elementwise call; operands of lower rank get leading axes, because NNEF would add trailing ones."""
    numbers = _inputs(node)
    rank = len(e.kind(node.outputs[0]).shape)
    images = [number for number in numbers if len(e.kind(number).shape) == 4]
    first = rank == 4 and bool(images) and any(e.is_first(number) for number in images)
    operands = []
    for number in numbers:
        own = e.kind(number)
        more = rank - len(own.shape)
        if first and not more:
            operands.append(e.first(number))
            continue
        name = e.last(number)
        if more and prod(own.shape) != 1:
            shape = (1,) * more + own.shape
            name = _reshaped(e, number, name, shape)
            if first:
                axes = list(TO_CHANNELS_FIRST)
                turned = _shaped(own, [shape[axis] for axis in axes])
                name = e.call("transpose", e.fresh(number, "_nchw"), turned, name, axes=axes)
        operands.append(name)
    if node.op in ("relu6", "relu_n1_to_1", "relu_0_to_1"):
        e.result(node, "clamp", *operands, *LIMITS[node.op], first=first)
    elif node.op in ("leaky_relu", "elu"):
        e.result(node, node.op, *operands, first=first, alpha=float(getattr(node.parameters, "alpha", 1.0)))
    else:
        e.result(node, _ELEMENTWISE[node.op], *operands, first=first)


def _shaped(kind: TensorType, shape: Sequence[int]) -> TensorType:
    return TensorType(kind.dtype, tuple(shape), kind.quantization)


def _reshaped(e: Export, number: int, name: str, shape: Sequence[int]) -> str:
    return e.call(
        "reshape", e.fresh(number, "_reshaped"), _shaped(e.kind(number), shape), name, shape=list(shape)
    )


def _filter(e: Export, node: Node, order: tuple[int, ...]) -> str:
    number = node.inputs[1]
    assert number is not None
    tensor = permuted_tensor(e.graph.tensors[number], order)
    if tensor.array is None:
        return e.call("transpose", e.fresh(number, "_turned"), tensor.type, e.last(number), axes=list(order))
    return e.variable(number, tensor)


def _steps(how: Any) -> dict[str, Any]:
    return {
        "padding": [tuple(pair) for pair in how.padding],
        "stride": list(how.strides),
        "dilation": list(how.dilations),
    }


def _convolution(e: Export, node: Node) -> None:
    how: Any = node.parameters
    image, weights = node.inputs[0], node.inputs[1]
    assert image is not None
    assert weights is not None
    if node.op == "depthwise_conv_2d":
        groups, order = 0, (3, 0, 1, 2)
    else:
        groups, order = e.kind(image).shape[3] // e.kind(weights).shape[3], TO_CHANNELS_FIRST
    operands = (e.first(image), _filter(e, node, order), bias_of(e, node))
    e.result(node, "conv", *operands, first=True, border="constant", **_steps(how), groups=groups)


def _vectors(e: Export, node: Node) -> None:
    image, weights = node.inputs[0], node.inputs[1]
    assert image is not None
    assert weights is not None
    units, length = e.kind(weights).shape
    shape = (prod(e.kind(image).shape) // length, length)
    name = e.last(image)
    if e.kind(image).shape != shape:
        name = _reshaped(e, image, name, shape)
    operands = (name, e.last(weights), bias_of(e, node))
    wanted = e.kind(node.outputs[0]).shape
    if wanted != (shape[0], units):
        raise GraphError(f"NNEF's linear gives matrices, not shape {list(wanted)}")
    e.result(node, "linear", *operands)


def _pool(e: Export, node: Node) -> None:
    how: Any = node.parameters
    none = ((0, 0), (0, 0))
    if getattr(how, "counted", none) not in (none, how.padding):
        raise GraphError("NNEF counts all of a padding or none")
    counts = getattr(how, "counted", none) == how.padding != none
    steps = {
        "size": [1, 1, *how.filter],
        "border": "constant" if counts else "ignore",
        "padding": [(0, 0), (0, 0), *(tuple(pair) for pair in how.padding)],
        "stride": [1, 1, *how.strides],
    }
    image = _inputs(node)[0]
    operation = "max_pool" if node.op == "max_pool_2d" else "avg_pool"
    e.result(node, operation, e.first(image), first=True, **steps)


def _reduction(operation: str) -> Callable[[Export, Node], None]:
    def convert(e: Export, node: Node) -> None:
        how: Any = node.parameters
        axes = list(how.axes) if hasattr(how, "axes") else [how.axis % len(e.kind(_inputs(node)[0]).shape)]
        number, result = _inputs(node)[0], node.outputs[0]
        own = e.kind(number).shape
        kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(own))
        name = e.fresh(result, "" if kept == e.kind(result).shape else "_kept")
        e.call(operation, name, _shaped(e.kind(result), kept), e.last(number), axes=axes)
        if kept != e.kind(result).shape:
            name = e.call("squeeze", e.fresh(result), e.kind(result), name, axes=axes)
        e.lasts[result] = name

    return convert


def _shape_of_result(e: Export, node: Node) -> None:
    e.result(node, "reshape", e.last(_inputs(node)[0]), shape=list(e.kind(node.outputs[0]).shape))


def _along_axis(operation: str) -> Callable[[Export, Node], None]:
    def convert(e: Export, node: Node) -> None:
        how: Any = node.parameters
        numbers = _inputs(node)
        rank = len(e.kind(node.outputs[0]).shape)
        names = tuple(e.last(number) for number in numbers)
        e.result(node, operation, names, axis=how.axis % rank)

    return convert


def _softmax(e: Export, node: Node) -> None:
    how: Any = node.parameters
    if how.beta != 1.0:
        raise GraphError("NNEF's softmax has no beta")
    number = _inputs(node)[0]
    e.result(node, "softmax", e.last(number), axes=[how.axis % len(e.kind(number).shape)])


def _transpose(e: Export, node: Node) -> None:
    how: Any = node.parameters
    e.result(node, "transpose", e.last(_inputs(node)[0]), axes=list(how.perm))


def _padding(e: Export, node: Node) -> None:
    how: Any = node.parameters
    if getattr(how, "pad_value", None) is not None:
        raise GraphError("has a padding that is not zero")
    border = {"pad": "constant", "edge_pad": "replicate"}.get(node.op)
    if border is None:
        border = "reflect" if how.mode == "reflect" else "reflect-even"
    pairs = [tuple(pair) for pair in how.paddings]
    e.result(node, "pad", e.last(_inputs(node)[0]), padding=pairs, border=border, value=0.0)


def _slices(e: Export, node: Node) -> None:
    how: Any = node.parameters
    number, result = _inputs(node)[0], node.outputs[0]
    own = e.kind(number).shape
    strides = how.strides or (1,) * len(own)
    if min(strides) < 1:
        raise GraphError("has a slice that goes backwards")
    ends = [
        begin + (size - 1) * step + 1 for begin, size, step in zip(how.begin, how.size, strides, strict=True)
    ]
    name = e.fresh(result, "" if tuple(how.size) == e.kind(result).shape else "_kept")
    axes = list(range(len(own)))
    kind = _shaped(e.kind(result), how.size)
    e.call(
        "slice", name, kind, e.last(number), axes=axes, begin=list(how.begin), end=ends, stride=list(strides)
    )
    if tuple(how.size) != e.kind(result).shape:
        shape = list(e.kind(result).shape)
        name = e.call("reshape", e.fresh(result), e.kind(result), name, shape=shape)
    e.lasts[result] = name


def _split(e: Export, node: Node) -> None:
    how: Any = node.parameters
    number = _inputs(node)[0]
    names = []
    for output in node.outputs:
        names.append(e.fresh(output))
        e.note(names[-1], e.kind(output))
        e.lasts[output] = names[-1]
    axis = how.axis % len(e.kind(number).shape)
    kinds = [e.kind(output) for output in node.outputs]
    e.calls_of_several("split", names, kinds, e.last(number), axis=axis, ratios=list(how.sizes))


def _product(e: Export, node: Node) -> None:
    how: Any = node.parameters
    names = [e.last(number) for number in _inputs(node)]
    e.result(node, "matmul", *names, transposeA=how.adj_x, transposeB=how.adj_y)


def _gather(e: Export, node: Node) -> None:
    how: Any = node.parameters
    values, indices = _inputs(node)
    if how.batch_dims:
        raise GraphError("NNEF's gather has no batch dimensions")
    rank = len(e.kind(values).shape)
    e.result(node, "gather", e.last(values), e.last(indices), axis=how.axis % rank)


def _tile(e: Export, node: Node) -> None:
    how: Any = node.parameters
    e.result(node, "tile", e.last(_inputs(node)[0]), repeats=list(how.multiples))


def _resize(e: Export, node: Node) -> None:
    """Add an upsampling by whole factors, with the border of the image."""
    how: Any = node.parameters
    image = _inputs(node)[0]
    old, new = e.kind(image).shape[1:3], how.size
    if how.steps is not None or any(after % before for before, after in zip(old, new, strict=True)):
        raise GraphError(f"NNEF resizes by whole factors, not {list(old)} to {list(new)}")
    factor = [after // before for before, after in zip(old, new, strict=True)]
    if node.op == "resize_nearest_neighbor":
        if how.align_corners:
            raise GraphError("NNEF has no aligned corners of nearest pixels")
        e.result(node, "nearest_upsample", e.first(image), first=True, factor=factor)
        return
    method = "aligned" if how.align_corners else "symmetric" if how.half_pixel_centers else "asymmetric"
    e.result(
        node,
        "multilinear_upsample",
        e.first(image),
        first=True,
        factor=factor,
        method=method,
        border="replicate",
    )


CONVERT: dict[str, Callable[[Export, Node], None]] = {
    **PARTS,
    **dict.fromkeys((*_ELEMENTWISE, *LIMITS, "leaky_relu", "elu"), _elements),
    **dict.fromkeys(("conv_2d", "depthwise_conv_2d"), _convolution),
    **dict.fromkeys(("average_pool_2d", "max_pool_2d"), _pool),
    **dict.fromkeys(("reshape", "squeeze"), _shape_of_result),
    **dict.fromkeys(("pad", "mirror_pad", "edge_pad"), _padding),
    **dict.fromkeys(("slice", "strided_slice"), _slices),
    **dict.fromkeys(("resize_nearest_neighbor", "resize_bilinear"), _resize),
    "fully_connected": _vectors,
    "mean": _reduction("mean_reduce"),
    "sum": _reduction("sum_reduce"),
    "reduce_max": _reduction("max_reduce"),
    "reduce_min": _reduction("min_reduce"),
    "arg_max": _reduction("argmax_reduce"),
    "arg_min": _reduction("argmin_reduce"),
    "reduce_all": _reduction("all_reduce"),
    "reduce_any": _reduction("any_reduce"),
    "softmax": _softmax,
    "concatenation": _along_axis("concat"),
    "pack": _along_axis("stack"),
    "split": _split,
    "transpose": _transpose,
    "batch_matmul": _product,
    "gather": _gather,
    "tile": _tile,
}
"""The conversions of all operators that npusim writes as NNEF."""
