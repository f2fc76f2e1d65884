"""Lower operators on float values to the float lanes of the vector unit.

Work counts rows and channels in bytes; an instruction has a field for the element type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npusim.isa.arithmetic.real import ACTIVATIONS
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.elementwise import NAMES, Binary
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.lanes import FLOAT_TYPES, bits_of, float_lanes, format_of
from npusim.isa.instructions.reduction import FUNCTIONS as REDUCTIONS
from npusim.isa.instructions.rows import Softmax
from npusim.isa.instructions.vector import TYPES, Convert, Unary
from npusim.isa.instructions.windows import FUNCTIONS as POOLS
from npusim.isa.instructions.windows import Pool
from npusim.kernels.lowering.elementwise_work import Grid, elements_on_npu, strides, works_of_elements
from npusim.kernels.lowering.vector_work import lower_dense, middle_reduced, pool_parts
from npusim.kernels.lowering.work import (
    Parts,
    Rows,
    Tile,
    TileAddresses,
    Work,
    deferred,
    no_constant_bytes,
    no_constants,
    same_rows,
)
from npusim.kernels.operator.axes import Along, axis_of
from npusim.kernels.operator.operands import input_type, quantization
from npusim.kernels.operator.operator import Call, Lowering, Need, Rule, need
from npusim.kernels.operator.parameters import Activation
from npusim.kernels.operator.rescale import activation_of


def floats(call: Call) -> bool:
    """on float units all operands are float16, or all are float32"""
    kinds = {tensor.dtype for tensor in (*call.inputs, *call.outputs) if tensor is not None}
    return len(kinds) == 1 and kinds <= set(FLOAT_TYPES)


def float_inputs(call: Call) -> bool:
    """on float units all inputs are float16, or all are float32"""
    kinds = {tensor.dtype for tensor in call.inputs if tensor is not None}
    return len(kinds) == 1 and kinds <= set(FLOAT_TYPES)


@need("vector.{dtype}_lanes")
def lanes(call: Call, hardware: Hardware) -> bool:
    """float lanes (vector.float16_lanes, vector.float32_lanes)"""
    return float_lanes(hardware, input_type(call).dtype) > 0


def on_float_lanes(
    lower: Callable[[Call], Parts], *rules: Rule, kind: Rule = floats, needs: tuple[Need, ...] = ()
) -> Lowering:
    """Return the lowering of an operator to the float lanes; `kind` is the rule for the element types."""
    return Lowering("vector", (kind, *rules), lambda call, hardware: lower(call), (lanes, *needs))


@need("mac_array.{dtype}_columns")
def columns(call: Call, hardware: Hardware) -> bool:
    """float columns (mac_array.float16_columns, mac_array.float32_columns)"""
    from npusim.isa.instructions.real_mac import float_columns

    return float_columns(hardware.mac_array, input_type(call).dtype) > 0


def constant_operands(call: Call) -> bool:
    """in the float mode weights and bias are constants"""
    return all(
        call.inputs[position] is None or position in call.constants for position in range(1, len(call.inputs))
    )


def on_float_columns(name: str, *rules: Rule) -> Lowering:
    """Return the lowering of an operator to the float mode of the MAC array by a function of `float_columns`."""
    return Lowering("mac", (floats, constant_operands, *rules), deferred("float_columns", name), (columns,))


def _format(call: Call) -> int:
    return format_of(input_type(call).dtype)


def lower_float_unary(call: Call, name: str, alpha: float = 0.0) -> Parts:
    """Lower a function of every element, by its name."""
    number = Unary.names.index(name)

    def make(source: int, target: int, constants: int, elements: int) -> Instruction:
        return Unary(
            format=_format(call),
            function=number,
            input=source,
            output=target,
            size=elements,
            alpha=bits_of(alpha),
        )

    return lower_dense(call, make)


def lower_float_binary(call: Call, name: str, activation: Activation = "none") -> Parts:
    """Lower a function of two operands that broadcast, by its name."""
    number = NAMES.index(name)
    size = input_type(call).numpy_dtype.itemsize

    def make(tile: Tile, at: TileAddresses, grid: Grid) -> Instruction:
        walks = strides(grid, "a", "b")
        return Binary(
            format=_format(call),
            function=number,
            a=at.inputs[0],
            b=at.inputs[1],
            output=at.output,
            rows=tile.rows,
            columns=grid.columns,
            activation=ACTIVATIONS.index(activation),
            **{name: stride * size if "row" in name else stride for name, stride in walks.items()},
        )

    return works_of_elements(call, make)


def float_binary_lowering(name: str, *, activated: bool = False) -> Lowering:
    """Return the lowering of a function of two operands, with the operator's activation if it has one."""
    return on_float_lanes(
        lambda call: lower_float_binary(call, name, call.parameters.activation if activated else "none"),
        elements_on_npu,
        kind=float_inputs,
    )


