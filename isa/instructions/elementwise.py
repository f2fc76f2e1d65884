"""vec.binary applies a function of two operands to every element of a grid, in every number format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic import real
from npusim.isa.arithmetic.float_codes import clamped, dequantise, multiply_add, quantise
from npusim.isa.arithmetic.integer import divide_codes, multiply_by_quantized_multiplier, requantise
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Float32Array
from npusim.isa.instructions.grid import PIXEL, Grid, column_stride_field, rescaled_codes
from npusim.isa.instructions.lanes import (
    EFFORT_ACTIONS,
    Formatted,
    Values,
    Way,
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
"""The comparisons, by name."""

NAMES = (
    "add", "sub", "mul", "max", "min", "rescaled_max", "rescaled_min", "squared_difference", "prelu", "div",
    "fused_add", "fused_mul", "pow", "floor_div", "floor_mod", *RELATIONS,
)  # fmt: skip
"""The functions of two operands, in the order of the field `function`."""
INT16_NAMES = ("add", "sub", "mul", "max", "min")
"""The functions that int16 operands support."""
SCALES = ("codes", "rounded", "exact")
"""How 8-bit operands are brought to one scale before a comparison, in the order of the field `scale`."""

_FACTOR_LIMIT = 1 << 31  # fixed-point multipliers are positive int32 values


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Formatted, Grid):
    """Apply a function of two operands to rows x columns elements. An operand with a stride of zero is repeated.

    Formats 8_bit and int16 compute in fixed point. Their requantizations round twice ("double").

    Comparisons write one byte, 1 or 0, per element. The field `scale` says what of 8-bit operands is compared. "codes"
    compares the stored values. "rounded" compares (value - zero) << left_shift, requantized. "exact" compares
    ((value - zero) * multiplier) << shift in 64 bits, with multipliers up to 2**24 and shifts of 0..16.

    as_float32 computes like the separate ONNX operators: dequantize f32(f32(value - zero) * scale), the function in
    float32, quantize rint(f32(y / scale)) + zero. The "fused" functions are the formulas of ONNX Runtime's operators on
    8-bit data, whose factors are quotients of scales. Operands and output may differ in type, and the multiplier
    fields hold the bits of float32 scales or factors.

    float16 and float32 compute the function, then an activation. int32 and int64 compute it on integers without scale;
    results wrap.
    """

    mnemonic: ClassVar[str] = "vec.binary"
    opcode: ClassVar[int] = 0x30
    names: ClassVar[tuple[str, ...]] = NAMES

    function: int = bits(5, "what is computed", choices=NAMES, place=FIRST)
    a: int = bits(ADDRESS_BITS, "scratchpad address of the first operand")
    b: int = bits(ADDRESS_BITS, "scratchpad address of the second operand")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    rows: int = bits(24, "rows")
    columns: int = bits(24, "columns, contiguous in the output")
    a_row_stride: int = bits(24, "bytes from row to row of the first operand; 0 repeats one row")
    b_row_stride: int = bits(24, "bytes from row to row of the second operand; 0 repeats one row")
    a_column_stride: int = column_stride_field(
        "first operand: 1 for a value per column, 0 for one value per row"
    )
    b_column_stride: int = column_stride_field(
        "second operand: 1 for a value per column, 0 for one value per row"
    )
    pixel: int = bits(20, PIXEL)
    scale: int = bits(2, "how 8-bit operands are scaled before a comparison", choices=SCALES)
    activation: int = bits(2, "floats: activation after the function", choices=real.ACTIVATIONS)
    a_zero: int = bits(9, "zero point of the first operand", signed=True)
    b_zero: int = bits(9, "zero point of the second operand", signed=True)
    output_zero: int = bits(9, "zero point of the output", signed=True)
    a_multiplier: int = bits(
        32, "multiplier of the first operand, below 2^31; as_float32: the bits of a float32"
    )
    b_multiplier: int = bits(32, "multiplier of the second operand, encoded likewise")
    output_multiplier: int = bits(32, "multiplier of the result, encoded likewise")
    a_shift: int = bits(6, "shift of the first operand", signed=True)
    b_shift: int = bits(6, "shift of the second operand", signed=True)
    output_shift: int = bits(6, "shift of the result", signed=True)
    left_shift: int = bits(5, "left shift of both operands before their requantization")
    low: int = bound("smallest")
    high: int = bound("largest")
    a_signed: int = bits(1, "as_float32: type of the first operand", choices=SIGNS)
    b_signed: int = bits(1, "as_float32: type of the second operand", choices=SIGNS)
    signed: int = bits(1, "type of 8-bit results, and of the operands of 8_bit", choices=SIGNS)

    @property
    def name(self) -> str:
        """The name of the function."""
        return NAMES[self.function]

    @property
    def output_bytes(self) -> int:
        """Bytes of a result; one byte for a comparison."""
        return 1 if self.name in RELATIONS else self.number_format.size_bytes

    def steps_of_element(self) -> Mapping[str, int]:
        """Return how often one output element causes each energy action of the function, by the name of the action.

        A comparison that requantizes its operands counts as an addition.
        """
        if self.name in RELATIONS and self.number_format.arithmetic == "fixed_point":
            return {MAX if SCALES[self.scale] == "codes" else ADD: 1}
        steps: Mapping[str, int] = self.way.steps(1)
        if self.number_format.name == "int64":
            return dict.fromkeys(steps, 3 if self.name == "mul" else 2)
        return steps

    def faults(self) -> list[str]:
        """There is at least one element, the clamp is within the output's type, fixed-point multipliers are below 2^31,
        and the format has the function. Exact comparisons have multipliers up to 2^24 and shifts of 0..16, so that
        products fit into 64 bits. Comparisons and integers without scale have no activation.
        """
        messages, of = Grid.faults(self) + self.function_faults(), self.number_format
        if of.name == "int16" and self.name not in INT16_NAMES:
            messages.append(f"{self.name} of int16; it may be {', '.join(INT16_NAMES)}")
        if of.arithmetic == "fixed_point":
            messages += [
                f"{name} is {getattr(self, name)}; it may be less than {_FACTOR_LIMIT}"
                for name in ("a_multiplier", "b_multiplier", "output_multiplier")
                if getattr(self, name) >= _FACTOR_LIMIT
            ]
        if self.activation and (of.arithmetic == "whole" or self.name in RELATIONS):
            what = "a comparison" if self.name in RELATIONS else of.name
            messages.append(f"activation of {what}; it may be none")
        if self.name not in RELATIONS:
            return messages + self.range_faults(self.low, self.high)
        return messages + (self._exact_faults() if SCALES[self.scale] == "exact" else [])

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


# 8-bit and int16 values in fixed point.


def _rescaled(i: Binary, a: Values, b: Values) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return both operands, requantized. 8-bit values are looked up in tables of all 256 results, for speed."""
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
    """Return both operands less their zero points."""
    return a.astype(np.int32) - i.a_zero, b.astype(np.int32) - i.b_zero


