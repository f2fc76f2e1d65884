"""Random legal vector instructions on real numbers with the scratchpad that they work on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.real import ACTIVATIONS, BINARY, UNARY
from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions import reduction, windows
from npusim.isa.instructions.elementwise import NAMES, RELATIONS, WHOLE, Binary
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.lanes import bits_of, format_of
from npusim.isa.instructions.reduction import Reduce
from npusim.isa.instructions.vector import TYPES, Convert, Unary
from npusim.isa.instructions.windows import Pool

from .random_vector import Case, draw_places, draw_size, draw_window
from .unit_bench import SCRATCHPAD_BYTES
from .vector_referee import STAGES

MAX_ELEMENTS = 1500
"""Of one instruction, windows counted whole."""
ODDITIES = (0.0, -0.0, 0.5, 1.5, -2.5, 1.0, 6.0, -1e-7, 6e-8, 65504.0, -1e5, np.inf, -np.inf, np.nan)


def _format(element: int) -> int:
    return format_of("float32" if element else "float16")


def draw_hardware(rng: np.random.Generator, lanes: int) -> Hardware:
    """Up to so many lanes of either type, any cycles."""

    def some() -> int:
        return lanes if rng.random() < 0.3 else int(rng.integers(1, lanes + 1))

    def cycles() -> int:
        return int(rng.choice([1, 1, 2, 3, 4, 9]))

    vector = Vector(
        lanes=8,
        startup_cycles=8 if rng.random() < 0.3 else int(rng.integers(0, STAGES + 1)),
        float16_lanes=some(),
        float32_lanes=some(),
        float_cycles=cycles(),
        float_divide_cycles=cycles(),
        float_function_cycles=cycles(),
    )
    return Hardware(name="rtl", vector=vector)


def draw_memory(rng: np.random.Generator, element: int) -> NDArray[np.uint8]:
    """Mostly numbers of either sign and about the size of 1, some far from it, some that are special."""
    count = SCRATCHPAD_BYTES // 4 if element else SCRATCHPAD_BYTES // 2
    numbers = rng.normal(size=count) * 2.0 ** rng.integers(-4, 5, count)
    far = rng.random(count) < 0.05
    numbers[far] *= 2.0 ** rng.integers(-22, 14, count)[far]
    odd = rng.random(count) < rng.choice([0, 0.01, 0.2])
    numbers[odd] = rng.choice(ODDITIES, count)[odd]
    with np.errstate(all="ignore"):
        return numbers.astype(np.float32 if element else np.float16).view(np.uint8)


def _places(rng: np.random.Generator, *sizes: int) -> list[int]:
    """Addresses of regions; mostly such that elements lie where the memory has numbers."""
    if rng.random() < 0.1:
        return draw_places(rng, *sizes)
    return [4 * address for address in draw_places(rng, *(-(-size // 4) for size in sizes))]


def _operand(rng: np.random.Generator, rows: int, row_bytes: int, size: int) -> tuple[int, int, int]:
    """Row stride, column stride and bytes of an operand: whole, repeated in one direction or in both, or apart."""
    kind = int(rng.choice([0, 0, 1, 2, 3, 4]))
    if kind == 0:
        return row_bytes, 1, rows * row_bytes
    if kind == 1:
        return 0, 1, row_bytes
    if kind == 2:
        return size, 0, rows * size
    if kind == 3:
        return 0, 0, size
    stride = row_bytes + size * int(rng.integers(0, 5))
    return stride, 1, rows * stride


def _binary(rng: np.random.Generator, element: int) -> Binary:
    whole = str(rng.choice(["int32", "int64"])) if element and rng.random() < 0.3 else ""
    size = 8 if whole == "int64" else 4 if element else 2
    columns = draw_size(rng, 200)
    rows = draw_size(rng, max(1, MAX_ELEMENTS // columns))
    names = list(WHOLE) if whole else [row.name for row in BINARY]
    function = names[int(rng.integers(0, len(names)))]
    a_row, a_column, a_bytes = _operand(rng, rows, columns * size, size)
    b_row, b_column, b_bytes = _operand(rng, rows, columns * size, size)
    a, b, output = _places(rng, a_bytes, b_bytes, rows * columns * size)
    if (a_row, a_column) == (columns * size, 1) and function not in RELATIONS and rng.random() < 0.3:
        output = a
    return Binary(
        format=format_of(whole) if whole else _format(element),
        function=NAMES.index(function),
        a=a,
        b=b,
        output=output,
        rows=rows,
        columns=columns,
        a_row_stride=a_row,
        b_row_stride=b_row,
        a_column_stride=a_column,
        b_column_stride=b_column,
        activation=0 if whole or function in RELATIONS else int(rng.integers(0, len(ACTIVATIONS))),
    )


def _unary(rng: np.random.Generator, element: int) -> Unary:
    size = draw_size(rng, MAX_ELEMENTS)
    source, target = _places(rng, 4 * size, 4 * size)
    return Unary(
        format=_format(element),
        function=int(rng.integers(0, len(UNARY))),
        input=source,
        output=source if rng.random() < 0.2 else target,
        size=size,
        alpha=bits_of(float(rng.normal())),
    )


def _reduce(rng: np.random.Generator, element: int) -> Reduce:
    inner = 1 if rng.random() < 0.3 else draw_size(rng, 40)
    count = draw_size(rng, max(1, min(60, MAX_ELEMENTS // inner)))
    outer = draw_size(rng, max(1, MAX_ELEMENTS // (inner * count)))
    source, target = _places(rng, 4 * outer * count * inner, 4 * outer * inner)
    return Reduce(
        format=_format(element),
        function=reduction.FUNCTIONS.index(
            rng.choice([name for name, known in Reduce.ways if known == "float"])
        ),
        input=source,
        output=target,
        outer=outer,
        parts=1,
        middle=1,
        count=count,
        inner=inner,
    )


def _pool(rng: np.random.Generator, element: int) -> Pool:
    size = 4 if element else 2
    fields = draw_window(rng)
    taken = fields["kernel_height"] * fields["kernel_width"] * fields["ofm_height"] * fields["ofm_width"]
    depth = draw_size(rng, max(1, min(30, MAX_ELEMENTS // taken)))
    ifm_row = (fields["ifm_width"] * depth + int(rng.choice([0, 0, 5]))) * size
    ofm_row = (fields["ofm_width"] * depth + int(rng.choice([0, 0, 5]))) * size
    ifm, ofm = _places(rng, fields["ifm_height"] * ifm_row, fields["ofm_height"] * ofm_row)
    return Pool(
        format=_format(element),
        function=int(rng.integers(0, len(windows.FUNCTIONS))),
        activation=int(rng.integers(0, len(ACTIVATIONS))),
        ifm=ifm,
        ifm_row_stride=ifm_row,
        depth=depth,
        ofm=ofm,
        ofm_row_stride=ofm_row,
        **fields,
    )


def _convert(rng: np.random.Generator, element: int) -> Convert:
    """From or to the element type; the other side is a code, the same, a narrower one, or a wide integer."""
    mine = TYPES.index("float32" if element else "float16")
    other = TYPES.index(rng.choice([name for name in TYPES[: mine + 1] if name != "int16"]))
    zero = int(rng.integers(-128, 256))
    source, target = (mine, other) if rng.random() < 0.5 else (other, mine)
    if element and rng.random() < 0.3:
        source, target = TYPES.index(str(rng.choice(["int32", "int64"]))), mine
    size = draw_size(rng, MAX_ELEMENTS)
    taken, given = _places(rng, 8 * size, 4 * size)
    return Convert(
        source=source,
        target=target,
        input=taken,
        output=given,
        size=size,
        scale=bits_of(float(2.0 ** rng.uniform(-10, 2))),
        input_zero=zero,
        output_zero=zero,
    )


KINDS: dict[str, Callable[[np.random.Generator, int], Instruction]] = {
    "binary": _binary,
    "unary": _unary,
    "reduce": _reduce,
    "pool": _pool,
    "convert": _convert,
}


def draw_case(rng: np.random.Generator, lanes: int, kind: str) -> Case:
    """`kind`: one of KINDS."""
    element = int(rng.integers(0, 2))
    instruction = KINDS[kind](rng, element)
    faults = instruction.faults()
    if faults:
        raise AssertionError(f"the generator drew an illegal instruction: {faults}")
    return Case(instruction, draw_hardware(rng, lanes), draw_memory(rng, element))
