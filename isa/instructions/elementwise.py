"""vec.binary: functions of two operands on rows x columns, in every format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.float_codes import Float32Array, clamped, dequantise, multiply_add, quantise
from npusim.isa.arithmetic.integer import divide_codes, multiply_by_quantized_multiplier, requantise
from npusim.isa.instructions.grid import PIXEL, Grid, column_stride_field, rescaled_codes
from npusim.isa.instructions.lanes import (
    EFFORT_ACTIONS,
    Formatted,
    Values,
    bound,
    code_type,
    float32_of,
    stored,
)
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.word import ADDRESS_BITS, FIRST, SIGNS, bits

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}
"""The functions that compare."""

NAMES = (
    "add", "sub", "mul", "max", "min", "rescaled_max", "rescaled_min", "squared_difference", "prelu", "div",
    "fused_add", "fused_mul", "pow", "floor_div", "floor_mod", *RELATIONS,
)  # fmt: skip
"""The functions of two operands, in the order of the field `function`."""
INT16_NAMES = ("add", "sub", "mul", "max", "min")
"""Those of int16."""
SCALES = ("codes", "rounded", "exact")
"""What of 8-bit operands is compared, in the order of the field `scale`."""

_FACTOR_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Formatted, Grid):
    """Function of two operands of rows x columns; an operand may repeat its rows or its columns.

    Operand strides of zero repeat. 8_bit and int16: fixed point, whose rescales round twice ("double"). Comparisons
    write truths, one byte each, 1 or 0; 8-bit operands are compared as they are; "rounded", as
    (value - zero) << left_shift, rescaled; or "exact", as ((value - zero) * multiplier) << shift in 64 bits, where
    multipliers are at most 2**24 and shifts 0..16. as_float32: one operator of ONNX after the other,
    f32(f32(value - zero) * scale), the function in float32, rint(f32(y / scale)) + zero; "fused" are the formulas of
    ONNX Runtime's operators on 8-bit data, whose factors hold the quotients of scales. Both operands and the output
    may then differ in type, and the multipliers are the bits of float32 scales or factors. Floats: the function, then
    an activation.
    """

    mnemonic: ClassVar[str] = "vec.binary"
    opcode: ClassVar[int] = 0x30
    names: ClassVar[tuple[str, ...]] = NAMES

    function: int = bits(5, "what is computed", choices=NAMES, place=FIRST)
    a: int = bits(ADDRESS_BITS, "scratchpad address of the first operand")
    b: int = bits(ADDRESS_BITS, "of the second operand")
    output: int = bits(ADDRESS_BITS, "of the output")
    rows: int = bits(24, "rows")
    columns: int = bits(24, "columns, contiguous in the output")
    a_row_stride: int = bits(24, "bytes from row to row of the first operand; 0 repeats one row")
    b_row_stride: int = bits(24, "of the second operand")
    a_column_stride: int = column_stride_field("1: one value per column, 0: one value per row")
    b_column_stride: int = column_stride_field("of the second operand")
    pixel: int = bits(20, PIXEL)
    scale: int = bits(2, "what of 8-bit operands is compared", choices=SCALES)
    activation: int = bits(2, "activation behind floats", choices=real.ACTIVATIONS)
    a_zero: int = bits(9, "zero point of the first operand", signed=True)
    b_zero: int = bits(9, "of the second operand", signed=True)
    output_zero: int = bits(9, "of the output", signed=True)
    a_multiplier: int = bits(32, "factor of the first operand: below 2^31; as_float32, the bits of a float32")
    b_multiplier: int = bits(32, "of the second operand, likewise")
    output_multiplier: int = bits(32, "of the result, likewise")
    a_shift: int = bits(6, "shift of the first operand", signed=True)
    b_shift: int = bits(6, "of the second", signed=True)
    output_shift: int = bits(6, "of the result", signed=True)
    left_shift: int = bits(5, "shift of operands before their rescale")
    low: int = bound("smallest")
    high: int = bound("largest")
    a_signed: int = bits(1, "as_float32: type of the first operand", choices=SIGNS)
    b_signed: int = bits(1, "of the second operand", choices=SIGNS)
    signed: int = bits(1, "type of 8-bit results, and of the operands of 8_bit", choices=SIGNS)

    @property
    def name(self) -> str:
        """What is computed."""
        return NAMES[self.function]

    @property
    def output_bytes(self) -> int:
        """Bytes of a result: one of a truth."""
        return 1 if self.name in RELATIONS else self.number_format.size_bytes

    def actions_of_element(self) -> tuple[str, ...]:
        """Those of the function; comparing what rescales make of operands counts as an addition."""
        if self.name in RELATIONS and self.number_format.arithmetic == "fixed_point":
            return MAX if SCALES[self.scale] == "codes" else ADD
        actions: tuple[str, ...] = self.way.actions
        return actions

    def faults(self) -> list[str]:
        """At least one element, a clamp inside the type, factors below 2^31, and such a function of the format; exact
        factors of comparisons leave the products room; truths have no activation.
        """
        found, of = Grid.faults(self) + self.function_faults(), self.number_format
        if of.name == "int16" and self.name not in INT16_NAMES:
            found.append(f"{self.name} of int16; it may be {', '.join(INT16_NAMES)}")
        if of.arithmetic == "fixed_point":
            found += [
                f"{name} is {getattr(self, name)}; it may be less than {_FACTOR_LIMIT}"
                for name in ("a_multiplier", "b_multiplier", "output_multiplier")
                if getattr(self, name) >= _FACTOR_LIMIT
            ]
        if self.name not in RELATIONS:
            return found + self.range_faults(self.low, self.high)
        if self.activation:
            found.append("activation of truths; it may be none")
        return found + (self._exact_faults() if SCALES[self.scale] == "exact" else [])

    def _exact_faults(self) -> list[str]:
        pairs = (("a", self.a_multiplier, self.a_shift), ("b", self.b_multiplier, self.b_shift))
        return [
            f"exact {name}_multiplier {multiplier}, {name}_shift {shift} may be 0..2**24, 0..16"
            for name, multiplier, shift in pairs
            if multiplier > 1 << 24 or not 0 <= shift <= 16
        ]

    @np.errstate(all="ignore")
    def execute(self, memory: Memory) -> list[Write]:
        """Apply the function to the two operands."""
        dtype = np.uint8 if self.number_format.name == "as_float32" else self.dtype
        return self.written(memory, self.way.compute(self, *self.views(memory, dtype)))


class BinaryWay(NamedTuple):
    """How a function is computed in one arithmetic, and the actions of an element.

    compute: (instruction, first operand, second operand) -> results.
    """

    compute: Callable[[Binary, Values, Values], Values]
    actions: tuple[str, ...]


# 8-bit and int16 values in fixed point.


def _rescaled(i: Binary, a: Values, b: Values) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Both operands, rescaled; codes of 8 bits by tables."""
    if i.number_format.name == "int16":
        first, second = _centred(i, a, b)
        return (
            multiply_by_quantized_multiplier(first << i.left_shift, i.a_multiplier, i.a_shift),
            multiply_by_quantized_multiplier(second << i.left_shift, i.b_multiplier, i.b_shift),
        )
    return (
        rescaled_codes(i.a_zero, i.left_shift, i.a_multiplier, i.a_shift, i.signed)[a.view(np.uint8)],
        rescaled_codes(i.b_zero, i.left_shift, i.b_multiplier, i.b_shift, i.signed)[b.view(np.uint8)],
    )


