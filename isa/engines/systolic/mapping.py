"""The choice of the fastest dataflow and of the fastest part (corner) of the systolic array for a tile.

The exact closed forms (`npusim.isa.engines.systolic.timing`) follow an instruction group by group, which is slow. Here
mappings are compared by a steady-state approximation in which only the last group differs. Either the array streams
without a pause or the output stage does, and the rest of the other stage is added. The exact forms decide between
mappings whose approximations are nearly equal.

Using only a corner of the array pays if a layer is short. A large array takes longer to fill and drain, and if all
pixels fit into one half of the accumulators, the output stage is idle until the array has finished. As a corner behaves
like a smaller array, a larger array is never slower than a smaller one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from npusim.isa.engines.engine import HALVINGS_BITS
from npusim.isa.engines.systolic import timing
from npusim.isa.engines.systolic.timing import ArrayShape, Occupancy, Window, corner

_STEPS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4))
"""Further halvings of (rows, columns, accumulators) that the search tries. Accumulators are halved several times at
once, because a smaller block may pay only if it is much smaller."""
_MOST_HALVINGS = (1 << HALVINGS_BITS) - 1
"""Most halvings that an instruction field can hold. Only the accumulators of the largest arrays would allow more."""
_LEAST_GAIN = 1 / 256
"""Share of the cycles that a smaller corner must save, which is about the accuracy of the approximation."""
_LEAST_PART = 1 / 100
"""Share of the cycles that fill and drain of a tile must take for smaller corners to be tried."""
_SHORT_CYCLES = 1000
"""Cycles below which the exact closed forms compare the mappings of a tile."""
_HOPELESS = 1.5
"""A dataflow that is this many times slower than the best one, on its largest corner, is not considered further."""
_CLOSE = 1 / 32
"""Relative difference below which the exact closed forms compare dataflows."""


class Corner(NamedTuple):
    """A part of the array, given by the number of times that its rows, columns and accumulators are halved."""

    row_halvings: int = 0
    column_halvings: int = 0
    accumulator_halvings: int = 0


Cycles = Callable[[ArrayShape], float]
"""A function that returns the approximate cycles of a tile on a corner of the array."""


@lru_cache(maxsize=4096)
def convolution(
    shape: ArrayShape, dataflow: str, pixels: int, inner: int, channels: int
) -> tuple[bool, Corner]:
    """Return whether output stationary is the faster dataflow for a convolution, and the fastest corner.

    dataflow: the one that the array supports, or "both".
    """
    work = pixels, inner, channels
    begun = []
    for kind, (steady, _, rows_are_pixels) in _KINDS.items():
        if dataflow in (kind, "both"):
            begin = _smallest(shape, (pixels if rows_are_pixels else inner, channels, pixels))
            begun.append((steady(*work, corner(shape, *begin)), begin, kind))
    least = min(begun)[0]
    mappings = []
    for cycles, begin, kind in begun:
        if cycles < least * _HOPELESS:
            best = _best(shape, (pixels, channels), partial(_KINDS[kind][0], *work), begin, cycles)
            mappings.append((*best, begin, kind))
    least, _, _, fastest = min(mappings)
    # The approximation is too low for output-stationary groups that wait for the output stage, and for few groups.
    doubtful = fastest == "output_stationary" or least < _SHORT_CYCLES
    close = [
        (part, kind)
        for cycles, best, begin, kind in mappings
        if doubtful or cycles < least * (1 + _CLOSE)
        for part in dict.fromkeys((best, begin))
    ]
    if len(close) > 1:
        close.sort(key=lambda candidate: _KINDS[candidate[1]][1](corner(shape, *candidate[0]), *work).total)
    part, kind = close[0]
    return kind == "output_stationary", part


@lru_cache(maxsize=4096)
def depthwise(shape: ArrayShape, window: Window, channels: int) -> Corner:
    """Return the fastest corner for a depthwise convolution."""
    pixels, taps = window.ofm_height * window.ofm_width, window.kernel_height * window.kernel_width
    begin = _smallest(shape, (taps, channels, pixels))
    cycles = partial(_steady_depthwise, window, channels)
    _, best = _best(shape, (pixels, channels), cycles, begin, cycles(corner(shape, *begin)))
    if best == begin:
        return best
    return min(best, begin, key=lambda part: timing.depthwise(corner(shape, *part), window, channels).total)


def _smallest(shape: ArrayShape, sizes: tuple[int, int, int]) -> Corner:
    """Return the smallest corner that holds all rows, columns and pixels of a tile. A larger one is only slower."""
    halvings = [
        min((has // size).bit_length() - 1, _MOST_HALVINGS) if has > size else 0
        for has, size in zip((shape.rows, shape.columns, shape.half_accumulators), sizes, strict=True)
    ]
    return Corner(*halvings)


def _best(
    shape: ArrayShape, outputs: tuple[int, int], cycles: Cycles, begin: Corner, least: float
) -> tuple[float, Corner]:
    """Return the cycles of the fastest corner and the corner, by greedy search from `begin`.

    outputs: pixels and channels.
    begin:   the largest corner to consider.
    least:   its cycles.
    """
    pixels, channels = outputs
    # The most that a smaller corner can save: loading the first weights, the latency of the array, the last block.
    block = min(pixels, shape.half_accumulators) * -(-min(channels, shape.columns) // shape.lanes)
    ends = shape.latency + shape.rows * -(-shape.columns // shape.weight_port) + block
    if ends < least * _LEAST_PART:
        return least, begin
    # The most halvings that the instruction can hold and that leave something of the array.
    most_rows, most_columns, most_accumulators = (
        min(size.bit_length() - 1, _MOST_HALVINGS)
        for size in (shape.rows, shape.columns, shape.half_accumulators)
    )
    best = begin
    while True:
        better = best
        for more_rows, more_columns, more_accumulators in _STEPS:
            rows, columns = best[0] + more_rows, best[1] + more_columns
            accumulators = best[2] + more_accumulators
            if rows > most_rows or columns > most_columns or accumulators > most_accumulators:
                continue
            taken = cycles(corner(shape, rows, columns, accumulators))
            if taken < least * (1 - _LEAST_GAIN):
                better, least = Corner(rows, columns, accumulators), taken
        if better == best:
            return least, best
        best = better


def _stream(
    groups: float, sizes: tuple[float, float, float, float], latency: int, entering: float, promised: int
) -> float:
    """Return the cycles of all groups of a tile in the array and in the output stage, until the last output.

    A half of the accumulators is used again two groups later. Before that, the group must have entered the array, left
    it, and been emptied by the output stage, except for the last `promised` cycles.

    sizes:    cycles of all groups in the array, of the first one there, of all in the output stage, of the last there.
    entering: cycles in which operands of all groups enter the array.
    """
    array, first, all_output, last = sizes
    if groups > 2:
        output = all_output / groups
        array = max(array, (entering / groups + latency + output - min(promised, output)) / 2 * groups)
    return latency + max(array + last, first + all_output)


def _steady_weights(pixels: int, inner: int, channels: int, shape: ArrayShape) -> float:
    """Return the approximate cycles of a weight-stationary convolution."""
    all_rows, all_columns, shadow, half, ifm_port, weight_port, lanes = shape
    latency = shape.latency
    block, columns = min(pixels, half), min(channels, all_columns)
    blocks, rest = divmod(pixels, block)
    ranges = -(-channels // all_columns)
    folds, left = divmod(inner, all_rows)
    row_cycles = -(-columns // weight_port)
    array = first = 0
    for rows, count in ((all_rows, folds), (left, 1 if left else 0)):
        if not count:
            continue
        load = rows * row_cycles + all_rows - rows
        vector = -(-rows // ifm_port)
        first = first or load
        for size, times in ((block, blocks), (rest, 1 if rest else 0)):
            step = max(size * vector, load) if shadow else size * vector + latency + load
            array += step * times * ranges * count
    passes = -(-columns // lanes)
    groups = (blocks + (rest > 0)) * ranges
    output = pixels * ((channels // all_columns) * passes + -(-(channels % all_columns) // lanes))
    last = (rest or block) * -(-((channels - 1) % all_columns + 1) // lanes)
    return first + _stream(groups, (array, array / groups, output, last), latency, array, all_rows)


def _steady_outputs(pixels: int, inner: int, channels: int, shape: ArrayShape) -> float:
    """Return the approximate cycles of an output-stationary convolution."""
    rows, all_columns, shadow, half, ifm_port, weight_port, lanes = shape
    latency = shape.latency
    block = min(pixels, rows, half)
    blocks, rest = divmod(pixels, block)
    ranges, left = divmod(channels, all_columns)
    array = first = last = 0
    for columns, times in ((all_columns, ranges), (left, 1 if left else 0)):
        if not times:
            continue
        for size, count in ((block, blocks), (rest, 1 if rest else 0)):
            if not count:
                continue
            stream = inner * max(1, -(-size // ifm_port), -(-columns // weight_port))
            advance = max(stream, rows) if shadow else stream + latency
            array += advance * times * count
            first = first or stream
            last = size * -(-columns // lanes)
    passes = -(-min(channels, all_columns) // lanes)
    output = pixels * (ranges * passes + -(-left // lanes))
    groups = (blocks + (rest > 0)) * (ranges + (left > 0))
    return _stream(groups, (array, first, output, last), latency, 0, 0)


def _steady_depthwise(window: Window, channels: int, shape: ArrayShape) -> float:
    """Return the approximate cycles of a depthwise convolution."""
    pixels, taps = window.ofm_height * window.ofm_width, window.kernel_height * window.kernel_width
    block = min(pixels, shape.half_accumulators)
    columns = min(channels, shape.columns)
    # Pixels whose window must be loaded in full: those at the start of an output row or of a block.
    whole = min(max(block / window.ofm_width, 1), block)
    advance = first = 0.0
    for start in range(0, taps, shape.rows):
        rows = min(shape.rows, taps - start)
        fresh = rows
        if window.dilation_width == 1:
            fresh = -(-rows * min(window.stride_width, window.kernel_width) // window.kernel_width)
        stream = whole * -(-rows * columns // shape.ifm_port)
        stream += (block - whole) * max(1, -(-fresh * columns // shape.ifm_port))
        load = rows * -(-columns // shape.weight_port) + shape.rows - rows
        advance += max(stream, load) if shape.shadow else stream + shape.latency + load
        first = first or load
    groups = pixels / block * (channels / columns)
    output = block * -(-columns // shape.lanes)
    rest = (pixels % block or block) * -(-((channels - 1) % shape.columns + 1) // shape.lanes)
    array = groups * advance
    return first + _stream(
        groups, (array, advance, (groups - 1) * output + rest, rest), shape.latency, array, shape.rows
    )


_KINDS: dict[str, tuple[Callable[..., float], Callable[..., Occupancy], bool]] = {
    "weight_stationary": (_steady_weights, timing.weight_stationary, False),
    "output_stationary": (_steady_outputs, timing.output_stationary, True),
}
"""For each dataflow: its approximate form, its exact form, and whether the rows of the array hold pixels."""
