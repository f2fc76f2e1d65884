"""The instruction words as SystemVerilog types, generated from the same field declarations as the encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npusim.isa.arithmetic.real import ACTIVATIONS, UNARY
from npusim.isa.instructions import elementwise, reduction, windows
from npusim.isa.instructions.gather import ANYWHERE
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.lanes import FORMAT_NAMES
from npusim.isa.instructions.mac import HALVINGS_BITS
from npusim.isa.instructions.rows import HELD_ROWS
from npusim.isa.instructions.table import all_instructions
from npusim.isa.instructions.vector import INT16_TABLES, TYPES
from npusim.isa.instructions.word import WAIT_SPECS, WAITS, FieldSpec

_KEYWORDS = ("signed", "input", "output", "function", "table")
"""Field names that SystemVerilog keeps for itself; an underscore follows."""
_VECTOR = (
    "vec.binary",
    "vec.pool",
    "vec.convert",
    "vec.unary",
    "vec.lookup",
    "vec.reduce",
    "vec.resize",
    "vec.select",
    "vec.lstm",
    "vec.normalize",
)
"""Vector instructions that are described: those that the registers execute, the step of cells, and normalizations."""
_CHOICES = {
    "format": FORMAT_NAMES,
    "binary": elementwise.NAMES,
    "scale": elementwise.SCALES,
    "unary": tuple(row.name for row in UNARY),
    "reduce": reduction.FUNCTIONS,
    "pool": windows.FUNCTIONS,
    "activation": ACTIVATIONS,
    "stored": TYPES,
    "table": INT16_TABLES,
}
"""Values of the fields of vector instructions, by what they choose."""

_IN_FLOAT32 = [
    "  function automatic logic computes_in_float32(input logic [575:0] word);  // on 8-bit data",
    "    return 32'(word[VECTOR_OFFSET+:3]) == FORMAT_AS_FLOAT32 &&",
    "        (word[7:0] == BINARY_OPCODE || word[7:0] == POOL_OPCODE || word[7:0] == REDUCE_OPCODE);",
    "  endfunction",
]
"""The format is the first field of rows that have one."""

_WAIT = [replace(spec, name=spec.name.partition(".")[2]) for spec in WAIT_SPECS[:2]]
"""Unit and count of a wait."""


def _struct(name: str, specs: Sequence[FieldSpec]) -> str:
    """A packed struct of consecutive fields; the last declared field is the most significant."""
    lines = []
    for spec in reversed(specs):
        sign = " signed" if spec.signed else ""
        field = f"{spec.name}_" if spec.name in _KEYWORDS else spec.name
        lines.append(f"    logic{sign} [{spec.width - 1}:0] {field};")
    return "\n".join(["  typedef struct packed {", *lines, f"  }} {name};"])


def _vector_rows(rows: Mapping[str, type[Instruction]]) -> list[str]:
    """Opcode and fields of the vector instructions, and the numbers of functions."""
    lines = [f"  localparam int VECTOR_OFFSET = {rows['vec.binary'].specs[0].offset};"]
    for mnemonic, row in rows.items():
        if mnemonic in _VECTOR:
            name = mnemonic.removeprefix("vec.")
            lines.append(f"  localparam logic [7:0] {name.upper()}_OPCODE = {row.opcode};")
            lines.append(_struct(f"{name}_t", row.specs))
    lines += [
        f"  localparam int {kind.upper()}_{name.upper()} = {number};"
        for kind, names in _CHOICES.items()
        for number, name in enumerate(names)
    ]
    return lines + _IN_FLOAT32


def header() -> str:
    """The same choices as a C++ header, for the arithmetic of a floating-point lane."""
    lines = ["// Generated from the instruction rows; see words.py.", "#pragma once"]
    for kind, names in _CHOICES.items():
        members = ", ".join(f"{kind.upper()}_{name.upper()}" for name in names)
        lines.append(f"enum {{ {members} }};")
    return "\n".join(lines) + "\n"


def package() -> str:
    """The package `isa_words`. Both convolutions have the fields of a window in the same place."""
    rows = {row.mnemonic: row for row in all_instructions()}
    convolve, depthwise = rows["mac.convolve"], rows["mac.depthwise"]
    hold = next(spec for spec in rows["ctl.barrier"].specs if spec.name == "cycles")
    window = [spec for spec in convolve.specs if spec in depthwise.specs]
    rest = {
        row.mnemonic.removeprefix("mac."): [spec for spec in row.specs if spec not in window]
        for row in (convolve, depthwise)
    }
    parts = [
        "// Generated from the instruction rows; see words.py.",
        "`timescale 1ns / 1ps",
        "package isa_words;",
        f"  localparam int WAITS = {WAITS};",
        f"  localparam int WAITS_OFFSET = {WAIT_SPECS[0].offset};",
        _struct("wait_t", _WAIT),
        f"  localparam logic [7:0] CONVOLVE_OPCODE = {convolve.opcode};",
        f"  localparam logic [7:0] DEPTHWISE_OPCODE = {depthwise.opcode};",
        f"  localparam int WINDOW_OFFSET = {window[0].offset};",
        f"  localparam logic [7:0] COPY_OPCODE = {rows['dma.copy'].opcode};",
        f"  localparam logic [7:0] BARRIER_OPCODE = {rows['ctl.barrier'].opcode};",
        f"  localparam int BARRIER_CYCLES_OFFSET = {hold.offset};",
        f"  localparam int BARRIER_CYCLES_BITS = {hold.width};",
        f"  localparam int COPY_OFFSET = {rows['dma.copy'].specs[0].offset};",
        f"  localparam logic [7:0] GATHER_OPCODE = {rows['dma.gather'].opcode};",
        f"  localparam int ANYWHERE_BIT = {ANYWHERE.bit_length() - 1};",
        *_vector_rows(rows),
        f"  localparam int HALVINGS_BITS = {HALVINGS_BITS};",
        f"  localparam int NORMALIZE_HELD_ROWS = {HELD_ROWS};",
        *(
            f"  localparam int {name.upper()}_{spec.name.upper()}_OFFSET = {spec.offset};\n"
            f"  localparam int {name.upper()}_{spec.name.upper()}_BITS = {spec.width};"
            for name, specs in rest.items()
            for spec in specs
        ),
        _struct("window_t", window),
        _struct("copy_t", rows["dma.copy"].specs),
        _struct("gather_t", rows["dma.gather"].specs),
        "endpackage",
    ]
    return "\n".join(parts) + "\n"