def _add(i: Binary, a: Values, b: Values) -> Values:
    """Add after both operands are brought to twice the larger scale, with `left_shift` fraction bits (as TFLite)."""
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
    """Add the output's zero point to results that have the output's scale, clamp them and store them in its type."""
    codes: Values = np.clip(values + np.int32(i.output_zero), i.low, i.high).astype(i.dtype)
    return codes


def _output(i: Binary, values: NDArray[np.int32]) -> Values:
    """Requantize 32-bit results to the output's scale, zero point and type."""
    clamp = i.output_zero, i.low, i.high, i.dtype
    return requantise(values, i.output_multiplier, i.output_shift, *clamp, "double")


def _compare(i: Binary, a: Values, b: Values) -> Values:
    first = _compared(i, i.a_zero, i.a_multiplier, i.a_shift)[a.view(np.uint8)]
    second = _compared(i, i.b_zero, i.b_multiplier, i.b_shift)[b.view(np.uint8)]
    truths: Values = RELATIONS[i.name](first, second).astype(np.uint8)
    return truths


def _compared(i: Binary, zero: int, multiplier: int, shift: int) -> NDArray[Any]:
    """Return the number that represents each of the 256 operand values in a comparison, in the order of their bytes."""
    if SCALES[i.scale] == "rounded":
        return rescaled_codes(zero, i.left_shift, multiplier, shift, i.signed)
    codes = np.arange(256, dtype=np.uint8).view(code_type(i.signed)).astype(np.int64)
    exact: NDArray[np.int64] = (codes - zero) * multiplier << shift
    return codes if SCALES[i.scale] == "codes" else exact


# 8-bit values in float32.


class Scaled(NamedTuple):
    """The quantization of 8-bit values: scale or factor, zero point, and type as an index of `SIGNS`."""

    scale: np.float32
    zero: int
    signed: int

    def codes(self) -> Values:
        """Return all 256 quantized values in the order of their bytes."""
        return np.arange(256, dtype=np.uint8).view(code_type(self.signed))

    def floats(self) -> Float32Array:
        """Return the float32 number of each of the 256 values."""
        return dequantise(self.codes(), self.scale, self.zero)


