"""Lower operators that only move elements, of any size, to strided DMA copies and fills."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.work import Move, OperandRef, Parts
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Alias, Call, Rule

INPUT: OperandRef = ("in", 0)
OUTPUT: OperandRef = ("out", 0)

_MOST_OUTER = 3
"""Dimensions of a copy beside its contiguous bytes."""

_MOST_COPIES = 1 << 12
"""Maximum number of DMA copies that a data-movement operator is lowered to; the host needs a single pass."""


class Loop(NamedTuple):
    """A dimension of a move: its count, and the distances in elements in source and target.

    A source distance of 0 repeats the source; a negative one walks it backwards.
    """

    times: int
    source: int
    target: int


def dense_strides(shape: Sequence[int]) -> list[int]:
    """Return the distance in elements along each axis of a dense tensor."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def strided_moves(
    loops: Iterable[Loop],
    itemsize: int,
    source: tuple[OperandRef, int] = (INPUT, 0),
    target: tuple[OperandRef, int] = (OUTPUT, 0),
) -> Parts:
    """Return the copies that go through `loops`, outermost first, from an element of the source to one of the target.

    Loops that one longer run covers are joined. If a copy has too few dimensions, the shortest loops are unrolled.
    """
    outer, size = _joined(
        [Loop(times, step * itemsize, to * itemsize) for times, step, to in loops], itemsize
    )
    if size == 0 or any(loop.times == 0 for loop in outer):
        return ()
    unrolled = sorted(range(len(outer)), key=lambda place: outer[place].times)[
        : max(len(outer) - _MOST_OUTER, 0)
    ]
    nest = [loop for place, loop in enumerate(outer) if place not in unrolled]
    counts = (*[loop.times for loop in nest], size)
    strides = tuple([loop.source for loop in nest]), tuple([loop.target for loop in nest])
    steps = [outer[place] for place in sorted(unrolled)]
    moves = []
    for place in product(*[range(loop.times) for loop in steps]):
        start = source[1] * itemsize + sum([n * loop.source for n, loop in zip(place, steps, strict=True)])
        end = target[1] * itemsize + sum([n * loop.target for n, loop in zip(place, steps, strict=True)])
        moves.append(Move(target[0], end, counts, strides[1], source[0], start, strides[0]))
    return tuple(moves)


def _joined(loops: Sequence[Loop], size: int) -> tuple[list[Loop], int]:
    """Join neighbouring loops that are one walk; return the loops outside of contiguous bytes, and those bytes."""
    joined: list[Loop] = []
    for loop in reversed(loops):
        if loop.times == 1:
            continue
        inner = joined[0] if joined else Loop(size, 1, 1)
        if loop[1:] != (inner.times * inner.source, inner.times * inner.target):
            joined.insert(0, loop)
        elif joined:
            joined[0] = inner._replace(times=inner.times * loop.times)
        else:
            size *= loop.times
    return joined, size


def _itemsize(tensor: TensorType) -> int:
    return tensor.numpy_dtype.itemsize


def lower_copy(call: Call, hardware: Hardware) -> Parts:
    """Lower an operator that keeps the bytes but cannot share memory with its input: one copy."""
    return (Move(OUTPUT, 0, (call.outputs[0].size_bytes,), (), INPUT),)


def columns(shape: Sequence[int], axis: int) -> tuple[int, int]:
    """Return the repetitions before an axis, and the elements from one to the next."""
    return prod(shape[:axis]), prod(shape[axis:])


def lower_split(call: Call, hardware: Hardware) -> Parts:
    """Lower split: one copy per output, from its column of the input along the axis."""
    axis, source = call.parameters.axis, input_type(call)
    outer, pitch = columns(source.shape, axis)
    moves: Parts = ()
    offset = 0
    for number, output in enumerate(call.outputs):
        size = output.elements // outer if outer else 0
        loops = Loop(outer, pitch, size), Loop(size, 1, 1)
        moves += strided_moves(loops, _itemsize(source), (INPUT, offset), (("out", number), 0))
        offset += size
    return _as_view("source", moves)


def _as_view(view: Literal["target", "source"], moves: Parts) -> Parts:
    """Mark copies that a machine may skip by sharing memory (`Move.view`)."""
    return tuple([replace(move, view=view) for move in moves if isinstance(move, Move)])


