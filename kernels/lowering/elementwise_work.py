"""Lower operators of two and three operands to the vector unit, on grids of rows and columns that operands walk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.elementwise import NAMES, SCALES, Binary
from npusim.isa.instructions.grid import CHOICES, Select
from npusim.isa.instructions.instruction import Instruction
from npusim.kernels.lowering.vector_work import dense_row_bytes, int16_passes, result_fields, signed
from npusim.kernels.lowering.work import (
    Parts,
    Rows,
    RowsNeeded,
    Tile,
    TileAddresses,
    Work,
    no_constant_bytes,
    no_constants,
    one_row,
    same_rows,
)
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import code_range, input_type, quantization
from npusim.kernels.operator.operator import Call, Lowering, Part
from npusim.kernels.operator.parameters import Activation
from npusim.kernels.operator.rescale import (
    AddMultipliers,
    Multiplier,
    act_range,
    mul_multiplier,
    quantize_multiplier_of,
    sum_left_shift,
    sum_multipliers,
)

MOST_PARTS = 64
"""Works into which operands that repeat in no regular pattern may be cut; the search for tiles is done for each."""

_LARGEST_ROW = 1 << 16
"""Most bytes of a row that is not cut where an operand repeats: a tile has at least a row, and attention masks have
megabytes for each head."""


class _Walk(NamedTuple):
    """An operand's strides in bytes from row to row, from column to column, and from batch entry to entry."""

    row: int
    column: int
    entry: int = 0


class Grid(NamedTuple):
    """A part of an operator's work as a three-dimensional array of the output: batch entries, rows, columns (`_grids`).

    walks:  the strides of each operand along these three.
    starts: the byte of each operand at which its part begins; output_start: that of the output.
    """

    entries: int
    rows: int
    columns: int
    walks: tuple[_Walk, ...]
    starts: tuple[int, ...]
    output_start: int


class _Run(NamedTuple):
    """Neighbouring axes of the output along which each operand either has all elements or repeats one."""

    size: int
    whole: tuple[bool, ...]


