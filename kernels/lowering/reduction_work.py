"""Lower reductions along axes to instructions of the vector unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import prod
from typing import Any, NamedTuple

from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.reduction import FUNCTIONS, LARGEST_EXACT, Reduce
from npusim.kernels.lowering.float_lanes import lower_float_reduction, on_float_lanes
from npusim.kernels.lowering.quantized_in_float32 import AS_FLOAT32, float32_rescale, on_codes, scaling
from npusim.kernels.lowering.vector_work import rescaled, signed
from npusim.kernels.lowering.work import (
    Parts,
    Rows,
    Tile,
    TileAddresses,
    Work,
    no_constant_bytes,
    no_constants,
    same_rows,
)
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Along, Reduction, axis_of, combined
from npusim.kernels.operator.fused import mean_factor
from npusim.kernels.operator.operands import code_range, input_type
from npusim.kernels.operator.operator import ROOM, Call, Lowering, Need, Rule, need
from npusim.kernels.operator.rescale import Multiplier


class Nest(NamedTuple):
    """A tensor as [outer, parts, middle, terms, inner], of which parts and terms are combined."""

    outer: int
    parts: int
    middle: int
    terms: int
    inner: int


def nest(shape: Sequence[int], axes: Sequence[int]) -> Nest | None:
    """Return a tensor whose combined dimensions form at most two groups of neighbours; None for more groups."""
    sizes = [(axis in axes, size) for axis, size in enumerate(shape) if size != 1]
    runs = [(gone, prod(size for _, size in run)) for gone, run in groupby(sizes, lambda pair: pair[0])]
    if not runs or runs[0][0]:
        runs.insert(0, (False, 1))
    if runs[-1][0]:
        runs.append((False, 1))
    numbers = [size for _, size in runs]
    if len(numbers) == 1:
        return Nest(numbers[0], 1, 1, 1, 1)
    if len(numbers) == 3:
        return Nest(numbers[0], 1, 1, *numbers[1:])
    return Nest(*numbers) if len(numbers) == 5 else None


def _codes(tensor: TensorType | None) -> bool:
    return tensor is not None and (tensor.quantized8 or tensor.dtype == "bool")


def codes_or_truths(call: Call) -> bool:
    """on the NPU the input is int8 or uint8 with one scale and zero point, or bool"""
    return _codes(call.inputs[0])


def something(call: Call) -> bool:
    """on the NPU there is at least one element"""
    return input_type(call).elements > 0


def few_places(call: Call[Reduction]) -> bool:
    """on the NPU the axes form at most two groups of adjacent axes, not counting dimensions of size 1"""
    return nest(input_type(call).shape, call.parameters.axes) is not None


def _at_once(
    axes: Callable[[Call], Sequence[int]],
    result_bytes: Callable[[Call], int],
    element_bytes: Callable[[Call], int] = lambda call: 1,
) -> Need:
    """Return the need that the smallest tile fits: one outer index, and one inner index if it can be cut there."""

    @need(ROOM)
    def fits(call: Call, hardware: Hardware) -> bool:
        """room in half of the scratchpad for the elements of the smallest possible tile"""
        loops = nest(input_type(call).shape, axes(call))
        if loops is None:
            return False
        _, parts, middle, terms, inner = loops
        width = result_bytes(call)
        side_by_side = 1 if parts == width == 1 else middle * inner
        size = side_by_side * (parts * terms + width) * element_bytes(call)
        return size <= hardware.scratchpad_bytes // 2

    return fits


def _axes(call: Call[Reduction]) -> Sequence[int]:
    return call.parameters.axes


def _axis(call: Call[Along]) -> Sequence[int]:
    return (axis_of(call),)


def _position_bytes(call: Call) -> int:
    return call.outputs[0].numpy_dtype.itemsize


_codes_at_once = _at_once(_axes, lambda call: 1)
_floats_at_once = _at_once(_axes, lambda call: 1, lambda call: input_type(call).numpy_dtype.itemsize)
_positions_at_once = _at_once(_axis, _position_bytes)


def selection_lowering(function: str, *more: Rule) -> Lowering:
    """Return the lowering of the largest ("max") or smallest ("min") element over axes."""

    def lower(call: Call, hardware: Hardware) -> Parts:
        low, high = code_range(call.outputs[0].dtype)
        fields = {"low": low, "high": high, "signed": signed(call.outputs[0].dtype)}
        return _lower(call, function, _axes(call), fields)

    return Lowering("vector", (codes_or_truths, something, few_places, *more), lower, (_codes_at_once,))


def sum_lowering(multiplier: Callable[[Call], Multiplier]) -> Lowering:
    """Return the lowering of a sum of quantized values over axes that is requantized."""

    def lower(call: Call, hardware: Hardware) -> Parts:
        ifm, ofm = input_type(call), call.outputs[0]
        return _lower(call, "sum", _axes(call), rescaled(ifm, ofm, multiplier(call)))

    return Lowering("vector", (rules.eight_bit, something, few_places), lower, (_codes_at_once,))


def position_lowering(function: str) -> Lowering:
    """Return the lowering of the position of the largest or smallest element ("arg_max" or "arg_min")."""

    def lower(call: Call, hardware: Hardware) -> Parts:
        width = _position_bytes(call)
        low, high = (-128, 127) if signed(input_type(call).dtype) else (0, 255)
        fields = {"wide": int(width == 8), "low": low, "high": high, "signed": signed(input_type(call).dtype)}
        return _lower(call, function, _axis(call), fields, width)

    return Lowering("vector", (codes_or_truths, something), lower, (_positions_at_once,))


def _lower(
    call: Call, function: str, axes: Sequence[int], fields: dict[str, Any], result_bytes: int = 1
) -> Parts:
    number = FUNCTIONS.index(function)
    return _parts(call, axes, lambda tile: Reduce(function=number, **tile, **fields), result_bytes)


def _parts(
    call: Call, axes: Sequence[int], make: Callable[[dict[str, Any]], Instruction], result_bytes: int = 1
) -> Parts:
    """Cut a reduction into tiles of outer indices; `make` gives the instruction for the sizes of a tile.

    If no outer index fits, and each is one part of single bytes, tiles also cut the inner indices.
    """
    loops = nest(input_type(call).shape, axes)
    if loops is None:
        raise ValueError("the axes form too many groups; the operator's rules should refuse")
    outer, parts, middle, terms, inner = loops
    sliced = parts == 1 and result_bytes == 1

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return make(
            {
                "input": at.inputs[0],
                "output": at.output,
                "outer": tile.rows,
                "parts": parts,
                "middle": middle,
                "count": terms,
                "inner": tile.channels if sliced else inner,
            }
        )

    width = middle * inner * result_bytes
    source = Rows(("in", 0), outer, parts * middle * terms * inner)
    work = Work(
        rows=outer,
        channels=width,
        channel_step=0,
        inputs=((source, same_rows),),
        outputs=(Rows(("out", 0), outer, width),),
        constants=no_constants,
        constant_bytes=no_constant_bytes,
        emit=emit,
        last_resort=int(sliced),
        sliced=sliced,
    )
    return (work,)


def float_sum_lowering(function: str) -> Lowering:
    """Return the lowering of a "mean", "sum" or "fused_mean" of quantized values that is computed in float32."""
    number = FUNCTIONS.index(function)

    def lower(call: Call, hardware: Hardware) -> Parts:
        ifm, ofm = input_type(call), call.outputs[0]
        factor = float(mean_factor(call)) if function == "fused_mean" else None
        low, high = code_range(ofm.dtype)
        fields = {**scaling("input", ifm), **scaling("output", ofm, factor), "low": low, "high": high}
        fields["format"] = AS_FLOAT32
        return _parts(call, _axes(call), lambda tile: Reduce(function=number, **tile, **fields))

    rows = (on_codes, something, few_places, _few_terms)
    return Lowering("vector", rows, lower, (float32_rescale, _codes_at_once))


def _few_terms(call: Call[Reduction]) -> bool:
    """on the NPU fewer than 2**21 elements are added up"""
    return combined(call) < LARGEST_EXACT


def float_reduction_lowering(function: str) -> Lowering:
    """Return the lowering of a reduction of floats over neighbouring axes: "sum", "mean", "max", "min" or "prod"."""

    def lower(call: Call[Reduction]) -> Parts:
        sizes = nest(input_type(call).shape, call.parameters.axes)
        if sizes is None:
            raise ValueError("the axes form too many groups; the operator's rules should refuse")
        return lower_float_reduction(call, function, (sizes.outer, sizes.terms, sizes.inner))

    return on_float_lanes(lower, something, _one_place, needs=(_floats_at_once,))


def _one_place(call: Call[Reduction]) -> bool:
    """on float units the axes are adjacent, not counting dimensions of size 1"""
    sizes = nest(input_type(call).shape, call.parameters.axes)
    return sizes is not None and sizes.parts == 1
