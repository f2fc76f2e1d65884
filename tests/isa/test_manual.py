"""The generated manual is complete and up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npusim.isa.hardware.parameters import parameters_read
from npusim.isa.hardware.units import UNIT_NAMES
from npusim.isa.instructions.actions import ACTIONS
from npusim.isa.instructions.elementwise import MEANINGS, NAMES
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.table import all_instructions
from npusim.isa.text.assembly import parse_instruction
from npusim.isa.text.manual import counted_actions, full_hardware, main, manual

from ..examples import NIGHT
from .samples import CALLS, legal_instructions, tiny_hardware

FILE = Path(__file__).resolve().parents[2] / "docs" / "isa.md"
TEXT = manual()


def section(row: type[Instruction]) -> str:
    """What the manual says about one instruction."""
    return TEXT.split(f"\n### {row.mnemonic}\n")[1].split("\n### ")[0].split("\n## ")[0]


def test_docs_isa_md_is_up_to_date() -> None:
    assert FILE.read_text("utf-8") == TEXT, "write it again with python -m npusim.isa.text.manual"


@pytest.mark.parametrize("row", all_instructions(), ids=lambda row: row.mnemonic)
def test_every_instruction_has_its_section(row: type[Instruction]) -> None:
    text = section(row)
    assert f"Opcode {row.opcode:#04x}" in text
    assert UNIT_NAMES[row.home] in text
    for spec in row.specs:
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{spec.name}` |")]
        assert line.endswith(f"| {spec.doc} |")
        assert f"| {spec.offset}" in line
        assert all(f"`{name}`" in line for name in spec.choices)
    for heading in ("*Effect.*", "*Occupancy.*", "*Actions.*", "*Assembly.*"):
        assert text.count(heading) == 1
    example = text.split("*Assembly.* `")[1].split("`")[0]
    instruction = parse_instruction(example)
    assert (instruction.mnemonic, instruction.faults()) == (row.mnemonic, [])


@pytest.mark.parametrize("row", all_instructions(), ids=lambda row: row.mnemonic)
def test_the_actions_of_an_instruction_are_all_it_counts(row: type[Instruction]) -> None:
    names, uses_dram = counted_actions(row)
    assert all(f"`{name}`" in section(row).split("*Actions.*")[1] for name in names)
    for instruction in legal_instructions(row, 25 if NIGHT else 8):
        cost = instruction.cost(Context(tiny_hardware(), CALLS))
        assert set(cost.actions) <= set(names)
        assert uses_dram or not cost.dram


def test_tables_are_complete() -> None:
    for action in ACTIONS:
        assert f"| `{action.name}` | {action.component} | {action.unit} | {action.doc} |" in TEXT
    for name in NAMES:
        assert f"| `{name}` | {MEANINGS[name]} | " in TEXT
    assert (
        "| `sub` | a - b, each requantized, then the difference requantized | "
        "fixed_point: `vector_add_q8`; as_float32: " in TEXT
    )
    assert "\n\n\n" not in TEXT


def test_the_full_machine_has_every_option() -> None:
    full = full_hardware()
    chip = full.model_dump()
    for parameter in parameters_read(full):
        if parameter.path.startswith("memory.NAME."):
            continue  # there may be any number of memories
        value: Any = chip
        for key in parameter.path.split("."):
            value = value[key]
        assert type(value) is not int or value > 0, parameter.path


@pytest.mark.slow
def test_the_manual_is_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "isa.md"
    assert main([str(file)]) == 0
    assert file.read_text("utf-8") == TEXT
    assert main(["--check", str(file)]) == 0
    file.write_text(TEXT + "\nchanged by hand\n", "utf-8")
    assert main(["--check", str(file)]) == 1
    assert main(["--check", str(tmp_path / "none.md")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{file} is out of date; write it with python -m npusim.isa.text.manual",
        f"{tmp_path / 'none.md'}: No such file or directory; run this in the top folder of npusim",
    ]
