"""Every format that the rows of MAC array and vector unit offer has registers beside it, or a reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import product

import numpy as np

from npusim.isa.engines.kinds import ENGINES
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.table import all_instructions

from . import random_real, random_vector, test_block, test_mac, test_serial, test_stream
from .random_block import draw_block_case
from .random_mac import draw_case
from .random_serial import draw_serial_case
from .random_stream import draw_stream_case
from .test_cell import drawn
from .test_normal import drawn as drawn_rows

FORMAT_FIELDS = (
    "format", "int16", "source", "target", "rescale", "entry", "element", "function", "bilinear", "arithmetic",
)  # fmt: skip
"""The fields that choose a number format or what is computed in it."""
DRAWS = 300
"""Of each kind: enough to see every format of it."""

UNDESCRIBED = {
    "vec.softmax *": "exponentials of rows of any length are not described; their cycles are those of other actions",
    "vec.unit_length *": "roots of sums of squares are not described",
    "mac.real_* on *": "sums of floats are not described; test_mac.py compares their cycles on a systolic array",
    "mac.blocks on *": "scaled sums of blocks are not described; docs/timing.md calls their cycles an assumption",
    "mac.* on bit_serial int16=yes *": "no hardware file has int16_passes for a bit-serial engine",
    "mac.* on stream int16=yes *": "no hardware file has int16_passes for a streaming engine",
}
"""Formats without registers, as patterns, with the reason."""


def name_of(instruction: Instruction, engine: str = "") -> str:
    """Row, engine of MAC instructions, and the fields that choose a format."""
    chosen = [
        f"{name}={spec.choices[getattr(instruction, name)]}"
        for name in FORMAT_FIELDS
        for spec in instruction.specs
        if spec.name == name and spec.choices
    ]
    return " ".join([instruction.mnemonic, *([f"on {engine}"] if engine else []), *chosen, ""])


def variants(row: type[Instruction]) -> Iterator[Instruction]:
    """The legal instructions of size 1 with each choice of the fields that choose a format."""
    sizes = {
        spec.name: 1
        for spec in row.specs
        if not spec.choices and not spec.signed and not spec.name.startswith("pad_")
        if "halvings" not in spec.name
    }
    choices = {spec.name: spec.choices for spec in row.specs if spec.name in FORMAT_FIELDS and spec.choices}
    for values in product(*(range(len(names)) for names in choices.values())):
        instruction = row(**{**sizes, **dict(zip(choices, values, strict=True))})
        if not instruction.faults():
            yield instruction


def offered() -> set[str]:
    """The names of all formats of all rows."""
    names = set()
    for row in all_instructions():
        engines = [engine.kind for engine in ENGINES] if row.home == Unit.MAC else [""]
        if row.home in (Unit.MAC, Unit.VECTOR):
            found = list(variants(row))
            assert found, f"{row.mnemonic}: no instruction of size 1 is legal"
            names |= {name_of(instruction, engine) for instruction in found for engine in engines}
    return names


def described() -> set[str]:
    """The names of the formats that the benches draw."""
    rng = np.random.default_rng(0)
    times = range(DRAWS)
    names = {name_of(kind(rng)) for kind in random_vector.KINDS.values() for _ in times}
    names |= {
        name_of(kind(rng, element))
        for kind in random_real.KINDS.values()
        for _ in times
        for element in (0, 1)
    }
    names |= {name_of(draw(rng)) for draw in (drawn, drawn_rows) for _ in times}
    for engine, draw, shape, kinds in (
        ("systolic", draw_case, test_mac.SHAPES[0], test_mac.ALL_KINDS),
        ("block", draw_block_case, test_block.SHAPES[0], test_block.KINDS),
        ("bit_serial", draw_serial_case, test_serial.SHAPES[0], test_serial.KINDS),
        ("stream", draw_stream_case, test_stream.SHAPES[0], (False, True)),
    ):
        names |= {
            name_of(draw(rng, shape, kind).instruction, engine) for kind in kinds for _ in range(DRAWS // 6)
        }
    return names


def test_every_format_has_registers_or_a_reason() -> None:
    all_names, drawn_names = offered(), described()
    excused = {pattern: {name for name in all_names if fnmatchcase(name, pattern)} for pattern in UNDESCRIBED}
    assert drawn_names <= all_names
    assert all_names - drawn_names - set().union(*excused.values()) == set()
    assert {pattern: names & drawn_names for pattern, names in excused.items() if names & drawn_names} == {}
    assert [pattern for pattern, names in excused.items() if not names] == []