def _grids(call: Call, of_bytes: bool = True) -> list[Grid] | None:
    """Return grids of bytes, or of elements, that together cover the output; None if there would be too many."""
    runs = _runs(call, of_bytes)
    if len(runs) == 1:
        columns = dense_row_bytes(runs[0].size)
        walks = tuple(_Walk(columns, 1) if whole else _Walk(0, 0) for whole in runs[0].whole)
        return [Grid(1, runs[0].size // columns, columns, walks, (0,) * len(walks), 0)]
    runs = _without_large_rows(call, runs, of_bytes)
    inner = runs[-3:]
    outer = runs[: len(runs) - len(inner)]
    if prod(run.size for run in outer) > MOST_PARTS:
        return None
    while len(inner) < 3:
        inner = [_Run(1, inner[0].whole), *inner]
    entries, rows, columns = (run.size for run in inner)
    walks = tuple(_walk(inner, position) for position in range(len(inner[0].whole)))
    output = entries * rows * columns
    return [
        Grid(entries, rows, columns, walks, tuple(starts), place * output)
        for place, starts in enumerate(_starts(outer, [_covered(inner, k) for k in range(len(walks))]))
    ]


def _without_large_rows(call: Call, runs: list[_Run], of_bytes: bool) -> list[_Run]:
    """Return two runs as three if rows would be large: an operand then repeats for entries of many rows."""
    output = call.outputs[0]
    width = output.shape[-1] * (output.numpy_dtype.itemsize if of_bytes else 1)
    first, last = runs[0], runs[-1]
    if len(runs) > 2 or last.size <= _LARGEST_ROW or all(first.whole) or not all(last.whole):
        return runs
    return [first, _Run(last.size // width, last.whole), _Run(width, last.whole)]


def _runs(call: Call, of_bytes: bool) -> list[_Run]:
    """Return the axes of the output as the fewest possible runs, at least one.

    of_bytes: whether the bytes of an element count as a last axis.
    """
    output = call.outputs[0]
    operands = [input_type(call, position) for position in range(len(call.inputs))]
    rank = len(output.shape)
    shapes = [(1,) * (rank - len(operand.shape)) + operand.shape for operand in operands]
    whole = [tuple(shape[axis] == size for shape in shapes) for axis, size in enumerate(output.shape)]
    axes = [_Run(size, flags) for size, flags in zip(output.shape, whole, strict=True) if size > 1]
    if of_bytes and output.numpy_dtype.itemsize > 1:
        axes.append(
            _Run(output.numpy_dtype.itemsize, tuple(operand.numpy_dtype.itemsize > 1 for operand in operands))
        )
    runs: list[_Run] = []
    for axis in axes:
        if runs and runs[-1].whole == axis.whole:
            runs[-1] = _Run(runs[-1].size * axis.size, axis.whole)
        else:
            runs.append(axis)
    return runs or [_Run(1, (True,) * len(operands))]


def _covered(runs: Sequence[_Run], position: int) -> int:
    """Return the bytes of an operand that runs span."""
    return prod(run.size for run in runs if run.whole[position])


def _walk(runs: Sequence[_Run], position: int) -> _Walk:
    """Return an operand's strides along entries, rows and columns."""
    entries, rows, columns = runs
    width, height = _covered([columns], position), _covered([rows, columns], position)
    return _Walk(
        width if rows.whole[position] and rows.size > 1 else 0,
        int(width > 1),
        height if entries.whole[position] and entries.size > 1 else 0,
    )


def _starts(outer: Sequence[_Run], below: Sequence[int]) -> list[list[int]]:
    """Return where each operand begins, for every position along the outer runs in order."""
    strides: list[list[int]] = []
    reached = list(below)
    for run in reversed(outer):
        strides.insert(0, [size if whole else 0 for size, whole in zip(reached, run.whole, strict=True)])
        reached = [size * run.size if whole else size for size, whole in zip(reached, run.whole, strict=True)]
    return [
        [
            sum(at * stride[position] for at, stride in zip(place, strides, strict=True))
            for position in range(len(below))
        ]
        for place in product(*(range(run.size) for run in outer))
    ]


def broadcast_on_npu(call: Call) -> bool:
    """on the NPU operands broadcast along few enough axes"""
    return not call.outputs[0].elements or _grids(call) is not None


Make = Callable[[Tile, TileAddresses, Grid], Instruction]


def works(call: Call, make: Make) -> Parts:
    """Lower a function of operands that broadcast. An operand that repeats its rows is needed whole by every tile."""
    grids = _grids(call)
    if grids is None:
        raise ValueError("operands broadcast along too many axes; the operator's rules should refuse")
    return tuple(_work(grid, make) for grid in grids)


def works_of_elements(call: Call, make: Make) -> Parts:
    """Lower as `works` does, but pass grids to `make` that count elements of several bytes instead of bytes."""
    grids = _grids(call, of_bytes=False)
    if grids is None:
        raise ValueError("operands broadcast along too many axes; the operator's rules should refuse")
    return tuple(
        _work(grid, make, [tensor.numpy_dtype.itemsize for tensor in _operands(call)]) for grid in grids
    )


def elements_on_npu(call: Call) -> bool:
    """on the NPU operands broadcast along few enough axes"""
    return not call.outputs[0].elements or _grids(call, of_bytes=False) is not None


def _operands(call: Call) -> list[TensorType]:
    """Return the inputs, then the output."""
    return [*(input_type(call, position) for position in range(len(call.inputs))), call.outputs[0]]


def _work(grid: Grid, make: Make, sizes: Sequence[int] = ()) -> Work:
    """Return the work of a grid; `sizes` are the bytes of an element of each input and of the output, by default 1."""
    sizes = sizes or (1,) * (len(grid.walks) + 1)

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return make(tile, at, grid)

    step = grid.rows * grid.columns if grid.entries > 1 else 0
    whole = (grid.columns, 1)
    alone = grid.entries == 1 and not grid.output_start
    output = Rows(("out", 0), grid.rows, grid.columns, grid.output_start, step)
    return Work(
        rows=grid.rows,
        channels=grid.columns * sizes[-1],
        channel_step=0,
        inputs=tuple(_operand_rows(position, grid, sizes[position]) for position in range(len(grid.walks))),
        outputs=(_widened(output, sizes[-1]),),
        constants=no_constants,
        constant_bytes=no_constant_bytes,
        emit=emit,
        overwrites=tuple(
            k
            for k, walk in enumerate(grid.walks)
            if alone and (walk.row, walk.column) == whole and sizes[k] == sizes[-1]
        ),
        entries=grid.entries,
    )


def _widened(rows: Rows, size: int) -> Rows:
    """Return the rows of elements as rows of bytes."""
    if size == 1:
        return rows
    width, start, entry = (number * size for number in (rows.row_bytes, rows.offset_bytes, rows.entry_bytes))
    return replace(rows, row_bytes=width, offset_bytes=start, entry_bytes=entry)


def _operand_rows(position: int, grid: Grid, size: int) -> tuple[Rows, RowsNeeded]:
    """Return the rows of an operand: its own for each output row, or one that all share."""
    walk, start = grid.walks[position], grid.starts[position]
    width = grid.columns if walk.column else 1
    count, needed = (grid.rows, same_rows) if walk.row else (1, one_row)
    return _widened(Rows(("in", position), count, width, start, walk.entry), size), needed


def strides(grid: Grid, *names: str) -> dict[str, Any]:
    """Return the stride fields of named operands."""
    rows = {f"{name}_row_stride": walk.row for name, walk in zip(names, grid.walks, strict=True)}
    return rows | {f"{name}_column_stride": walk.column for name, walk in zip(names, grid.walks, strict=True)}


def lower_binary(call: Call, function: str, activation: Activation, fields: dict[str, Any]) -> Parts:
    """Lower an elementwise function of two quantized operands."""
    number, output = NAMES.index(function), call.outputs[0]
    low, high = act_range(activation, output) if output.quantized else (0, 255)
    results = result_fields(low, high, output.dtype)
    size = output.numpy_dtype.itemsize if output.dtype == "int16" else 1

    def make(tile: Tile, at: TileAddresses, grid: Grid) -> Instruction:
        return Binary(
            function=number,
            a=at.inputs[0],
            b=at.inputs[1],
            output=at.output,
            rows=tile.rows,
            columns=grid.columns,
            **results,
            **{
                name: step * size if "row" in name else step for name, step in strides(grid, "a", "b").items()
            },
            **fields,
        )

    return works(call, make) if size == 1 else works_of_elements(call, make)


def int16_lowering(lower: Callable[[Call, Hardware], Sequence[Part]]) -> Lowering:
    """Return the way in which the vector unit computes an elementwise function of int16 operands."""
    return Lowering("vector", (rules.all_int16, elements_on_npu), lower, (int16_passes,))


def _zeros(call: Call) -> dict[str, Any]:
    return {
        "a_zero": quantization(input_type(call)).zero_point,
        "b_zero": quantization(input_type(call, 1)).zero_point,
        "output_zero": quantization(call.outputs[0]).zero_point,
    }


def _rescale(name: str, multiplier: Multiplier) -> dict[str, Any]:
    """Return multiplier and shift as fields of an instruction."""
    return {f"{name}_multiplier": multiplier[0], f"{name}_shift": multiplier[1]}


def lower_sum(call: Call, function: str) -> Parts:
    """Lower a quantized sum or difference (`function`: "add" or "sub")."""
    shift = sum_left_shift(call)
    return lower_on_common_scale(call, function, sum_multipliers(call), shift, call.parameters.activation)


def lower_on_common_scale(
    call: Call, function: str, multipliers: AddMultipliers, left_shift: int, activation: Activation = "none"
) -> Parts:
    """Lower a function of two operands that are requantized to a common scale before it."""
    fields = {
        **_zeros(call),
        **_rescale("a", multipliers.first),
        **_rescale("b", multipliers.second),
        **_rescale("output", multipliers.output),
        "left_shift": left_shift,
    }
    return lower_binary(call, function, activation, fields)


def lower_mul(call: Call, hardware: Hardware) -> Parts:
    """Lower a quantized product."""
    multiplier = mul_multiplier(input_type(call), input_type(call, 1), call.outputs[0])
    fields = {**_zeros(call), **_rescale("output", multiplier)}
    return lower_binary(call, "mul", call.parameters.activation, fields)


def lower_quotient(call: Call, multiplier: Multiplier) -> Parts:
    """Lower a quantized quotient."""
    return lower_binary(
        call, "div", call.parameters.activation, {**_zeros(call), **_rescale("output", multiplier)}
    )


def lower_prelu(call: Call, above: Multiplier, below: Multiplier) -> Parts:
    """Lower prelu: values below the zero point are multiplied by alpha."""
    fields = {**_zeros(call), **_rescale("a", above), **_rescale("output", below)}
    return lower_binary(call, "prelu", "none", fields)


def lower_selection(call: Call, name: str, keeps_codes: bool = True) -> Parts:
    """Lower "maximum" or "minimum" of quantized values, requantized to the output's scale if they have another."""
    if keeps_codes:
        return lower_binary(call, name[:3], "none", {})
    fields = {
        **_zeros(call),
        **_rescale("a", quantize_multiplier_of(input_type(call), call.outputs[0])),
        **_rescale("b", quantize_multiplier_of(input_type(call, 1), call.outputs[0])),
    }
    return lower_binary(call, f"rescaled_{name[:3]}", "none", fields)


def lower_truths(call: Call, function: str) -> Parts:
    """Lower logical or ("max") and logical and ("min") of booleans, which are bytes of 0 or 1."""
    return lower_binary(call, function, "none", {})


def lower_comparison(call: Call, relation: str, scale: str, fields: dict[str, Any]) -> Parts:
    """Lower a comparison with a boolean for each pair of elements; `scale` and `fields` say how values compare."""
    number, scale_code = NAMES.index(relation), SCALES.index(scale)

    def make(tile: Tile, at: TileAddresses, grid: Grid) -> Instruction:
        return Binary(
            function=number,
            scale=scale_code,
            a=at.inputs[0],
            b=at.inputs[1],
            output=at.output,
            rows=tile.rows,
            columns=grid.columns,
            signed=signed(input_type(call).dtype),
            **strides(grid, "a", "b"),
            **fields,
        )

    return works(call, make)


def lower_choice(call: Call, keeps_codes: bool) -> Parts:
    """Lower the choice of one of two elements of any size by a condition; values are requantized if they need it."""
    fields: dict[str, Any] = {}
    if not keeps_codes:
        output = call.outputs[0]
        low, high = code_range(output.dtype)
        fields = {
            "function": CHOICES.index("rescaled"),
            "a_zero": quantization(input_type(call, 1)).zero_point,
            "b_zero": quantization(input_type(call, 2)).zero_point,
            "output_zero": quantization(output).zero_point,
            **_rescale("a", quantize_multiplier_of(input_type(call, 1), output)),
            **_rescale("b", quantize_multiplier_of(input_type(call, 2), output)),
            "low": low,
            "high": high,
            "signed": signed(output.dtype),
        }

    def make(tile: Tile, at: TileAddresses, grid: Grid) -> Instruction:
        return Select(
            condition=at.inputs[0],
            a=at.inputs[1],
            b=at.inputs[2],
            output=at.output,
            rows=tile.rows,
            columns=grid.columns,
            **strides(grid, "condition", "a", "b"),
            **fields,
        )

    return works(call, make)
