"""Lower adaptive pools: windows differ in size, so a tile gets one instruction for each run of equal windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from npusim.isa.arithmetic.real import ACTIVATIONS
from npusim.isa.base.tensor import IntArray
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.lanes import format_of
from npusim.isa.instructions.windows import FUNCTIONS as POOLS
from npusim.isa.instructions.windows import Pool
from npusim.kernels.lowering.vector_work import signed
from npusim.kernels.lowering.work import (
    Parts,
    Rows,
    Tile,
    TileAddresses,
    Work,
    no_constant_bytes,
    no_constants,
)
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import act_range


class Run(NamedTuple):
    """Windows of one size at even distances along an axis: the first, how many, its begin, its size, and their
    distance.
    """

    output: int
    outputs: int
    first: int
    length: int
    step: int

    def within(self, begin: int, end: int) -> Run | None:
        """Return the windows of this run that lie in [begin, end)."""
        output, last = max(self.output, begin), min(self.output + self.outputs, end)
        if output >= last:
            return None
        return Run(
            output, last - output, self.first + (output - self.output) * self.step, self.length, self.step
        )


Runs = tuple[Run, ...]


def runs(first: IntArray, lengths: IntArray) -> Runs:
    """Return the windows along an axis as few runs, from where each window begins and how many elements it has."""
    joined: list[Run] = []
    for output, (begin, length) in enumerate(zip(first.tolist(), lengths.tolist(), strict=True)):
        run = joined[-1] if joined else None
        step = begin - (run.first + (run.outputs - 1) * run.step) if run else 0
        if run and run.length == length and step > 0 and (run.outputs == 1 or step == run.step):
            joined[-1] = run._replace(outputs=run.outputs + 1, step=step)
        else:
            joined.append(Run(output, 1, begin, length, 1))
    return tuple(joined)


def lower_adaptive_pool(call: Call, maximum: bool, rows: Runs, columns: Runs) -> Parts:
    """Lower an adaptive average or maximum of quantized values."""
    low, high = act_range(call.parameters.activation, call.outputs[0])
    fields: dict[str, Any] = {
        "function": POOLS.index("maximum" if maximum else "average"),
        "low": low,
        "high": high,
        "signed": signed(call.outputs[0].dtype),
    }
    return _parts(call, rows, columns, lambda windows: Pool(**fields, **windows))


def lower_float_adaptive_pool(call: Call, name: str, rows: Runs, columns: Runs) -> Parts:
    """Lower an adaptive pool of float values ("average" or "maximum")."""
    fields: dict[str, Any] = {
        "format": format_of(input_type(call).dtype),
        "function": POOLS.index(name),
        "activation": ACTIVATIONS.index(call.parameters.activation),
    }
    return _parts(call, rows, columns, lambda windows: Pool(**fields, **windows))


def _parts(call: Call, rows: Runs, columns: Runs, make: Callable[[dict[str, Any]], Instruction]) -> Parts:
    """Cut a pool into tiles of rows, image by image; a tile gets an instruction per run of rows and of columns."""
    size = input_type(call).numpy_dtype.itemsize
    images, ifm_height, ifm_width, depth = input_type(call).shape
    _, ofm_height, ofm_width, _ = call.outputs[0].shape
    pixel = depth * size
    ifm_row, ofm_row = ifm_width * pixel, ofm_width * pixel

    def needed(first: int, last: int) -> tuple[int, int]:
        parts = [part for run in rows if (part := run.within(first, last))]
        begins = [part.first for part in parts]
        ends = [part.first + (part.outputs - 1) * part.step + part.length for part in parts]
        return min(begins), max(ends)

    def emit(tile: Tile, at: TileAddresses) -> tuple[Instruction, ...]:
        begin, _ = needed(tile.first_row, tile.last_row)
        down = [part for run in rows if (part := run.within(tile.first_row, tile.last_row))]
        return tuple(
            make(
                {
                    "ifm": at.inputs[0] + (y.first - begin) * ifm_row + x.first * pixel,
                    "ofm": at.output + (y.output - tile.first_row) * ofm_row + x.output * pixel,
                    "ifm_row_stride": ifm_row,
                    "ofm_row_stride": ofm_row,
                    "depth": depth,
                    **_windows("height", y),
                    **_windows("width", x),
                    "pad_top": 0,
                    "pad_left": 0,
                }
            )
            for y in down
            for x in columns
        )

    ifm = Rows(("in", 0), ifm_height, ifm_row, 0, ifm_height * ifm_row)
    ofm = Rows(("out", 0), ofm_height, ofm_row, 0, ofm_height * ofm_row)
    work = Work(ofm_height, pixel, 0, ((ifm, needed),), (ofm,), no_constants, no_constant_bytes, emit)
    return (replace(work, entries=images),)


def _windows(side: str, run: Run) -> dict[str, int]:
    return {
        f"ifm_{side}": (run.outputs - 1) * run.step + run.length,
        f"ofm_{side}": run.outputs,
        f"kernel_{side}": run.length,
        f"stride_{side}": run.step,
    }
