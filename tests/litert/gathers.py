"""Random models of operators that repeat, mirror, reverse, interleave and choose elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from npusim.isa.base.tensor import TensorType
from npusim.models.writer import per_tensor

from .sample import Sample


def _padded(sizes: tuple[int, ...], pairs: list[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(size + sum(pair) for size, pair in zip(sizes, pairs, strict=True))


def tile(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4), 5, 200))
    shape = sample.writer.type(ifm).shape
    multiples = [sample.pick(1, 3) for _ in shape]
    operands = (ifm, sample.operand(*multiples, dtype=sample.one(("int32", "int64"))))
    output = sample.kept(ifm, [size * times for size, times in zip(shape, multiples, strict=True)])
    return [sample.writer.operator("TILE", operands, output, options="TileOptions")]


def broadcast_to(sample: Sample) -> list[int]:
    shape = sample.shape(sample.pick(1, 5), 5, 600)
    own = [1 if sample.chance(3) else size for size in shape][sample.pick(0, len(shape) - 1) :]
    ifm = sample.input(own)
    operands = (ifm, sample.operand(*shape, dtype=sample.one(("int32", "int64"))))
    output = sample.kept(ifm, shape)
    return [sample.writer.operator("BROADCAST_TO", operands, output, version=2, options="BroadcastToOptions")]


def pack(sample: Sample) -> list[int]:
    shape, count = sample.shape(sample.pick(0, 3), 5), sample.pick(1, 4)
    axis = sample.pick(0, len(shape))
    first = sample.input(shape)
    parts = [first, *[sample.input_like(first, shape) for _ in range(count - 1)]]
    output = sample.kept(first, (*shape[:axis], count, *shape[axis:]))
    fields = {"ValuesCount": count, "Axis": axis - len(shape) - 1 if sample.chance(2) else axis}
    return [sample.writer.operator("PACK", parts, output, options="PackOptions", fields=fields)]


def unpack(sample: Sample) -> list[int]:
    shape = sample.shape(sample.pick(1, 4), 5)
    axis = sample.pick(0, len(shape) - 1)
    ifm = sample.input(shape)
    outputs = [sample.kept(ifm, (*shape[:axis], *shape[axis + 1 :]))] * shape[axis]
    fields = {"Num": shape[axis], "Axis": axis - len(shape) if sample.chance(2) else axis}
    return list(
        sample.writer.operator_of_many(
            "UNPACK", (ifm,), outputs, version=2, options="UnpackOptions", fields=fields
        )
    )


def mirror_pad(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4), 5, 200))
    shape, mode = sample.writer.type(ifm).shape, sample.pick(0, 1)
    pairs = [(sample.pick(0, size - 1 + mode), sample.pick(0, size - 1 + mode)) for size in shape]
    operand = sample.writer.constant("paddings", np.array(pairs, sample.one(("int32", "int64"))))
    output = sample.kept(ifm, _padded(shape, pairs))
    fields = {"Mode": mode}
    return [
        sample.writer.operator(
            "MIRROR_PAD", (ifm, operand), output, options="MirrorPadOptions", fields=fields
        )
    ]


def reverse(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 5)))
    shape = sample.writer.type(ifm).shape
    first = sample.pick(0, len(shape) - 1)  # LiteRT takes axes that are neighbours
    axes = list(range(first, sample.pick(first, len(shape) - 1) + 1))
    written = [axis - len(shape) if sample.chance(4) else axis for axis in axes]
    output = sample.kept(ifm, shape)
    operands = (ifm, sample.operand(*written))
    return [sample.writer.operator("REVERSE_V2", operands, output, options="ReverseV2Options")]


def depth_to_space(sample: Sample) -> list[int]:
    batch, height, width, depth = sample.image(4)
    block = sample.pick(1, 3)
    ifm = sample.input((batch, height, width, depth * block**2))
    output = sample.kept(ifm, (batch, height * block, width * block, depth))
    fields = {"BlockSize": block}
    return [
        sample.writer.operator("DEPTH_TO_SPACE", (ifm,), output, options="DepthToSpaceOptions", fields=fields)
    ]


def space_to_depth(sample: Sample) -> list[int]:
    batch, height, width, depth = sample.image(4)
    block = sample.pick(1, 3)
    ifm = sample.input((batch, height * block, width * block, depth))
    output = sample.kept(ifm, (batch, height, width, depth * block**2))
    fields = {"BlockSize": block}
    return [
        sample.writer.operator("SPACE_TO_DEPTH", (ifm,), output, options="SpaceToDepthOptions", fields=fields)
    ]


def _blocks(sample: Sample) -> tuple[tuple[int, ...], list[int]]:
    """The shape of an image of rank 3 or 4, and a block over the axes between batch and depth."""
    shape = sample.shape(sample.pick(3, 4), 6, 400)
    return shape, [sample.pick(1, 4) for _ in shape[1:-1]]


def space_to_batch(sample: Sample) -> list[int]:
    shape, block = _blocks(sample)
    pairs = []
    for size, parts in zip(shape[1:], block, strict=False):
        before = sample.pick(0, 4)
        pairs.append((before, -(size + before) % parts + parts * sample.pick(0, 1)))
    ifm = sample.input(shape)
    steps = [(size + sum(pair)) // parts for size, pair, parts in zip(shape[1:], pairs, block, strict=False)]
    output = sample.kept(ifm, (shape[0] * prod(block), *steps, shape[-1]))
    paddings = sample.writer.constant("paddings", np.array(pairs, np.int32))
    operands = (ifm, sample.operand(*block), paddings)
    return [sample.writer.operator("SPACE_TO_BATCH_ND", operands, output, options="SpaceToBatchNDOptions")]


def batch_to_space(sample: Sample) -> list[int]:
    shape, block = _blocks(sample)
    ifm = sample.input((shape[0] * prod(block), *shape[1:]))
    crops, sizes = [], []
    for size, parts in zip(shape[1:], block, strict=False):
        before = sample.pick(0, size * parts - 1)
        after = sample.pick(0, size * parts - 1 - before)
        crops.append((before, after))
        sizes.append(size * parts - before - after)
    output = sample.kept(ifm, (shape[0], *sizes, shape[-1]))
    operands = (ifm, sample.operand(*block), sample.writer.constant("crops", np.array(crops, np.int32)))
    return [sample.writer.operator("BATCH_TO_SPACE_ND", operands, output, options="BatchToSpaceNDOptions")]


def _indices(sample: Sample, limits: Any, shape: tuple[int, ...]) -> int:
    values = sample.rng.integers(0, limits, shape).astype(sample.one(("int32", "int64")))
    return sample.writer.constant("indices", values)


def gather(sample: Sample) -> list[int]:
    """Indices are constants: random inputs would lie outside the values."""
    shape = sample.shape(sample.pick(1, 4), 5, 300)
    axis = sample.pick(0, len(shape) - 1)
    batch_dims = sample.pick(0, axis)
    rest = sample.shape(sample.pick(0, 2), 4, 10)
    ifm, indices = sample.input(shape), _indices(sample, shape[axis], (*shape[:batch_dims], *rest))
    output = sample.kept(ifm, (*shape[:axis], *rest, *shape[axis + 1 :]))
    fields = {
        "Axis": axis - len(shape) if sample.chance(2) else axis,
        "BatchDims": batch_dims,
    }
    return [
        sample.writer.operator(
            "GATHER", (ifm, indices), output, version=5, options="GatherOptions", fields=fields
        )
    ]


def gather_nd(sample: Sample) -> list[int]:
    shape = sample.shape(sample.pick(1, 4), 5, 300)
    entries = sample.pick(1, len(shape))
    rows = sample.shape(sample.pick(1, 2), 4, 10)
    ifm, indices = sample.input(shape), _indices(sample, shape[:entries], (*rows, entries))
    output = sample.kept(ifm, (*rows, *shape[entries:]))
    return [sample.writer.operator("GATHER_ND", (ifm, indices), output, version=3, options="GatherNdOptions")]


def dynamic_update_slice(sample: Sample) -> list[int]:
    """Places are constants: random inputs would nearly all be moved to an end."""
    shape = sample.shape(sample.pick(1, 4), 6, 300)
    sizes = tuple(sample.pick(1, size) for size in shape)
    ifm = sample.input(shape)
    update = sample.input_like(ifm, sizes)
    dtype = sample.one(("int32", "int64"))
    places = [sample.pick(-2, size + 1) for size in shape]
    first = sample.writer.constant("places", np.array(places, dtype))
    options = "DynamicUpdateSliceOptions"
    operands = (ifm, update, first)
    return [
        sample.writer.operator(
            "DYNAMIC_UPDATE_SLICE", operands, sample.kept(ifm, shape), version=2, options=options
        )
    ]


def fill(sample: Sample) -> list[int]:
    shape = sample.shape(sample.pick(1, 4))
    value = sample.input(())
    operands = (sample.operand(*shape, dtype=sample.one(("int32", "int64"))), value)
    return [
        sample.writer.operator("FILL", operands, sample.kept(value, shape), version=3, options="FillOptions")
    ]


def embedding_lookup(sample: Sample) -> list[int]:
    shape, count = sample.shape(sample.pick(2, 4), 5, 300), sample.pick(1, 9)
    if sample.packed:  # LiteRT begins every row at a whole byte
        shape = (*shape[:-1], 2 * shape[-1])
    table = sample.weights(shape, 0) if sample.dynamic else sample.input(shape)
    indices = sample.writer.constant("indices", sample.rng.integers(0, shape[0], count).astype(np.int32))
    output = sample.type((count, *shape[1:])) if sample.dynamic else sample.kept(table, (count, *shape[1:]))
    return [sample.writer.operator("EMBEDDING_LOOKUP", (indices, table), output, version=1)]


def hashtable_lookup(sample: Sample) -> list[int]:
    """Half of what is looked up is there."""
    shape, count = sample.shape(sample.pick(2, 4), 5, 300), sample.pick(1, 9)
    keys = np.sort(sample.rng.choice(40, shape[0], replace=False)).astype(np.int32)
    wanted = np.where(
        sample.rng.random(count) < 0.5, sample.rng.choice(keys, count), sample.rng.integers(0, 40, count)
    )
    table = sample.input(shape)
    operands = (
        sample.writer.constant("wanted", wanted.astype(np.int32)),
        sample.writer.constant("keys", keys),
        table,
    )
    outputs = [sample.kept(table, (count, *shape[1:])), TensorType("uint8", (count,), per_tensor(1.0, 0))]
    return list(sample.writer.operator_of_many("HASHTABLE_LOOKUP", operands, outputs, version=1))
