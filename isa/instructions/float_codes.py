"""The vector-unit instructions that compute on 8-bit codes in float32, as ONNX does (`float32_rescale`).

"Literal" is one operator of ONNX after the other: DequantizeLinear gives f32(f32(code - zero) * scale), the function is
float32, QuantizeLinear gives rint(f32(y / scale)) + zero, clamped, halves to even. "Fused" are the formulas of ONNX
Runtime's operators on codes, whose factors hold the quotients of scales. Scales and factors are the bits of a float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.float_codes import (
    Float32Array,
    clamped,
    dequantise,
    multiply_add,
    quantise,
)
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.elementwise import Pair
from npusim.isa.instructions.mac import SIGNS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.real import float32_of
from npusim.isa.instructions.vector import Codes, clamp_fault, code_type
from npusim.isa.instructions.word import FIRST, FieldSpec, bits


def lacks_float32(context: Context) -> list[str]:
    """The machine must compute on codes in float32."""
    if context.hardware.float32_rescale:
        return []
    return ["computes on codes in float32, the machine has float32_rescale = false"]


class Scaled(NamedTuple):
    """How codes stand for reals: scale or factor, zero point, and type by `SIGNS`."""

    scale: np.float32
    zero: int
    signed: int

    def codes(self) -> Codes:
        """The 256 codes in the order of their bytes."""
        return np.arange(256, dtype=np.uint8).view(code_type(self.signed))

    def reals(self) -> Float32Array:
        """What they stand for."""
        return dequantise(self.codes(), self.scale, self.zero)


class FloatFunction(NamedTuple):
    """One function of two operands.

    compute: [256, 1] and [1, 256] codes, and how they and the output stand for reals -> [256, 256]; literal functions
             give reals, fused ones whole numbers that only lack the clamp.
    action:  what an element counts.
    """

    name: str
    doc: str
    compute: Callable[[Scaled, Scaled, Scaled], Float32Array]
    action: str
    fused: bool = False


def _literal(combine: Callable[[Float32Array, Float32Array], Any]) -> Callable[..., Float32Array]:
    def compute(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
        values: Float32Array = combine(a.reals()[:, np.newaxis], b.reals()[np.newaxis])
        return values

    return compute


def _sum(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
    second = multiply_add(b.scale, b.codes(), np.broadcast_to(output.scale, 256))
    pairs = np.broadcast_to(second[np.newaxis], (256, 256))
    return np.rint(multiply_add(a.scale, a.codes()[:, np.newaxis], pairs))


def _product(a: Scaled, b: Scaled, output: Scaled) -> Float32Array:
    first, second = (each.codes().astype(np.int32) - each.zero for each in (a, b))
    products = (first[:, np.newaxis] * second[np.newaxis]).astype(np.float32)
    steps: Float32Array = np.rint(products * output.scale + np.float32(output.zero))
    return steps


def _prelu(a: Float32Array, b: Float32Array) -> Float32Array:
    return np.where(a < 0, a * b, a)


LITERAL_ADD, LITERAL_MUL, LITERAL_DIVIDE, FUSED = (
    f"vector_{name}" for name in ("literal_add", "literal_mul", "literal_divide", "fused")
)

FLOAT_FUNCTIONS: tuple[FloatFunction, ...] = (
    FloatFunction("add", "a + b", _literal(np.add), LITERAL_ADD),
    FloatFunction("sub", "a - b", _literal(np.subtract), LITERAL_ADD),
    FloatFunction("mul", "a * b", _literal(np.multiply), LITERAL_MUL),
    FloatFunction("div", "a / b", _literal(np.divide), LITERAL_DIVIDE),
    FloatFunction("max", "the larger", _literal(np.maximum), LITERAL_ADD),
    FloatFunction("min", "the smaller", _literal(np.minimum), LITERAL_ADD),
    FloatFunction("prelu", "a, below 0 a * b", _literal(_prelu), LITERAL_MUL),
    FloatFunction(
        "fused_add",
        "rint(fma(a_scale, a, fma(b_scale, b, output_scale))), where the last holds all zero points",
        _sum,
        FUSED,
        fused=True,
    ),
    FloatFunction(
        "fused_mul",
        "rint(f32(f32(f32((a - a_zero) * (b - b_zero)) * output_scale) + output_zero))",
        _product,
        FUSED,
        fused=True,
    ),
)
"""The functions of `vec.float_binary`, in the order of its field."""

FLOAT_NAMES = tuple(row.name for row in FLOAT_FUNCTIONS)


@lru_cache(maxsize=128)
@np.errstate(all="ignore")
def _pairs(number: int, a: Scaled, b: Scaled, output: Scaled, low: int, high: int) -> NDArray[np.uint8]:
    """The byte of the result for every pair of bytes, the first operand's the more significant: [65536].

    An instruction has at most so many different results, and those of a layer share them.
    """
    row = FLOAT_FUNCTIONS[number]
    values = row.compute(a, b, output)
    dtype = code_type(output.signed)
    if row.fused:
        codes = clamped(values, low, high, dtype)
    else:
        codes = quantise(values, output.scale, output.zero, low, high, dtype)
    table = codes.view(np.uint8).reshape(-1)
    table.setflags(write=False)
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatBinary(Pair):
    """Elementwise function in float32 of two operands of rows x columns; an operand may repeat its rows or its columns.

    Operand strides of zero repeat. Both operands and the output may differ in type. The first fields are those of
    `vec.binary`.
    """

    mnemonic: ClassVar[str] = "vec.float_binary"
    opcode: ClassVar[int] = 0x3C
    specs: ClassVar[tuple[FieldSpec, ...]]

    function: int = bits(4, "what is computed", choices=FLOAT_NAMES, place=FIRST)
    output_zero: int = bits(9, "of the output", signed=True)
    a_scale: int = bits(32, "scale or factor of the first operand, the bits of a float32")
    b_scale: int = bits(32, "of the second operand")
    output_scale: int = bits(32, "scale of the output; fused, a constant of the function")
    low: int = bits(9, "smallest output code", signed=True)
    high: int = bits(9, "largest output code", signed=True)
    a_signed: int = bits(1, "type of the first operand", choices=SIGNS)
    b_signed: int = bits(1, "of the second operand", choices=SIGNS)
    signed: int = bits(1, "of the output", choices=SIGNS)

    @property
    def actions(self) -> Sequence[str]:
        """That of the function."""
        return (FLOAT_FUNCTIONS[self.function].action,)

    def faults(self) -> list[str]:
        """At least one element and a clamp inside the type."""
        return Pair.faults(self) + clamp_fault(self.signed, self.low, self.high)

    def misfits(self, context: Context) -> list[str]:
        """The machine must compute on codes in float32."""
        return lacks_float32(context)

    def execute(self, memory: Memory) -> list[Write]:
        """Look the pairs of codes up among the function's results."""
        a, b = self.views(memory, np.uint8)
        table = _pairs(
            self.function,
            Scaled(float32_of(self.a_scale), self.a_zero, self.a_signed),
            Scaled(float32_of(self.b_scale), self.b_zero, self.b_signed),
            Scaled(float32_of(self.output_scale), self.output_zero, self.signed),
            self.low,
            self.high,
        )
        return self.written(memory, table[a.astype(np.uint16) << 8 | b])