def join(call: Call, position: int, offset: int) -> Parts:
    """Copy one input to its column of the output, which begins at an element along the axis."""
    axis, source, output = call.parameters.axis, input_type(call, position), call.outputs[0]
    outer, pitch = columns(output.shape, axis)
    size = source.elements // outer if outer else 0
    loops = Loop(outer, size, pitch), Loop(size, 1, 1)
    return _as_view(
        "target", strided_moves(loops, _itemsize(source), (("in", position), 0), (OUTPUT, offset))
    )


def fill_moves(call: Call, value: int | float) -> Parts:
    """Fill the output with a number: in one go if its bytes are all the same, otherwise byte by byte."""
    output = call.outputs[0]
    data = np.array(value).astype(output.numpy_dtype).tobytes()
    if len(set(data)) == 1:
        return (Move(OUTPUT, 0, (output.size_bytes,), (), value=data[0]),)
    return tuple(
        [
            Move(OUTPUT, place, (output.elements, 1), (len(data),), value=byte)
            for place, byte in enumerate(data)
        ]
    )


def pad_moves(call: Call, value: int | float) -> Parts:
    """Fill the output with the pad value, then copy the input into its middle."""
    source, output = input_type(call), call.outputs[0]
    steps = dense_strides(source.shape), dense_strides(output.shape)
    offset = sum([before * to for (before, _), to in zip(call.parameters.paddings, steps[1], strict=True)])
    middle = strided_moves(map(Loop, source.shape, *steps), _itemsize(source), target=(OUTPUT, offset))
    return (*fill_moves(call, value), *middle)


def few_copies(loops: Callable[[Call], Iterable[Loop]]) -> Rule:
    """Return the rule that limits the copies of a lowering; a tensor of many axes could need millions of them."""

    def few(call: Call) -> bool:
        outer, _ = _joined(list(loops(call)), 1)
        return (
            prod(sorted([loop.times for loop in outer])[: max(len(outer) - _MOST_OUTER, 0)]) <= _MOST_COPIES
        )

    few.__doc__ = f"on the NPU axes that do not stay neighbours make at most {_MOST_COPIES} copies"
    return few


def transpose_loops(call: Call) -> Iterable[Loop]:
    """Return one loop per dimension of the output, with its strides in input and output."""
    strides = dense_strides(input_type(call).shape)
    shape = call.outputs[0].shape
    return map(Loop, shape, [strides[axis] for axis in call.parameters.perm], dense_strides(shape))


def lower_transpose(call: Call, hardware: Hardware) -> Parts:
    """Lower transpose: copies that walk the input in the order of the output."""
    return strided_moves(transpose_loops(call), _itemsize(input_type(call)))


def lower_slice(call: Call, hardware: Hardware) -> Parts:
    """Lower slices: copies of the chosen elements."""
    source, chosen = input_type(call), call.parameters
    dense = dense_strides(source.shape)
    steps = chosen.strides or (1,) * len(dense)
    offset = sum([begin * stride for begin, stride in zip(chosen.begin, dense, strict=True)])
    strides = [step * stride for step, stride in zip(steps, dense, strict=True)]
    loops = map(Loop, chosen.size, strides, dense_strides(chosen.size))
    moves = strided_moves(loops, _itemsize(source), (INPUT, offset))
    return _as_view("source", moves) if all(step == 1 for step in steps) else moves


def reverse_loops(call: Call) -> Iterable[Loop]:
    """Return one loop per dimension of the input; reversed axes have a negative stride."""
    shape, axes = input_type(call).shape, call.parameters.axes
    strides = dense_strides(shape)
    signed = [-stride if axis in axes else stride for axis, stride in enumerate(strides)]
    return map(Loop, shape, signed, strides)


def lower_reverse(call: Call, hardware: Hardware) -> Parts:
    """Lower reverse: a copy that walks some axes of the input backwards."""
    source, axes = input_type(call), call.parameters.axes
    strides = dense_strides(source.shape)
    last = sum([(source.shape[axis] - 1) * strides[axis] for axis in axes])
    return strided_moves(reverse_loops(call), _itemsize(source), (INPUT, last))


