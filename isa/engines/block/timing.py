"""Closed form of the block engine: the cycles of a problem in blocks of one size.

A problem is cut into output blocks; those at the edge are smaller. The array computes a block while the output stage
empties the one before (`npusim.isa.engines.block.pipeline`). The load of the first inputs and the store of the last
outputs are added. So equal blocks each take the time of the slower stage, and one of them that of the faster stage,
too. Arm's Vela compiler estimates in the same way. `tests/rtl/sv/block_unit.sv` is a register-transfer model of an
engine with these cycles.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import ceil, prod
from typing import NamedTuple

from npusim.isa.engines.block.choice import Block, chosen, extent
from npusim.isa.engines.block.pipeline import Stages, last_emptied
from npusim.isa.engines.block.shape import BlockShape
from npusim.isa.engines.engine import Problem

_UNHINDERED = 1 << 30
"""A port width or divisor so large that the term with it vanishes."""
_PARAMETER_BYTES = 10
"""Bytes that the output stage fetches for each output channel: its bias and its requantization scale."""


class Occupancy(NamedTuple):
    """Cycles of a problem, where each field includes one more effect than the field before it, and its traffic.

    full:          macs / multipliers.
    steps:         with partly filled micro-blocks and steps.
    by_channel:    with the steps of a depthwise convolution, which multiply for only one input channel per output.
    array:         with waits for the weights of the next step, and single micro-blocks (`lone_step_cycles`).
    outputs:       with the first inputs, the last outputs, and a slower output stage or slower commands.
    total:         with the time of feature maps, and of weights that are read again, at the port that they share.
    map_values:    feature-map values fetched.
    weight_values: weights fetched.
    updates:       accumulators written.
    """

    full: int
    steps: int
    by_channel: int
    array: int
    outputs: int
    total: int
    map_values: int
    weight_values: int
    updates: int


@lru_cache(maxsize=4096)
def occupancy(shape: BlockShape, problem: Problem) -> Occupancy:
    """Return the cycles and the traffic of a problem in the blocks chosen for it."""
    useful = -(-problem.macs // shape.multipliers)
    shape, filled, alone = computed(shape, problem)
    block = chosen(shape, filled)
    assert block is not None, "a rule of the engine: one micro-block fits"
    cycles = in_blocks(shape, filled, block)
    again = ceil(filled.weights / shape.lone_weights_per_cycle) if alone > 1 else 0
    return Occupancy(
        useful, *(alone * max(value, again) for value in cycles[1:6]), *(alone * n for n in cycles[6:])
    )


def computed(shape: BlockShape, problem: Problem) -> tuple[BlockShape, Problem, int]:
    """Return the engine shape to use, the problem that it computes, and how often it computes it.

    They differ from the given ones in these cases. A depthwise convolution of one channel is an ordinary one. A kernel
    with too large a dilation is filled up with zeros. If strides are too large, or if windows are too far apart for
    the buffer, each output is a problem of its own. For a single row of outputs, the pixels of a micro-block may be
    arranged in one row (`turns_rows`).
    """
    if problem.by_channel and problem.ifm_depth == 1:
        problem = problem._replace(by_channel=False)
    if shape.turns_rows and problem.ofm_height == 1:
        shape = turned(shape)
    filled, alone = _apart(shape, _filled(shape, problem))
    if chosen(shape, filled) is None:
        filled, alone = _lone(filled), alone * filled.pixels
    return shape, filled, alone


def turned(shape: BlockShape) -> BlockShape:
    """Return the engine shape with all pixels of a micro-block in one row."""
    return shape._replace(micro_height=1, micro_width=shape.micro_height * shape.micro_width)


@lru_cache(maxsize=4096)
def pool(shape: BlockShape, problem: Problem) -> int | None:
    """Return the cycles of a pooling operator; None if its windows are too far apart for the buffer.

    It is a depthwise problem without weights whose steps have one kernel element. The input of the first block passes
    at half the rate of the port, which matches Vela's cycles for pools over whole planes.
    """
    filled, alone = _apart(shape, problem)
    if filled.ofm_height == 1:
        filled = filled._replace(stride_height=1)
    if filled.ofm_width == 1:
        filled = filled._replace(stride_width=1)
    block = chosen(shape, filled)
    if block is None:
        return None
    weightless = shape._replace(
        step_cycles=shape.pool_step_cycles,
        depthwise_elements=1,
        lone_step_cycles=0,
        weight_port=_UNHINDERED,
        command_share=_UNHINDERED,
    )
    inputs = min(block.input_height, extent(filled, 0)) * min(block.input_width, extent(filled, 1))
    first = inputs * min(block.depth, filled.ofm_depth) // shape.map_port
    return alone * (in_blocks(weightless, filled, block).outputs + first)


def _apart(shape: BlockShape, problem: Problem) -> tuple[Problem, int]:
    """Return the problem to compute and how often: once per output if the strides are too large, else once."""
    if max(problem.stride_height, problem.stride_width) <= shape.most_stride or problem.pixels == 1:
        return problem, 1
    return problem._replace(ofm_height=1, ofm_width=1), problem.pixels


def _lone(problem: Problem) -> Problem:
    """Return the problem of a single output, for which strides do not matter."""
    return problem._replace(ofm_height=1, ofm_width=1, stride_height=1, stride_width=1)


def _filled(shape: BlockShape, problem: Problem) -> Problem:
    """Fill a kernel up with zeros until its dilation is one that the engine supports."""
    height, row_step = _filled_axis(shape, problem.kernel_height, problem.dilation_height)
    width, column_step = _filled_axis(shape, problem.kernel_width, problem.dilation_width)
    return problem._replace(
        kernel_height=height, kernel_width=width, dilation_height=row_step, dilation_width=column_step
    )


def _filled_axis(shape: BlockShape, kernel: int, dilation: int) -> tuple[int, int]:
    """Return the kernel size and the dilation along an axis after filling up with zeros.

    The dilation is the largest supported one that divides the given one.
    """
    supported = range(1, min(dilation, shape.most_dilation) + 1)
    step = max([candidate for candidate in supported if dilation % candidate == 0])
    return (kernel - 1) * (dilation // step) + 1, step


class _Work(NamedTuple):
    """The part of a block's work that is the same for all block sizes of a problem.

    counts:        steps over each piece of the kernel, for one group of input channels.
    deep:          groups of input channels in an input block.
    times:         input blocks per output block.
    elements:      kernel elements.
    seen:          input channels of an input block; 0 for a depthwise convolution, whose outputs have their own.
    output_cycles: cycles of the output stage per output.
    """

    counts: tuple[int, ...]
    deep: int
    times: int
    elements: int
    seen: int
    output_cycles: float


def _work(shape: BlockShape, problem: Problem, block: Block) -> _Work:
    rows, columns = (
        [min(shape.kernel_side, size - first) for first in range(0, size, shape.kernel_side)]
        for size in (problem.kernel_height, problem.kernel_width)
    )
    sizes = [height * width for height in rows for width in columns]
    most = shape.part_kernel_channels if block.part_kernel else shape.depth_first_channels
    seen = min(block.input_depth, problem.ifm_depth, most)
    if problem.by_channel:
        counts, deep, times, seen = [-(-size // shape.depthwise_elements) for size in sizes], 1, 1, 0
    elif block.part_kernel:
        channels = shape.depth_first_channels // shape.part_kernel_elements
        counts, deep = [-(-size // shape.part_kernel_elements) for size in sizes], -(-seen // channels)
        times = -(-problem.ifm_depth // seen)
    else:
        counts, deep, times = sizes, 1, -(-problem.ifm_depth // seen)
    output_cycles = shape.lookup_cycles if problem.looked_up else shape.output_cycles
    return _Work(tuple(counts), deep, times, sum(sizes), seen, output_cycles)


class _Part(NamedTuple):
    """Cycles of one block.

    steps, by_channel, array: as in `Occupancy`.
    idle:    cycles of the last step that only wait for the weights of the next one.
    taken:   cycles in the array, at least `least`.
    emptied: cycles in the output stage, at least `least`.
    least:   cycles of the block's commands.
    """

    steps: float
    by_channel: int
    array: int
    idle: int
    taken: int
    emptied: int
    least: int


def _part(shape: BlockShape, work: _Work, block: Block, sizes: tuple[int, ...]) -> _Part:
    """Return the cycles of one block; `sizes` are its rows, columns and channels."""
    height, width, depth = sizes
    plane = -(-height // shape.micro_height) * -(-width // shape.micro_width)
    layers = -(-depth // shape.micro_channels)
    in_plane = shape.step_cycles * plane
    count = sum(work.counts)
    lone = 0
    if plane == 1:
        lone = sum([steps if layers == 1 else (steps - 1) * layers for steps in work.counts])
    by_channel = in_plane * count * layers * work.deep * work.times
    reload = max(shape.reload_cycles, in_plane)
    array = (reload * count * layers + lone * shape.lone_step_cycles) * work.deep * work.times
    steps: float = by_channel
    if not work.seen:
        steps = in_plane * layers * work.elements / shape.depth_first_channels
    size = height * width * depth
    outputs = ceil(max(work.output_cycles * size, depth * _PARAMETER_BYTES / shape.weight_port))
    inputs = block.input_height * block.input_width * (work.seen or depth)
    commands = _transfer(shape, inputs) + array + outputs + _transfer(shape, size)
    least = -(-commands // shape.command_share)
    idle = reload - in_plane
    return _Part(steps, by_channel, array, idle, max(array, least), max(outputs, least), least)


def _transfer(shape: BlockShape, size_bytes: int) -> int:
    """Return the cycles to load the inputs of a block, or to store its outputs."""
    return shape.access_cycles + -(-size_bytes // shape.map_port)


def _cut(size: int, step: int) -> list[tuple[int, int]]:
    """Cut a size into steps. Return (size, count) of the full steps, then of the remainder, if any."""
    whole, rest = divmod(size, step)
    return [(part, count) for part, count in ((step, whole), (rest, 1)) if part and count]


def in_blocks(shape: BlockShape, problem: Problem, block: Block) -> Occupancy:
    """Return the cycles and the traffic of a problem in blocks of a given size."""
    work = _work(shape, problem, block)
    outputs = problem.ofm_height, problem.ofm_width, problem.ofm_depth
    cuts = [_cut(size, min(step, size)) for size, step in zip(outputs, block[:3], strict=True)]
    parts = {
        sizes: _part(shape, work, block, sizes)
        for sizes in product(*[[size for size, _ in cut] for cut in cuts])
    }
    counts = [
        rows * columns * slices for rows, columns, slices in product(*[[n for _, n in cut] for cut in cuts])
    ]
    counted = list(zip(parts.values(), counts, strict=True))
    steps = ceil(sum([part.steps * count for part, count in counted]))
    by_channel = sum([part.by_channel * count for part, count in counted])
    *_, corner = parts
    last = parts[corner]
    # After the last step there are no further weights to wait for.
    array = sum([part.array * count for part, count in counted]) - last.idle
    under = cuts[2][0][0] if problem.by_channel else work.seen
    inputs = min(block.input_height, extent(problem, 0)) * min(block.input_width, extent(problem, 1)) * under
    stages = {sizes: Stages(part.taken, part.emptied) for sizes, part in parts.items()}
    done = (
        max(_transfer(shape, inputs), shape.reload_cycles)
        + last_emptied(cuts, stages, Stages(max(last.array - last.idle, last.least), last.emptied))
        + _transfer(shape, prod(corner))
    )
    planes = sum([count for _, count in cuts[0]]) * sum([count for _, count in cuts[1]])
    slices = sum([count for _, count in cuts[2]])
    results = shape.passing(problem.ofm_depth)
    deep = results if problem.by_channel else shape.passing(problem.ifm_depth) * slices
    maps = block.input_height * block.input_width * deep * planes * len(work.counts)
    weights = problem.weights * planes
    through = maps + problem.pixels * results + (weights if planes > 1 else 0)
    return Occupancy(
        -(-problem.macs // shape.multipliers),
        steps,
        by_channel,
        array,
        done,
        max(done, ceil(through / shape.map_port)),
        maps,
        weights,
        problem.pixels * problem.ofm_depth * sum(work.counts) * work.deep * work.times,
    )
