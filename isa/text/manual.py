"""Write the reference manual of the instruction set, docs/isa.md, from the instruction rows.

python -m npusim.isa.text.manual            write docs/isa.md
python -m npusim.isa.text.manual --check    fail if docs/isa.md is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc, getdoc, getmodule
from itertools import combinations, product
from pathlib import Path
from typing import Any

from npusim.isa.arithmetic import integer as arithmetic
from npusim.isa.arithmetic import packing
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import HostCall
from npusim.isa.engines.systolic import timing as mac_timing
from npusim.isa.hardware.file import change
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameters
from npusim.isa.hardware.units import PRODUCERS, UNIT_NAMES, Unit
from npusim.isa.instructions import beats
from npusim.isa.instructions.actions import ACTIONS
from npusim.isa.instructions.dma import SPACES
from npusim.isa.instructions.elementwise import MEANINGS, Binary
from npusim.isa.instructions.instruction import Context, Cost, Instruction, used_bits
from npusim.isa.instructions.lanes import Formatted, VectorInstruction
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import all_instructions
from npusim.isa.instructions.word import FIELDS_OFFSET, OPCODE_BITS, WAIT_SPECS, WORD_BYTES, FieldSpec
from npusim.isa.text.assembly_instruction import format_instruction

FILE = Path("docs/isa.md")

_OVERVIEW = """\
A program is a sequence of instruction words of {word_bytes} bytes and the memory images they work on; how both
are stored is in [npu_file.md](npu_file.md). The front end fetches the words from DRAM, decodes them and hands
each to the queue of its unit, in program order. Every unit executes its own instructions one after the other;
units run side by side.

**Execution rule.** An instruction reads its operands when it starts and its results become visible when it
ends. An instruction that starts before the one whose results it needs has ended computes with old bytes.

**Waits.** Each word has one wait count per unit: the instruction starts only when that unit has completed
at least that many instructions since the program began. `wait mac>=3` waits for the third instruction of the
MAC array. Zero waits for nothing. The order between instructions of one unit needs no waits.

**Memories.** {spaces}. Addresses and sizes are in bytes; everything is little endian. The scratchpad is
addressed from 0 to its size; DRAM from 0 to the size that the program states.

**Rules.** A program is checked before anything of it is executed: the rules of each instruction below; no byte
outside the memories; no byte of a destination written twice; no wait for more completions than there are
instructions on that unit; no channel, dataflow or host call that does not exist.
"""

_SPACES = {
    Space.SCRATCHPAD: "the software-managed SRAM that the computing units work on",
    Space.DRAM: "off-chip memory behind one shared port",
}


def manual() -> str:
    """Return the text of docs/isa.md."""
    return "\n".join(_lines()).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the manual and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m npusim.isa.text.manual", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"[default: {FILE}]")
    chosen = parser.parse_args(arguments)
    text = manual()
    try:
        if not chosen.check:
            chosen.file.write_text(text, "utf-8")
            return 0
        current = chosen.file.read_text("utf-8")
    except OSError as fault:
        print(f"{chosen.file}: {fault.strerror}; run this in the top folder of npusim", file=sys.stderr)
        return 2
    if current == text:
        return 0
    print(f"{chosen.file} is out of date; write it with python -m npusim.isa.text.manual", file=sys.stderr)
    return 1


def counted_actions(row: type[Instruction]) -> tuple[list[str], bool]:
    """Return the actions that instructions of a row may count, and whether they use the DRAM port."""
    costs = list(_costs(row))
    counted = {name for cost in costs for name in cost.actions}
    return [action.name for action in ACTIONS if action.name in counted], any(cost.dram for cost in costs)


def full_hardware() -> Hardware:
    """Return a machine with every optional feature: no number is zero where zero would mean its absence."""
    options = {row.path: 1 for row in parameters() if type(row.default) is int and row.default == 0}
    columns = dict.fromkeys(("mac_array.float16_columns", "mac_array.float32_columns"), 4)  # can be halved
    blocks = {"mac_array.weight_blocks": "both"}
    return change(Hardware(name="full"), options | columns | blocks, all_read=False)


def _costs(row: type[Instruction]) -> Iterator[Cost]:
    """Yield the costs of small instances of an instruction.

    Every number is 1, and the named values of each three fields are tried together, with only the memories that
    exist.
    """
    calls = (HostCall("", "", {}, (), (), Workload("elementwise")),) * 2
    context = Context(full_hardware(), calls)
    base = {spec.name: int(not spec.signed and not spec.choices) for spec in row.specs}
    named = [
        [
            (spec.name, value)
            for value in range(len(context.hardware.spaces if spec.choices == SPACES else spec.choices))
        ]
        for spec in row.specs
        if spec.choices
    ]
    for fields in combinations(named, min(len(named), 3)):
        for values in product(*fields):
            instruction = row(**base | dict(values))  # type: ignore[arg-type]
            if not isinstance(instruction, Formatted) or not instruction.function_faults():
                yield instruction.cost(context)


def _lines() -> Iterator[str]:
    yield "# The instruction set"
    yield ""
    yield "<!-- Generated by python -m npusim.isa.text.manual from the instruction rows in isa/. Do not edit. -->"
    yield ""
    spaces = ", ".join(f"`{space.name.lower()}`: {text}" for space, text in _SPACES.items())
    yield _OVERVIEW.format(word_bytes=WORD_BYTES, spaces=spaces)
    yield from _table(("instruction", "opcode", "unit", "what it does"), map(_summary, all_instructions()))
    yield from _word()
    for module in dict.fromkeys(map(getmodule, all_instructions())):
        yield from _chapter(module)
        for row in all_instructions():
            if getmodule(row) is module:
                yield from _instruction(row)
    yield from ("", "## Elementwise functions", "")
    functions = ((f"`{name}`", meaning, "; ".join(_computed_in(name))) for name, meaning in MEANINGS.items())
    yield from _table(("function", "result", "arithmetics, with the actions of an element"), functions)
    for module in (beats, packing, mac_timing, arithmetic):
        yield from _chapter(module)
    yield from ("", "## Actions", "", "What instructions count; the energy table prices each.", "")
    actions = ((f"`{action.name}`", action.component, action.unit, action.doc) for action in ACTIONS)
    yield from _table(("action", "component", "counted per", "what happens"), actions)


def _computed_in(function: str) -> Iterator[str]:
    """Yield the arithmetics that compute a function of two operands, each with the actions per element."""
    for (name, kind), way in Binary.ways.items():
        if name == function:
            yield f"{kind}: {', '.join(f'`{action}`' for action in way.steps(1))}"


def _chapter(module: object) -> Iterator[str]:
    """Yield a module's docstring as a chapter whose heading is its first line."""
    title, *text = _doc(module).splitlines()
    yield from ("", f"## {title.rstrip('.')}", *text)


