"""Operations that move elements and compute none.

Codes come out as they went in; where the output has another scale they are turned into its codes behind the move.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from npusim.frontends.nnadapter.codes import OperationType, PadMode
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import unshaped


def moved(
    c: Conversion, op: str, inputs: Sequence[int], results: str = "output", **parameters: Any
) -> list[int]:
    """A node whose results have the codes of its first input, and these in codes of the operation's outputs."""
    kind = c.builder.type(inputs[0])
    c.require(
        kind.quantization is None or kind.quantization.axis is None,
        "the input has a scale per channel; only weights of convolutions and matrix products may",
    )
    wanted = c.results(results)
    said = c.node(op, inputs, *[unshaped(kind.dtype, kind.quantization)] * len(wanted), **parameters)
    return [_in_codes_of(c, tensor, own) for tensor, own in zip(said, wanted, strict=True)]


def _in_codes_of(c: Conversion, tensor: int, wanted: TensorType) -> int:
    """A tensor in the codes of an output."""
    kind = c.builder.type(tensor)
    if not kind.quantized or kind.quantization == wanted.quantization:
        return tensor
    return c.node("quantize", [tensor], wanted)[0]


def _under(c: Conversion, shape: Sequence[int]) -> Sequence[int]:
    """The input under another shape."""
    return moved(c, "reshape", [c.tensor("input")], shape=tuple(shape))


def _assign(c: Conversion) -> Sequence[int]:
    return _under(c, c.shape("input"))


def _reshape(c: Conversion) -> Sequence[int]:
    sizes = c.shape("input")
    shape = c.wholes("shape")
    for place, size in enumerate(shape):
        c.require(size >= -1, f"shape is {shape}, sizes are -1 (what is left over), 0 (as the input) or more")
        if size == 0:
            c.require(place < len(sizes), f"shape is {shape}, and the input has no dimension {place} to keep")
            shape[place] = sizes[place]
    return _under(c, shape)


def _flatten(c: Conversion) -> Sequence[int]:
    sizes = c.shape("input")
    if not sizes:
        return _under(c, (1,))
    first, last = c.axis("start_axis"), c.axis("end_axis")
    c.require(first <= last, f"start_axis is {first}, must not lie behind end_axis, which is {last}")
    return _under(c, (*sizes[:first], prod(sizes[first : last + 1]), *sizes[last + 1 :]))


def _squeeze(c: Conversion) -> Sequence[int]:
    sizes, axes = c.shape("input"), c.axes("axes")
    for axis in axes:
        c.require(sizes[axis] == 1, f"axes: dimension {axis} has size {sizes[axis]}, must be 1")
    gone = axes or [axis for axis, size in enumerate(sizes) if size == 1]
    return _under(c, [size for axis, size in enumerate(sizes) if axis not in gone])


def _unsqueeze(c: Conversion) -> Sequence[int]:
    """Axes go in one after the other, each counted in the shape that those before it left, as Paddle has it."""
    sizes = list(c.shape("input"))
    for axis in c.wholes("axes"):
        sizes.insert(c.axis_of(axis, "axes", len(sizes) + 1), 1)
    return _under(c, sizes)


def _transpose(c: Conversion) -> Sequence[int]:
    perm, rank = c.axes("perm"), len(c.shape("input"))
    c.require(
        sorted(perm) == list(range(rank)), f"perm is {perm}, must name each of the {rank} dimensions once"
    )
    return moved(c, "transpose", [c.tensor("input")], perm=tuple(perm))


def _concat(c: Conversion) -> Sequence[int]:
    """Codes of other scales are turned into those of the output on the way, by LiteRT's rule."""
    return c.node("concatenation", c.tensors("inputs"), axis=c.axis("axis", "inputs"))


def _stack(c: Conversion) -> Sequence[int]:
    wanted = c.result()
    tensors = [_in_codes_of(c, tensor, wanted) for tensor in c.tensors("inputs")]
    return c.node("pack", tensors, axis=c.axis("axis", "inputs", more=1))


def _unstack(c: Conversion) -> Sequence[int]:
    axis, count = c.axis("axis"), c.whole("num")
    size, outputs = c.shape("input")[axis], len(c.results("outputs"))
    c.require(count == size, f"num is {count}, dimension {axis} of the input has size {size}")
    c.require(outputs == count, f"num is {count}, and there are {outputs} outputs")
    return moved(c, "unpack", [c.tensor("input")], "outputs", axis=axis)


def _split(c: Conversion) -> Sequence[int]:
    axis, sizes = c.axis("axis"), c.wholes("split")
    size, outputs = c.shape("input")[axis], len(c.results("outputs"))
    c.require(
        min(sizes, default=0) >= 0 and sum(sizes) == size,
        f"split is {sizes}, must be 0 or more each and add up to {size}, the size of dimension {axis}",
    )
    c.require(outputs == len(sizes), f"split is {sizes}, and there are {outputs} outputs")
    return moved(c, "split", [c.tensor("input")], "outputs", axis=axis, sizes=tuple(sizes))


