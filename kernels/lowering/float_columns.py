"""Lower convolutions and matrix products of float values to the float mode of the MAC array.

Work counts rows and channels in bytes; geometry counts elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from npusim.isa.arithmetic.real import ACTIVATIONS
from npusim.isa.base.tensor import SIZE_ONLY, Array
from npusim.isa.engines.engine import Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.lanes import FLOAT_TYPES as REAL_TYPES
from npusim.isa.instructions.real_mac import (
    BIAS_BYTES,
    RealConvolve,
    RealDepthwise,
    float_columns,
    float_mode,
)
from npusim.kernels.lowering.mac_work import ONE_COLUMN, Window, product, window_of
from npusim.kernels.lowering.product import Factors, Run, runs
from npusim.kernels.lowering.work import (
    Constants,
    Parts,
    Rows,
    RowsNeeded,
    Tile,
    TileAddresses,
    Work,
    one_row,
    same_rows,
)
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import activation_of

Geometry = Callable[[Tile], dict[str, Any]]
"""Gives the fields of a tile that say what is computed, without addresses, counted in elements."""


def lower_float_convolution(call: Call, hardware: Hardware) -> Parts:
    """Lower a convolution with weights [O, kh, kw, I]: tiles of rows and of output channels."""
    window = window_of(call)
    inner = window.kernel[0] * window.kernel[1] * window.ifm_depth
    return (_convolve(call, hardware, _Maps.of(window, call), inner, window.problem, window.fields),)


def lower_float_groups(call: Call, hardware: Hardware) -> Parts:
    """Lower a grouped convolution: a tile gets an instruction per group, on its channels of the whole maps."""
    window, size = window_of(call), input_type(call).numpy_dtype.itemsize
    depth = input_type(call, 1).shape[3]
    inside, channels = replace(window, ifm_depth=depth), window.ofm_depth * depth // window.ifm_depth
    inner = window.kernel[0] * window.kernel[1] * depth
    strides = {"ifm_row_stride": window.ifm_width * window.ifm_depth, "ifm_pixel_stride": window.ifm_depth}

    def fields(tile: Tile) -> dict[str, Any]:
        return inside.fields(tile) | strides

    work = _convolve(call, hardware, _Maps.of(window, call), inner, inside.problem, fields)
    step = channels * size

    def emit(tile: Tile, at: TileAddresses) -> tuple[Instruction, ...]:
        ends = [*range(tile.first_channel - tile.first_channel % step + step, tile.last_channel, step)]
        instructions = []
        for first, last in pairwise([tile.first_channel, *ends, tile.last_channel]):
            before = (first - tile.first_channel) // size
            part = replace(tile, first_channel=first, last_channel=last)
            (ofm,) = at.outputs
            place = replace(
                at,
                inputs=(at.inputs[0] + first // step * depth * size,),
                constants=at.constants + before * BIAS_BYTES,
                outputs=(ofm._replace(address=ofm.address + first - tile.first_channel),),
            )
            one: Any = work.instructions(part, place)[0]
            behind = at.constants + tile.channels // size * BIAS_BYTES + before * inner * size
            instructions.append(replace(one, weights=behind))
        return tuple(instructions)

    return (replace(work, emit=emit),)


def lower_float_product(call: Call, hardware: Hardware) -> Parts:
    """Lower a fully connected layer: a 1 x 1 convolution over an image of one column, one row per input row."""
    units, inner = input_type(call, 1).shape
    rows = input_type(call).elements // inner
    size = input_type(call).numpy_dtype.itemsize
    maps = _Maps(Rows(("in", 0), rows, inner * size), Rows(("out", 0), rows, units * size), same_rows, units)

    return (_convolve(call, hardware, maps, inner, *_as_rows(inner)),)


def lower_float_products(call: Call, hardware: Hardware) -> Parts:
    """Lower products of two activations, x [..., rows, inner] and y [..., columns, inner], in batches that broadcast.

    First factors that share a second one are computed as one larger product.
    """
    x, y = input_type(call).shape, input_type(call, 1).shape
    factors = Factors(x[-2], x[-1], y[-2], (False, True))
    products = runs((x[:-2], y[:-2]), call.outputs[0].shape[:-2])
    return tuple([_computed_weights(call, hardware, factors, run) for run in products])


def lower_float_computed_weights(call: Call, hardware: Hardware) -> Parts:
    """Lower a fully connected layer whose weights [units, inner] are an activation."""
    units, inner = input_type(call, 1).shape
    factors = Factors(input_type(call).elements // inner, inner, units, (False, True))
    return (_computed_weights(call, hardware, factors, Run()),)


def _computed_weights(call: Call, hardware: Hardware, factors: Factors, run: Run) -> Work:
    """Return the work of a run of products.

    The second factor, whose rows are the channels, stays whole: the scheduler counts channels in bytes of the result,
    so it would cut through rows of the factor.
    """
    size = input_type(call).numpy_dtype.itemsize
    inner, columns = factors.inner, factors.columns
    rows, entries, step = run.joined(factors.rows)
    row, matrix = inner * size, columns * inner * size
    first = Rows(("in", 0), rows, row, run.first[0] * factors.rows * row, step[0] * factors.rows * row)
    second = Rows(("in", 1), 1, matrix, run.first[1] * matrix, step[1] * matrix)
    before = run.begin * factors.rows * columns * size
    output = Rows(("out", 0), rows, columns * size, before, rows * columns * size)
    biases = call.constants.get(2)
    block = Constants(absent_bytes=columns * BIAS_BYTES)
    if biases is not SIZE_ONLY:
        known = np.zeros(columns, np.float32) if biases is None else biases.astype(np.float32)
        block = Constants(known.tobytes())
    make = _emitter(call, hardware, RealConvolve, inner, *_as_rows(inner))

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        instruction: Any = make(tile, at)
        placed: Instruction = replace(instruction, weights=at.inputs[1])
        return placed

    return Work(
        rows=rows,
        channels=columns * size,
        channel_step=0,
        inputs=((first, same_rows), (second, one_row)),
        outputs=(output,),
        constants=lambda first, last: block,
        constant_bytes=lambda first, last: columns * BIAS_BYTES,
        emit=emit,
        entries=entries,
    )


def _as_rows(inner: int) -> tuple[Callable[[Tile], Problem], Geometry]:
    """Return the problem and the geometry of a product of rows of `inner` values, both as functions of the tile."""

    def problem(tile: Tile) -> Problem:
        return product(tile.rows, inner, tile.channels)

    def fields(tile: Tile) -> dict[str, Any]:
        return {
            "ifm_height": tile.rows,
            "ifm_row_stride": inner,
            "ifm_pixel_stride": inner,
            "ofm_height": tile.rows,
            "ofm_depth": tile.channels,
            **ONE_COLUMN,
        }

    return problem, fields


class _Maps:
    """Rows of feature map and output in bytes, the input rows that output rows need, and the output channels."""

    def __init__(self, ifm: Rows, ofm: Rows, needed: RowsNeeded, channels: int, entries: int = 1) -> None:
        self.ifm, self.ofm, self.needed, self.channels, self.entries = ifm, ofm, needed, channels, entries

    @classmethod
    def of(cls, window: Window, call: Call) -> _Maps:
        """Return the maps of a window over images."""
        size = input_type(call).numpy_dtype.itemsize
        ifm, ofm = (
            replace(rows, row_bytes=rows.row_bytes * size, entry_bytes=rows.entry_bytes * size)
            for rows in window.maps()
        )
        return cls(ifm, ofm, window.rows_needed, window.ofm_depth, input_type(call).shape[0])


def _convolve(
    call: Call,
    hardware: Hardware,
    maps: _Maps,
    inner: int,
    problem: Callable[[Tile], Problem],
    fields: Geometry,
) -> Work:
    size = input_type(call).numpy_dtype.itemsize
    depth = input_type(call, 1).shape[-1]

    def constants(first: int, last: int) -> Constants:
        return _constants(call, first // size, last // size, inner * size, lambda weights, a, b: weights[a:b])

    step = _channel_step(hardware, call)
    return Work(
        rows=maps.ofm.count,
        channels=maps.channels * size,
        channel_step=step * size,
        inputs=((maps.ifm, maps.needed),),
        outputs=(maps.ofm,),
        constants=constants,
        constant_bytes=lambda first, last: (last - first) // size * (BIAS_BYTES + inner * size),
        emit=_emitter(call, hardware, RealConvolve, depth, problem, fields),
        last_resort=size,
        entries=maps.entries,
    )


def lower_float_depthwise(call: Call, hardware: Hardware) -> Parts:
    """Lower a depthwise convolution with weights [1, kh, kw, O]: tiles of rows, all channels together."""
    window, size = window_of(call), input_type(call).numpy_dtype.itemsize
    taps = window.kernel[0] * window.kernel[1]
    maps = _Maps.of(window, call)

    def constants(first: int, last: int) -> Constants:
        return _constants(
            call, first // size, last // size, taps * size, lambda weights, a, b: weights[..., a:b]
        )

    def problem(tile: Tile) -> Problem:
        return window.problem(tile, by_channel=True)

    return (
        Work(
            rows=maps.ofm.count,
            channels=maps.channels * size,
            channel_step=0,
            inputs=((maps.ifm, maps.needed),),
            outputs=(maps.ofm,),
            constants=constants,
            constant_bytes=lambda first, last: (last - first) // size * (BIAS_BYTES + taps * size),
            emit=_emitter(call, hardware, RealDepthwise, window.ifm_depth, problem, window.fields),
            entries=maps.entries,
        ),
    )


def _emitter(
    call: Call,
    hardware: Hardware,
    row: type[RealConvolve] | type[RealDepthwise],
    depth: int,
    problem: Callable[[Tile], Problem],
    fields: Geometry,
) -> Callable[[Tile, TileAddresses], Instruction]:
    """Return the function that makes the instruction of a tile, whose channels are counted in bytes."""
    dtype = input_type(call).dtype
    size = input_type(call).numpy_dtype.itemsize
    array = float_mode(hardware.mac_array, dtype)
    engine = engine_of(array)

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        part = Tile(
            tile.first_row, tile.last_row, tile.first_channel // size, tile.last_channel // size, tile.entry
        )
        geometry = fields(part)
        ofm_address, ofm_row_stride, ofm_pixel_stride = at.outputs[0]
        return row(
            element=REAL_TYPES.index(dtype),
            activation=ACTIVATIONS.index(activation_of(call)),
            ifm=at.inputs[0],
            parameters=at.constants,
            weights=at.constants + part.channels * BIAS_BYTES,
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            ofm_pixel_stride=ofm_pixel_stride,
            ifm_depth=depth,
            **engine.fastest(array, problem(part))._asdict(),
            **{
                name: value * size if name.endswith("_stride") and name.startswith("ifm") else value
                for name, value in geometry.items()
            },
        )

    return emit


def _constants(
    call: Call, first: int, last: int, channel_bytes: int, taken: Callable[[Array, int, int], Array]
) -> Constants:
    """Return biases and weights of channels [first, last), or only their size."""
    weights, bias = call.constants[1], call.constants.get(2)
    if weights is SIZE_ONLY or bias is SIZE_ONLY:
        return Constants(absent_bytes=(last - first) * (BIAS_BYTES + channel_bytes))
    biases = np.zeros(last - first, np.float32) if bias is None else bias[first:last].astype(np.float32)
    return Constants(biases.tobytes() + np.ascontiguousarray(taken(weights, first, last)).tobytes())


def _channel_step(hardware: Hardware, call: Call) -> int:
    """Return the granularity of cuts by channels: as many as the mode computes at once."""
    return float_columns(hardware.mac_array, input_type(call).dtype)
