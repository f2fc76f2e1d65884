"""Which dataflow, and which corner of the MAC array, is the fastest for a tile.

The closed forms (`npusim.isa.engines.systolic.timing`) follow an instruction group by group. Here they are taken to
their steady state, where only the last group differs: an array that streams without a pause, or an output stage that
works without one, then what is left of the other. That is what mappings are compared by; the machine's own forms decide
between those that come out nearly equal.

A corner pays where a layer is short: a large array takes longer to fill and to drain, and with all pixels in one half
of the accumulators the output stage has nothing to do until the array has finished. What a smaller array can do, a
larger one can do in the same time, so it is never slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from npusim.isa.engines.engine import HALVINGS_BITS
from npusim.isa.engines.systolic import timing
from npusim.isa.engines.systolic.timing import ArrayShape, Occupancy, Window, corner

_STEPS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4))
"""What is tried from a corner on. The output stage may have to wait for a whole block until blocks are much smaller."""
_MOST_HALVINGS = (1 << HALVINGS_BITS) - 1
"""As many as an instruction has room for; only accumulators of the largest machines could be halved further."""
_LEAST_GAIN = 1 / 256
"""Share of the cycles that a smaller corner must save; the steady state is not better than that."""
_LEAST_PART = 1 / 100
"""Share of the cycles that the ends of a tile must take for corners to be tried."""
_SHORT_CYCLES = 1000
"""Tiles below are compared by the closed forms."""
_HOPELESS = 1.5
"""A dataflow that is so many times slower on its largest corner is not looked at any closer."""
_CLOSE = 1 / 32
"""Dataflows that differ by less are compared by the closed forms."""


class Corner(NamedTuple):
    """How often rows, columns and accumulators are halved."""

    row_halvings: int = 0
    column_halvings: int = 0
    accumulator_halvings: int = 0


Cycles = Callable[[ArrayShape], float]
"""The cycles of a tile on a corner."""


@lru_cache(maxsize=65536)
def convolution(
    shape: ArrayShape, dataflow: str, pixels: int, inner: int, channels: int
) -> tuple[bool, Corner]:
    """Whether a convolution is faster output stationary where the array supports both, and its corner."""
    work = pixels, inner, channels
    begun = []
    for kind, (steady, _, rows_are_pixels) in _KINDS.items():
        if dataflow in (kind, "both"):
            begin = _smallest(shape, (pixels if rows_are_pixels else inner, channels, pixels))
            begun.append((steady(*work, corner(shape, *begin)), begin, kind))
    least = min(begun)[0]
    found = []
    for cycles, begin, kind in begun:
        if cycles < least * _HOPELESS:
            best = _best(shape, (pixels, channels), partial(_KINDS[kind][0], *work), begin, cycles)
            found.append((*best, begin, kind))
    least, _, _, fastest = min(found)
    # Output-stationary groups that the output stage holds up are slower than their steady state; so are few groups.
    doubtful = fastest == "output_stationary" or least < _SHORT_CYCLES
    close = [
        (part, kind)
        for cycles, best, begin, kind in found
        if doubtful or cycles < least * (1 + _CLOSE)
        for part in dict.fromkeys((best, begin))
    ]
    if len(close) > 1:
        close.sort(key=lambda each: _KINDS[each[1]][1](corner(shape, *each[0]), *work).total)
    part, kind = close[0]
    return kind == "output_stationary", part


@lru_cache(maxsize=65536)
def depthwise(shape: ArrayShape, window: Window, channels: int) -> Corner:
    """The corner of a depthwise convolution."""
    pixels, taps = window.ofm_height * window.ofm_width, window.kernel_height * window.kernel_width
    begin = _smallest(shape, (taps, channels, pixels))
    cycles = partial(_steady_depthwise, window, channels)
    _, best = _best(shape, (pixels, channels), cycles, begin, cycles(corner(shape, *begin)))
    if best == begin:
        return best
    return min(best, begin, key=lambda part: timing.depthwise(corner(shape, *part), window, channels).total)


def _smallest(shape: ArrayShape, sizes: tuple[int, int, int]) -> Corner:
    """The smallest corner that holds all rows, columns and pixels that there are: a larger one is slower."""
    halvings = [
        min((has // size).bit_length() - 1, _MOST_HALVINGS) if has > size else 0
        for has, size in zip((shape.rows, shape.columns, shape.half_accumulators), sizes, strict=True)
    ]
    return Corner(*halvings)


def _best(
    shape: ArrayShape, outputs: tuple[int, int], cycles: Cycles, begin: Corner, least: float
) -> tuple[float, Corner]:
    """The fastest corner with its cycles: halved further from the one to begin with as long as that saves cycles.
    `outputs` are pixels and channels.
    """
    pixels, channels = outputs
    # All that a smaller corner can save: the first weights, the way through the array, the last block of pixels.
    block = min(pixels, shape.half_accumulators) * -(-min(channels, shape.columns) // shape.lanes)
    ends = shape.latency + shape.rows * -(-shape.columns // shape.weight_port) + block
    if ends < least * _LEAST_PART:
        return least, begin
    best = begin
    while True:
        found = best
        for rows, columns, accumulators in _STEPS:
            tried = Corner(best[0] + rows, best[1] + columns, best[2] + accumulators)
            part = corner(shape, *tried)
            if max(tried) > _MOST_HALVINGS or not (part.rows and part.columns and part.half_accumulators):
                continue
            taken = cycles(part)
            if taken < least * (1 - _LEAST_GAIN):
                found, least = tried, taken
        if found == best:
            return least, best
        best = found


class _Stream(NamedTuple):
    """All groups of a tile: cycles in the array, `first` for the first group, and in the output stage, `last` for the
    last one.
    """

    groups: float
    array: float
    first: float
    output: float
    last: float

    def cycles(self, latency: int, entering: float, promised: int) -> float:
        """Cycles until the last output.

        A half is taken again two groups later: when the group has entered (in `entering` of its cycles), left the
        array and been emptied but for what is `promised`.
        """
        output = self.output / self.groups
        turn = (entering / self.groups + latency + output - min(promised, output)) / 2
        array = max(self.array, turn * self.groups) if self.groups > 2 else self.array
        return latency + max(array + self.last, self.first + self.output)


def _steady_weights(pixels: int, inner: int, channels: int, shape: ArrayShape) -> float:
    block, columns = min(pixels, shape.half_accumulators), min(channels, shape.columns)
    blocks, rest = divmod(pixels, block)
    ranges = -(-channels // shape.columns)
    folds, left = divmod(inner, shape.rows)
    beats = -(-columns // shape.weight_port)
    array = first = 0
    for rows, count in ((shape.rows, folds), (left, 1 if left else 0)):
        if not count:
            continue
        load = rows * beats + shape.rows - rows
        vector = -(-rows // shape.ifm_port)
        first = first or load
        for size, times in ((block, blocks), (rest, 1 if rest else 0)):
            step = max(size * vector, load) if shape.shadow else size * vector + shape.latency + load
            array += step * times * ranges * count
    passes = -(-columns // shape.lanes)
    groups = (blocks + (rest > 0)) * ranges
    output = pixels * ((channels // shape.columns) * passes + -(-(channels % shape.columns) // shape.lanes))
    last = (rest or block) * -(-((channels - 1) % shape.columns + 1) // shape.lanes)
    stream = _Stream(groups, array, array / groups, output, last)
    return first + stream.cycles(shape.latency, array, shape.rows)


def _steady_outputs(pixels: int, inner: int, channels: int, shape: ArrayShape) -> float:
    block = min(pixels, shape.rows, shape.half_accumulators)
    blocks, rest = divmod(pixels, block)
    ranges, left = divmod(channels, shape.columns)
    array = first = last = 0
    for columns, times in ((shape.columns, ranges), (left, 1 if left else 0)):
        if not times:
            continue
        for size, count in ((block, blocks), (rest, 1 if rest else 0)):
            if not count:
                continue
            stream = inner * max(1, -(-size // shape.ifm_port), -(-columns // shape.weight_port))
            advance = max(stream, shape.rows) if shape.shadow else stream + shape.latency
            array += advance * times * count
            first = first or stream
            last = size * -(-columns // shape.lanes)
    passes = -(-min(channels, shape.columns) // shape.lanes)
    output = pixels * (ranges * passes + -(-left // shape.lanes))
    groups = (blocks + (rest > 0)) * (ranges + (left > 0))
    return _Stream(groups, array, first, output, last).cycles(shape.latency, 0, 0)


def _steady_depthwise(window: Window, channels: int, shape: ArrayShape) -> float:
    pixels, taps = window.ofm_height * window.ofm_width, window.kernel_height * window.kernel_width
    block = min(pixels, shape.half_accumulators)
    columns = min(channels, shape.columns)
    # Pixels at which the window comes in whole: where a row of the output or a block begins.
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
    all_groups = _Stream(groups, groups * advance, advance, (groups - 1) * output + rest, rest)
    return first + all_groups.cycles(shape.latency, groups * advance, shape.rows)


_KINDS: dict[str, tuple[Callable[..., float], Callable[..., Occupancy], bool]] = {
    "weight_stationary": (_steady_weights, timing.weight_stationary, False),
    "output_stationary": (_steady_outputs, timing.output_stationary, True),
}
"""By dataflow: its steady state, the machine's form, and whether the rows of the array are pixels."""