def _slice(c: Conversion) -> Sequence[int]:
    """Ranges as Python has them: negative ends count from the back, what lies beyond the ends is cut off."""
    sizes, starts, ends = c.shape("input"), c.wholes("starts"), c.wholes("ends")
    steps = c.wholes("steps") or [1] * len(starts)
    axes = c.axes("axes") if c.has("axes") else list(range(len(starts)))
    c.require(
        len(starts) == len(ends) == len(steps) == len(axes),
        f"axes, starts, ends, steps have {len(axes)}, {len(starts)}, {len(ends)}, {len(steps)} numbers, must have as "
        "many each",
    )
    c.require(
        len(set(axes)) == len(axes) <= len(sizes), f"axes are {axes}, must be different ones of {len(sizes)}"
    )
    c.require(0 not in steps, f"steps are {steps}, must not be 0")
    chosen = [range(size) for size in sizes]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        chosen[axis] = chosen[axis][start:end:step]
    return moved(
        c,
        "strided_slice",
        [c.tensor("input")],
        begin=tuple(along.start if along else 0 for along in chosen),
        size=tuple(map(len, chosen)),
        strides=tuple(along.step if len(along) > 1 else 1 for along in chosen),
    )


def _expand(c: Conversion) -> Sequence[int]:
    sizes, shape = c.shape("input"), c.wholes("shape")
    rank, more = len(shape), len(shape) - len(sizes)
    c.require(more >= 0, f"shape is {shape}, must have {len(sizes)} sizes or more, as the input")
    for place, size in enumerate(shape):
        c.require(
            size > 0 or (size == -1 and place >= more),
            f"shape is {shape}, sizes are 1 or more, or -1 where the input has one to keep",
        )
        if size == -1:
            shape[place] = sizes[place - more]
    c.require(
        all(own in (1, size) for own, size in zip(sizes, shape[rank - len(sizes) :], strict=True)),
        f"shape is {shape}, the input has {list(sizes)}, of which only sizes of 1 become others",
    )
    return moved(c, "broadcast_to", [c.tensor("input")], shape=tuple(shape))


def _tile(c: Conversion) -> Sequence[int]:
    sizes, repeats = c.shape("input"), c.wholes("repeats")
    c.require(
        len(repeats) == len(sizes) and min(repeats, default=0) >= 0,
        f"repeats is {repeats}, must have a number of 0 or more for each dimension of {list(sizes)}",
    )
    return moved(c, "tile", [c.tensor("input")], multiples=tuple(repeats))


def _meshgrid(c: Conversion) -> Sequence[int]:
    """Each output is its input under a shape with ones for the other axes, repeated along these."""
    tensors, outputs = c.tensors("inputs"), c.results("outputs")
    shapes = [c.builder.shape(tensor) for tensor in tensors]
    c.require(
        all(len(shape) < 2 for shape in shapes), f"inputs have shapes {[*map(list, shapes)]}, must be lists"
    )
    c.require(len(outputs) == len(tensors), f"has {len(tensors)} inputs and {len(outputs)} outputs")
    kinds = {(kind.dtype, kind.quantized) for kind in map(c.builder.type, tensors)}
    c.require(len(kinds) == 1, "inputs have different precisions, must have one")
    sizes = tuple(prod(shape) for shape in shapes)
    results = []
    for axis, (tensor, wanted) in enumerate(zip(tensors, outputs, strict=True)):
        along = tuple(size if place == axis else 1 for place, size in enumerate(sizes))
        kind = c.builder.type(tensor)
        same = unshaped(kind.dtype, kind.quantization)
        [grid] = c.node("broadcast_to", [c.reshaped(tensor, along)], same, shape=sizes)
        results.append(_in_codes_of(c, grid, wanted))
    return results


def _roll(c: Conversion) -> Sequence[int]:
    sizes, shifts = c.shape("input"), c.wholes("shifts")
    if not c.has("axes"):
        c.require(len(shifts) == 1, f"shifts is {shifts}, must be one number where there are no axes")
        flat = c.reshaped(c.tensor("input"), (prod(sizes),))
        kind = c.builder.type(flat)
        [turned] = c.node(
            "roll", [flat], unshaped(kind.dtype, kind.quantization), shifts=_within(shifts, (prod(sizes),))
        )
        return moved(c, "reshape", [turned], shape=sizes)
    axes = c.axes("axes")
    c.require(
        len(axes) == len(shifts), f"shifts has {len(shifts)} numbers, axes {len(axes)}, must be as many"
    )
    total = [0] * len(sizes)
    for axis, shift in zip(axes, shifts, strict=True):
        total[axis] += shift
    return moved(c, "roll", [c.tensor("input")], shifts=_within(total, sizes))


