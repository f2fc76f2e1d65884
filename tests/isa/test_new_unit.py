"""A new unit costs its rows, its section, its line in the table of units and its prices; everything else follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..clone import Edit, clone, execute, lines_added

ROWS = '''"""A test's unit: it turns bytes around."""

from dataclasses import dataclass
from typing import ClassVar

from npusim.isa.base.cause import Cause
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.mac import ADDRESS_BITS
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.word import bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Instruction):
    """Write bytes in the opposite order."""

    mnemonic: ClassVar[str] = "toy.turn"
    opcode: ClassVar[int] = 0x70
    home: ClassVar[Unit] = Unit.TOY
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("toy_wind_up", "winding up", "#654321", "inside the toy unit: it is wound up", ("toy.wind_up_cycles",)),
    )

    source: int = bits(ADDRESS_BITS, "scratchpad address of the bytes")
    target: int = bits(ADDRESS_BITS, "of the result")
    size: int = bits(ADDRESS_BITS, "bytes")

    def regions(self, context: Context) -> Regions:
        """Bytes and result."""
        source = dense(Space.SCRATCHPAD, self.source, self.size)
        return (source,), (dense(Space.SCRATCHPAD, self.target, self.size),)

    def execute(self, memory: Memory) -> list[Write]:
        """Turn them around."""
        source = memory.bytes_at(Space.SCRATCHPAD, self.source, self.size)
        return [(memory.bytes_at(Space.SCRATCHPAD, self.target, self.size), source[::-1].copy())]

    def cost(self, context: Context) -> Cost:
        """Wound up, then as many bytes per cycle as it has hands."""
        toy = context.hardware.toy
        return Cost(toy.wind_up_cycles + -(-self.size // toy.hands), {"toy_turn": self.size})

    def demand(self, context: Context) -> int:
        """Every byte."""
        return self.size
'''

EDITS: dict[str, list[Edit]] = {
    "isa/hardware/hardware.py": [  # its section
        (
            "class Host(Section):\n",
            'class Toy(Section):\n    """Turns bytes around."""\n\n'
            '    hands: int = positive("bytes per cycle", default=4, le=64)\n'
            '    wind_up_cycles: int = cycles("before the first byte", default=20, le=1024)\n\n\n'
            "class Host(Section):\n",
        ),
        (
            "    host: Host = table(Host, default=Host())\n",
            "    toy: Toy = table(Toy, default=Toy())\n    host: Host = table(Host, default=Host())\n",
        ),
    ],
    "isa/hardware/units.py": [  # its entry in the table
        (
            "    FRONT_END = _FRONT_END\n",
            '    TOY = computing("toy", "toy unit", "#abcdef", lambda hardware: hardware.toy.hands, ("toy.hands",))\n'
            "    FRONT_END = _FRONT_END\n",
        ),
    ],
    "isa/instructions/table.py": [
        (
            '    (0x40, Unit.HOST, "control.Call"),\n',
            '    (0x40, Unit.HOST, "control.Call"),\n    (0x70, Unit.TOY, "toy.Turn"),\n',
        ),
    ],
    "isa/instructions/actions.py": [  # what it counts, and the price
        (
            '    Action("vector_exp",',
            '    Action("toy_turn", "toy", "byte", "one byte turned"),\n    Action("vector_exp",',
        ),
    ],
    "npusim/numbers/energy.toml": [
        ("vector_exp =  ", "toy_turn = [10.0, 9.0, 8.0, 7.0]\nvector_exp =  "),
    ],
}

SCRIPT = """
import dataclasses
import numpy as np
import npusim
from npusim.isa.base.elements import Workload
from npusim.isa.hardware.units import PRODUCERS, Unit
from npusim.isa.instructions.table import decode_all
from npusim.isa.instructions.toy import Turn
from npusim.isa.program import container, interpreter
from npusim.isa.program.program import Layer
from npusim.isa.text import assembly, manual
from npusim.machine.system import execute
from npusim.numbers.measure import measure
from npusim.numbers.power import charges
from npusim.reports.run import chrome_trace, figures, html, terminal
from tests.npusim.machine.handmade import bench, bytes_at, load, program, store, waits

SIZE = 400
code = [
    load(0, 0, SIZE),
    Turn(source=0, target=1024, size=SIZE, waits=waits(dma0=1)),
    store(1024, 4096, SIZE, channel=1, after=waits(toy=1)),
]
made = program(code, bench(), inputs=[bytes_at("in", 0, SIZE)], outputs=[bytes_at("out", 4096, SIZE)])
layer = Layer("turned", "turn", "toy", Workload("elementwise"))
made = dataclasses.replace(made, layers=(layer,))

# The contract: words, text, file.
assert PRODUCERS[-1] is Unit.TOY and PRODUCERS.index(Unit.TOY) == Unit.TOY
assert decode_all(made.code) == code
assert container.loads(container.dumps(made)).layers[0].unit == "toy"
text = assembly.disassemble(made)
assert "toy.turn target=1024 size=400 wait dma0>=1" in text and "wait toy>=1" in text
assert "### toy.turn" in manual.manual()

# The machine: in order and without a clock.
values = (np.arange(SIZE) % 251).astype(np.uint8)
run = execute(made, [values])
assert (run.outputs[0] == values[::-1]).all()
assert (interpreter.interpret(made, [values])[0] == values[::-1]).all()
trace = run.trace
assert trace.ended[1] - trace.started[1] == 20 + 100 and trace.started[2] >= trace.ended[1]

# The numbers: bound, losses, energy.
result = measure(made, run)
assert (result.cycles.toy, result.lower_bound.toy) == (120, 100)
account = result.accounts.network
assert account.bound.bound_by == "toy" and account.lost["toy_wind_up"] == 20
assert account.bound.cycles + sum(account.lost.values()) == account.cycles == result.cycles
assert result.accounts.layers[0] == account
assert result.energy_uj.by_component["toy"] > 0
assert charges(made, run).over_time(1000).by_component_mw["toy"].max() > 0
assert result.to_dict()["cycles"]["toy"] == 120 and result.to_dict()["lost_cycles"]["toy_wind_up"] == 20

# The reports.
page, summary = html.render(result), terminal.render(result)
for words in ("toy unit", "winding up", "Toy unit", "wind_up_cycles", "#abcdef"):
    assert words in page, words
assert "toy unit" in summary and "winding up" in summary and "the toy unit" in summary
assert '"toy unit"' in chrome_trace.render(result)
print("done")
"""


@pytest.mark.slow
def test_a_new_unit_is_rows_a_section_a_line_and_prices(tmp_path: Path) -> None:
    folder = clone(tmp_path, {"isa/instructions/toy.py": ROWS}, EDITS)
    assert lines_added(EDITS) == {
        "isa/hardware/hardware.py": 8,
        "isa/hardware/units.py": 1,
        "isa/instructions/table.py": 1,
        "isa/instructions/actions.py": 1,
        "npusim/numbers/energy.toml": 1,
    }
    assert execute(folder, SCRIPT).splitlines() == ["done"]
