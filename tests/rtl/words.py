"""The instruction words as SystemVerilog types, generated from the same field declarations as the encoder."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.instruction import FieldSpec
from npusim.isa.table import INSTRUCTIONS

_KEYWORDS = ("signed",)
"""Field names that SystemVerilog keeps for itself; an underscore follows."""


def _struct(name: str, specs: Sequence[FieldSpec]) -> str:
    """A packed struct of consecutive fields; the last declared field is the most significant."""
    lines = []
    for spec in reversed(specs):
        sign = " signed" if spec.signed else ""
        field = f"{spec.name}_" if spec.name in _KEYWORDS else spec.name
        lines.append(f"    logic{sign} [{spec.width - 1}:0] {field};")
    return "\n".join(["  typedef struct packed {", *lines, f"  }} {name};"])


def package() -> str:
    """The package `isa_words`. Both convolutions have the fields of a window in the same place."""
    rows = {row.mnemonic: row for row in INSTRUCTIONS}
    convolve, depthwise = rows["mac.convolve"], rows["mac.depthwise"]
    window = [spec for spec in convolve.specs if spec in depthwise.specs]
    rest = [spec for spec in convolve.specs if spec not in depthwise.specs]
    parts = [
        "// Generated from the instruction rows; see words.py.",
        "`timescale 1ns / 1ps",
        "package isa_words;",
        f"  localparam logic [7:0] CONVOLVE_OPCODE = {convolve.opcode};",
        f"  localparam logic [7:0] DEPTHWISE_OPCODE = {depthwise.opcode};",
        f"  localparam int WINDOW_OFFSET = {window[0].offset};",
        f"  localparam logic [7:0] COPY_OPCODE = {rows['dma.copy'].opcode};",
        f"  localparam logic [7:0] BARRIER_OPCODE = {rows['ctl.barrier'].opcode};",
        f"  localparam int COPY_OFFSET = {rows['dma.copy'].specs[0].offset};",
        *(f"  localparam int CONVOLVE_{spec.name.upper()}_OFFSET = {spec.offset};" for spec in rest),
        _struct("window_t", window),
        _struct("copy_t", rows["dma.copy"].specs),
        "endpackage",
    ]
    return "\n".join(parts) + "\n"
