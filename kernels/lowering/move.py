"""How operators that only move bytes become strided copies and fills."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.work import Move, OperandRef, Parts
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call


def lower_copy(call: Call, hardware: Hardware) -> Parts:
    """The bytes as they are, for an operator that could not share memory with its input."""
    return (Move(("out", 0), 0, (call.outputs[0].size_bytes,), (), ("in", 0)),)


def lower_split(call: Call, hardware: Hardware) -> Parts:
    """One copy per output: a column of the input along the axis."""
    axis, source = call.parameters.axis, input_type(call)
    outer, pitch = _pitch(source.shape, axis, source.numpy_dtype.itemsize)
    moves, offset = [], 0
    for number, output in enumerate(call.outputs):
        _, size = _pitch(output.shape, axis, output.numpy_dtype.itemsize)
        moves.append(Move(("out", number), 0, (outer, size), (size,), ("in", 0), offset, (pitch,)))
        offset += size
    return tuple(moves)


def _pitch(shape: tuple[int, ...], axis: int, itemsize: int) -> tuple[int, int]:
    """Repetitions before an axis, and bytes from one to the next."""
    return prod(shape[:axis]), prod(shape[axis:]) * itemsize


def join(call: Call, position: int, offset: int) -> Move:
    """Copy one input of a concatenation to its column of the output."""
    axis, source, output = call.parameters.axis, input_type(call, position), call.outputs[0]
    outer, size = _pitch(source.shape, axis, source.numpy_dtype.itemsize)
    _, pitch = _pitch(output.shape, axis, output.numpy_dtype.itemsize)
    return Move(("out", 0), offset, (outer, size), (pitch,), ("in", position), 0, (size,))


def pad_moves(call: Call, value: int) -> Parts:
    """Fill the output with the pad value, then copy the input into its middle."""
    source, output = input_type(call), call.outputs[0]
    sizes, strides, offset = _box(source.shape, output.shape, call.parameters.paddings)
    source_strides = [prod(sizes[k + 1 :]) for k in range(len(sizes) - 1)]
    fill = Move(("out", 0), 0, (output.size_bytes,), (), value=value & 0xFF)
    moves = _nested(("out", 0), offset, sizes, strides, ("in", 0), 0, source_strides)
    return (fill, *moves)


def _box(
    inner: tuple[int, ...], outer: tuple[int, ...], paddings: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int], int]:
    """Sizes of the inner box, strides of all but its last dimension inside the outer one, and its offset.

    Dimensions without padding merge into the one before them.
    """
    sizes: list[int] = []
    strides: list[int] = []
    offset = 0
    for axis, (before, _) in enumerate(paddings):
        stride = prod(outer[axis + 1 :])
        offset += before * stride
        if sizes and inner[axis] == outer[axis]:
            sizes[-1] *= inner[axis]
            strides[-1] = stride
        else:
            sizes.append(inner[axis])
            strides.append(stride)
    if strides[-1] != 1:
        raise ValueError("the last stride of a dense tensor of bytes is 1")
    return sizes, strides[:-1], offset


def _nested(
    target: OperandRef,
    target_offset: int,
    counts: list[int],
    target_strides: list[int],
    source: OperandRef,
    source_offset: int,
    source_strides: list[int],
) -> tuple[Move, ...]:
    """Copies of at most four dimensions each; outer dimensions beyond that are unrolled."""
    if len(counts) <= 4:
        strides = tuple(target_strides), tuple(source_strides)
        return (Move(target, target_offset, tuple(counts), strides[0], source, source_offset, strides[1]),)
    moves: list[Move] = []
    for index in range(counts[0]):
        moves += _nested(
            target,
            target_offset + index * target_strides[0],
            counts[1:],
            target_strides[1:],
            source,
            source_offset + index * source_strides[0],
            source_strides[1:],
        )
    return tuple(moves)


def gather_moves(call: Call, offset: int, strides: Sequence[int], sizes: Sequence[int]) -> Parts:
    """Fill the output in order with bytes of the input: dimensions of `sizes` with input `strides`, from `offset`."""
    counts: list[int] = []
    steps: list[int] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if counts and steps[-1] == size * stride:
            counts[-1], steps[-1] = counts[-1] * size, stride
        else:
            counts.append(size)
            steps.append(stride)
    if not counts or steps[-1] != 1:
        counts, steps = [*counts, 1], [*steps, 1]
    targets = [prod(counts[axis + 1 :]) for axis in range(len(counts) - 1)]
    return _nested(("out", 0), 0, counts, targets, ("in", 0), offset, steps[:-1])


def _dense_strides(shape: Sequence[int]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def lower_transpose(call: Call, hardware: Hardware) -> Parts:
    """Copies that walk the input in the order of the output."""
    strides = _dense_strides(input_type(call).shape)
    permuted = [strides[axis] for axis in call.parameters.perm]
    return gather_moves(call, 0, permuted, call.outputs[0].shape)


def lower_slice(call: Call, hardware: Hardware) -> Parts:
    """Copies of the chosen elements."""
    chosen, dense = call.parameters, _dense_strides(input_type(call).shape)
    steps = chosen.strides or (1,) * len(dense)
    offset = sum(begin * stride for begin, stride in zip(chosen.begin, dense, strict=True))
    strides = [step * stride for step, stride in zip(steps, dense, strict=True)]
    return gather_moves(call, offset, strides, chosen.size)


def forward(call: Call) -> bool:
    """on the NPU strides are positive and something is chosen"""
    return min(call.parameters.strides, default=1) > 0 and call.outputs[0].elements > 0