def _centred(i: Binary, a: Values, b: Values) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return a.astype(np.int32) - i.a_zero, b.astype(np.int32) - i.b_zero


def _add(i: Binary, a: Values, b: Values) -> Values:
    """The operands meet at twice the larger scale with `left_shift` fractional bits."""
    first, second = _rescaled(i, a, b)
    return _output(i, first + second)


def _sub(i: Binary, a: Values, b: Values) -> Values:
    first, second = _rescaled(i, a, b)
    return _output(i, first - second)


def _squared_difference(i: Binary, a: Values, b: Values) -> Values:
    first, second = _rescaled(i, a, b)
    return _output(i, np.square(first - second))


def _mul(i: Binary, a: Values, b: Values) -> Values:
    first, second = _centred(i, a, b)
    return _output(i, first * second)


def _max(i: Binary, a: Values, b: Values) -> Values:
    return np.clip(np.maximum(a, b), i.low, i.high)


def _min(i: Binary, a: Values, b: Values) -> Values:
    return np.clip(np.minimum(a, b), i.low, i.high)


def _rescaled_max(i: Binary, a: Values, b: Values) -> Values:
    return _clamped(i, np.maximum(*_rescaled(i, a, b)))


def _rescaled_min(i: Binary, a: Values, b: Values) -> Values:
    return _clamped(i, np.minimum(*_rescaled(i, a, b)))


