"""The vector-unit instruction that normalizes rows by their mean and variance: layer and RMS normalization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.float_codes import clamped, dequantise, quantise, sum_in_order
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Float32Array
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.lanes import (
    FORMATS,
    Format,
    Values,
    Work,
    bound,
    clamp_fault,
    code_type,
    float32_of,
)
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.rows import HELD_ROWS, METHODS, Rows
from npusim.isa.instructions.word import ADDRESS_BITS, SIGNS, bits

FUNCTIONS = ("layer", "rms")
"""Functions of `vec.normalize`, in the order of its field."""
PARAMETER_BYTES = 8
"""Bytes of the factor and the addend of one element of a row, both float32."""
LONGEST_FUSED = 1 << 16
"""Most elements of a row of the method "fused": n * (sum of squares) then is below 2**53, exact in float64."""

_AS_FLOAT32 = next(row for row in FORMATS if row.name == "as_float32")

# The actions of an element in all passes over a row, by method and function. "literal" dequantizes for each sum; the
# variance takes a centred square too. The result dequantizes, computes and quantizes as any function of float32 does.
_ACTIONS: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("literal", "layer"): {"vector_dequantise": 2, "vector_fused": 1, "vector_literal_mul": 1},
    ("literal", "rms"): {"vector_dequantise": 1, "vector_fused": 1, "vector_literal_mul": 1},
    ("fused", "layer"): {"vector_moments": 1, "vector_fused": 1},
    ("fused", "rms"): {"vector_moments": 1, "vector_fused": 1},
}


class _Parameters(NamedTuple):
    """The factor and the addend of each element of a row, float32 [depth]."""

    factor: Float32Array
    addend: Float32Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalize(Rows):
    """Normalize rows of 8-bit values: (x - mean) / sqrt(variance + epsilon) * factor + addend.

    "rms": the mean counts as 0, and the variance is the mean of the squares. The table holds factor and addend of each
    element of a row as pairs of float32.

    "literal": values are dequantized to float32. Sums, in order, root, quotient, product and sum are float64. The
    result is rounded to float32 and quantized.

    "fused": x stands for the value less its zero point. Its sum and that of its square are integers. Mean m, variance v
    and r = s / sqrt(s * s * v + epsilon), with the input's scale s, are float64. a = f32(r) and b = f32(-m * r). The
    result is rint(f32(f32(x * a + b) * factor + addend)) + zero; the table's numbers are divided by the output's scale.
    """

    mnemonic: ClassVar[str] = "vec.normalize"
    opcode: ClassVar[int] = 0x36

    function: int = bits(1, "what is computed", choices=FUNCTIONS)
    fused: int = bits(1, "method of computation", choices=METHODS)
    input: int = bits(ADDRESS_BITS, "scratchpad address of the input")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    rows: int = bits(24, "independent rows")
    depth: int = bits(24, "elements of a row")
    table: int = bits(ADDRESS_BITS, "scratchpad address of factors and addends")
    epsilon: int = bits(32, "added to the variance, a float32")
    input_zero: int = bits(9, "zero point of the input", signed=True)
    output_zero: int = bits(9, "zero point of the output", signed=True)
    input_scale: int = bits(32, "scale of the input, a float32")
    output_scale: int = bits(32, "literal: scale of the output, a float32")
    low: int = bound("smallest")
    high: int = bound("largest")
    input_signed: int = bits(1, "type of the input", choices=SIGNS)
    signed: int = bits(1, "type of the output", choices=SIGNS)

    @property
    def interleaved(self) -> int:
        """One: rows are stored one after the other."""
        return 1

    @property
    def number_format(self) -> Format:
        """The format of 8-bit data that is computed in float32."""
        return _AS_FLOAT32

    @property
    def _blocks(self) -> int:
        """Number of runs of `HELD_ROWS` rows."""
        return -(-self.rows // HELD_ROWS)

    @property
    def _parameter_bytes(self) -> int:
        return self.depth * PARAMETER_BYTES

    def regions(self, context: Context) -> Regions:
        """Return the regions of input and table, which are read, and of the output. All are dense."""
        reads, writes = Rows.regions(self, context)
        return (*reads, dense(Space.SCRATCHPAD, self.table, self._parameter_bytes)), writes

    def faults(self) -> list[str]:
        """There is at least one element, the clamp is within the output's type, and sums of "fused" are exact."""
        messages = Rows.faults(self) + clamp_fault(self.signed, self.low, self.high)
        if self.fused and self.depth > LONGEST_FUSED:
            messages.append(f"depth is {self.depth} with fused; it may be at most {LONGEST_FUSED}")
        return messages

    @np.errstate(all="ignore")
    def execute(self, memory: Memory) -> list[Write]:
        """Compute the statistics of each row, then the elements."""
        table = (
            memory.bytes_at(Space.SCRATCHPAD, self.table, self._parameter_bytes).view("<f4").reshape(-1, 2)
        )
        parameters = _Parameters(table[:, 0], table[:, 1])
        compute = _fused if self.fused else _literal
        types = code_type(self.input_signed), code_type(self.signed)
        return self.by_rows(memory, lambda rows: compute(self, rows, parameters), *types)

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. Each pass reads every element, each run of rows all parameters."""
        passes = 3 if (self.fused, self.function) == (0, 0) else 2
        return passes * self.size_bytes + self._blocks * self._parameter_bytes, self.size_bytes

    def work(self, context: Context) -> tuple[Work, ...]:
        """Passes over a row for its statistics and for the result, and an inverse root per row. Lanes take adjacent
        elements of a row. For each run of rows they load the parameters at `lanes` bytes per cycle, and take roots of
        several rows together.
        """
        groups = self.groups(context, self.depth)
        steps = _ACTIONS[METHODS[self.fused], FUNCTIONS[self.function]]
        return (
            self.part(context, steps, self.rows * self.depth, self.rows * groups),
            self.part(context, {"vector_exp": 1}, self.rows, self.held_groups(context)),
            Work({}, 0, self._blocks * groups, PARAMETER_BYTES),  # the loading of parameters gives no results
        )


def _literal(row: Normalize, rows: Values, parameters: _Parameters) -> Values:
    values = dequantise(rows, float32_of(row.input_scale), row.input_zero).astype(np.float64)
    if FUNCTIONS[row.function] == "layer":
        values -= sum_in_order(values) / row.depth
    variance = sum_in_order(values * values) / row.depth
    normal = values / np.sqrt(variance + float32_of(row.epsilon))
    floats = (normal * parameters.factor + parameters.addend).astype(np.float32)
    return quantise(
        floats, float32_of(row.output_scale), row.output_zero, row.low, row.high, code_type(row.signed)
    )


def _fused(row: Normalize, rows: Values, parameters: _Parameters) -> Values:
    steps = rows.astype(np.int64) - row.input_zero
    sums, squares = steps.sum(axis=-1, keepdims=True), (steps * steps).sum(axis=-1, keepdims=True)
    if FUNCTIONS[row.function] == "rms":
        sums = np.zeros_like(sums)
    variance = (row.depth * squares - sums * sums).astype(np.float64) / float(row.depth * row.depth)
    scale = np.float64(float32_of(row.input_scale))
    factor: NDArray[np.float64] = scale / np.sqrt(scale * scale * variance + float32_of(row.epsilon))
    addend = (-(sums / row.depth) * factor).astype(np.float32)
    normal = _multiplied_and_added(steps.astype(np.float64), factor.astype(np.float32), addend)
    result = _multiplied_and_added(normal.astype(np.float64), parameters.factor, parameters.addend)
    return clamped(np.rint(result) + np.float32(row.output_zero), row.low, row.high, code_type(row.signed))


def _multiplied_and_added(
    values: NDArray[np.float64], factor: Float32Array, addend: Float32Array
) -> Float32Array:
    """Return f32(values * factor + addend): the product is exact in float64, the sum is rounded to it first."""
    result: Float32Array = (values * factor.astype(np.float64) + addend.astype(np.float64)).astype(np.float32)
    return result
