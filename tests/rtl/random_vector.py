"""Random legal vector instructions with the scratchpad that they work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions import reduction, windows
from npusim.isa.instructions.elementwise import INT16_NAMES, NAMES, RELATIONS, SCALES, Binary
from npusim.isa.instructions.grid import Select
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.lanes import FORMAT_NAMES, bits_of
from npusim.isa.instructions.reduction import Reduce
from npusim.isa.instructions.resize import Resize
from npusim.isa.instructions.vector import INT16_TABLES, TYPES, Convert, Lookup
from npusim.isa.instructions.windows import Pool
from npusim.isa.instructions.word import CODES

from .unit_bench import SCRATCHPAD_BYTES
from .vector_referee import STAGES

MAX_ELEMENTS = 3000
"""Of one instruction, windows counted whole."""
IN_FLOAT32 = FORMAT_NAMES.index("as_float32")
INTEGER_FORMATS = {1: FORMAT_NAMES.index("8_bit"), 2: FORMAT_NAMES.index("int16")}
"""The value of the field `format` by the bytes of an element."""


def _functions(row: type[Binary] | type[Pool] | type[Reduce], arithmetic: str) -> list[str]:
    """The functions that a row computes in an arithmetic."""
    return [name for name, known in row.ways if known == arithmetic]


FIXED_BINARY = [name for name in _functions(Binary, "fixed_point") if name not in RELATIONS]


@dataclass(frozen=True, slots=True)
class Case:
    """One instruction, the vector unit it runs on, and the memory before."""

    instruction: Instruction
    hardware: Hardware
    scratchpad: NDArray[np.uint8]


def draw_hardware(rng: np.random.Generator, lanes: int) -> Hardware:
    """Up to so many lanes, any cycles per function."""

    def cycles() -> int:
        return int(rng.choice([1, 1, 2, 3, 4, 9]))

    vector = Vector(
        lanes=lanes if rng.random() < 0.4 else int(rng.integers(1, lanes + 1)),
        startup_cycles=8 if rng.random() < 0.3 else int(rng.integers(0, STAGES + 1)),
        add_cycles=cycles(),
        mul_cycles=cycles(),
        requantise_cycles=cycles(),
        max_cycles=cycles(),
        pool_cycles=cycles(),
        reduce_cycles=cycles(),
        divide_cycles=cycles(),
        lut_cycles=cycles(),
        literal_cycles=cycles(),
        literal_divide_cycles=cycles(),
        fused_cycles=cycles(),
        dequantise_cycles=cycles(),
        quantise_cycles=cycles(),
        int16_passes=int(rng.choice([1, 2, 2, 3])),
    )
    return Hardware(name="rtl", vector=vector)


def draw_size(rng: np.random.Generator, largest: int) -> int:
    """A size that is often 1, or small, or anything up to `largest`."""
    kind = rng.random()
    if kind < 0.15:
        return 1
    return int(rng.integers(1, min(largest, 20) + 1 if kind < 0.5 else largest + 1))


def draw_places(rng: np.random.Generator, *sizes: int) -> list[int]:
    """Addresses of regions one behind the other, with gaps, in any order."""
    addresses = [0] * len(sizes)
    reached = 0
    for index in rng.permutation(len(sizes)):
        reached += int(rng.integers(0, 20))
        addresses[index] = reached
        reached += sizes[index]
    return addresses


def _clamp(rng: np.random.Generator, signed: int, size: int = 1) -> dict[str, int]:
    """The type of the output, its clamp, often all codes, and its zero point."""
    low, high = CODES[signed]
    zero = int(rng.integers(low, high + 1))
    if size == 2:
        low, high = -(1 << 15), (1 << 15) - 1
    if rng.random() < 0.3:
        low, high = sorted(int(x) for x in rng.integers(low, high + 1, 2))
    return {"low": low, "high": high, "signed": signed, "output_zero": zero}


def _scale(rng: np.random.Generator, name: str, usual_shift: int) -> dict[str, int]:
    """Multiplier and shift; mostly such that results spread over the codes, sometimes extreme."""
    shift = usual_shift + int(rng.integers(-1, 2))
    if rng.random() < 0.1:
        shift = int(rng.integers(-31, 31))
    multiplier = 0 if rng.random() < 0.02 else int(rng.integers(1 << 30, 1 << 31))
    return {f"{name}multiplier": multiplier, f"{name}shift": shift}


def _zero(rng: np.random.Generator, signed: int) -> int:
    return int(rng.integers(CODES[signed][0], CODES[signed][1] + 1))


def _operand(rng: np.random.Generator, rows: int, columns: int, size: int) -> tuple[int, int, int]:
    """Row stride, column stride and bytes of an operand: whole, repeated in one direction or in both, or apart.

    size: bytes of an element.
    """
    kind, row = int(rng.choice([0, 0, 1, 2, 3, 4])), columns * size
    if kind == 0:
        return row, 1, rows * row
    if kind == 1:
        return 0, 1, row
    if kind == 2:
        return size, 0, rows * size
    if kind == 3:
        return 0, 0, size
    stride = row + int(rng.integers(0, 9))
    return stride, 1, rows * stride


def _grid(
    rng: np.random.Generator, rows: int, columns: int, names: tuple[str, ...] = ("a", "b"), size: int = 1
) -> dict[str, int]:
    """Fields for the sizes, operands and output of an instruction on a grid of elements of `size` bytes."""
    operands = [_operand(rng, rows, columns, size) for _ in names]
    *addresses, output = draw_places(rng, *[region for *_, region in operands], rows * columns * size)
    fields = {"rows": rows, "columns": columns, "output": output}
    for name, address, (row, column, _) in zip(names, addresses, operands, strict=True):
        fields |= {name: address, f"{name}_row_stride": row, f"{name}_column_stride": column}
    return fields


_LEFT_SHIFTS = {"squared_difference": 7, "rescaled_max": 0, "rescaled_min": 0}
_OUTPUT_SHIFTS = {"add": -18, "sub": -18, "squared_difference": -20, "div": 7}
_INT16_SHIFTS = {"add": -13, "sub": -13, "mul": -14}


def _binary(rng: np.random.Generator, size: int = 1) -> Binary:
    columns = draw_size(rng, 300)
    rows = draw_size(rng, max(1, MAX_ELEMENTS // columns))
    signed = int(rng.integers(0, 2))
    name = str(rng.choice(FIXED_BINARY if size == 1 else INT16_NAMES))
    usual_left, usual_shifts = (20, _OUTPUT_SHIFTS) if size == 1 else (15, _INT16_SHIFTS)
    grid = _grid(rng, rows, columns, size=size)
    if (grid["a_row_stride"], grid["a_column_stride"]) == (columns * size, 1) and rng.random() < 0.3:
        grid["output"] = grid["a"]
    return Binary(
        format=INTEGER_FORMATS[size],
        function=NAMES.index(name),
        **grid,
        a_zero=_zero(rng, signed),
        b_zero=_zero(rng, signed),
        left_shift=_LEFT_SHIFTS.get(name, usual_left) if rng.random() < 0.8 else int(rng.integers(0, 32)),
        **_scale(rng, "a_", -1),
        **_scale(rng, "b_", -1),
        **_scale(rng, "output_", usual_shifts.get(name, -6)),
        **_clamp(rng, signed, size),
    )


def draw_window(rng: np.random.Generator) -> dict[str, int]:
    """Sizes of a pool in both directions; every window touches the feature map."""
    fields: dict[str, int] = {}
    for axis in ("height", "width"):
        kernel, stride, outputs = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 7))
        pad = int(rng.integers(0, kernel))
        last = (outputs - 1) * stride - pad
        fields[f"kernel_{axis}"] = kernel
        fields[f"stride_{axis}"] = stride
        fields[f"ofm_{axis}"] = outputs
        fields["pad_top" if axis == "height" else "pad_left"] = pad
        fields[f"ifm_{axis}"] = max(1, last + 1 + int(rng.integers(0, kernel + 1)))
    return fields


def _pool(rng: np.random.Generator, size: int = 1) -> Pool:
    fields = draw_window(rng)
    taps = fields["kernel_height"] * fields["kernel_width"]
    pixels = fields["ofm_height"] * fields["ofm_width"]
    depth = draw_size(rng, max(1, min(40, MAX_ELEMENTS // (taps * pixels))))
    ifm_row = fields["ifm_width"] * depth * size + int(rng.choice([0, 0, 5]))
    ofm_row = fields["ofm_width"] * depth * size + int(rng.choice([0, 0, 5]))
    ifm, ofm = draw_places(rng, fields["ifm_height"] * ifm_row, fields["ofm_height"] * ofm_row)
    clamp = _clamp(rng, int(rng.integers(0, 2)), size)
    del clamp["output_zero"]
    return Pool(
        format=INTEGER_FORMATS[size],
        function=int(rng.integers(0, 2)),
        ifm=ifm,
        ifm_row_stride=ifm_row,
        depth=depth,
        ofm=ofm,
        ofm_row_stride=ofm_row,
        **fields,
        **clamp,
    )


def _mean(rng: np.random.Generator) -> Reduce:
    """A sum of [outer, count, inner] over the middle, as means are computed."""
    inner = draw_size(rng, 60)
    count = draw_size(rng, max(1, min(80, MAX_ELEMENTS // inner)))
    outer = draw_size(rng, max(1, MAX_ELEMENTS // (inner * count)))
    source, target = draw_places(rng, outer * count * inner, outer * inner)
    signed = int(rng.integers(0, 2))
    return Reduce(
        function=reduction.FUNCTIONS.index("sum"),
        input=source,
        output=target,
        outer=outer,
        parts=1,
        middle=1,
        count=count,
        inner=inner,
        input_zero=_zero(rng, signed),
        **_scale(rng, "", -int(np.log2(count))),
        **_clamp(rng, signed),
    )


def _reduce(rng: np.random.Generator, size: int = 1) -> Reduce:
    """Every function; often one part, and nothing inside or outside."""
    parts, middle = (1, 1) if rng.random() < 0.5 else (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    inner = 1 if rng.random() < 0.4 else draw_size(rng, 30)
    count = draw_size(rng, max(1, min(60, MAX_ELEMENTS // (inner * parts * middle))))
    outer = draw_size(rng, max(1, MAX_ELEMENTS // (inner * count * parts * middle)))
    results, signed = outer * middle * inner, int(rng.integers(0, 2))
    source, target = draw_places(rng, results * parts * count * size, 8 * results)
    return Reduce(
        format=INTEGER_FORMATS[size],
        function=reduction.FUNCTIONS.index(rng.choice(_functions(Reduce, "fixed_point"))),
        input=source,
        output=target,
        outer=outer,
        parts=parts,
        middle=middle,
        count=count,
        inner=inner,
        wide=int(rng.integers(0, 2)),
        input_zero=_zero(rng, signed),
        **_scale(rng, "", -int(np.log2(parts * count))),
        **_clamp(rng, signed, size),
    )


def _resize(rng: np.random.Generator) -> Resize:
    """Sizes of their own, positions that leave the image on both sides."""
    heights, widths = rng.integers(1, 12, 2), rng.integers(1, 12, 2)
    depth = draw_size(rng, max(1, min(40, MAX_ELEMENTS // (4 * int(heights[1] * widths[1])))))
    source, target = draw_places(
        rng, int(heights[0] * widths[0]) * depth, int(heights[1] * widths[1]) * depth
    )
    fields: dict[str, int] = {}
    for axis, (size, count) in (("row", heights), ("column", widths)):
        exact = int(rng.integers(0, 2))
        scale = int(size * 1024 // count) << 14 if exact else int(rng.integers(0, 3 << 24))
        fields[f"{axis}_scale"] = scale
        fields[f"{axis}_offset"] = int(
            rng.choice([0, scale // 2 - (1 << 23), rng.integers(-(2 << 24), 2 << 24)])
        )
    return Resize(
        bilinear=int(rng.integers(0, 2)),
        input=source,
        output=target,
        ifm_height=int(heights[0]),
        ifm_width=int(widths[0]),
        depth=depth,
        ofm_height=int(heights[1]),
        ofm_width=int(widths[1]),
        signed=int(rng.integers(0, 2)),
        **fields,
    )


_CODES = ("uint8", "int8")
_CONVERSIONS = {
    1: tuple((source, target) for source in _CODES for target in _CODES),
    2: (("int16", "int16"), *[("int16", code) for code in _CODES], *[(code, "int16") for code in _CODES]),
}
"""Types of input and output by the bytes of the wider one."""


def _convert(rng: np.random.Generator, size: int = 1) -> Convert:
    count = draw_size(rng, MAX_ELEMENTS)
    source, target = draw_places(rng, count * size, count * size)
    pairs = _CONVERSIONS[size]
    types = pairs[int(rng.integers(0, len(pairs)))]
    source_bytes, target_bytes = (2 if name == "int16" else 1 for name in types)
    clamp = _clamp(rng, int(types[1] == "int8"), target_bytes)
    del clamp["signed"]
    return Convert(
        input=source,
        output=source if source_bytes == target_bytes and rng.random() < 0.2 else target,
        size=count,
        input_zero=_zero(rng, int(types[0] == "int8")),
        source=TYPES.index(types[0]),
        target=TYPES.index(types[1]),
        **_scale(rng, "", 8 * (target_bytes - source_bytes)),
        **clamp,
    )


def _lookup(rng: np.random.Generator) -> Lookup:
    entry = int(rng.choice([0, 0, 1, 2]))
    size = draw_size(rng, MAX_ELEMENTS >> entry)
    source, target, table = draw_places(rng, size, size << entry, 256 << entry)
    return Lookup(input=source, output=target, size=size, table=table, entry=entry)


def _int16_lookup(rng: np.random.Generator) -> Lookup:
    """The memory has any entries, not only those of the functions. Arguments reach beyond the tables at both ends."""
    size = draw_size(rng, MAX_ELEMENTS)
    source, target, table = draw_places(rng, 2 * size, 2 * size, 2 * 513)
    return Lookup(
        input=source,
        output=source if rng.random() < 0.2 else target,
        size=size,
        table=table,
        entry=int(rng.integers(0, 3)),
        int16=int(rng.integers(1, len(INT16_TABLES))),
        multiplier=int(rng.integers(1 << 14, 1 << 15)),
        right=int(rng.choice([0, 10, 12, 14, 15, rng.integers(0, 32)])),
    )


def _compare(rng: np.random.Generator) -> Binary:
    columns = draw_size(rng, 300)
    rows = draw_size(rng, max(1, MAX_ELEMENTS // columns))
    grid = _grid(rng, rows, columns)
    signed, scale = int(rng.integers(0, 2)), int(rng.integers(0, len(SCALES)))
    factors = {**_scale(rng, "a_", -3), **_scale(rng, "b_", -3)}
    if SCALES[scale] == "exact":
        apart = int(rng.integers(-16, 17))
        factors = {
            "a_multiplier": int(rng.integers(1 << 23, 1 << 24)),
            "b_multiplier": int(rng.integers(1 << 23, 1 << 24)),
            "a_shift": max(apart, 0),
            "b_shift": max(-apart, 0),
        }
        if rng.random() < 0.3:  # equal products
            factors["b_multiplier"] = factors["a_multiplier"]
    return Binary(
        function=NAMES.index(rng.choice(list(RELATIONS))),
        scale=scale,
        **grid,
        a_zero=_zero(rng, signed),
        b_zero=_zero(rng, signed),
        left_shift=8 if rng.random() < 0.8 else int(rng.integers(0, 32)),
        signed=signed,
        **factors,
    )


def _select(rng: np.random.Generator) -> Select:
    columns = draw_size(rng, 200)
    rows = draw_size(rng, max(1, MAX_ELEMENTS // columns))
    grid = _grid(rng, rows, columns, ("condition", "a", "b"))
    signed = int(rng.integers(0, 2))
    return Select(
        function=int(rng.integers(0, 2)),
        **grid,
        a_zero=_zero(rng, signed),
        b_zero=_zero(rng, signed),
        **_scale(rng, "a_", 0),
        **_scale(rng, "b_", 0),
        **_clamp(rng, signed),
    )


def _real_scale(rng: np.random.Generator, usual: float) -> int:
    """The bits of a scale; often a power of two, so that halves are many, or a tenth; sometimes any number."""
    if rng.random() < 0.03:
        return int(rng.integers(0, 1 << 32))
    scale = rng.choice(
        [2.0 ** float(rng.integers(-3, 4)), float(rng.integers(1, 10)) / 10, rng.random() + 0.01]
    )
    return bits_of(float(usual * scale))


def _float_operand(rng: np.random.Generator, name: str, usual: float, what: str = "scale") -> dict[str, int]:
    """Scale, zero point and type."""
    signed = int(rng.integers(0, 2))
    said = {f"{name}_{what}": _real_scale(rng, usual), f"{name}_zero": _zero(rng, signed)}
    return {**said, f"{name}_signed": signed}


def _float_output(rng: np.random.Generator, usual: float, what: str = "scale") -> dict[str, int]:
    """Scale, zero point, type and bounds."""
    return {**_clamp(rng, int(rng.integers(0, 2))), f"output_{what}": _real_scale(rng, usual)}


def _float_binary(rng: np.random.Generator) -> Binary:
    columns = draw_size(rng, 300)
    rows = draw_size(rng, max(1, MAX_ELEMENTS // columns))
    grid = _grid(rng, rows, columns)
    name = str(rng.choice(_functions(Binary, "as_float32")))
    usual = {"mul": 50.0, "prelu": 20.0, "div": 0.05, "fused_mul": 0.01}.get(name, 1.0)
    return Binary(
        format=IN_FLOAT32,
        function=NAMES.index(name),
        **grid,
        **_float_operand(rng, "a", 1.0, "multiplier"),
        **_float_operand(rng, "b", 1.0, "multiplier"),
        **_float_output(rng, usual, "multiplier"),
    )


def _float_pool(rng: np.random.Generator) -> Pool:
    how = {"by_columns": int(rng.integers(0, 2)), "fused": int(rng.integers(0, 2))}
    function = windows.FUNCTIONS.index("average")
    fields = {**how, **_float_operand(rng, "input", 1.0), **_float_output(rng, 1.0)}
    return replace(_pool(rng), format=IN_FLOAT32, function=function, **fields)


def _float_reduce(rng: np.random.Generator) -> Reduce:
    reduce = _reduce(rng)
    name = str(rng.choice(_functions(Reduce, "as_float32")))
    terms = reduce.parts * reduce.count
    usual = {"mean": 1.0, "sum": terms**0.5, "fused_mean": 1 / terms}[name]
    scaled = {**_float_operand(rng, "input", 1.0), **_float_output(rng, usual)}
    return replace(reduce, format=IN_FLOAT32, function=reduction.FUNCTIONS.index(name), **scaled)


KINDS: dict[str, Callable[[np.random.Generator], Instruction]] = {
    "binary": _binary,
    "pool": _pool,
    "mean": _mean,
    "convert": _convert,
    "lookup": _lookup,
    "compare": _compare,
    "select": _select,
    "reduce": _reduce,
    "resize": _resize,
    "float_binary": _float_binary,
    "float_pool": _float_pool,
    "float_reduce": _float_reduce,
    "int16_binary": partial(_binary, size=2),
    "int16_pool": partial(_pool, size=2),
    "int16_convert": partial(_convert, size=2),
    "int16_lookup": _int16_lookup,
    "int16_reduce": partial(_reduce, size=2),
}


def draw_case(rng: np.random.Generator, lanes: int, kind: str) -> Case:
    """`kind`: one of KINDS."""
    instruction = KINDS[kind](rng)
    faults = instruction.faults()
    if faults:
        raise AssertionError(f"the generator drew an illegal instruction: {faults}")
    scratchpad = rng.integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    if isinstance(instruction, Select):  # conditions that do not hold, and truths that are not 1
        first = instruction.condition
        scratchpad[first : first + MAX_ELEMENTS] *= rng.random(MAX_ELEMENTS) < 0.5
    return Case(instruction, draw_hardware(rng, lanes), scratchpad)
