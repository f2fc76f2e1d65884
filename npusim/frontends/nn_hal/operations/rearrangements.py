"""Operations that move elements: borders, blocks of images, slices, repetitions, orders."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from npusim.frontends.nn_hal.enumerations import OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import (
    at_least,
    axis_of,
    dimensions,
    elements_at_least,
    entry_per_dimension,
    rank_of,
)
from npusim.frontends.nn_hal.operations.named_arguments import Call
from npusim.frontends.nn_hal.operations.operation_row import Conversion, Row
from npusim.frontends.nn_hal.operations.reshape_rows import move
from npusim.frontends.nn_hal.operations.signatures import (
    FLOATS_AND_8_BITS,
    NUMBERS,
    OLD_TYPES,
    SINCE_1_1,
    Choice,
)

_T = OperationType
_SINCE_7 = "F16@7 F32@7 I32@7 Q8@7 Q8S@7"
_RANKS = rank_of("input", 1, 4)


# Borders


def _padded(call: Call) -> str | None:
    """the dimensions of output are those of input with the paddings"""
    paddings, sizes = call.wholes("paddings"), call.shape("input")
    if paddings is None or sizes is None:
        return None
    sums = zip(sizes, paddings[::2], paddings[1::2], strict=False)
    padded = tuple(None if size is None else size + before + after for size, before, after in sums)
    return None if constraints.may_equal(padded, call.shape("output")) else "output"


def _code(call: Call) -> str | None:
    """the value for an 8-bit tensor is one of its codes"""
    value, low = call.number("value"), call["input"].operand.row.zero_points[0]
    if value is None or call.type("input") not in constraints.QUANTIZED:
        return None
    return None if low <= value <= low + 255 else "value"


def _mirrored(call: Call) -> str | None:
    """a padding is less than the dimension (mode 0, reflect) or not more than it (mode 1, symmetric)"""
    paddings, sizes, mode = call.wholes("paddings"), call.shape("input"), call.whole("mode")
    if paddings is None or sizes is None or mode is None:
        return None
    room = [None if size is None else size - 1 + mode for size in sizes for _ in range(2)]
    pairs = zip(paddings, room, strict=False)
    return None if all(most is None or padding <= most for padding, most in pairs) else "paddings"


# Blocks of images


def _block_divides_depth(call: Call) -> str | None:
    """the depth of the input is divisible by the block size squared"""
    image, block = call.image("input"), call.whole("block_size")
    depth = None if image is None else image[3]
    return None if depth is None or not block or depth % (block * block) == 0 else "input"


def _block_divides_image(call: Call) -> str | None:
    """height and width of the input are divisible by the block size"""
    image, block = call.image("input"), call.whole("block_size")
    if image is None or not block:
        return None
    return None if all(size is None or size % block == 0 for size in image[1:3]) else "input"


def _block_divides_batch(call: Call) -> str | None:
    """the batch of the input is divisible by the number of pixels of a block"""
    block, batch = call.wholes("block_shape"), call.size("input", 0)
    if block is None or batch is None or min(block) < 1:
        return None
    return None if batch % prod(block) == 0 else "input"


def _block_divides_padded(call: Call) -> str | None:
    """height and width of the input with the paddings are divisible by the block"""
    image, block, paddings = call.image("input"), call.wholes("block_shape"), call.wholes("paddings")
    if image is None or block is None or paddings is None:
        return None
    padded = zip(image[1:3], paddings[::2], paddings[1::2], block, strict=False)
    fits = (
        size is None or not step or (size + before + after) % step == 0
        for size, before, after, step in padded
    )
    return None if all(fits) else "input"


# Slices


def _slice_inside(call: Call) -> str | None:
    """a slice begins at 0 or behind, and its size, if it is not -1, leaves it inside the input"""
    begins, counts, sizes = call.wholes("begin"), call.wholes("size"), call.shape("input")
    if begins is not None and min(begins, default=0) < 0:
        return "begin"
    if counts is not None and min(counts, default=0) < -1:
        return "size"
    if begins is None or counts is None or sizes is None:
        return None
    ends = ((begin + max(count, 0), size) for begin, count, size in zip(begins, counts, sizes, strict=False))
    return None if all(size is None or end <= size for end, size in ends) else "size"


def _slice(c: Conversion) -> Sequence[int]:
    counts = [
        size - begin if count < 0 else count
        for begin, count, size in zip(c.wholes("begin"), c.wholes("size"), c.shape("input"), strict=True)
    ]
    return c.add(size=tuple(counts))


class _Range(NamedTuple):
    """Elements of one axis: the first, how many, and how far from one to the next."""

    first: int
    elements: int
    step: int


def _ranges(call: Call) -> list[_Range] | None:
    """Return what a strided slice takes of each axis, by Python's rules for slices; None while it is not known."""
    begins, ends, steps = (call.wholes(name) for name in ("begin", "end", "strides"))
    masks = call.whole("begin_mask"), call.whole("end_mask")
    sizes = call.shape("input")
    if begins is None or ends is None or steps is None or None in masks or sizes is None or None in sizes:
        return None
    ranges = []
    for axis, (size, begin, end, step) in enumerate(zip(sizes, begins, ends, steps, strict=True)):
        from_, to = (None if _bit(mask, axis) else at for mask, at in zip(masks, (begin, end), strict=True))
        first, last, _ = slice(from_, to, step).indices(size or 0)
        ranges.append(_Range(first, len(range(first, last, step)), step))
    return ranges