def _literal(combine: Callable[[Float32Array, Float32Array], Any]) -> Callable[..., Float32Array]:
    """Return a function that applies `combine` to the dequantized values of all 256 x 256 pairs."""

    def compute(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
        values: Float32Array = combine(a.floats()[:, np.newaxis], b.floats()[np.newaxis])
        return values

    return compute


def _fused_sum(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
    second = multiply_add(b.scale, b.codes(), np.broadcast_to(output.scale, 256))
    pairs = np.broadcast_to(second[np.newaxis], (256, 256))
    return np.rint(multiply_add(a.scale, a.codes()[:, np.newaxis], pairs))


def _fused_product(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
    first, second = (operand.codes().astype(np.int32) - operand.zero for operand in (a, b))
    products = (first[:, np.newaxis] * second[np.newaxis]).astype(np.float32)
    steps: Float32Array = np.rint(products * output.scale + np.float32(output.zero))
    return steps


def _prelu_in_float32(a: Float32Array, b: Float32Array) -> Float32Array:
    return np.where(a < 0, a * b, a)


@lru_cache(maxsize=128)
@np.errstate(all="ignore")
def _pairs(name: str, a: Scaled, b: Scaled, output: Scaled, low: int, high: int) -> NDArray[np.uint8]:
    """Return the result byte for every pair of operand bytes, uint8 [65536]; the index is first * 256 + second.

    The table is cached because all instructions of a layer have the same parameters.
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
    """Look up the result of each pair of bytes in the function's table."""
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
"""The float32 functions on 8-bit data. Each takes the quantization of both operands and of the output and returns the
results of all pairs, [256, 256]: float32 numbers, or for "fused" functions quantized values before the clamp."""


# Floats.


def _in_floats(i: Binary, a: Values, b: Values) -> Values:
    values: Values = real.BINARY_BY_NAME[i.name].compute(a.astype(np.float32), b.astype(np.float32))
    return stored(real.activated(values, i.activation), np.uint8 if i.name in RELATIONS else i.dtype)


# Integers without scale.


def _whole(combine: Callable[[Any, Any], Any]) -> Callable[[Binary, Values, Values], Values]:
    """Return the implementation of a numpy function of two operands that are integers without scale."""

    def compute(i: Binary, a: Values, b: Values) -> Values:
        with np.errstate(all="ignore"):  # the remainder of a division by 0 is 0
            return stored(combine(a, b), np.uint8 if i.name in RELATIONS else i.dtype)

    return compute


WHOLE: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "floor_mod": np.mod,
    **RELATIONS,
}
"""The functions of two operands that are integers without scale."""

ADD, MUL, MAX, DIVIDE = "vector_add_q8", "vector_mul_q8", "vector_max", "vector_divide"
_WHOLE_ACTIONS = {"mul": "float_multiply", "floor_mod": "float_divide"}
_LITERAL_ACTIONS = {"mul": "literal_mul", "prelu": "literal_mul", "div": "literal_divide"}

Binary.ways = {
    **{
        (name, "fixed_point"): way
        for name, way in (
            ("add", Way(_add, ADD)),
            ("sub", Way(_sub, ADD)),
            ("mul", Way(_mul, MUL)),
            ("max", Way(_max, MAX)),
            ("min", Way(_min, MAX)),
            ("rescaled_max", Way(_rescaled_max, ADD)),
            ("rescaled_min", Way(_rescaled_min, ADD)),
            ("squared_difference", Way(_squared_difference, ADD, (MUL,))),
            ("prelu", Way(_prelu, MUL)),
            ("div", Way(_div, DIVIDE, (MUL,))),
            *((name, Way(_compare, MAX)) for name in RELATIONS),
        )
    },
    **{
        (name, "as_float32"): Way(
            _by_pairs,
            "vector_fused"
            if name.startswith("fused")
            else f"vector_{_LITERAL_ACTIONS.get(name, 'literal_add')}",
        )
        for name in _ON_PAIRS
    },
    **{(row.name, "float"): Way(_in_floats, f"float_{EFFORT_ACTIONS[row.effort]}") for row in real.BINARY},
    **{
        (name, "whole"): Way(_whole(combine), _WHOLE_ACTIONS.get(name, "float_add"))
        for name, combine in WHOLE.items()
    },
}

MEANINGS = {
    "add": "a + b, each requantized, then the sum requantized",
    "sub": "a - b, each requantized, then the difference requantized",
    "mul": "(a - zero) * (b - zero), requantized",
    "max": "the larger value",
    "min": "the smaller value",
    "rescaled_max": "the larger of a and b, each requantized to the output's scale",
    "rescaled_min": "the smaller of a and b, each requantized to the output's scale",
    "squared_difference": "(a - b)^2 with a and b requantized, then requantized",
    "prelu": "a requantized; below its zero point (a - zero) * (b - zero), requantized with the output's multiplier",
    "div": "(a - zero) / (b - zero) by a reciprocal, requantized; 0 for b = zero",
    "fused_add": "rint(fma(a_factor, a, fma(b_factor, b, output_factor))), where output_factor holds all zero points",
    "fused_mul": "rint(f32(f32(f32((a - zero) * (b - zero)) * output_factor) + output_zero))",
    **{row.name: row.doc for row in real.BINARY if row.name in NAMES[NAMES.index("pow") :]},
}
"""The result of each function: in fixed point if that exists, else in floating point."""
