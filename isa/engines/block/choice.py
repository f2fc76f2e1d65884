"""The choice of the output block size for a problem on the block engine.

Inputs and accumulators of a block must fit twice into the buffer. Among the blocks that fit, the one with the fewest
fetched values is chosen. Each block fetches its inputs for all input channels, and all weights of its channels. If two
input blocks hold the whole input, the cost counts half. Arm's Vela compiler chooses by the same measure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from npusim.isa.engines.block.shape import BlockShape, rounded
from npusim.isa.engines.engine import Problem

_INPUT_GRAIN = 8
"""Channel granularity of inputs and accumulators in the buffer, which is the width of its banks in bytes."""
_BANK_BYTES = 1024
_ACCUMULATOR_BYTES = 4
_SMALL = 4
"""Largest height and width of a block that counts as small when blocks with equal cost are compared."""


class Block(NamedTuple):
    """An output block and the input block that it reads.

    part_kernel: a step covers several kernel elements and fewer input channels, instead of one kernel element.
    """

    height: int
    width: int
    depth: int
    input_height: int
    input_width: int
    input_depth: int
    part_kernel: bool


def by_parts(shape: BlockShape, problem: Problem) -> bool:
    """Return whether a convolution is computed part-kernel first.

    It is if it has few input channels, or if it then uses a larger share of each step.
    """
    channels = shape.depth_first_channels // shape.part_kernel_elements
    depth, elements = problem.ifm_depth, problem.kernel_height * problem.kernel_width
    if problem.by_channel:
        return False
    if depth <= channels:
        return True
    used = depth / rounded(depth, shape.depth_first_channels)
    steps = rounded(depth, channels) * rounded(elements, shape.part_kernel_elements)
    return bool(depth * elements / steps >= used)


def input_sides(shape: BlockShape, problem: Problem, height: Any, width: Any) -> tuple[Any, Any]:
    """Return the rows and columns of the input that an output block reads, rounded up to whole micro-blocks.

    height, width: those of the output block, integers or arrays.
    """
    rows = min((problem.kernel_height - 1) * problem.dilation_height + 1, shape.kernel_side)
    columns = min((problem.kernel_width - 1) * problem.dilation_width + 1, shape.kernel_side)
    return (
        rounded((height - 1) * problem.stride_height + rows, shape.micro_height),
        rounded((width - 1) * problem.stride_width + columns, shape.micro_width),
    )


def _order(shape: BlockShape, problem: Problem) -> tuple[bool, int]:
    """Return whether a problem is computed part-kernel first (`by_parts`), and the input channels of a block."""
    parts = by_parts(shape, problem)
    deep = shape.part_kernel_channels if parts else shape.depth_first_channels
    return parts, rounded(min(problem.ifm_depth, deep), _INPUT_GRAIN)


def smallest_fits(shape: BlockShape, problem: Problem) -> bool:
    """Return whether the smallest block fits: one micro-block high and wide, with the fewest channels."""
    height, width = shape.micro_height, shape.micro_width
    rows, columns = input_sides(shape, problem, height, width)
    depth = min(_depths(shape, problem.ofm_depth))
    under = depth if problem.by_channel else _order(shape, problem)[1]
    return bool(_fits(shape, problem, height * width, rows * columns, depth, under))


@lru_cache(maxsize=4096)
def chosen(shape: BlockShape, problem: Problem) -> Block | None:
    """Return the block size for a problem; None if not even a micro-block fits into the buffer."""
    import numpy as np  # imported here, because reading a hardware file needs no arrays

    parts, input_depth = _order(shape, problem)
    best: tuple[float, Block] | None = None
    for depth in _depths(shape, problem.ofm_depth):
        under = depth if problem.by_channel else input_depth
        costs, heights, widths = _costs(shape, problem, depth, under)
        if not np.isfinite(costs).any():
            continue
        least = float(costs.min())
        if best is not None and least > best[0]:
            continue
        at = _first(costs == least, shape, problem, (heights, widths), best is not None and least == best[0])
        if at is None:
            continue
        height, width = int(heights[at[0]]), int(widths[at[1]])
        best = least, Block(height, width, depth, *input_sides(shape, problem, height, width), under, parts)
    return None if best is None else best[1]


def _first(
    least: Any, shape: BlockShape, problem: Problem, sides: tuple[Any, Any], has_choice: bool
) -> tuple[int, int] | None:
    """Break the tie among equally cheap blocks as Vela does, and return the (row, column) index of the choice.

    Small blocks are preferred, among them the last one whose input block covers the largest area. Without a small one
    it is the first block, or None with `has_choice`, if a block of another depth has been chosen already.
    """
    import numpy as np

    places = np.argwhere(least)
    if len(places) == 1 and not has_choice:
        return int(places[0][0]), int(places[0][1])
    best: tuple[int, int] | None = None if has_choice else (int(places[0][0]), int(places[0][1]))
    most = 0.0
    for row, column in places if has_choice else places[1:]:
        height, width = int(sides[0][row]), int(sides[1][column])
        if max(height, width) > _SMALL:
            continue
        below = input_sides(shape, problem, height, width)
        covered = min(extent(problem, 0), below[0]) * min(extent(problem, 1), below[1])
        if covered >= most:
            best, most = (int(row), int(column)), covered
    return best


def extent(problem: Problem, axis: int) -> int:
    """Return the rows (axis 0) or columns (axis 1) of the input that the outputs read, estimated from the strides.

    The result is at least the extent of a kernel.
    """
    size, stride, kernel, dilation = (
        (problem.ofm_height, problem.stride_height, problem.kernel_height, problem.dilation_height),
        (problem.ofm_width, problem.stride_width, problem.kernel_width, problem.dilation_width),
    )[axis]
    return max(size * stride, (kernel - 1) * dilation + 1)


def _depths(shape: BlockShape, channels: int) -> list[int]:
    """Return the candidate block depths: multiples of `split_channels`, and all channels."""
    whole = rounded(min(channels, shape.most_channels), shape.micro_channels)
    parts = list(range(shape.split_channels, min(channels, whole), shape.split_channels))
    return [*parts, whole] if channels <= whole or whole % shape.split_channels == 0 else parts


def _costs(shape: BlockShape, problem: Problem, depth: int, under: int) -> tuple[Any, Any, Any]:
    """Return the values fetched per output for each block of a depth, with the candidate heights and widths.

    The costs are an array [heights, widths]. The cost of a block that does not fit into the buffer is infinite.

    under: input channels of the input block.
    """
    import numpy as np

    heights, widths = (
        np.arange(micro, rounded(min(size, most), micro) + 1, micro)
        for micro, size, most in (
            (shape.micro_height, problem.ofm_height, shape.most_height),
            (shape.micro_width, problem.ofm_width, shape.most_width),
        )
    )
    rows, columns = input_sides(shape, problem, heights[:, None], widths[None, :])
    area = rows * columns
    fits = _fits(shape, problem, heights[:, None] * widths[None, :], area, depth, under)
    height, width, channels = problem.ofm_height, problem.ofm_width, problem.ofm_depth
    taps = problem.kernel_height * problem.kernel_width
    pieces = -(-problem.kernel_height // shape.kernel_side) * -(-problem.kernel_width // shape.kernel_side)
    part = (height / heights)[:, None] * (width / widths)[None, :]
    whole = (-(-height // heights))[:, None] * (-(-width // widths))[None, :]
    seen = channels if problem.by_channel else problem.ifm_depth
    fetched = area * seen * pieces * part
    weights = taps * seen * whole
    if not problem.by_channel:
        fetched = fetched * -(-channels // depth)
        weights = weights * channels
    costs = (fetched + weights) / (height * width * channels)
    held = extent(problem, 0) * extent(problem, 1) * seen < 2 * area * under
    return np.where(fits, np.where(held, costs / 2, costs), np.inf), heights, widths


def _fits(shape: BlockShape, problem: Problem, outputs: Any, inputs: Any, depth: int, under: int) -> Any:
    """Return whether a block fits into the buffer, which holds its inputs and its accumulators twice.

    outputs, inputs: positions of the output block and of its input block, rows times columns; integers or arrays.
    depth, under:    output channels and input channels of the block.
    """
    input_bytes = inputs * rounded(under, _INPUT_GRAIN) * problem.value_bytes
    sum_bytes = outputs * rounded(depth, _INPUT_GRAIN) * _ACCUMULATOR_BYTES
    needed_kib = _banks(input_bytes, shape.input_grain) + _banks(sum_bytes, shape.accumulator_grain)
    return needed_kib <= shape.buffer_kib


def _banks(size_bytes: Any, grain: int) -> Any:
    """Return the KiB that two buffers of `size_bytes` take together, rounded up to a multiple of `grain` KiB."""
    return rounded(2 * -(-size_bytes // _BANK_BYTES), grain)