def _prelu(i: Binary, a: Values, b: Values) -> Values:
    first, second = _centred(i, a, b)
    above = multiply_by_quantized_multiplier(first, i.a_multiplier, i.a_shift)
    below = multiply_by_quantized_multiplier(first * second, i.output_multiplier, i.output_shift)
    return _clamped(i, np.where(first >= 0, above, below))


def _div(i: Binary, a: Values, b: Values) -> Values:
    return _clamped(i, divide_codes(*_centred(i, a, b), i.output_multiplier, i.output_shift))


def _clamped(i: Binary, values: NDArray[np.int32]) -> Values:
    """Results on the output's scale, in 32 bits, as codes."""
    codes: Values = np.clip(values + np.int32(i.output_zero), i.low, i.high).astype(i.dtype)
    return codes


def _output(i: Binary, values: NDArray[np.int32]) -> Values:
    clamp = i.output_zero, i.low, i.high, i.dtype
    return requantise(values, i.output_multiplier, i.output_shift, *clamp, "double")


def _compare(i: Binary, a: Values, b: Values) -> Values:
    first = _compared(i, i.a_zero, i.a_multiplier, i.a_shift)[a.view(np.uint8)]
    second = _compared(i, i.b_zero, i.b_multiplier, i.b_shift)[b.view(np.uint8)]
    truths: Values = RELATIONS[i.name](first, second).astype(np.uint8)
    return truths


def _compared(i: Binary, zero: int, multiplier: int, shift: int) -> NDArray[Any]:
    """What is compared, for each of the 256 values in the order of their bytes."""
    if SCALES[i.scale] == "rounded":
        return rescaled_codes(zero, i.left_shift, multiplier, shift, i.signed)
    codes = np.arange(256, dtype=np.uint8).view(code_type(i.signed)).astype(np.int64)
    exact: NDArray[np.int64] = (codes - zero) * multiplier << shift
    return codes if SCALES[i.scale] == "codes" else exact


# 8-bit values in float32.


class Scaled(NamedTuple):
    """How 8-bit values stand for numbers: scale or factor, zero point, and type by `SIGNS`."""

    scale: np.float32
    zero: int
    signed: int

    def codes(self) -> Values:
        """The 256 values in the order of their bytes."""
        return np.arange(256, dtype=np.uint8).view(code_type(self.signed))

    def reals(self) -> Float32Array:
        """The numbers that they stand for."""
        return dequantise(self.codes(), self.scale, self.zero)