def tile_loops(call: Call) -> Iterable[Loop]:
    """Return two loops for each axis of the input: over its repetitions, and over its elements."""
    source, output = input_type(call), call.outputs[0]
    steps = zip(
        source.shape,
        call.parameters.multiples,
        dense_strides(source.shape),
        dense_strides(output.shape),
        strict=True,
    )
    return [
        loop for size, times, step, to in steps for loop in (Loop(times, 0, size * to), Loop(size, step, to))
    ]


def lower_tile(call: Call, hardware: Hardware) -> Parts:
    """Lower tile: a copy that repeats the input along each axis, with a source stride of 0."""
    return strided_moves(tile_loops(call), _itemsize(input_type(call)))


def broadcast_loops(call: Call) -> Iterable[Loop]:
    """Return one loop per dimension of the output; the input stride of a broadcast axis is 0."""
    source, shape = input_type(call), call.outputs[0].shape
    own = (1,) * (len(shape) - len(source.shape)) + source.shape
    strides = [0 if size == 1 else step for size, step in zip(own, dense_strides(own), strict=True)]
    return map(Loop, shape, strides, dense_strides(shape))


def lower_broadcast(call: Call, hardware: Hardware) -> Parts:
    """Lower a broadcast: a copy that repeats the input along axes that it lacks or has one element of."""
    return strided_moves(broadcast_loops(call), _itemsize(input_type(call)))


def lower_pack(call: Call, hardware: Hardware) -> Parts:
    """Lower pack: one copy per input, to its column of the output."""
    output = call.outputs[0]
    outer, pitch = columns(output.shape, call.parameters.axis)
    size = pitch // len(call.inputs)
    loops = Loop(outer, size, pitch), Loop(size, 1, 1)
    parts = [
        strided_moves(loops, _itemsize(output), (("in", number), 0), (OUTPUT, number * size))
        for number in range(len(call.inputs))
    ]
    return sum(parts, ())


def lower_unpack(call: Call, hardware: Hardware) -> Parts:
    """Lower unpack: one copy per output, from its column of the input."""
    source = input_type(call)
    outer, pitch = columns(source.shape, call.parameters.axis)
    size = pitch // len(call.outputs)
    loops = Loop(outer, pitch, size), Loop(size, 1, 1)
    parts = [
        strided_moves(loops, _itemsize(source), (INPUT, number * size), (("out", number), 0))
        for number in range(len(call.outputs))
    ]
    return sum(parts, ())


def pack_alias(call: Call) -> tuple[Alias, ...] | None:
    """Return the inputs as contiguous parts of the output, if all axes before the new one have one element."""
    if prod(call.outputs[0].shape[: call.parameters.axis]) != 1:
        return None
    size = input_type(call).size_bytes
    return tuple([Alias(("in", number), OUTPUT, number * size) for number in range(len(call.inputs))])


def unpack_alias(call: Call) -> tuple[Alias, ...] | None:
    """Return the outputs as contiguous parts of the input, if all axes before the removed one have one element."""
    if prod(input_type(call).shape[: call.parameters.axis]) != 1:
        return None
    size = call.outputs[0].size_bytes
    return tuple([Alias(("out", number), INPUT, number * size) for number in range(len(call.outputs))])


def permuted_moves(call: Call, split: Sequence[int], order: Sequence[int]) -> Parts:
    """Return copies of the input, viewed under the shape `split`, with its axes in another order."""
    strides = dense_strides(split)
    sizes = [split[axis] for axis in order]
    loops = map(Loop, sizes, [strides[axis] for axis in order], dense_strides(sizes))
    return strided_moves(loops, _itemsize(input_type(call)))


class Band(NamedTuple):
    """A part of an axis: a number of elements, with their begin in source and target.

    `step`: distance in the source; -1 walks backwards, 0 repeats the first.
    """

    times: int
    source: int
    target: int
    step: int = 1


def mirrored(size: int, border: tuple[int, int], edge: int) -> list[Band]:
    """Return border, middle and border of a mirrored axis. `edge`: 0 if the edge is repeated, 1 if not."""
    before, after = border
    return [
        Band(before, before - 1 + edge, 0, -1),
        Band(size, 0, before),
        Band(after, size - 1 - edge, before + size, -1),
    ]


