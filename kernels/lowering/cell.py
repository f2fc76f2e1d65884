"""How the parts of an integer LSTM cell become instructions: matrix products with sums of 16 bits, and the step."""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import SIZE_ONLY
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.cell import ADDEND_BYTES, WORD_BYTES, LstmCell
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.kernels.lowering.blocks import blocks
from npusim.kernels.lowering.mac import ONE_COLUMN, alike, channel_step, fastest_layout, output_major, product
from npusim.kernels.lowering.stage import OutputStage
from npusim.kernels.lowering.work import (
    Constants,
    Parts,
    Rows,
    Tile,
    TileAddresses,
    Work,
    no_constant_bytes,
    no_constants,
    same_rows,
)
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call


def lower_gate_sums(call: Call, hardware: Hardware) -> Parts:
    """A matrix product; to the scheduler a channel is a byte of a result, and results are not cut through."""
    units, inner = input_type(call, 1).shape
    rows = input_type(call).elements // inner
    chosen, size = call.parameters, call.outputs[0].numpy_dtype.itemsize
    wide = size.bit_length() - 1
    per_unit = np.repeat(np.array(chosen.rescales), units // len(chosen.rescales), axis=0)
    bias = call.constants[2]
    stage = OutputStage(
        None if bias is SIZE_ONLY else np.asarray(bias),
        per_unit[:, 0].astype(np.int32),
        per_unit[:, 1].astype(np.int8),
        0 if wide else chosen.low,
        0 if wide else chosen.high,
        "double",
    )
    needs = blocks(call, stage, output_major(inner), zero_point=chosen.weight_zero)
    common: dict[str, Any] = {
        "low": stage.low,
        "high": stage.high,
        "weight_zero": chosen.weight_zero,
        "ofm_zero": chosen.zero,
        "wide": wide,
        "signed": int(input_type(call).dtype == "int8"),
        "weights_signed": int(input_type(call, 1).dtype == "int8"),
        "per_channel": int(stage.per_channel),
        "ifm_row_stride": inner,
        "ifm_pixel_stride": inner,
        "ifm_depth": inner,
        **ONE_COLUMN,
    }

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
            parameters=at.constants,
            weights=at.constants + weights,
            ofm=ofm_address,
            ofm_row_stride=ofm_row_stride,
            ofm_pixel_stride=ofm_pixel_stride,
            ofm_height=tile.rows,
            ofm_depth=channels,
            **fastest_layout(hardware, product(tile.rows, inner, channels)),
            **common,
        )

    return (
        Work(
            rows=rows,
            channels=units * size,
            channel_step=channel_step(hardware) * size,
            inputs=((Rows(("in", 0), rows, inner), same_rows),),
            outputs=(Rows(("out", 0), rows, units * size),),
            constants=constants,
            constant_bytes=constant_bytes,
            emit=emit,
            last_resort=size,
            alike=alike(call, hardware, "gate sums", rows, inner, units, size),
        ),
    )


def lower_lstm_step(call: Call, hardware: Hardware) -> Parts:
    """The step of all cells as one instruction, or of those of each entry of a batch whose steps lie one behind the
    other.
    """
    batch, cells = call.outputs[0].shape
    chosen, added = call.parameters, call.inputs[1] is not None
    gates = 3 if chosen.coupled else 4
    words = gates * cells * WORD_BYTES
    rows, entries, distance = batch, 1, 0
    if chosen.steps > 1 and not chosen.time_major and batch > 1:
        rows, entries, distance = 1, batch, chosen.steps * words
    begin = chosen.step * words * (batch if entries == 1 else 1)
    multiplier, shift = chosen.rescale
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
            inputs=tuple([(each, same_rows) for each in reads]),
            outputs=(of("out", 0, cells), of("out", 1, cells * WORD_BYTES)),
            constants=no_constants,
            constant_bytes=no_constant_bytes,
            emit=emit,
            entries=entries,
        ),
    )
