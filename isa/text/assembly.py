"""Assembly text of programs that people can read and edit: `disassemble` and `assemble`.

    .program name="tiny" dram_size_bytes=4096 code_address=1024
    .hardware "edge-128"
    .layer name="conv" op="conv_2d" unit="mac" workload={"kind": "gemm", "macs": 6400}

    .for 0                                          ; the layer that the following instructions work for
      dma.copy target=64 size=32 source_space=dram  ; 0 dma0 1
      mac.convolve ... wait dma0>=1                 ; 1 mac 1

Each field of `Program` has a directive (one per element if the field is a list). Its arguments are the fields of that
element as JSON values; fields with their default value are left out. `.hardware` takes the name of a preset, or a
hardware file in the lines up to `.end`. `.constants` takes rows of a position and hexadecimal bytes up to `.end`; all
other bytes are zero.

A comment begins with a semicolon and ends with the line. The comments that `disassemble` writes count the
instructions of the program and those of each unit, as the waits do.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from npusim.isa.base.errors import HardwareError, ProgramError, nearest, printable
from npusim.isa.base.plain_values import read_json, shown, to_json
from npusim.isa.hardware.file import from_dict, hardware, list_presets, to_toml
from npusim.isa.hardware.units import UNIT_NAMES, Unit
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.table import decode_all, encode_all
from npusim.isa.program.program import Program
from npusim.isa.program.record import from_fields, from_plain, to_fields, to_plain
from npusim.isa.program.validate import find_violation, image_faults
from npusim.isa.text.assembly_instruction import format_instruction, parse_instruction, whole_number

__all__ = ["assemble", "disassemble", "format_instruction", "parse_instruction"]

COMMENT = ";"
ROW_BYTES = 32
RAW_FIELDS = ("code", "layer_of", "constants")
"""Fields of `Program` with their own syntax: instructions, `.for`, and rows of bytes."""

PROGRAM, HARDWARE, FOR, CONSTANTS, END = ".program", ".hardware", ".for", ".constants", ".end"


def _list_directives() -> dict[str, tuple[str, type]]:
    """Return directive -> (field of Program, type of its elements) for the fields that are lists of records."""
    directives = {}
    for name, annotation in get_type_hints(Program).items():
        if get_origin(annotation) is tuple and get_args(annotation)[0] is not str:
            directives[f".{name.removesuffix('s')}"] = (name, get_args(annotation)[0])
    return directives


LISTS: Mapping[str, tuple[str, type]] = _list_directives()
SCALARS = [
    field.name
    for field in dataclasses.fields(Program)
    if field.name not in (*RAW_FIELDS, "hardware", *(name for name, _ in LISTS.values()))
]
"""Fields of `Program` that are arguments of `.program`."""


# Program to text.


def disassemble(program: Program) -> str:
    """Return a program as assembly text, which `assemble` converts back to the same program.

    Raises ProgramError for invalid code.
    """
    instructions = decode_all(program.code)
    lines = [_record(PROGRAM, to_fields(program, SCALARS)), "", HARDWARE]
    lines += [to_toml(program.hardware) + END]
    for directive, (name, _) in LISTS.items():
        elements = getattr(program, name)
        lines += ["", f"{COMMENT} {len(elements)} {name}"] if elements else []
        for index, element in enumerate(elements):
            lines.append(f"{_record(directive, to_plain(element))}  {COMMENT} {index}")
    lines += ["", f"{COMMENT} {len(instructions)} instructions"]
    lines += _code_lines(program, instructions)
    lines += ["", f"{CONSTANTS} {len(program.constants)}"]
    lines += [*_constant_rows(program), END]
    return "\n".join(lines) + "\n"


def code(program: Program, layer: int | None = None) -> str:
    """Return only the instructions, of one layer or all, for reading: `assemble` needs more. Raises ProgramError."""
    return "\n".join(_code_lines(program, decode_all(program.code), layer)) + "\n"


def _record(directive: str, plain: Mapping[str, Any]) -> str:
    return " ".join(
        [directive, *(f"{name}={to_json(value, readable=True)}" for name, value in plain.items())]
    )


def _code_lines(program: Program, instructions: list[Instruction], only: int | None = None) -> Iterator[str]:
    counts = [0] * len(Unit)
    current = -1
    for index, (instruction, layer) in enumerate(zip(instructions, program.layer_of.tolist(), strict=True)):
        counts[instruction.unit] += 1
        if only not in (None, layer):
            continue
        if layer != current:
            current = layer
            of = program.layers[layer] if layer < len(program.layers) else None
            yield (
                f"{FOR} {layer}  {COMMENT} {printable(of.op)} {to_json(of.name)}" if of else f"{FOR} {layer}"
            )
        number = f"{index} {UNIT_NAMES[instruction.unit]} {counts[instruction.unit]}"
        yield f"  {format_instruction(instruction)}  {COMMENT} {number}"


def _constant_rows(program: Program) -> Iterator[str]:
    empty, constants = bytes(ROW_BYTES), bytes(program.constants)
    for start in range(0, len(constants), ROW_BYTES):
        row = constants[start : start + ROW_BYTES]
        if row != empty[: len(row)]:
            yield f"{start:#010x} {row.hex()}"


# Text to program.


def assemble(text: str) -> Program:
    """Return the program of an assembly text, checked like a program from a file.

    Raises ProgramError that names the line, what it contains and what is allowed there.
    """
    return _Assembler(text).program()


class _Assembler:
    """The state of one assembly run: the contents of the lines read so far."""

    def __init__(self, text: str) -> None:
        # Not splitlines(): it also splits at characters that JSON strings may contain.
        self.lines = enumerate(text.split("\n"), 1)
        self.line = 0
        self.fields: dict[str, Any] = {}
        self.lists: dict[str, list[Any]] = {name: [] for name, _ in LISTS.values()}
        self.layer = 0
        self.layer_of: list[int] = []
        self.instructions: list[Instruction] = []
        self.instruction_lines: list[int] = []
        self.constants_line = 0
        self.constants_size = 0
        self.rows: list[tuple[int, int, bytes]] = []

    def program(self) -> Program:
        """Read all lines, then build the program and check it."""
        directives: dict[str, Callable[[str], None]] = {
            PROGRAM: self._program,
            HARDWARE: self._hardware,
            FOR: self._for,
            CONSTANTS: self._constants,
        }
        try:
            for number, line in self.lines:
                self.line = number
                word, rest = (*line.split(maxsplit=1), "", "")[:2]
                if not word or word.startswith(COMMENT):
                    continue
                if word in directives:
                    directives[word](rest)
                elif word in LISTS:
                    self._element(word, _assignments(word, rest))
                elif word.startswith("."):
                    raise ProgramError(_unknown_directive(word, [*directives, *LISTS, END]))
                else:
                    self._instruction(line)
            return self._whole()
        except ProgramError as fault:
            where = f"line {self.line}: " if self.line else ""
            raise ProgramError(f"{where}{fault}") from None

    def _program(self, rest: str) -> None:
        plain = _assignments(PROGRAM, rest)
        try:
            values = from_fields(Program, plain, SCALARS, complete=False)
        except ProgramError as fault:
            raise ProgramError(f"{PROGRAM}: {fault}") from None
        self._set(PROGRAM, values)

    def _element(self, directive: str, plain: Mapping[str, Any]) -> None:
        name, kind = LISTS[directive]
        try:
            self.lists[name].append(from_plain(kind, plain))
        except ProgramError as fault:
            raise ProgramError(f"{directive}: {fault}") from None

    def _set(self, directive: str, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if name in self.fields:
                raise ProgramError(f"{directive}: {name} is given twice")
            self.fields[name] = value

    def _hardware(self, rest: str) -> None:
        preset, end = _json_or_nothing(HARDWARE, rest)
        _require_end(HARDWARE, rest, end)
        if preset is not None:
            if preset not in list_presets():
                raise ProgramError(f"{HARDWARE}: {shown(preset)} is not one of {', '.join(list_presets())}")
            self._set(HARDWARE, {"hardware": hardware(preset)})
            return
        # Empty lines in front make TOML's error messages give the line numbers of the assembly text.
        block = "\n" * self.line + "".join(f"{line}\n" for _, line in self._block())
        try:
            self._set(HARDWARE, {"hardware": from_dict(tomllib.loads(block), HARDWARE)})
        except HardwareError as fault:
            raise ProgramError(str(fault)) from None
        except (ValueError, RecursionError) as fault:
            raise ProgramError(f"{HARDWARE}: not valid TOML: {fault}") from None

    def _block(self) -> Iterator[tuple[int, str]]:
        """Yield the lines up to `.end`, with their numbers."""
        begin = self.line
        for number, line in self.lines:
            if line.strip() == END:
                return
            yield number, line
        self.line = begin
        raise ProgramError(f"the block that begins here has no {END}")

    def _for(self, rest: str) -> None:
        word = rest.partition(COMMENT)[0].strip()
        layer = whole_number(word)
        if layer is None or not 0 <= layer < 1 << 32:
            raise ProgramError(f"{FOR} takes the number of a layer, not {shown(word)}")
        self.layer = layer

    def _instruction(self, line: str) -> None:
        self.instructions.append(parse_instruction(line.partition(COMMENT)[0]))
        self.instruction_lines.append(self.line)
        self.layer_of.append(self.layer)

    def _constants(self, rest: str) -> None:
        word = rest.partition(COMMENT)[0].strip()
        size = whole_number(word)
        if size is None or size < 0:
            raise ProgramError(f"{CONSTANTS} takes the number of bytes, not {shown(word)}")
        if self.constants_line:
            raise ProgramError(f"{CONSTANTS} stands twice, first in line {self.constants_line}")
        self.constants_line, self.constants_size = self.line, size
        for number, line in self._block():
            self.line = number
            word, *rest_of_row = line.partition(COMMENT)[0].split() or [""]
            if not word:
                continue
            address = whole_number(word)
            try:
                row = bytes.fromhex("".join(rest_of_row))
            except ValueError:
                address = None
            if address is None:
                raise ProgramError(
                    f"{CONSTANTS}: {shown(line.strip())} is not a position and bytes in hexadecimal"
                )
            self.rows.append((self.line, address, row))

    def _whole(self) -> Program:
        """Return the program of all lines, checked."""
        self.line = 0
        if "hardware" not in self.fields:
            raise ProgramError(f"{HARDWARE} is missing")
        for field in dataclasses.fields(Program):
            if (
                field.name in SCALARS
                and field.default is dataclasses.MISSING
                and field.name not in self.fields
            ):
                raise ProgramError(f"{PROGRAM}: {field.name} is missing")
        fields = self.fields | {name: tuple(elements) for name, elements in self.lists.items()}
        program = Program(
            **fields,
            code=encode_all(self.instructions),
            layer_of=np.array(self.layer_of, np.uint32),
            constants=b"",
        )
        program = dataclasses.replace(program, constants=self._constant_bytes(program))
        violation = find_violation(program, self.instructions)
        if violation is None:
            return program
        if violation.instruction is None:
            raise ProgramError(violation.text)
        self.line = self.instruction_lines[violation.instruction]
        raise ProgramError(f"{self.instructions[violation.instruction].mnemonic}: {violation.text}")

    def _constant_bytes(self, program: Program) -> bytes:
        """Return all constants; their sizes are checked before memory is allocated."""
        self.line = self.constants_line
        fault = next(image_faults(program, self.constants_size), None)
        if fault is not None:
            raise ProgramError(f"{CONSTANTS}: {fault}")
        data = bytearray(self.constants_size)
        expected, end = 0, self.constants_size
        for number, address, row in self.rows:
            self.line = number
            if not expected <= address <= end - len(row):
                raise ProgramError(
                    f"{CONSTANTS}: {len(row)} bytes at {address:#x} lie outside {expected:#x}..{end:#x}, "
                    "which the rows before have left"
                )
            data[address : address + len(row)] = row
            expected = address + len(row)
        self.line = 0
        return bytes(data)


_ASSIGNMENT = re.compile(r"\s*(\w+)=")


def _assignments(directive: str, text: str) -> dict[str, Any]:
    """Parse NAME=JSON pairs up to the end of the line or a comment."""
    values: dict[str, Any] = {}
    position = 0
    while True:
        match = _ASSIGNMENT.match(text, position)
        if match is None:
            _require_end(directive, text, position)
            return values
        name = match[1]
        if name in values:
            raise ProgramError(f"{directive}: {name} stands twice")
        try:
            values[name], position = read_json(text, match.end())
        except ProgramError as fault:
            raise ProgramError(f"{directive}: {name}: {fault}") from None


def _json_or_nothing(directive: str, text: str) -> tuple[Any, int]:
    """Parse the JSON value at the beginning of a line; return it and its end, or None for an empty line."""
    start = len(text) - len(text.lstrip())
    if start == len(text) or text[start] == COMMENT:
        return None, start
    try:
        return read_json(text, start)
    except ProgramError as fault:
        raise ProgramError(f"{directive}: {fault}") from None


def _require_end(directive: str, text: str, position: int) -> None:
    """Raise ProgramError if anything but a comment follows."""
    rest = text[position:].strip()
    if rest and not rest.startswith(COMMENT):
        raise ProgramError(f"{directive}: {shown(rest)} is not NAME=VALUE")


def _unknown_directive(word: str, known: list[str]) -> str:
    near = nearest(word, known)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
    return f"{shown(word)} is not a directive, {hint}"
