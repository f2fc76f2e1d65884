"""The table of operators that are written as NNEF calls, with their conversions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from npusim.frontends.nnef.export.call_parts import PARTS, bias_of, filter_of
from npusim.frontends.nnef.export.nnef_export import TO_CHANNELS_FIRST, Convert, Export
from npusim.frontends.nnef.operations import nnef_elementwise as reader
from npusim.frontends.nnef.operations.nnef_axes import REDUCTIONS
from npusim.frontends.written_layers import LIMITS, Layer
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.operator.parameters import NO_BORDERS

_ELEMENTWISE = {
    **reader.FUNCTIONS,
    **reader.ARITHMETIC,
    **reader.EXTREMA,
    **reader.COMPARISONS,
    **reader.LOGIC,
    "pow": "pow",
    "prelu": "prelu",
    "select_v2": "select",
    "quantize": "copy",
    "dequantize": "copy",
}
"""The NNEF operation of each elementwise operator."""


def _elements(e: Export, n: Layer) -> None:
    """Add an elementwise call; operands of lower rank get leading axes, because NNEF would add trailing ones."""
    rank = len(e.shape(n.result))
    first = rank == 4 and any(len(e.shape(number)) == 4 and e.is_first(number) for number in n.given)
    operands = []
    for number in n.given:
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
    if n.op in LIMITS:
        e.result(n, "clamp", *operands, *LIMITS[n.op], first=first)
    elif n.op in ("leaky_relu", "elu"):
        e.result(n, n.op, *operands, first=first, alpha=float(getattr(n.params, "alpha", 1.0)))
    else:
        e.result(n, _ELEMENTWISE[n.op], *operands, first=first)


def _shaped(kind: TensorType, shape: Sequence[int]) -> TensorType:
    return TensorType(kind.dtype, tuple(shape), kind.quantization)


def _reshaped(e: Export, number: int, name: str, shape: Sequence[int]) -> str:
    return e.call(
        "reshape", e.fresh(number, "_reshaped"), _shaped(e.kind(number), shape), name, shape=list(shape)
    )


def _steps(params: Any) -> dict[str, Any]:
    return {
        "padding": [tuple(pair) for pair in params.padding],
        "stride": list(params.strides),
        "dilation": list(params.dilations),
    }


def _convolution(e: Export, n: Layer) -> None:
    if n.op == "depthwise_conv_2d":
        groups, order = 0, (3, 0, 1, 2)
    else:
        groups, order = n.shape[3] // e.shape(n[1])[3], TO_CHANNELS_FIRST
    operands = (e.first(n[0]), filter_of(e, n[1], order), bias_of(e, n))
    e.result(n, "conv", *operands, first=True, border="constant", **_steps(n.params), groups=groups)


def _vectors(e: Export, n: Layer) -> None:
    units, length = e.shape(n[1])
    shape = (prod(n.shape) // length, length)
    name = e.last(n[0])
    if n.shape != shape:
        name = _reshaped(e, n[0], name, shape)
    operands = (name, e.last(n[1]), bias_of(e, n))
    wanted = e.shape(n.result)
    if wanted != (shape[0], units):
        raise GraphError(f"NNEF's linear gives matrices, not shape {list(wanted)}")
    e.result(n, "linear", *operands)


def _pool(e: Export, n: Layer) -> None:
    counted = getattr(n.params, "counted", NO_BORDERS)
    if counted not in (NO_BORDERS, n.params.padding):
        raise GraphError("NNEF counts all of a padding or none")
    steps = {
        "size": [1, 1, *n.params.filter],
        "border": "constant" if counted == n.params.padding != NO_BORDERS else "ignore",
        "padding": [(0, 0), (0, 0), *(tuple(pair) for pair in n.params.padding)],
        "stride": [1, 1, *n.params.strides],
    }
    operation = "max_pool" if n.op == "max_pool_2d" else "avg_pool"
    e.result(n, operation, e.first(n[0]), first=True, **steps)


def _reduction(operation: str) -> Convert:
    def convert(e: Export, n: Layer) -> None:
        axes = list(n.params.axes) if hasattr(n.params, "axes") else [n.axis]
        kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(n.shape))
        _then(e, n, kept, "squeeze", {"axes": axes}, operation, axes=axes)

    return convert


def _then(
    e: Export,
    n: Layer,
    kept: Sequence[int],
    last: str,
    arguments: dict[str, Any],
    operation: str,
    **attributes: Any,
) -> None:
    """Add a call whose result has the shape `kept`, and the call `last` if the result of the layer has another."""
    wanted = e.kind(n.result)
    name = e.fresh(n.result, "" if tuple(kept) == wanted.shape else "_kept")
    e.call(operation, name, _shaped(wanted, kept), e.last(n[0]), **attributes)
    if tuple(kept) != wanted.shape:
        name = e.call(last, e.fresh(n.result), wanted, name, **arguments)
    e.lasts[n.result] = name


def _shape_of_result(e: Export, n: Layer) -> None:
    e.result(n, "reshape", e.last(n[0]), shape=list(e.shape(n.result)))


def _along_axis(operation: str) -> Convert:
    def convert(e: Export, n: Layer) -> None:
        names = tuple(e.last(number) for number in n.given)
        e.result(n, operation, names, axis=n.params.axis % len(e.shape(n.result)))

    return convert


def _softmax(e: Export, n: Layer) -> None:
    if n.params.beta != 1.0:
        raise GraphError("NNEF's softmax has no beta")
    e.result(n, "softmax", e.last(n[0]), axes=[n.axis])


def _transpose(e: Export, n: Layer) -> None:
    e.result(n, "transpose", e.last(n[0]), axes=list(n.params.perm))


def _padding(e: Export, n: Layer) -> None:
    if getattr(n.params, "pad_value", None) is not None:
        raise GraphError("has a padding that is not zero")
    border = {"pad": "constant", "edge_pad": "replicate"}.get(n.op)
    if border is None:
        border = "reflect" if n.params.mode == "reflect" else "reflect-even"
    pairs = [tuple(pair) for pair in n.params.paddings]
    e.result(n, "pad", e.last(n[0]), padding=pairs, border=border, value=0.0)


def _slices(e: Export, n: Layer) -> None:
    strides = n.params.strides or (1,) * len(n.shape)
    if min(strides) < 1:
        raise GraphError("has a slice that goes backwards")
    along = zip(n.params.begin, n.params.size, strides, strict=True)
    arguments: dict[str, Any] = {"axes": list(range(len(n.shape))), "begin": list(n.params.begin)}
    arguments |= {
        "end": [begin + (size - 1) * step + 1 for begin, size, step in along],
        "stride": list(strides),
    }
    _then(e, n, n.params.size, "reshape", {"shape": list(e.shape(n.result))}, "slice", **arguments)


def _product(e: Export, n: Layer) -> None:
    names = [e.last(number) for number in n.given]
    e.result(n, "matmul", *names, transposeA=n.params.adj_x, transposeB=n.params.adj_y)


def _gather(e: Export, n: Layer) -> None:
    if n.params.batch_dims:
        raise GraphError("NNEF's gather has no batch dimensions")
    e.result(n, "gather", e.last(n[0]), e.last(n[1]), axis=n.axis)


def _tile(e: Export, n: Layer) -> None:
    e.result(n, "tile", e.last(n[0]), repeats=list(n.params.multiples))


def _resize(e: Export, n: Layer) -> None:
    """Add an upsampling by whole factors, with the border of the image."""
    params, old, new = n.params, n.shape[1:3], n.params.size
    if params.steps is not None or any(after % before for before, after in zip(old, new, strict=True)):
        raise GraphError(f"NNEF resizes by whole factors, not {list(old)} to {list(new)}")
    steps: dict[str, Any] = {"factor": [after // before for before, after in zip(old, new, strict=True)]}
    operation = "nearest_upsample"
    if n.op == "resize_bilinear":
        centers = "symmetric" if params.half_pixel_centers else "asymmetric"
        operation = "multilinear_upsample"
        steps |= {"method": "aligned" if params.align_corners else centers, "border": "replicate"}
    elif params.align_corners:
        raise GraphError("NNEF has no aligned corners of nearest pixels")
    e.result(n, operation, e.first(n[0]), first=True, **steps)


CONVERT: dict[str, Convert] = {
    **PARTS,
    **dict.fromkeys((*_ELEMENTWISE, *LIMITS, "leaky_relu", "elu"), _elements),
    **dict.fromkeys(("conv_2d", "depthwise_conv_2d"), _convolution),
    **dict.fromkeys(("average_pool_2d", "max_pool_2d"), _pool),
    **dict.fromkeys(("reshape", "squeeze"), _shape_of_result),
    **dict.fromkeys(("pad", "mirror_pad", "edge_pad"), _padding),
    **dict.fromkeys(("slice", "strided_slice"), _slices),
    **dict.fromkeys(("resize_nearest_neighbor", "resize_bilinear"), _resize),
    "fully_connected": _vectors,
    **{op: _reduction(name) for op, name in REDUCTIONS.items()},
    "softmax": _softmax,
    "concatenation": _along_axis("concat"),
    "pack": _along_axis("stack"),
    "split": lambda e, n: e.results(n, "split", axis=n.axis, ratios=list(n.params.sizes)),
    "transpose": _transpose,
    "batch_matmul": _product,
    "gather": _gather,
    "tile": _tile,
}
"""The conversions of all operators that npusim writes as NNEF."""