@need("vector.float32_lanes")
def float32_lanes(call: Call, hardware: Hardware) -> bool:
    """float lanes (vector.float32_lanes)"""
    return float_lanes(hardware, "float32") > 0


def _whole_inputs(call: Call) -> bool:
    """on float units all inputs are int32, or all are int64, and there is no activation"""
    kinds = {tensor.dtype for tensor in call.inputs if tensor is not None}
    return kinds in ({"int32"}, {"int64"}) and activation_of(call) == "none"


def whole_binary_lowering(name: str) -> Lowering:
    """Return the lowering of a function of two operands that are integers without scale, by its name."""
    return Lowering(
        "vector",
        (_whole_inputs, elements_on_npu),
        lambda call, hardware: lower_float_binary(call, name),
        (float32_lanes,),
    )


def wide_to_float(call: Call) -> bool:
    """on float units int32 and int64 become float32"""
    return input_type(call).dtype in ("int32", "int64") and call.outputs[0].dtype == "float32"


def lower_float_convert(call: Call, scaled: bool = True) -> Parts:
    """Lower a conversion between integers and floats, or between float types.

    scaled: integers are quantized values; otherwise they are plain numbers without a scale.
    """
    source, target = input_type(call), call.outputs[0]
    codes = next((tensor for tensor in (source, target) if scaled and not tensor.real), None)
    scale, zero = (1.0, 0) if codes is None else (quantization(codes).scale, quantization(codes).zero_point)

    def make(address: int, result: int, constants: int, elements: int) -> Instruction:
        return Convert(
            source=TYPES.index(source.dtype),
            target=TYPES.index(target.dtype),
            input=address,
            output=result,
            size=elements,
            scale=bits_of(scale),
            input_zero=0 if source.real else zero,
            output_zero=0 if target.real else zero,
        )

    return lower_dense(call, make)


def lower_float_softmax(call: Call, beta: float, *, logarithm: bool) -> Parts:
    """Lower softmax or its logarithm along the last axis: tiles of rows."""
    size = input_type(call).numpy_dtype.itemsize
    depth = call.outputs[0].shape[-1]
    rows = call.outputs[0].elements // depth

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        return Softmax(
            format=_format(call),
            function=int(logarithm),
            input=at.inputs[0],
            output=at.output,
            rows=tile.rows,
            depth=depth,
            beta=bits_of(beta),
        )

    inputs = ((Rows(("in", 0), rows, depth * size), same_rows),)
    target = Rows(("out", 0), rows, depth * size)
    return (Work(rows, depth * size, 0, inputs, (target,), no_constants, no_constant_bytes, emit, (0,)),)


def lower_float_reduction(call: Call, name: str, sizes: tuple[int, int, int]) -> Parts:
    """Lower a reduction of [outer, count, inner] over the middle, by its name."""
    return middle_reduced(call, sizes, format=_format(call), function=REDUCTIONS.index(name))


def lower_float_pool(call: Call, name: str) -> Parts:
    """Lower a pool ("average", "maximum" or "l2") of float values."""
    fields: dict[str, Any] = {
        "format": _format(call),
        "function": POOLS.index(name),
        "activation": ACTIVATIONS.index(call.parameters.activation),
    }
    return pool_parts(call, lambda window: Pool(**window, **fields))


def _last_axis(call: Call[Along]) -> bool:
    """on the NPU the axis is the last one"""
    return axis_of(call) == len(input_type(call).shape) - 1


def float_softmax_lowering(*, logarithm: bool = False) -> Lowering:
    """Return the lowering of softmax, or of its logarithm, along the last axis."""
    return on_float_lanes(
        lambda call: lower_float_softmax(call, call.parameters.beta, logarithm=logarithm), _last_axis
    )