def _within(shifts: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Shifts less than the sizes of their axes."""
    return tuple(shift % size if size else 0 for shift, size in zip(shifts, sizes, strict=True))


def _gather(c: Conversion) -> Sequence[int]:
    return moved(c, "gather", [c.tensor("input"), c.tensor("indices")], axis=c.axis("axis"))


def _pad(c: Conversion) -> Sequence[int]:
    sizes, pads, mode = c.shape("input"), c.wholes("pads"), c.code("mode", PadMode)
    c.require(
        len(pads) == 2 * len(sizes) and min(pads, default=0) >= 0,
        f"pads is {pads}, must have two numbers of 0 or more for each dimension of {list(sizes)}",
    )
    if not sizes:
        return _assign(c)
    borders = tuple(zip(pads[::2], pads[1::2], strict=True))
    tensor = c.tensor("input")
    if mode is PadMode.PAD_MODE_NONE:
        c.require(not any(pads), f"mode is PAD_MODE_NONE and pads is {pads}, must be zeros")
        return _assign(c)
    if mode is PadMode.PAD_MODE_CONSTANT:
        return moved(c, "pad", [tensor], paddings=borders, pad_value=_pad_value(c, tensor))
    if mode is PadMode.PAD_MODE_REFLECT:
        c.require(
            all(max(border) < max(size, 1) for size, border in zip(sizes, borders, strict=True)),
            f"pads is {pads}, what mirrors the input must be less than its sizes {list(sizes)}",
        )
        return moved(c, "mirror_pad", [tensor], paddings=borders, mode="reflect")
    return moved(c, "edge_pad", [tensor], paddings=borders)


def _pad_value(c: Conversion, tensor: int) -> int | float | None:
    """What the borders hold: of codes with another scale than the input's the nearest code."""
    if not c.has("value"):
        return None
    kind, own = c.builder.type(tensor), c.given("value").type
    value = c.value("value").reshape(-1)
    c.require(value.size == 1, f"value has shape {list(c.value('value').shape)}, must have one element")
    number: int | float = value[0].item() if kind.element.kind == "real" else int(value[0])
    if kind.quantization is None or own.quantization in (None, kind.quantization):
        return number
    real = (number - own.quantization.zero_point) * own.quantization.scale
    least, most = kind.element.limits
    return min(max(round(real / kind.quantization.scale) + kind.quantization.zero_point, least), most)


ROWS: tuple[Row, ...] = (
    Row(OperationType.ASSIGN, "input > output=input", _assign, ("reshape",)),
    Row(OperationType.CONCAT, "inputs+ axis:i > output=inputs", _concat, ("concatenation",)),
    Row(OperationType.EXPAND, "input shape:I > output=input", _expand, ("broadcast_to",)),
    Row(
        OperationType.FLATTEN,
        "input start_axis:i=1 end_axis:i=-1 > output=input",
        _flatten,
        ("reshape",),
    ),
    Row(OperationType.GATHER, "input indices axis:i=0 > output=input", _gather, ("gather",)),
    Row(OperationType.MESHGRID, "inputs+ > outputs+=inputs", _meshgrid, ("broadcast_to", "reshape")),
    Row(
        OperationType.PAD,
        "input pads:I mode:i=1 value:v? > output=input",
        _pad,
        ("pad", "mirror_pad", "edge_pad"),
    ),
    Row(OperationType.RESHAPE, "input shape:I > output=input", _reshape, ("reshape",)),
    Row(OperationType.ROLL, "input shifts:I axes:I? > output=input", _roll, ("roll", "reshape")),
    Row(
        OperationType.SLICE,
        "input axes:I? starts:I ends:I steps:I? > output=input",
        _slice,
        ("strided_slice",),
    ),
    Row(OperationType.SPLIT, "input axis:i split:I > outputs+=input", _split, ("split",)),
    Row(OperationType.SQUEEZE, "input axes:I? > output=input", _squeeze, ("reshape",)),
    Row(OperationType.STACK, "inputs+ axis:i=0 > output=inputs", _stack, ("pack",)),
    Row(OperationType.TILE, "input repeats:I > output=input", _tile, ("tile",)),
    Row(OperationType.TRANSPOSE, "input perm:I > output=input", _transpose, ("transpose",)),
    Row(OperationType.UNSQUEEZE, "input axes:I > output=input", _unsqueeze, ("reshape",)),
    Row(OperationType.UNSTACK, "input axis:i num:i > outputs+=input", _unstack, ("unpack",)),
)
