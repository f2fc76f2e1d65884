"""Lower the parts of an integer LSTM layer: matrix products of 16-bit sums on the MAC array, and cell steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import SIZE_ONLY, Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.cell import ADDEND_BYTES, WORD_BYTES, LstmCell
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.kernels.lowering.blocks import blocks
from npusim.kernels.lowering.mac_work import (
    ONE_COLUMN,
    alike,
    channel_step,
    fastest_layout,
    output_major,
    product,
)
from npusim.kernels.lowering.requantization_stage import OutputStage, few_bits
from npusim.kernels.lowering.work import (
    Constants,
    Parts,
    Rows,
    Tile,
    TileAddresses,
    Work,
    no_constant_bytes,
    no_constants,
    one_row,
    same_rows,
)
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call

_KEPT = 1 / 4
"""Share of the scratchpad that weights and parameters may fill to stay there from step to step."""


def lower_gate_sums(call: Call, hardware: Hardware) -> Parts:
    """Lower a matrix product of gates.

    Weights and parameters are operands where they fit well, so that they stay in the scratchpad from step to step.
    Otherwise they are constants of tiles. The scheduler counts a byte of a result as a channel, and does not cut
    through results.
    """
    units, inner = input_type(call, 1).shape
    rows, size = input_type(call).elements // inner, call.outputs[0].numpy_dtype.itemsize
    stage = _stage(call)
    needs = blocks(call, stage, output_major(inner), zero_point=call.parameters.weight_zero)
    keeps = (
        input_type(call, 1).size_bytes + input_type(call, 2).size_bytes <= hardware.scratchpad_bytes * _KEPT
    )
    common = _product_fields(call, stage)
    common["few_bits"] = int(not keeps and few_bits(call, hardware))

    def constants(first: int, last: int) -> Constants:
        return needs.constants(first // size, last // size)

    def constant_bytes(first: int, last: int) -> int:
        return needs.constant_bytes(first // size, last // size)

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        ofm_address, ofm_row_stride, ofm_pixel_stride = at.outputs[0]
        channels = tile.channels // size
        _, weights = needs.addresses(tile.first_channel // size, tile.last_channel // size)
        return Convolve(
            ifm=at.inputs[0],
            ifm_height=tile.rows,
            parameters=at.inputs[1] if keeps else at.constants,
            weights=at.inputs[2] if keeps else at.constants + weights,
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            ofm_pixel_stride=ofm_pixel_stride,
            ofm_height=tile.rows,
            ofm_depth=channels,
            **fastest_layout(hardware, product(tile.rows, inner, channels)),
            **common,
        )

    codes = Rows(("in", 0), rows, inner), same_rows
    whole = [(Rows(("in", at), 1, input_type(call, at).size_bytes), one_row) for at in (2, 1)]
    return (
        Work(
            rows=rows,
            channels=units * size,
            channel_step=0 if keeps else channel_step(hardware) * size,
            inputs=(codes, *whole) if keeps else (codes,),
            outputs=(Rows(("out", 0), rows, units * size),),
            constants=no_constants if keeps else constants,
            constant_bytes=no_constant_bytes if keeps else constant_bytes,
            emit=emit,
            last_resort=0 if keeps else size,
            alike=alike(call, "gate sums", rows, inner, units, size, keeps),
        ),
    )


def _product_fields(call: Call, stage: OutputStage) -> dict[str, Any]:
    """Return the fields that the instructions of all tiles share."""
    inner, size = input_type(call, 1).shape[1], call.outputs[0].numpy_dtype.itemsize
    return {
        "low": stage.low,
        "high": stage.high,
        "weight_zero": call.parameters.weight_zero,
        "ofm_zero": call.parameters.zero,
        "wide": size.bit_length() - 1,
        "signed": int(input_type(call).dtype == "int8"),
        "weights_signed": int(input_type(call, 1).dtype == "int8"),
        "per_channel": int(stage.per_channel),
        "ifm_row_stride": inner,
        "ifm_pixel_stride": inner,
        "ifm_depth": inner,
        **ONE_COLUMN,
    }


def _stage(call: Call) -> OutputStage:
    """Return the output stage that a block of parameters describes."""
    codes = call.outputs[0].dtype == input_type(call).dtype
    block = call.constants[2]
    unknown = block is SIZE_ONLY
    units = input_type(call, 1).shape[0]
    numbers = parameters_of(np.zeros(9 * units, np.uint8) if unknown else np.asarray(block), units)
    low, high = (call.parameters.low, call.parameters.high) if codes else (0, 0)
    bias = None if unknown else numbers.bias
    return OutputStage(bias, (numbers.multiplier, numbers.shift), low, high, "double")


class StageParameters(NamedTuple):
    """Bias, multiplier and shift of each unit, as the output stage of the MAC array reads them."""

    bias: NDArray[np.int32]
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int8]


def parameters_of(block: Array, units: int) -> StageParameters:
    """Split a block of parameters into biases, multipliers and shifts."""
    words = block[: 8 * units].view("<i4")
    return StageParameters(words[:units], words[units:], block[8 * units :].view(np.int8))


def block_of(parameters: StageParameters) -> Array:
    """Join biases, multipliers and shifts to the block of bytes that the output stage reads."""
    raw = [
        parameters.bias.astype("<i4"),
        parameters.multiplier.astype("<i4"),
        parameters.shift.astype(np.int8),
    ]
    return np.concatenate([np.ascontiguousarray(array).view(np.uint8) for array in raw])


def lower_lstm_step(call: Call, hardware: Hardware) -> Parts:
    """Lower a step of all cells to one instruction.

    If the steps of each batch entry are contiguous, each entry gets an instruction of its own.
    """
    batch, cells = call.outputs[0].shape
    chosen, added = call.parameters, call.inputs[1] is not None
    gates = 3 if chosen.coupled else 4
    words = gates * cells * WORD_BYTES
    rows, entries, distance = batch, 1, 0
    if chosen.steps > 1 and not chosen.time_major and batch > 1:
        rows, entries, distance = 1, batch, chosen.steps * words
    begin = chosen.step * words * (batch if entries == 1 else 1)
    multiplier, shift = chosen.output_rescale
    common = {
        "sums_stride": words,
        "added": int(added),
        "cells": cells,
        "coupled": int(chosen.coupled),
        "arithmetic": int(chosen.halves_up),
        "state_integer_bits": chosen.state_integer_bits,
        "limit": chosen.limit,
        "multiplier": multiplier,
        "shift": shift,
        "zero": chosen.zero,
        "signed": int(call.outputs[0].dtype == "int8"),
    }

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        sums, *addends, state = at.inputs
        return LstmCell(
            sums=sums,
            addends=addends[0] if addends else 0,
            state=state,
            output=at.outputs[0].address,
            next_state=at.outputs[1].address,
            rows=tile.rows,
            **common,
        )

    def of(side: str, position: int, row_bytes: int) -> Rows:
        return Rows((side, position), rows, row_bytes, 0, rows * row_bytes)

    reads = [Rows(("in", 0), rows, words, begin, distance)]
    if added:
        reads.append(of("in", 1, gates * cells * ADDEND_BYTES))
    reads.append(of("in", 2, cells * WORD_BYTES))
    return (
        Work(
            rows=rows,
            channels=cells,
            channel_step=0,
            inputs=tuple([(read, same_rows) for read in reads]),
            outputs=(of("out", 0, cells), of("out", 1, cells * WORD_BYTES)),
            constants=no_constants,
            constant_bytes=no_constant_bytes,
            emit=emit,
            entries=entries,
        ),
    )
