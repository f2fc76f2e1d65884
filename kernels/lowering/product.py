"""Lower products of two activations (batch matmul) to instructions of the MAC array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base.tensor import Int64Array, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.kernels.lowering.blocks import bias_only
from npusim.kernels.lowering.mac_work import ONE_COLUMN, channel_step, fastest_layout, in_bytes, product
from npusim.kernels.lowering.requantization_stage import OutputStage, common_fields, output_stage
from npusim.kernels.lowering.work import Parts, Rows, Tile, TileAddresses, Work, one_row, same_rows
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import batch_matmul_multiplier, fully_connected_multipliers


class Factors(NamedTuple):
    """The sizes of a product of `rows` x `inner` and `inner` x `columns`, and which factors are transposed."""

    rows: int
    inner: int
    columns: int
    transposed: tuple[bool, bool]


def _multipliers(ifm: TensorType, weights: TensorType, ofm: TensorType) -> tuple[Int64Array, Int64Array]:
    multiplier, shift = batch_matmul_multiplier(ifm, weights, ofm)
    return np.array([multiplier]), np.array([shift])


class Run(NamedTuple):
    """Consecutive products of a batch whose factors are evenly spaced. The default is a batch of one product.

    begin, products: the number of the first product in the batch, and how many there are.
    first, step:     the numbers of the first product's factors, and the distances to those of the next one.
    """

    begin: int = 0
    products: int = 1
    first: tuple[int, int] = (0, 0)
    step: tuple[int, int] = (0, 0)

    def joined(self, rows: int) -> tuple[int, int, tuple[int, int]]:
        """Return rows of a product, number of products and step, where products that share the second factor are one.

        rows: those of one first factor, which are stored one after the other.
        """
        if self.products > 1 and self.step == (1, 0):
            return rows * self.products, 1, (0, 0)
        return rows, self.products, self.step


def runs(batches: tuple[Sequence[int], Sequence[int]], products: Sequence[int]) -> Iterator[Run]:
    """Return all products of a batch as runs; a factor repeats along dimensions that it lacks or has one element of."""
    numbers = [
        np.broadcast_to(np.arange(np.prod(batch, dtype=int)).reshape(batch), products).ravel().tolist()
        for batch in batches
    ]
    pairs = list(zip(*numbers, strict=True))
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(pairs)]
    first = 0
    while first < len(pairs):
        step = steps[first] if first < len(steps) else (0, 0)
        last = first
        while last < len(steps) and steps[last] == step:
            last += 1
        yield Run(first, last - first + 1, pairs[first], step)
        first = last + 1


def lower_products(call: Call, factors: Factors, hardware: Hardware) -> Parts:
    """Lower each product of a batch to a 1 x 1 convolution over an image of one column, with the second factor as
    weights.

    First factors that share a second one are computed as one larger product.
    """
    stage = output_stage(call, _multipliers, "double")
    batches = input_type(call).shape[:-2], input_type(call, 1).shape[:-2]
    return tuple(
        [
            in_bytes(_work(call, factors, run, stage, hardware), stage.result_bytes)
            for run in runs(batches, call.outputs[0].shape[:-2])
        ]
    )


def lower_with_computed_weights(call: Call, hardware: Hardware) -> Parts:
    """Lower a fully connected layer whose weights are an activation: one product, the second factor transposed."""
    units, inner = input_type(call, 1).shape
    factors = Factors(input_type(call).elements // inner, inner, units, (False, True))
    stage = output_stage(call, fully_connected_multipliers, "single")
    work = _work(call, factors, Run(), stage, hardware)
    bias = bias_only(call, stage)
    return (in_bytes(replace(work, **bias.fields()), stage.result_bytes),)


def _work(call: Call, factors: Factors, run: Run, stage: OutputStage, hardware: Hardware) -> Work:
    """Return the work of a run of products."""
    rows, inner, columns, transposed = factors
    entries, entry = run.products, run.step
    if not transposed[0]:
        rows, entries, entry = run.joined(rows)
    first = _matrix(0, rows, inner, transposed[0], run.first[0] * factors.rows * inner, entry[0])
    weights = _matrix(1, columns, inner, not transposed[1], run.first[1] * columns * inner, entry[1])
    words = stage.result_bytes > 1  # then the second factor stays whole: to the scheduler channels are bytes
    whole = Rows(("in", 1), 1, columns * inner, weights.offset_bytes, weights.entry_bytes), one_row
    output = Rows(("out", 0), rows, columns, run.begin * factors.rows * columns, rows * columns)
    common: dict[str, Any] = {
        **common_fields(call, stage, hardware),
        "ifm_depth": inner,
        "ifm_transposed": int(transposed[0]),
        "few_bits": 0,  # the second factor is an operand, which lies with all its bits
        **ONE_COLUMN,
    }

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        ofm_address, ofm_row_stride, ofm_pixel_stride = at.outputs[0]
        row_bytes = at.row_bytes[0]
        return Convolve(
            ifm=at.inputs[0],
            ifm_row_stride=1 if transposed[0] else row_bytes,
            ifm_pixel_stride=row_bytes if transposed[0] else inner,
            ifm_height=tile.rows,
            parameters=at.constants,
            weights=at.inputs[1] if words else at.weights,
            weight_stride=0 if transposed[1] else columns if words else at.weight_row_bytes,
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            ofm_pixel_stride=ofm_pixel_stride,
            ofm_height=tile.rows,
            ofm_depth=tile.channels,
            **fastest_layout(hardware, product(tile.rows, inner, tile.channels)),
            **common,
        )

    return Work(
        rows=rows,
        channels=columns,
        channel_step=0 if words else channel_step(hardware),
        inputs=((first, same_rows), *((whole,) if words else ())),
        outputs=(output,),
        constants=stage.constants,
        constant_bytes=stage.parameter_bytes,
        emit=emit,
        last_resort=0 if words else 1,
        entries=entries,
        weights=None if words else weights,
    )


def _matrix(position: int, parts: int, inner: int, by_columns: bool, offset: int, step: int) -> Rows:
    """Return a factor as rows, or columns, of `inner` values."""
    rows = Rows(("in", position), parts, inner, offset, step * parts * inner)
    return replace(rows, count=inner, row_bytes=parts, by_columns=True) if by_columns else rows
