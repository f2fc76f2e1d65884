"""Paddle's operators that move elements, and constants that depend on shapes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms import moves
from npusim.frontends.forms.conversion import MOST_CONSTANT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.paddle.operations import paddle_arguments as given
from npusim.frontends.paddle.operations.paddle_arguments import op, renamed
from npusim.kernels.graph.builder import unshaped


def _under(c: NodeConversion, x: int, shape: Sequence[int]) -> Sequence[int]:
    return [c.node("reshape", [x], shape=tuple(shape))]


def _reshape(c: NodeConversion) -> Sequence[int]:
    return [moves.reshaped_to(c, c.tensor("X"), given.numbers(c, "shape", "Shape", "ShapeTensor"))]


def _flatten(c: NodeConversion) -> Sequence[int]:
    rank = max(len(c.shape("X")), 1)
    first, last = (c.axis(c.parameter(name, 1), rank, name) for name in ("start_axis", "stop_axis"))
    return [moves.flattened(c, c.tensor("X"), first, last)]


def _squeeze(c: NodeConversion) -> Sequence[int]:
    """Remove axes of one element: all, or the stated ones; stated axes of more elements stay."""
    own, stated_axes = c.shape("X"), given.numbers(c, "axes", "AxesTensor", "AxesTensorList")
    axes = [c.axis(axis, len(own), "axes") for axis in stated_axes] if stated_axes else range(len(own))
    return _under(c, c.tensor("X"), [size for at, size in enumerate(own) if size != 1 or at not in axes])


def _unsqueeze(c: NodeConversion) -> Sequence[int]:
    return [moves.with_ones(c, c.tensor("X"), given.numbers(c, "axes", "AxesTensor", "AxesTensorList"))]


def _concat(c: NodeConversion) -> Sequence[int]:
    tensors = c.tensors("X")
    return [moves.concatenated(c, tensors, given.axis_of(c, moves.common_rank(c, tensors), "AxisTensor"))]


def _split(c: NodeConversion) -> Sequence[int]:
    x, own, count = c.tensor("X"), c.shape("X"), len(c.outputs)
    axis = given.axis_of(c, len(own), "AxisTensor")
    sizes = given.numbers(c, "sections", tensors="SectionsTensorList") or [own[axis] // count] * count
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = own[axis] - sum(sizes) - 1
    return moves.split(c, x, axis, sizes)


def _slice(c: NodeConversion) -> Sequence[int]:
    """Slice some axes, and remove those of `decrease_axis`."""
    x, axes = c.tensor("Input"), given.numbers(c, "axes")
    starts = given.numbers(c, "starts", "StartsTensor", "StartsTensorList")
    ends = given.numbers(c, "ends", "EndsTensor", "EndsTensorList")
    steps = given.numbers(c, "strides", "StridesTensor", "StridesTensorList") or [1] * len(axes)
    # Backwards, an end of -1 is the one before the first element, not the last element.
    before = -(1 << 62)
    ends = [before if end == -1 and step < 0 else end for end, step in zip(ends, steps, strict=False)]
    box = moves.part(c, x, axes, starts, ends, steps)
    gone = [c.axis(axis, len(box["size"]), "decrease_axis") for axis in given.numbers(c, "decrease_axis")]
    single = all(box["size"][axis] == 1 for axis in gone)
    c.require(single, f"decrease_axis {gone} names an axis of more than one element")
    if gone:
        left = [size for axis, size in enumerate(box["size"]) if axis not in gone]
        box["shape"] = given.without_axes(c, left)
    return c.nodes("strided_slice", [x], [c.kind(0, c.builder.type(x).dtype)], **box)


def _stack(c: NodeConversion) -> Sequence[int]:
    tensors = c.tensors("X")
    return [c.node("pack", tensors, axis=given.axis_of(c, len(c.shape(tensors[0])) + 1))]


def _unstack(c: NodeConversion) -> Sequence[int]:
    kinds = [c.kind(place, c.like(c.tensor("X")).dtype) for place in range(len(c.outputs))]
    return c.nodes("unpack", [c.tensor("X")], kinds, axis=given.axis_of(c, len(c.shape("X"))))


def _expand(c: NodeConversion) -> Sequence[int]:
    x, shape = c.tensor("X"), given.numbers(c, "shape", "Shape", "expand_shapes_tensor")
    return [moves.expanded(c, x, moves.with_kept_sizes(c, x, shape))]


def _expand_as(c: NodeConversion) -> Sequence[int]:
    shape = c.shape(c.real("Y")) if c.has("Y") else given.numbers(c, "target_shape")
    return [moves.expanded(c, c.tensor("X"), shape)]


def _tile(c: NodeConversion) -> Sequence[int]:
    """Repeat along axes; the shorter of shape and repeats gets leading ones."""
    own, repeats = c.shape("X"), given.numbers(c, "repeat_times", "RepeatTimes", "repeat_times_tensor")
    rank = max(len(own), len(repeats))
    x = c.reshaped(c.tensor("X"), (*(1,) * (rank - len(own)), *own))
    return [moves.tiled(c, x, [1] * (rank - len(repeats)) + repeats)]


def _gather(c: NodeConversion) -> Sequence[int]:
    """Gather slices of X by one axis of indices."""
    x, index = c.tensor("X"), c.real("Index")
    rank, shape = len(c.shape(x)), c.shape(index)
    is_gather = c.source.operation == "gather"
    axis = given.axis_of(c, rank, "Axis") if is_gather else c.axis(c.parameter("dim", 0), rank)
    c.require(shape[:1] in ((prod(shape),), ()), f"Index has shape {list(shape)}, must have one axis")
    return [c.node("gather", [x, c.reshaped(index, (prod(shape),))], axis=axis)]


def _rows(c: NodeConversion) -> Sequence[int]:
    """Gather rows of a table."""
    c.require(c.parameter("padding_idx", -1) < 0, "npusim has no padding_idx")
    return [c.node("gather", [c.tensor("W"), c.real("Ids")], axis=0)]


def _pad(c: NodeConversion) -> Sequence[int]:
    """Pad all axes, or those behind the channels: pad3d lists the last axis first."""
    given.channels_first(c)
    name, own, paddings = c.source.operation, c.shape("X"), given.numbers(c, "paddings", "Paddings")
    first, mode = 0 if name == "pad" else 2, c.attribute("mode", "constant")
    fits = len(paddings) == 2 * (len(own) - first) and min(paddings, default=0) >= 0
    c.require(fits, f"paddings {paddings} are not two for each of {len(own) - first} axes, 0 or more")
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    pairs = [(0, 0)] * first + (pairs[::-1] if name == "pad3d" else pairs)
    number = np.float32(c.attribute("value" if name == "pad3d" else "pad_value", 0.0)) or None
    mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    return [moves.padded(c, c.tensor("X"), pairs, mode, number)]


def _reverse(c: NodeConversion) -> Sequence[int]:
    axes = [c.axis(axis, len(c.shape("X"))) for axis in given.numbers(c, "axis")]
    return [c.node("reverse_v2", [c.tensor("X")], axes=tuple(axes))]


def _shuffle(c: NodeConversion) -> Sequence[int]:
    """Interleave the channels of several groups."""
    shape, groups = c.shape("X"), c.parameter("group", 0) or c.parameter("groups", 1)
    fits = len(shape) == 4 and groups > 0 and shape[1] % groups == 0
    c.require(fits, f"{list(shape)} has no {groups} groups")
    apart = c.reshaped(c.tensor("X"), (shape[0], groups, shape[1] // groups, *shape[2:]))
    return _under(c, c.transposed(apart, (0, 2, 1, 3, 4)), shape)


def _dropout(c: NodeConversion) -> Sequence[int]:
    """Return the data unchanged, or for models of older training times the share that is kept."""
    x, share = c.tensor("X"), c.parameter("dropout_prob", 0.5)
    if c.attribute("dropout_implementation", "downgrade_in_infer") == "upscale_in_train" or share == 0:
        return [x]
    return [c.node("mul", [c.as_real(x), c.scalar(1 - share, c.as_real(x))])]


_AXES, _BOUNDS = "X AxesTensor? AxesTensorList*", "StartsTensorList* EndsTensorList* StridesTensorList*"
_SLICES = f"Input StartsTensor? EndsTensor? StridesTensor? {_BOUNDS}"
_KEPT = given.either("dropout_implementation", "upscale_in_train", "Identity", "Mul")
_PADS = "pad mirror_pad edge_pad gather"


def _shape(c: NodeConversion) -> Sequence[int]:
    return [c.constant(np.array(c.shape(c.real("Input")), np.int32))]


def _made(c: NodeConversion, shape: Sequence[int], number: float, dtype: str) -> Sequence[int]:
    c.require(dtype.startswith("float") or bool(np.isfinite(number)), f"{number} is no {dtype}")
    return [c.filled(shape, int(number) if "int" in dtype else number, dtype)]


def _filled(c: NodeConversion) -> Sequence[int]:
    """Add a constant; a text value has more digits than the number. One size may be that of another tensor."""
    shape, text = given.numbers(c, "shape", "ShapeTensor", "ShapeTensorList"), c.attribute("str_value", "")
    try:
        number = float(text) if text else c.parameter("value", 0.0)
    except ValueError:
        raise c.fault(f"str_value is {text[:40]!r}, which is no number") from None
    if c.has("ValueTensor"):
        number = float(c.value("ValueTensor").reshape(-1)[0])
    if c.has("Input"):
        own = c.shape(c.real("Input"))
        source = c.axis(c.parameter("input_dim_idx", 0), len(own), "input_dim_idx")
        shape[c.axis(c.parameter("output_dim_idx", 0), len(shape), "output_dim_idx")] = own[source]
    return _made(c, shape, number, given.element_type(c))


def _filled_like(c: NodeConversion) -> Sequence[int]:
    like = c.real("X")
    dtype = c.builder.type(like).dtype if c.parameter("dtype", -1) == -1 else given.element_type(c)
    return _made(c, c.shape(like), c.parameter("value", 0.0), dtype)


def _values(c: NodeConversion) -> Sequence[int]:
    """Add a constant from the attribute named after its element type."""
    dtype, shape = given.element_type(c), given.numbers(c, "shape")
    kinds = ("", "bool_", "fp32_", "int32_", "int64_", "fp64_")
    values: list[Any] = next(filter(None, [c.attribute(f"{kind}values") for kind in kinds]), [])
    fits = min(shape, default=0) >= 0 and prod(shape) == len(values)
    c.require(fits, f"{len(values)} values have no shape {shape}")
    return [c.constant(np.array(values, np.dtype(dtype)).reshape(shape))]


def _grid(c: NodeConversion) -> Sequence[int]:
    tensors = c.tensors("X")
    return moves.on_grid(c, tensors, [unshaped(c.builder.type(tensor).dtype) for tensor in tensors])


def _one_hot(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    depth = c.wholes("depth_tensor")[0] if c.has("depth_tensor") else c.parameter("depth", -1)
    c.require(0 < depth <= MOST_CONSTANT, f"depth is {depth}, must be 1..{MOST_CONSTANT}")
    places = c.constant(np.arange(depth, dtype=c.builder.type(x).numpy_dtype))
    is_hot = c.step("equal", [c.reshaped(x, (*c.shape(x), 1)), places], "bool")
    return c.nodes("cast", [is_hot], [unshaped(given.element_type(c))])


ROWS: tuple[Row, ...] = tuple(
    chain(
        op("reshape reshape2", "X Shape? ShapeTensor*", _reshape, "reshape", role="Reshape"),
        op("flatten_contiguous_range", "X", _flatten, "reshape", role="Reshape"),
        renamed("flatten flatten2", "Flatten", "input=X", axis=("axis", 1)),
        op("squeeze squeeze2", _AXES, _squeeze, "reshape", role="Reshape"),
        op("unsqueeze unsqueeze2", _AXES, _unsqueeze, "reshape", role="Reshape"),
        renamed("transpose transpose2", "Transpose", "data=X", perm=("axis",)),
        op("concat", "X* AxisTensor?", _concat, "concatenation", role="Concat"),
        op("split", "X AxisTensor? SectionsTensorList*", _split, "split", "Out*", "Split"),
        op("slice strided_slice", _SLICES, _slice, "strided_slice reshape", role="Slice"),
        op("stack", "X*", _stack, "pack", "Y", "Concat"),
        op("unstack", "X", _unstack, "unpack", "Y*", "Split"),
        op("unbind", "X", _unstack, "unpack", "Out*", "Split"),
        op("expand_v2", "X Shape? expand_shapes_tensor*", _expand, "broadcast_to", role="Expand"),
        op("expand_as_v2", "X Y?", _expand_as, "broadcast_to", role="Expand"),
        op("tile", "X RepeatTimes? repeat_times_tensor*", _tile, "tile reshape", role="Tile"),
        op("gather", "X Index Axis?", _gather, "gather reshape", role="Gather"),
        op("index_select", "X Index", _gather, "gather reshape", role="Gather"),
        renamed("gather_nd", "GatherND", "data=X indices=Index"),
        op("lookup_table_v2", "Ids W", _rows, "gather", groups=False),
        op("pad pad2d pad3d", "X Paddings?", _pad, _PADS, role="Pad"),
        op("flip reverse", "X", _reverse, "reverse_v2"),
        op("shuffle_channel channel_shuffle", "X", _shuffle, "reshape transpose", role="Reshape"),
        renamed("pixel_shuffle", "DepthToSpace", "input=X", blocksize=("upscale_factor", 1), mode="CRD"),
        renamed("assign share_data", "Identity", "input=X"),
        op("dropout", "X", _dropout, "mul", role=_KEPT),
        op("shape", "Input", _shape, "", groups=False),
        op("fill_constant", "ValueTensor? ShapeTensor? ShapeTensorList*", _filled, "", groups=False),
        op("fill_constant_batch_size_like", "Input", _filled, "", groups=False),
        op("fill_any_like fill_zeros_like", "X", _filled_like, "", groups=False),
        op("assign_value", "", _values, "", groups=False),
        renamed("range", "Range", "start=Start limit=End delta=Step"),
        op("meshgrid", "X*", _grid, "broadcast_to reshape", "Out*", groups=False),
        op("one_hot_v2", "X depth_tensor?", _one_hot, "equal cast reshape", groups=False),
    )
)
