"""Closed forms of the systolic MAC array and its output stage, equal to the register-transfer model in tests/rtl.

The array has R rows (along the dot product) and C columns (along the output channels). One instruction is cut
into *groups*, each of which leaves finished accumulators in one half of the accumulator memory while the
output stage empties the other half. A half holds A accumulators per column.

* weight stationary: a group is up to A pixels by C channels. It takes one *fold* for every R values of the dot
  product. A fold holds R x C weights and streams one vector of operands per pixel.
* depthwise: the same with kernel taps as rows. From pixel to pixel, only those values of a window are loaded that
  the window to the left did not hold. The first window of an output row, and of a fold, is loaded in full.
* output stationary: a group is up to R pixels by C channels and one fold, which streams the whole dot product.

A vector of n values takes max(1, n / port) cycles, rounded up, at the port that it passes. Rows and columns that a fold
leaves empty are not fetched. Loading weights takes the sum over the R rows.

Without shadow registers, a fold loads R rows of weights, streams, and drains before the next one begins. That takes
2R + C + M - 2 cycles for M vectors weight stationary, and R + C + K - 2 cycles for a dot product of K values output
stationary. The array cycles leave out the last cycle of the last fold. These are the published systolic formulas
(SCALE-Sim 2, checked in the tests).

With shadow registers, a fold begins as soon as the one before has been streamed and its own weights have been loaded in
the meantime. Output-stationary folds are at least R cycles apart, since a column sends its R sums over one bus. The
first load and one pipeline latency R + C - 2 remain.

An instruction may use only a corner of the array: R, C and A halved a number of times (`corner`). Operands and weights
enter at the usual edge. Sums leave a column at its last row in use, over the bus that output-stationary sums take. A
corner behaves exactly like an array of its size, so a short layer fills and drains it sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from npusim.isa.base.identity_cache import IdentityCache
from npusim.isa.engines.mac_array import MacArray


class ArrayShape(NamedTuple):
    """The parameters of the array that its timing depends on."""

    rows: int
    columns: int
    shadow: bool
    half_accumulators: int
    ifm_port: int
    weight_port: int
    lanes: int

    @property
    def latency(self) -> int:
        """Cycles from the entry of a vector to its last partial sum."""
        return self.rows + self.columns - 2


class Occupancy(NamedTuple):
    """Cycles of one instruction: `total` until the last result is written, `array` for the array alone.

    `fetched` counts the feature-map values that pass the port, padding included.
    """

    total: int
    array: int
    folds: int
    pixel_blocks: int
    fetched: int


class Split(NamedTuple):
    """The cycle breakdown of one instruction; the parts are at least 0 and add up to `Occupancy.total`.

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


class Window(NamedTuple):
    """The window sizes that depthwise timing depends on: output, kernel, and stride and dilation along the width."""

    ofm_height: int
    ofm_width: int
    kernel_height: int
    kernel_width: int
    stride_width: int
    dilation_width: int


class _Fold(NamedTuple):
    """Cycles to load the weights of a fold and to stream its operands."""

    load: int
    stream: int


class _Group(NamedTuple):
    """The timing of a group, in cycles.

    advance: from its start to the earliest start of the next group.
    entered: from its start to the entry of its last vector.
    output:  duration of its output.
    """

    advance: int
    entered: int
    output: int


_State = tuple[int, int, int]
"""The state of the chain of groups, in cycles: the start of the next group, the end of the output so far, and when the
accumulator half for the group after the next one is free."""


def array_shape(array: MacArray) -> ArrayShape:
    """Return the timing parameters of a MAC array. Accumulators are split evenly over columns and halves."""
    return _SHAPES.of(array, _array_shape)


def _array_shape(array: MacArray) -> ArrayShape:
    return ArrayShape(
        array.rows,
        array.columns,
        array.shadow_weights,
        array.accumulator_kib * 1024 // 4 // array.columns // 2,
        array.ifm_bytes_per_cycle,
        array.weight_bytes_per_cycle,
        array.output_lanes,
    )


_SHAPES = IdentityCache[ArrayShape]()


def corner(shape: ArrayShape, rows: int, columns: int, accumulators: int) -> ArrayShape:
    """Return the part of an array that is left when its rows, columns and accumulators are halved a number of times."""
    if not (rows or columns or accumulators):
        return shape
    all_rows, all_columns, shadow, half, ifm_port, weight_port, lanes = shape
    sizes = all_rows >> rows, all_columns >> columns, shadow, half >> accumulators
    return ArrayShape(*sizes, ifm_port, weight_port, lanes)


