"""How a convolution in groups becomes instructions of the MAC array.

An instruction reads the channels of a group in the whole feature map and writes among those of the whole output: pixels
lie further apart than they are deep. Groups that leave rows and columns of the array empty are computed together where
that is faster, with filters that are zero where they see the others' channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npusim.isa.base.tensor import SIZE_ONLY, Array, Data
from npusim.isa.engines.engine import Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.kernels.lowering.blocks import blocks
from npusim.kernels.lowering.mac_work import (
    Window,
    alike,
    channel_step,
    convolution_stage,
    fastest_layout,
    in_bytes,
    map_bytes,
    output_major,
    window_of,
)
from npusim.kernels.lowering.requantization_stage import common_fields, few_bits
from npusim.kernels.lowering.work import Parts, Tile, TileAddresses, Work
from npusim.kernels.operator.operands import input_type, weight_zero
from npusim.kernels.operator.operator import Call


def lower_groups(call: Call, hardware: Hardware) -> Parts:
    """Lower a grouped convolution: tiles of rows and output channels, with an instruction for one or several groups."""
    window = window_of(call)
    groups = window.ifm_depth // input_type(call, 1).shape[3]
    together = _together(call, window, groups, hardware)
    if together > 1:
        call = _joined(call, together)
    count = groups // together
    depth, channels = window.ifm_depth // count, window.ofm_depth // count
    stage, inside = convolution_stage(call), replace(window, ifm_depth=depth)
    common = {**common_fields(call, stage, hardware), "ifm_depth": depth}
    size = map_bytes(call)

    def ranges(first: int, last: int) -> list[tuple[int, int]]:
        ends = [*range(first - first % channels + channels, last, channels), last]
        return list(zip([first, *ends], ends, strict=False))

    inner = window.kernel[0] * window.kernel[1] * depth
    needs = blocks(call, stage, output_major(inner), ranges)

    def emit(tile: Tile, at: TileAddresses) -> tuple[Instruction, ...]:
        parts = ranges(tile.first_channel, tile.last_channel)
        begins, weights = needs.addresses(tile.first_channel, tile.last_channel)
        ofm_address, ofm_row_stride, ofm_pixel_stride = at.outputs[0]
        instructions = []
        for (first, last), parameters in zip(parts, begins, strict=True):
            part = Tile(tile.first_row, tile.last_row, first, last, tile.entry)
            fields = inside.fields(part) | {
                "ifm_row_stride": window.ifm_width * window.ifm_depth * size,
                "ifm_pixel_stride": window.ifm_depth * size,
            }
            instructions.append(
                Convolve(
                    ifm=at.inputs[0] + first // channels * depth * size,
                    parameters=at.constants + parameters,
                    weights=at.constants + weights + (first - tile.first_channel) * inner,
                    ofm=ofm_address + (first - tile.first_channel) * stage.result_bytes,
                    ofm_row_stride=ofm_row_stride,
                    ofm_pixel_stride=ofm_pixel_stride,
                    **fastest_layout(hardware, inside.problem(part)),
                    **common,
                    **fields,
                )
            )
        return tuple(instructions)

    ifm, ofm = window.maps(size)
    work = Work(
        rows=window.ofm_height,
        channels=window.ofm_depth,
        channel_step=channel_step(hardware),
        inputs=((ifm, window.rows_needed),),
        outputs=(ofm,),
        emit=emit,
        last_resort=1,
        entries=input_type(call).shape[0],
        alike=alike(call, "groups", window, count, stage.per_channel),
        **needs.fields(),
    )
    return (in_bytes(work, stage.result_bytes),)


def _together(call: Call, window: Window, groups: int, hardware: Hardware) -> int:
    """Return how many groups an instruction computes: the fastest by its cycles, or by the arrival of its weights."""
    if 1 not in call.constants:
        return 1
    bytes_per_cycle = hardware.peak_bytes_per_cycle(hardware.holder("constants"))
    size, few = input_type(call, 1).size_bytes, few_bits(call, hardware)
    if few:
        size = hardware.mac_array.stored_bytes(size)

    def cycles(together: int) -> float:
        count = groups // together
        problem = Problem(
            window.ofm_height,
            window.ofm_width,
            window.ofm_depth // count,
            window.ifm_depth // count,
            *window.kernel,
            window.strides[1],
            window.dilations[1],
            False,
            window.strides[0],
            window.dilations[0],
            few,
        )
        array = hardware.mac_array
        engine = engine_of(array)
        used = engine.use(array, problem, engine.fastest(array, problem)).cycles
        return max(count * used, size * together / bytes_per_cycle)

    return min(
        [divisor for divisor in range(1, groups + 1) if groups % divisor == 0],
        key=lambda divisor: (cycles(divisor), divisor),
    )


def _joined(call: Call, together: int) -> Call:
    """Return the call with filters for several groups at once, with zero weights for channels of other groups."""
    weights = input_type(call, 1)
    channels, height, width, depth = weights.shape
    shape = (channels, height, width, depth * together)
    data: Data = call.constants[1]
    if data is not SIZE_ONLY:
        data = _spread(
            np.asarray(data), shape, weight_zero(call), channels * depth // input_type(call).shape[3]
        )
    kinds = (call.inputs[0], replace(weights, shape=shape), *call.inputs[2:])
    return replace(call, inputs=kinds, constants={**call.constants, 1: data})


def _spread(weights: Array, shape: tuple[int, ...], zero: int, channels: int) -> Array:
    """Return filters as deep as `shape` says; each group of `channels` filters sees one part of the depth."""
    depth = weights.shape[3]
    spread = np.full(shape, zero, weights.dtype)
    parts = shape[3] // depth
    for part in range(parts):
        for first in range(part * channels, len(weights), parts * channels):
            spread[first : first + channels, ..., part * depth : (part + 1) * depth] = weights[
                first : first + channels
            ]
    return spread