def _bit(mask: int | None, position: int) -> bool:
    return bool((mask or 0) >> position & 1)


def _steps(call: Call) -> str | None:
    """strides are not 0"""
    return "strides" if 0 in (call.wholes("strides") or ()) else None


def _shrunk(call: Call) -> str | None:
    """a dimension that is shrunk away has a positive stride, and a slice of one element"""
    mask, steps = call.whole("shrink_axis_mask"), call.wholes("strides")
    if mask is None or steps is None:
        return None
    if any(step < 0 and _bit(mask, axis) for axis, step in enumerate(steps)):
        return "strides"
    ranges = _ranges(call) or ()
    wrong = any(taken.elements != 1 and _bit(mask, axis) for axis, taken in enumerate(ranges))
    return "end" if wrong else None


def _strided_slice(c: Conversion) -> Sequence[int]:
    c.require("begin", "end", "strides", "begin_mask", "end_mask")
    mask, _ = c.whole("shrink_axis_mask"), c.shape("input")
    ranges = _ranges(c.call) or []
    kept = tuple(taken.elements for axis, taken in enumerate(ranges) if not _bit(mask, axis))
    return c.add(
        inputs=[c.tensor("input")],
        begin=tuple(taken.first if taken.elements else 0 for taken in ranges),
        size=tuple(taken.elements for taken in ranges),
        strides=tuple(taken.step for taken in ranges),
        shape=kept or (1,),
    )


# Order


def _groups_divide(call: Call) -> str | None:
    """the dimension of input at axis is divisible by groups"""
    axis, groups = call.axis("axis", "input"), call.whole("groups")
    size = None if axis is None else call.size("input", axis)
    return None if size is None or not groups or size % groups == 0 else "input"


# Rows

_PADDED = (constraints.pair_per_dimension("paddings", "input"), _padded)
_NOT_NEGATIVE = elements_at_least(0, "paddings")
_MODES = constraints.one_of("mode", 0, 1, "0 (reflect) or 1 (symmetric)")
_IMAGE = rank_of("input", 4)
_TWO_BLOCKS = dimensions({"block_shape": "2"})
_BLOCK = "input:T block_size:i | nchw:b=0 @1.2 > output:T"
_STRIDED = "input:T begin:I32 end:I32 strides:I32 begin_mask:i end_mask:i shrink_axis_mask:i > output:T"
_BOUNDS = tuple(entry_per_dimension(name, "input") for name in ("begin", "end", "strides"))

