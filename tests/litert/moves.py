"""Random models of operators that move elements without computing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .sample import Sample, values


def reshape(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    rest, shape = sample.writer.type(ifm).elements, []
    for _ in range(sample.pick(0, 3)):
        size = int(sample.one([n for n in range(1, rest + 1) if rest % n == 0]))
        shape.append(size)
        rest //= size
    shape.append(rest)
    sample.rng.shuffle(shape)
    written = list(shape)
    if sample.chance(3):
        written[sample.pick(0, len(shape) - 1)] = -1
    operands = (ifm,) if sample.chance(4) else (ifm, sample.operand(*written))
    fields = {"NewShape": tuple(written)}
    output = sample.kept(ifm, shape)
    return [sample.writer.operator("RESHAPE", operands, output, options="ReshapeOptions", fields=fields)]


def expand_dims(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    shape = sample.writer.type(ifm).shape
    axis = sample.pick(0, len(shape))
    written = axis - len(shape) - 1 if sample.chance(2) else axis
    output = sample.kept(ifm, (*shape[:axis], 1, *shape[axis:]))
    return [
        sample.writer.operator(
            "EXPAND_DIMS", (ifm, sample.operand(written)), output, options="ExpandDimsOptions"
        )
    ]


def squeeze(sample: Sample) -> list[int]:
    shape = tuple(1 if sample.chance(2) else sample.pick(1, 5) for _ in range(sample.pick(1, 5)))
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    dropped = [axis for axis in ones if sample.chance(2)]
    written = [axis - len(shape) if sample.chance(3) else axis for axis in dropped]
    ifm = sample.input(shape)
    taken = dropped or ones  # none named: all go
    output = sample.kept(ifm, [size for axis, size in enumerate(shape) if axis not in taken])
    fields = {"SqueezeDims": tuple(written)}
    return [sample.writer.operator("SQUEEZE", (ifm,), output, options="SqueezeOptions", fields=fields)]


def transpose(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 5)))
    shape = sample.writer.type(ifm).shape
    order = sample.rng.permutation(len(shape)).tolist()
    written = [axis - len(shape) if sample.chance(5) else axis for axis in order]
    output = sample.kept(ifm, [shape[axis] for axis in order])
    return [
        sample.writer.operator(
            "TRANSPOSE", (ifm, sample.operand(*written)), output, options="TransposeOptions"
        )
    ]


def _paddings(sample: Sample) -> tuple[int, int, tuple[int, ...]]:
    """Input, operand of paddings, and the padded shape."""
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    pairs = [(sample.pick(0, 3), sample.pick(0, 3)) for _ in sample.writer.type(ifm).shape]
    kind = sample.one(("int32", "int64"))
    operand = sample.writer.constant("paddings", np.array(pairs, kind))
    sizes = zip(sample.writer.type(ifm).shape, pairs, strict=True)
    return ifm, operand, tuple(size + sum(pair) for size, pair in sizes)


def pad(sample: Sample) -> list[int]:
    ifm, operand, shape = _paddings(sample)
    return [sample.writer.operator("PAD", (ifm, operand), sample.kept(ifm, shape), options="PadOptions")]


def pad_with_value(sample: Sample) -> list[int]:
    ifm, operand, shape = _paddings(sample)
    scaling = sample.writer.type(ifm).quantization
    value = sample.writer.constant("value", values(sample.rng, sample.dtype, ()), scaling)
    return [
        sample.writer.operator(
            "PADV2", (ifm, operand, value), sample.kept(ifm, shape), options="PadV2Options"
        )
    ]


def concatenation(sample: Sample) -> list[int]:
    shape = sample.shape(sample.pick(1, 4), 5)
    axis = sample.pick(0, len(shape) - 1)
    rescale = sample.dtype == "uint8" and sample.chance(2)
    parts: list[int] = []
    for _ in range(sample.pick(1, 4)):
        part = (*shape[:axis], sample.pick(1, 5), *shape[axis + 1 :])
        if not parts:
            parts.append(sample.input(part))
        elif rescale:
            parts.append(sample.input(part, sample.near(sample.scale_of(parts[0]))))
        elif sample.chance(4):
            scaling = sample.writer.type(parts[0]).quantization
            parts.append(sample.constant(part, scaling, sample.dtype))
        else:
            parts.append(sample.input_like(parts[0], part))
    length = sum(sample.writer.type(part).shape[axis] for part in parts)
    whole = (*shape[:axis], length, *shape[axis + 1 :])
    output = sample.kept(parts[0], whole)
    if rescale and sample.chance(2):
        output = sample.type(whole, sample.near(sample.scale_of(parts[0])))
    fields = {"Axis": axis - len(shape) if sample.chance(2) else axis}
    return [
        sample.writer.operator("CONCATENATION", parts, output, options="ConcatenationOptions", fields=fields)
    ]


def split(sample: Sample) -> list[int]:
    count, shape = sample.pick(1, 4), list(sample.shape(sample.pick(1, 4), 5))
    axis = sample.pick(0, len(shape) - 1)
    piece = tuple(shape)
    shape[axis] *= count
    ifm = sample.input(shape)
    written = axis - len(shape) if sample.chance(2) else axis
    outputs = [sample.kept(ifm, piece)] * count
    operands = (sample.scalar(written), ifm)
    return list(
        sample.writer.operator_of_many(
            "SPLIT",
            operands,
            outputs,
            version=2 if sample.dtype == "int8" else 1,
            options="SplitOptions",
            fields={"NumSplits": count},
        )
    )


def split_by_sizes(sample: Sample) -> list[int]:
    shape = sample.shape(sample.pick(1, 4), 8)
    axis = sample.pick(0, len(shape) - 1)
    inner = sample.pick(0, min(3, shape[axis] - 1))
    cuts = sorted(sample.rng.choice(np.arange(1, shape[axis]), inner, replace=False).tolist())
    sizes = [after - before for before, after in pairwise([0, *cuts, shape[axis]])]
    ifm = sample.input(shape)
    outputs = [sample.kept(ifm, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]
    written = list(sizes)
    if sample.chance(3):
        written[sample.pick(0, len(sizes) - 1)] = -1
    operands = (ifm, sample.operand(*written), sample.scalar(axis - len(shape) if sample.chance(2) else axis))
    return list(
        sample.writer.operator_of_many(
            "SPLIT_V", operands, outputs, options="SplitVOptions", fields={"NumSplits": len(sizes)}
        )
    )


def slice_(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4), 7))
    shape = sample.writer.type(ifm).shape
    begin = [sample.pick(0, size - 1) for size in shape]
    size = [sample.pick(1, whole - first) for whole, first in zip(shape, begin, strict=True)]
    written = [
        -1 if whole == f + s and sample.chance(2) else s
        for whole, f, s in zip(shape, begin, size, strict=True)
    ]
    kind = sample.one(("int32", "int64"))
    operands = (ifm, sample.operand(*begin, dtype=kind), sample.operand(*written, dtype=kind))
    return [sample.writer.operator("SLICE", operands, sample.kept(ifm, size), options="SliceOptions")]


class _Slices:
    """The entries of begin, end and strides, the bits of the masks, and the same as an index of numpy."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.steps: list[int] = []
        self.masks = dict.fromkeys(("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis"), 0)
        self.index: list[Any] = []

    def add(self, index: Any, begin: int, end: int, step: int, *masks: str) -> None:
        for mask in masks:
            self.masks[mask] |= 1 << len(self.begins)
        self.begins.append(begin)
        self.ends.append(end)
        self.steps.append(step)
        self.index.append(index)