def _parts(total: int, step: int) -> list[tuple[int, int]]:
    """Cut `total` into steps. Return (size, count) of the full steps, then of the remainder, if any."""
    whole, rest = divmod(total, step)
    return [(size, count) for size, count in ((step, whole), (rest, 1)) if size and count]


def _port_cycles(values: int, port: int) -> int:
    return max(1, -(-values // port))


def _passed(group: _Group, times: int, latency: int, promised: int, state: _State) -> _State:
    """Return the state after a group has passed array and output stage a number of times.

    The output stage empties groups in order, each once its last vector has left the array. It releases an accumulator
    half up to `promised` cycles before it is empty, just in time for the first new sums, but not before it starts.

    A pass consists of maxima and sums, so it commutes with a shift in time. Once it has moved all of the state by the
    same distance, every further pass moves it by this distance, and the rest follows without a loop.
    """
    advance, entered, output = group
    leaves, free_before_end = entered + latency, min(promised, output - 1)
    start, output_end, half_free = state
    while times:
        times -= 1
        left, ready = start + leaves, start + advance
        end = (left if left > output_end else output_end) + output
        following, free = ready if ready > half_free else half_free, end - free_before_end
        distance = following - start
        if end - output_end == distance and free - half_free == distance:
            moved = distance * times
            return following + moved, end + moved, free + moved
        start, output_end, half_free = following, end, free
    return start, output_end, half_free


def _passed_together(
    groups: list[tuple[_Group, int]], times: int, latency: int, promised: int, state: _State
) -> _State:
    """Return the state after groups with their repetitions have passed in turn a number of times, as `_passed` does."""
    while times:
        times -= 1
        start, output_end, half_free = state
        for group, number in groups:
            state = _passed(group, number, latency, promised, state)
        distance = state[0] - start
        if state[1] - output_end == distance and state[2] - half_free == distance:
            moved = distance * times
            return state[0] + moved, state[1] + moved, state[2] + moved
    return state


Block = tuple[int, int]
"""Pixels of a block, and how many of them bring in a whole window (depthwise)."""


class _Plan(NamedTuple):
    """The loop nest of an instruction: blocks of pixels outermost, then groups of channels, then folds.

    Each list is in order, with (entry, number of consecutive repetitions).
    """

    shape: ArrayShape
    blocks: list[tuple[Block, int]]
    channels: list[tuple[int, int]]
    folds: Callable[[Block, int], list[tuple[_Fold, int]]]


def _weights_group(plan: _Plan, block: Block, channels: int, next_load: int) -> _Group:
    """Return the timing of a weight-stationary group, which starts when its first fold begins to stream.

    With shadow registers, the weights of the next fold load while a fold streams. Without, they load after its drain.
    """
    shape = plan.shape
    runs = plan.folds(block, channels)
    advance, latency = 0, shape.latency
    for ((load, stream), count), following in zip(
        runs, [*[fold.load for fold, _ in runs[1:]], next_load], strict=True
    ):
        if shape.shadow:
            alike, step = max(stream, load), max(stream, following)
        else:
            alike, step = stream + latency + load, stream + latency + following
        advance += alike * (count - 1) + step
    entered = advance - step + runs[-1][0].stream
    return _Group(advance, entered, block[0] * -(-channels // shape.lanes))


def _sums_group(plan: _Plan, block: Block, channels: int, next_stream: int) -> _Group:
    """Return the timing of an output-stationary group, which starts when its last vector has entered the array."""
    shape = plan.shape
    advance = max(next_stream, shape.rows) if shape.shadow else shape.latency + next_stream
    return _Group(advance if next_stream else 0, 0, block[0] * -(-channels // shape.lanes))


Make = Callable[[_Plan, Block, int, int], _Group]


def _block_groups(
    plan: _Plan, make: Make, block: Block, ahead: dict[int, int], after: int
) -> list[tuple[_Group, int]]:
    """Return the groups of one block with their repetitions.

    ahead: for each number of channels, the load or stream cycles of a group that the group before it accounts for.
    after: the same of the first group after the block.
    """
    groups = []
    for position, (channels, count) in enumerate(plan.channels):
        rest = plan.channels[position + 1 :]
        if count > 1:
            groups.append((make(plan, block, channels, ahead[channels]), count - 1))
        groups.append((make(plan, block, channels, ahead[rest[0][0]] if rest else after), 1))
    return groups


def _chain(plan: _Plan, make: Make, first: Callable[[_Fold], int], promised: int) -> tuple[int, int]:
    """Return the cycles until the output stage ends, and until the array is empty if it never waits for a half.

    first: returns the cycles of a group's first fold that the group before accounts for: its load or its stream.
    """
    latency = plan.shape.latency
    ahead = {
        block: {channels: first(plan.folds(block, channels)[0][0]) for channels, _ in plan.channels}
        for block in {block for block, _ in plan.blocks}
    }
    opening = plan.channels[0][0]
    known: dict[tuple[Block, int], tuple[list[tuple[_Group, int]], int]] = {}

    def groups_of(block: Block, after: int) -> tuple[list[tuple[_Group, int]], int]:
        """Return all groups of a block, and their cycles without waits."""
        if (block, after) not in known:
            groups = _block_groups(plan, make, block, ahead[block], after)
            known[block, after] = groups, sum([group.advance * times for group, times in groups])
        return known[block, after]

    array = ahead[plan.blocks[0][0]][opening]
    state: _State = array, 0, 0
    for position, (block, count) in enumerate(plan.blocks):
        rest = plan.blocks[position + 1 :]
        if count > 1:
            groups, cycles = groups_of(block, ahead[block][opening])
            state = _passed_together(groups, count - 1, latency, promised, state)
            array += cycles * (count - 1)
        groups, cycles = groups_of(block, ahead[rest[0][0]][opening] if rest else 0)
        state = _passed_together(groups, 1, latency, promised, state)
        array += cycles
    last = groups[-1][0]
    return state[1], array - last.advance + last.entered + latency


def _occupancy(plan: _Plan, timing: tuple[int, int], fetched: int, folds_per_group: int) -> Occupancy:
    total, array = timing
    blocks = sum(count for _, count in plan.blocks)
    folds = blocks * sum(count for _, count in plan.channels) * folds_per_group
    return Occupancy(total, array if plan.shape.shadow else array - 1, folds, blocks, fetched)


def _load(shape: ArrayShape, rows: int, channels: int) -> int:
    """Return the cycles to load `rows` rows of weights of `channels` columns and to shift past the other rows."""
    return rows * _port_cycles(channels, shape.weight_port) + shape.rows - rows


@lru_cache(maxsize=4096)
def weight_stationary(shape: ArrayShape, pixels: int, inner: int, channels: int) -> Occupancy:
    """Return the cycles of a weight-stationary convolution.

    pixels, channels: output pixels and channels.
    inner:            values of a dot product.
    """
    inner_parts = _parts(inner, shape.rows)

    def folds(block: Block, columns: int) -> list[tuple[_Fold, int]]:
        return [
            (_Fold(_load(shape, rows, columns), block[0] * _port_cycles(rows, shape.ifm_port)), count)
            for rows, count in inner_parts
        ]

    blocks = [((size, 0), count) for size, count in _parts(pixels, shape.half_accumulators)]
    plan = _Plan(shape, blocks, _parts(channels, shape.columns), folds)
    timing = _chain(plan, _weights_group, lambda fold: fold.load, shape.rows)
    fetched = pixels * inner * -(-channels // shape.columns)
    return _occupancy(plan, timing, fetched, -(-inner // shape.rows))


@lru_cache(maxsize=4096)
def output_stationary(shape: ArrayShape, pixels: int, inner: int, channels: int) -> Occupancy:
    """Return the cycles of an output-stationary convolution; the arguments are those of `weight_stationary`."""

    def folds(block: Block, columns: int) -> list[tuple[_Fold, int]]:
        step_cycles = max(_port_cycles(block[0], shape.ifm_port), _port_cycles(columns, shape.weight_port))
        return [(_Fold(0, inner * step_cycles), 1)]

    size = min(shape.rows, shape.half_accumulators)
    blocks = [((rows, 0), count) for rows, count in _parts(pixels, size)]
    plan = _Plan(shape, blocks, _parts(channels, shape.columns), folds)
    timing = _chain(plan, _sums_group, lambda fold: fold.stream, 0)
    return _occupancy(plan, timing, pixels * inner * -(-channels // shape.columns), 1)


def _fresh_taps(shape: ArrayShape, window: Window) -> list[tuple[int, int]]:
    """Return, for each fold, its taps and how many of them the window of the pixel to the left does not provide.

    Row r takes over the operand of row r + stride if that is a tap of the same kernel row and fold. Windows of
    dilated kernels do not overlap in this way.
    """
    taps = window.kernel_height * window.kernel_width
    fresh_taps = []
    for start in range(0, taps, shape.rows):
        rows = min(shape.rows, taps - start)
        moved = 0
        if window.dilation_width == 1:
            for row in range(rows - window.stride_width):
                moved += (start + row) % window.kernel_width + window.stride_width < window.kernel_width
        fresh_taps.append((rows, rows - moved))
    return fresh_taps


@lru_cache(maxsize=4096)
def depthwise(shape: ArrayShape, window: Window, channels: int) -> Occupancy:
    """Return the cycles of a depthwise convolution with `channels` output channels."""
    pixels = window.ofm_height * window.ofm_width
    taps = _fresh_taps(shape, window)

    def folds(block: Block, columns: int) -> list[tuple[_Fold, int]]:
        size, whole = block
        streamed = []
        for rows, fresh in taps:
            stream = whole * _port_cycles(rows * columns, shape.ifm_port)
            stream += (size - whole) * _port_cycles(fresh * columns, shape.ifm_port)
            streamed.append((_Fold(_load(shape, rows, columns), stream), 1))
        return streamed

    blocks = []
    for first in range(0, pixels, shape.half_accumulators):
        size = min(shape.half_accumulators, pixels - first)
        row_starts = -(-(first + size) // window.ofm_width) - -(-first // window.ofm_width)
        blocks.append((size, row_starts + (first % window.ofm_width != 0)))
    plan = _Plan(
        shape,
        [(block, len(list(same))) for block, same in groupby(blocks)],
        _parts(channels, shape.columns),
        folds,
    )
    timing = _chain(plan, _weights_group, lambda fold: fold.load, shape.rows)
    whole_windows = sum(whole for _, whole in blocks)
    fetched = channels * sum(whole_windows * rows + (pixels - whole_windows) * fresh for rows, fresh in taps)
    return _occupancy(plan, timing, fetched, len(taps))


@lru_cache(maxsize=4096)
def weight_stationary_split(
    shape: ArrayShape, pixels: int, inner: int, channels: int, multipliers: int = 0
) -> Split:
    """Return the breakdown of `weight_stationary`; `multipliers` are the whole array's if `shape` is a corner."""
    wide = shape._replace(ifm_port=shape.rows, weight_port=shape.columns)
    unhindered = weight_stationary(wide, pixels, inner, channels)
    work = weight_stationary(shape, pixels, inner, channels)
    vectors = work.folds * pixels // work.pixel_blocks
    return _split(shape, multipliers, pixels * inner * channels, vectors, unhindered, work)


@lru_cache(maxsize=4096)
def output_stationary_split(
    shape: ArrayShape, pixels: int, inner: int, channels: int, multipliers: int = 0
) -> Split:
    """Return the breakdown of `output_stationary`; `multipliers` are the whole array's if `shape` is a corner."""
    wide = shape._replace(ifm_port=shape.rows, weight_port=shape.columns)
    unhindered = output_stationary(wide, pixels, inner, channels)
    work = output_stationary(shape, pixels, inner, channels)
    return _split(shape, multipliers, pixels * inner * channels, work.folds * inner, unhindered, work)


@lru_cache(maxsize=4096)
def depthwise_split(shape: ArrayShape, window: Window, channels: int, multipliers: int = 0) -> Split:
    """Return the breakdown of `depthwise`; `multipliers` are those of the whole array if `shape` is a corner."""
    wide = shape._replace(ifm_port=shape.rows * shape.columns, weight_port=shape.columns)
    unhindered = depthwise(wide, window, channels)
    work = depthwise(shape, window, channels)
    pixels = window.ofm_height * window.ofm_width
    macs = pixels * window.kernel_height * window.kernel_width * channels
    return _split(shape, multipliers, macs, work.folds * pixels // work.pixel_blocks, unhindered, work)


def _split(
    shape: ArrayShape, multipliers: int, macs: int, vectors: int, unhindered: Occupancy, work: Occupancy
) -> Split:
    """Return the cycle breakdown by adding one effect at a time to an ideal array.

    The effects are partly filled vectors, fill and drain, the real ports, and the output stage. Each part is the growth
    of the total. Without shadow registers the published formulas leave out one cycle, so an array with one multiplier
    could be one cycle faster than its own stream. The running maximum prevents a negative part.
    """
    full = -(-macs // (multipliers or shape.rows * shape.columns))
    steps = list(accumulate((full, vectors, unhindered.array, work.array, work.total), max))
    return Split(full, *(after - before for before, after in pairwise(steps)))
