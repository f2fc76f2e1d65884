"""Closed forms of the MAC array and its output stage.

The array has R rows (along the dot product) and C columns (along the output channels). One convolution is
cut into *groups*, each of which leaves finished accumulators in one half of the accumulator memory while the
output stage empties the other half:

* weight stationary: a group is up to A pixels (A = accumulators per column and half) by C channels; it takes
  one *fold* for every R values of the dot product. A fold keeps R x C weights and streams one vector of R
  operands per pixel, `beats` cycles each if the feature-map port is narrower than the vector.
* output stationary: a group is R pixels by C channels; it streams the whole dot product.
* depthwise: columns hold channels, rows hold kernel taps; a group is up to A pixels by C channels.

Without shadow registers a fold loads R rows of weights, streams, and drains before the next one begins:
2R + C + M - 2 cycles weight stationary, R + C + K - 2 output stationary, and the last cycle of the last fold
is not counted: the published systolic formulas (SCALE-Sim 2, checked in the tests). With shadow registers
the load (and output stationary: the drain) of one fold hides behind the streaming of its neighbour; the first
load and one pipeline latency R + C - 2 remain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from npusim.isa.hardware import MacArray


class ArrayShape(NamedTuple):
    """The parameters of the array that its timing depends on."""

    rows: int
    columns: int
    shadow: bool
    half_accumulators: int
    ifm_port: int
    weight_port: int
    lanes: int


class Occupancy(NamedTuple):
    """Cycles of one instruction: `total` until the last result is written, `array` for the array alone."""

    total: int
    array: int
    folds: int
    pixel_blocks: int


class Split(NamedTuple):
    """Where the cycles of one instruction go; the parts are at least 0 and add up to `Occupancy.total`.

    useful:       multiply-accumulates / multipliers, rounded up: every multiplier has work.
    edge:         operands stream one vector per cycle, but rows, columns or pixels of the array are empty.
    fill_drain:   weights load while nothing streams, results leave the pipeline.
    port:         a vector of operands or a row of weights takes several cycles, as its port is narrower.
    output_stage: the array waits for the output stage, and the last group passes through it.
    """

    useful: int
    edge: int
    fill_drain: int
    port: int
    output_stage: int


def array_shape(array: MacArray) -> ArrayShape:
    """The timing parameters of a MAC array; accumulators are split evenly over columns and halves."""
    half = array.accumulator_kib * 1024 // 4 // array.columns // 2
    return ArrayShape(
        array.rows,
        array.columns,
        array.shadow_weights,
        half,
        array.ifm_bytes_per_cycle,
        array.weight_bytes_per_cycle,
        array.output_lanes,
    )


def _parts(total: int, step: int) -> list[tuple[int, int]]:
    """`total` cut into steps: (size, how many) for the whole ones and the rest."""
    whole, rest = divmod(total, step)
    return [(size, count) for size, count in ((step, whole), (rest, 1)) if size and count]


def _chain(groups: list[tuple[int, int, int]], lead: int, latency: int) -> int:
    """End of the output stage. `groups` are (array cycles, output cycles, repetitions) in order.

    The array starts a group when it has finished the one before and the half it will write is empty (its first
    result comes `latency` cycles after the start); the output stage starts when the group has drained.
    """
    if min(a for a, _, _ in groups) >= max(o for _, o, _ in groups):  # the array is the slower one throughout
        return lead + sum(a * n for a, _, n in groups) + latency + groups[-1][1]
    if min(o for _, o, _ in groups) >= max(a for a, _, _ in groups):  # the output stage is
        return lead + groups[0][0] + latency + sum(o * n for _, o, n in groups)
    array_end, out_end, out_before = lead, lead + latency, lead + latency
    for array_cycles, output_cycles, count in groups:
        for _ in range(count):
            array_end = max(array_end, out_before - latency) + array_cycles
            out_before, out_end = out_end, max(array_end + latency, out_end) + output_cycles
    return out_end


def _grouped(
    pixel_parts: list[tuple[int, int]], channel_parts: list[tuple[int, int]], lanes: int
) -> Iterator[tuple[int, int, int]]:
    """(pixels, output cycles, repetitions) of consecutive groups: pixel blocks outside, channels inside."""
    for pixels, blocks in pixel_parts:
        for _ in range(blocks if len(channel_parts) > 1 else 1):
            for channels, count in channel_parts:
                repeat = count if len(channel_parts) > 1 else count * blocks
                yield pixels, pixels * -(-channels // lanes), repeat


@lru_cache(maxsize=65536)
def weight_stationary(shape: ArrayShape, pixels: int, inner: int, channels: int, beats: int) -> Occupancy:
    """Convolution of `pixels` outputs of `channels` channels with dot products of `inner` values."""
    inner_folds = -(-inner // shape.rows)
    load = shape.rows * -(-shape.columns // shape.weight_port)
    latency = shape.rows + shape.columns - 2
    pixel_parts = _parts(pixels, shape.half_accumulators)
    channel_parts = _parts(channels, shape.columns)
    groups = []
    for block, output, count in _grouped(pixel_parts, channel_parts, shape.lanes):
        stream = block * beats
        fold = max(stream, load) if shape.shadow else load + stream + latency
        groups.append((inner_folds * fold, output, count))
    lead = load if shape.shadow else -1
    drain = latency if shape.shadow else 0
    blocks = sum(count for _, count in pixel_parts)
    folds = inner_folds * blocks * sum(count for _, count in channel_parts)
    array = lead + sum(cycles * count for cycles, _, count in groups) + drain
    return Occupancy(_chain(groups, lead, drain), array, folds, blocks)


@lru_cache(maxsize=65536)
def output_stationary(shape: ArrayShape, pixels: int, inner: int, channels: int) -> Occupancy:
    """The same convolution with R pixels by C channels held in place and the dot products streamed."""
    beats = max(-(-shape.rows // shape.ifm_port), -(-shape.columns // shape.weight_port))
    latency = shape.rows + shape.columns - 2
    pixel_parts = _parts(pixels, shape.rows)
    channel_parts = _parts(channels, shape.columns)
    stream = inner * beats
    fold = max(stream, shape.rows) if shape.shadow else stream + latency
    groups = [(fold, output, n) for _, output, n in _grouped(pixel_parts, channel_parts, shape.lanes)]
    lead = 0 if shape.shadow else -1
    drain = latency if shape.shadow else 0
    blocks = sum(count for _, count in pixel_parts)
    folds = blocks * sum(count for _, count in channel_parts)
    return Occupancy(_chain(groups, lead, drain), lead + folds * fold + drain, folds, blocks)


@lru_cache(maxsize=65536)
def weight_stationary_split(shape: ArrayShape, pixels: int, inner: int, channels: int, beats: int) -> Split:
    """The parts of `weight_stationary` with the same arguments."""
    vectors = pixels * -(-inner // shape.rows) * -(-channels // shape.columns)
    wide = shape._replace(weight_port=shape.columns)
    unhindered = weight_stationary(wide, pixels, inner, channels, 1)
    work = weight_stationary(shape, pixels, inner, channels, beats)
    return _split(shape, pixels * inner * channels, vectors, unhindered, work)


@lru_cache(maxsize=65536)
def output_stationary_split(shape: ArrayShape, pixels: int, inner: int, channels: int) -> Split:
    """The parts of `output_stationary` with the same arguments."""
    wide = shape._replace(ifm_port=shape.rows, weight_port=shape.columns)
    unhindered = output_stationary(wide, pixels, inner, channels)
    work = output_stationary(shape, pixels, inner, channels)
    return _split(shape, pixels * inner * channels, work.folds * inner, unhindered, work)


def _split(shape: ArrayShape, macs: int, vectors: int, unhindered: Occupancy, work: Occupancy) -> Split:
    """One hindrance after the other: full array, whole vectors, fill and drain, real ports, output stage.

    Each adds what the closed form grows by. Without shadow registers the published formulas leave out one
    cycle, so the array of a single multiplier could be one faster than its own stream: never below it here.
    """
    full = -(-macs // (shape.rows * shape.columns))
    steps = list(accumulate((full, vectors, unhindered.array, work.array, work.total), max))
    return Split(full, *(after - before for before, after in pairwise(steps)))