_BORDERS = (
    move(_T.PAD, "input:T paddings:I32 > output:T", SINCE_1_1, "pad", (_NOT_NEGATIVE,), (_RANKS, *_PADDED)),
    move(
        _T.PAD_V2,
        "input:T paddings:I32 value:V > output:T",
        "T V: F16,h@1.2 F32,f@1.2 Q8,i@1.2 Q8S,i@1.3",
        "pad",
        (_NOT_NEGATIVE, _code),
        (_RANKS, *_PADDED),
        words={"pad_value": "value"},
    ),
    move(
        _T.MIRROR_PAD,
        "input:T paddings:I32 mode:i > output:T",
        _SINCE_7,
        "mirror_pad",
        (_NOT_NEGATIVE, _MODES, _mirrored),
        _PADDED,
        words={"mode": Choice("mode", {0: "reflect", 1: "symmetric"})},
    ),
)

_BLOCKS = (
    move(
        _T.DEPTH_TO_SPACE,
        _BLOCK,
        OLD_TYPES,
        "depth_to_space",
        (at_least(1, "block_size"),),
        (_IMAGE, _block_divides_depth),
    ),
    move(
        _T.SPACE_TO_DEPTH,
        _BLOCK,
        OLD_TYPES,
        "space_to_depth",
        (at_least(1, "block_size"),),
        (_IMAGE, _block_divides_image),
    ),
    move(
        _T.BATCH_TO_SPACE_ND,
        "input:T block_shape:I32 | nchw:b=0 @1.2 > output:T",
        SINCE_1_1,
        "batch_to_space_nd",
        (elements_at_least(1, "block_shape"),),
        (_IMAGE, *_TWO_BLOCKS, _block_divides_batch),
        fixed={"crops": ((0, 0), (0, 0))},
    ),
    move(
        _T.SPACE_TO_BATCH_ND,
        "input:T block_shape:I32 paddings:I32 | nchw:b=0 @1.2 > output:T",
        SINCE_1_1,
        "space_to_batch_nd",
        (elements_at_least(1, "block_shape"), _NOT_NEGATIVE),
        (_IMAGE, *_TWO_BLOCKS, *dimensions({"paddings": "2 2"}), _block_divides_padded),
    ),
)

_PARTS = (
    move(
        _T.SLICE,
        "input:T begin:I32 size:I32 > output:T",
        NUMBERS,
        "slice",
        (_slice_inside,),
        (entry_per_dimension("begin", "input"), entry_per_dimension("size", "input")),
        convert=_slice,
    ),
    move(
        _T.STRIDED_SLICE,
        _STRIDED,
        SINCE_1_1,
        "strided_slice",
        (_steps,),
        (_RANKS, *_BOUNDS, _shrunk),
        convert=_strided_slice,
    ),
    move(
        _T.TILE,
        "input:T multiples:I32 > output:T",
        NUMBERS,
        "tile",
        (elements_at_least(0, "multiples"),),
        (entry_per_dimension("multiples", "input"),),
    ),
    move(
        _T.REVERSE,
        "input:T axis:I32 > output:T",
        _SINCE_7,
        "reverse_v2",
        (constraints.axes_of("axis", "input"),),
        (*dimensions({"axis": "1"}), constraints.same_shape("input", "output")),
        words={"axes": "axis"},
    ),
    move(
        _T.CHANNEL_SHUFFLE,
        "input:T groups:i axis:i > output:T",
        FLOATS_AND_8_BITS,
        "channel_shuffle",
        (at_least(1, "groups"), axis_of("axis", "input")),
        (_RANKS, constraints.same_shape("input", "output"), _groups_divide),
    ),
)

ROWS: tuple[Row, ...] = (*_BORDERS, *_BLOCKS, *_PARTS)