def edged(size: int, border: tuple[int, int]) -> list[Band]:
    """Return the parts of an axis whose borders repeat its first and last element."""
    before, after = border
    return [Band(before, 0, 0, 0), Band(size, 0, before), Band(after, size - 1, before + size, 0)]


def rolled(size: int, shift: int) -> list[Band]:
    """Return the two parts of an axis that is rotated by `shift`."""
    back = shift % size if size else 0
    return [Band(back, size - back, 0), Band(size - back, 0, back)]


def band_moves(call: Call, axes: Iterable[Sequence[Band]]) -> Parts:
    """Return a copy for each combination of the parts of all axes."""
    source, output = input_type(call), call.outputs[0]
    steps, to = dense_strides(source.shape), dense_strides(output.shape)
    moves: Parts = ()
    for bands in product(*[[band for band in bands if band.times] for bands in axes]):
        start = sum([band.source * step for band, step in zip(bands, steps, strict=True)])
        end = sum([band.target * step for band, step in zip(bands, to, strict=True)])
        loops = [
            Loop(band.times, band.step * step, stride)
            for band, step, stride in zip(bands, steps, to, strict=True)
        ]
        moves += strided_moves(loops, _itemsize(source), (INPUT, start), (OUTPUT, end))
    return moves


class Phases(NamedTuple):
    """Phases of a block along an axis that see the same part of it.

    There are `times` phases from `first` on. For each, the block steps along the axis from `begin` to `end` are inside;
    their elements are `phase + step * block - before`.
    """

    first: int
    times: int
    begin: int
    end: int


def phases(block: int, size: int, before: int, steps: int) -> Iterator[Phases]:
    """Return the phases of a block over an axis of `size` elements, preceded by `before` elements that do not exist.

    They are of three kinds at most, however long the block is.
    """
    ranges: list[Phases] = []
    for phase in range(block):
        begin, end = -(-max(before - phase, 0) // block), min(-(-(size + before - phase) // block), steps)
        if ranges and (ranges[-1].begin, ranges[-1].end) == (begin, end):
            ranges[-1] = ranges[-1]._replace(times=ranges[-1].times + 1)
        else:
            ranges.append(Phases(phase, 1, begin, end))
    return (part for part in ranges if part.begin < part.end)


def block_moves(
    image: TensorType, blocks: TensorType, block_shape: Sequence[int], before: Sequence[int], to_batch: bool
) -> Parts:
    """Return copies from an image to the batches of its phases, or back.

    `before`: elements in front of each blocked axis that the batches have and the image lacks.
    """
    rank, batch = len(block_shape), image.shape[0]
    steps, batches = dense_strides(image.shape), dense_strides(blocks.shape)
    phase_strides = [stride * batch * batches[0] for stride in dense_strides(block_shape)]
    kinds_by_axis = [
        list(phases(block, image.shape[axis + 1], before[axis], blocks.shape[axis + 1]))
        for axis, block in enumerate(block_shape)
    ]
    rest = prod(image.shape[rank + 1 :])
    moves: Parts = ()
    for kinds in product(*kinds_by_axis):
        at_image = at_blocks = 0
        of_phases, of_steps = [], []
        for axis, kind in enumerate(kinds):
            step, block = steps[axis + 1], block_shape[axis]
            at_image += (kind.first + kind.begin * block - before[axis]) * step
            at_blocks += kind.first * phase_strides[axis] + kind.begin * batches[axis + 1]
            of_phases.append(Loop(kind.times, step, phase_strides[axis]))
            of_steps.append(Loop(kind.end - kind.begin, step * block, batches[axis + 1]))
        loops = [*of_phases, Loop(batch, steps[0], batches[0]), *of_steps, Loop(rest, 1, 1)]
        if to_batch:
            moves += strided_moves(loops, _itemsize(image), (INPUT, at_image), (OUTPUT, at_blocks))
        else:
            back = [Loop(loop.times, loop.target, loop.source) for loop in loops]
            moves += strided_moves(back, _itemsize(image), (INPUT, at_blocks), (OUTPUT, at_image))
    return moves