def _word() -> Iterator[str]:
    """Yield the description of the part of the instruction word that all instructions share."""
    yield from ("", "## Instruction word", "")
    yield (
        f"A word has {WORD_BYTES * 8} bits, numbered from the least significant bit of the first byte. Bits that an "
        "instruction does not use are zero; signed fields are in two's complement."
    )
    yield ""
    rows = [_bits("opcode", 0, OPCODE_BITS, "which instruction")]
    rows += [_bits(f"`{spec.name}`", spec.offset, spec.width, spec.doc) for spec in WAIT_SPECS]
    rows.append(_bits("fields", FIELDS_OFFSET, WORD_BYTES * 8 - FIELDS_OFFSET, "those of the instruction"))
    yield from _table(("part", "bits", "width", "meaning"), rows)


def _bits(name: str, offset: int, width: int, meaning: str) -> tuple[str, ...]:
    return name, f"{offset}..{offset + width - 1}", str(width), meaning


def _instruction(row: type[Instruction]) -> Iterator[str]:
    """Yield the section of one instruction."""
    yield from ("", f"### {row.mnemonic}", "")
    yield f"Opcode {row.opcode:#04x}, unit {_unit(row)}, {used_bits(row)} bits used."
    yield ""
    yield from _doc(row).splitlines()
    yield ""
    if row.specs:
        yield from _table(("field", "bits", "width", "values", "meaning"), map(_field, row.specs))
        yield ""
    if row.faults is not Instruction.faults:
        yield f"*Rules.* {_joined(row.faults)}"
        yield ""
    if row.misfits is not Instruction.misfits:
        yield f"*Needs.* {_joined(row.misfits)}"
        yield ""
    yield f"*Effect.* {_joined(row.execute)}"
    yield ""
    yield f"*Occupancy.* {' '.join(_joined(text) for text in _occupancy(row))}"
    yield ""
    names, uses_dram = counted_actions(row)
    counted = [f"`{name}`" for name in names] + (["those of the DRAM port"] if uses_dram else [])
    yield f"*Actions.* {', '.join(counted) or 'none of its own'}."
    yield ""
    yield f"*Assembly.* `{format_instruction(_example(row))}`"


def _occupancy(row: type[Instruction]) -> list[Any]:
    """Return the methods whose docstrings say how long an instruction takes: its cost, and its work if any."""
    return [row.work, row.cost] if issubclass(row, VectorInstruction) else [row.cost]


def _example(row: type[Instruction]) -> Instruction:
    """Return a legal example of how fields are written: the first few are set, and of the others those that must be."""
    fields: dict[str, Any] = {}
    for place, spec in enumerate(row.specs):
        values: Sequence[int] = (0, 1, min(16, spec.high))
        if place < 4:
            values = range(spec.high, -1, -1) if spec.choices else values[2:]
        fields[spec.name] = min(values, key=lambda value: len(row(**{**fields, spec.name: value}).faults()))
    return row(waits=((PRODUCERS[0], 1),), **fields)


def _summary(row: type[Instruction]) -> tuple[str, ...]:
    meaning = _joined(row).split(". ")[0].rstrip(".")
    return f"[`{row.mnemonic}`](#{row.mnemonic.replace('.', '')})", f"{row.opcode:#04x}", _unit(row), meaning


def _unit(row: type[Instruction]) -> str:
    """Return the unit of an instruction, or the range of units that a field selects from."""
    units = dict.fromkeys(
        row(**{spec.name: value}).unit  # type: ignore[arg-type]
        for spec in row.specs
        for value in range(min(spec.high + 1, len(Unit)))
    )
    names = [UNIT_NAMES[unit] for unit in units or {row.home: None}]
    return f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}`..`{names[-1]}`"


def _field(spec: FieldSpec) -> tuple[str, ...]:
    if spec.choices:
        values = ", ".join(f"{value} `{name}`" for value, name in enumerate(spec.choices))
    else:
        values = f"{spec.low}..{spec.high}"
    last = spec.offset + spec.width - 1
    where = f"{spec.offset}..{last}" if spec.width > 1 else str(last)
    return f"`{spec.name}`", where, str(spec.width), values, spec.doc


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _doc(what: Any) -> str:
    return cleandoc(getdoc(what) or "")


def _joined(what: Any) -> str:
    """Return a docstring as one paragraph."""
    return " ".join(_doc(what).split())


if __name__ == "__main__":
    sys.exit(main())