def _slice_of_axis(sample: Sample, slices: _Slices, length: int, offset: bool) -> None:
    """One axis: an element that drops it, or a range with open ends, steps and positions from the back."""
    first, last = sorted((sample.pick(0, length - 1), sample.pick(0, length - 1)))
    if not offset and sample.chance(6):
        begin = first - length if sample.chance(2) else first
        slices.add(first, begin, begin + 1, 1, "ShrinkAxis")
        return
    step = 1 if sample.chance(2) else int(sample.one((2, 3) if offset else (2, 3, -1, -2)))
    begin, end = (first, last + 1) if step > 0 else (last, first - 1)
    open_begin, open_end = sample.chance(4), end < 0 or sample.chance(4)
    written = begin - length if sample.chance(4) else begin
    if (
        offset
    ):  # the end is so far from where the begin was found to be; LiteRT takes no mask that says otherwise
        first = 0 if open_begin else begin
        last_written = length - first if open_end else sample.pick(1, length - first)
        index = slice(first, first + last_written, step)
    else:
        last_written = end - length if 0 <= end < length and sample.chance(4) else end
        index = slice(None if open_begin else begin, None if open_end else end, step)
    masks = [name for name, is_open in (("Begin", open_begin), ("End", open_end)) if is_open]
    slices.add(index, written, last_written, step, *masks)


def strided_slice(sample: Sample) -> list[int]:
    """Every mask, negative positions and strides, axes taken out and put in, and lengths instead of ends."""
    ifm = sample.input(sample.shape(sample.pick(1, 4), 7))
    shape = sample.writer.type(ifm).shape
    offset, slices = sample.chance(4), _Slices()
    dots = sample.pick(0, len(shape) - 1) if not offset and sample.chance(5) else None
    for axis, length in enumerate(shape):
        if axis == dots:
            slices.add(slice(None), 0, 0, 1, "Ellipsis")
            continue
        if len(shape) < 4 and not offset and sample.chance(8):
            slices.add(None, 0, 1, 1, "NewAxis")
        _slice_of_axis(sample, slices, length, offset)
    result = np.empty(shape, np.int8)[tuple(slices.index)]
    fields: dict[str, int | bool] = {f"{name}Mask": bits for name, bits in slices.masks.items()}
    if offset:
        fields["Offset"] = True
    operands = (ifm, *(sample.operand(*each) for each in (slices.begins, slices.ends, slices.steps)))
    return [
        sample.writer.operator(
            "STRIDED_SLICE",
            operands,
            sample.kept(ifm, result.shape),
            version=4,
            options="StridedSliceOptions",
            fields=fields,
        )
    ]