def _literal(combine: Callable[[Float32Array, Float32Array], Any]) -> Callable[..., Float32Array]:
    def compute(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
        values: Float32Array = combine(a.reals()[:, np.newaxis], b.reals()[np.newaxis])
        return values

    return compute


def _fused_sum(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
    second = multiply_add(b.scale, b.codes(), np.broadcast_to(output.scale, 256))
    pairs = np.broadcast_to(second[np.newaxis], (256, 256))
    return np.rint(multiply_add(a.scale, a.codes()[:, np.newaxis], pairs))


def _fused_product(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
    first, second = (each.codes().astype(np.int32) - each.zero for each in (a, b))
    products = (first[:, np.newaxis] * second[np.newaxis]).astype(np.float32)
    steps: Float32Array = np.rint(products * output.scale + np.float32(output.zero))
    return steps


def _prelu_in_float32(a: Float32Array, b: Float32Array) -> Float32Array:
    return np.where(a < 0, a * b, a)


@lru_cache(maxsize=128)
@np.errstate(all="ignore")
def _pairs(name: str, a: Scaled, b: Scaled, output: Scaled, low: int, high: int) -> NDArray[np.uint8]:
    """The byte of the result for every pair of bytes, the first operand's the more significant: [65536].

    An instruction has at most so many different results, and those of a layer share them.
    """
    values, dtype = _ON_PAIRS[name](a, b, output), code_type(output.signed)
    if name.startswith("fused"):
        codes = clamped(values, low, high, dtype)
    else:
        codes = quantise(values, output.scale, output.zero, low, high, dtype)
    table = codes.view(np.uint8).reshape(-1)
    table.setflags(write=False)
    return table


def _by_pairs(i: Binary, a: Values, b: Values) -> Values:
    """Look the pairs of bytes up among the function's results."""
    table = _pairs(
        i.name,
        Scaled(float32_of(i.a_multiplier), i.a_zero, i.a_signed),
        Scaled(float32_of(i.b_multiplier), i.b_zero, i.b_signed),
        Scaled(float32_of(i.output_multiplier), i.output_zero, i.signed),
        i.low,
        i.high,
    )
    results: Values = table[a.astype(np.uint16) << 8 | b]
    return results


_ON_PAIRS: dict[str, Callable[[Scaled, Scaled, Scaled], Float32Array]] = {
    "add": _literal(np.add),
    "sub": _literal(np.subtract),
    "mul": _literal(np.multiply),
    "div": _literal(np.divide),
    "max": _literal(np.maximum),
    "min": _literal(np.minimum),
    "prelu": _literal(_prelu_in_float32),
    "fused_add": _fused_sum,
    "fused_mul": _fused_product,
}
"""The functions of float32 on 8-bit data: [256, 1] and [1, 256] values, and how they and the output stand for numbers,
to [256, 256]. Literal functions give numbers, fused ones whole numbers that only lack the clamp."""


# Floats.


def _in_floats(i: Binary, a: Values, b: Values) -> Values:
    values: Values = real.BINARY_BY_NAME[i.name].compute(a.astype(np.float32), b.astype(np.float32))
    return stored(real.activated(values, i.activation), np.uint8 if i.name in RELATIONS else i.dtype)


ADD, MUL, MAX, DIVIDE = ("vector_add_q8",), ("vector_mul_q8",), ("vector_max",), ("vector_divide",)
_LITERAL_ACTIONS = {"mul": "literal_mul", "prelu": "literal_mul", "div": "literal_divide"}

Binary.ways = {
    **{
        (name, "fixed_point"): BinaryWay(compute, actions)
        for name, compute, actions in (
            ("add", _add, ADD),
            ("sub", _sub, ADD),
            ("mul", _mul, MUL),
            ("max", _max, MAX),
            ("min", _min, MAX),
            ("rescaled_max", _rescaled_max, ADD),
            ("rescaled_min", _rescaled_min, ADD),
            ("squared_difference", _squared_difference, ADD + MUL),
            ("prelu", _prelu, MUL),
            ("div", _div, DIVIDE + MUL),
            *((name, _compare, MAX) for name in RELATIONS),
        )
    },
    **{
        (name, "as_float32"): BinaryWay(
            _by_pairs,
            (
                "vector_fused"
                if name.startswith("fused")
                else f"vector_{_LITERAL_ACTIONS.get(name, 'literal_add')}",
            ),
        )
        for name in _ON_PAIRS
    },
    **{
        (row.name, "float"): BinaryWay(_in_floats, (f"float_{EFFORT_ACTIONS[row.effort]}",))
        for row in real.BINARY
    },
}

MEANINGS = {
    "add": "a + b, each rescaled, sum rescaled",
    "sub": "a - b, each rescaled, difference rescaled",
    "mul": "(a - zero) * (b - zero), rescaled",
    "max": "the larger value",
    "min": "the smaller value",
    "rescaled_max": "the larger of a and b, each rescaled to the output",
    "rescaled_min": "the smaller of a and b, each rescaled to the output",
    "squared_difference": "square of a - b, each rescaled, rescaled",
    "prelu": "a rescaled; below its zero (a - zero) * (b - zero), rescaled by the output's",
    "div": "(a - zero) / (b - zero) by a reciprocal, rescaled; 0 for b = zero",
    "fused_add": "rint(fma(a_factor, a, fma(b_factor, b, output_factor))), where the last holds all zero points",
    "fused_mul": "rint(f32(f32(f32((a - zero) * (b - zero)) * output_factor) + output_zero))",
    **{row.name: row.doc for row in real.BINARY if row.name in NAMES[NAMES.index("pow") :]},
}
"""What each function gives, in fixed point where it is computed so; in floats it is the function of its name."""
