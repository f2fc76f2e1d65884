"""A second kind of MAC array costs one file and its line in the table: losses, bounds, area follow without an edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..clone import clone, execute, lines_added

DOT = '''"""A test's kind of array: every cycle `rows` values of a dot product for each of 2 * `columns` channels."""

from collections.abc import Mapping
from typing import ClassVar

from npusim.isa.base.cause import Cause
from npusim.isa.engines.engine import EDGE, ArrayRule, Circuits, Engine, Layout, Problem, Use
from npusim.isa.engines.mac_array import MacArray


class Dot(Engine):
    """Dot products of one pixel, 10 cycles through the pipeline."""

    kind: ClassVar[str] = "dot"
    sizes: ClassVar[tuple[str, ...]] = ("mac_array.rows", "mac_array.columns")
    larger: ClassVar[tuple[Mapping[str, float], ...]] = ({"rows": 2}, {"columns": 2})
    causes: ClassVar[tuple[Cause, ...]] = (
        EDGE,
        Cause("pipeline", "pipeline", "#123456", "inside the MAC array: ten stages", ("clock_mhz",)),
    )
    rules: ClassVar[tuple[ArrayRule, ...]] = (
        ArrayRule("columns", (), lambda array: "is odd" if array.columns % 2 else None),
    )

    def macs_per_cycle(self, array: MacArray) -> int:
        return 2 * array.rows * array.columns

    def width(self, array: MacArray) -> int:
        return 2 * array.columns

    def fastest(self, array: MacArray, problem: Problem) -> Layout:
        return Layout()

    def misfits(self, array: MacArray, layout: Layout, by_channel: bool) -> list[str]:
        return ["no layout but one"] if any(layout) else []

    def use(self, array: MacArray, problem: Problem, layout: Layout) -> Use:
        steps = problem.pixels * -(-problem.inner // array.rows) * -(-problem.ofm_depth // (2 * array.columns))
        outputs = problem.pixels * problem.ofm_depth
        return Use(steps + 10, steps, problem.pixels * problem.inner, problem.weights, outputs)

    def split(self, array: MacArray, problem: Problem, layout: Layout) -> tuple[int, ...]:
        useful = -(-problem.macs // self.macs_per_cycle(array))
        return self.use(array, problem, layout).array_cycles - useful, 10

    def circuits(self, array: MacArray) -> Circuits:
        return Circuits(self.macs_per_cycle(array), 1, 4)
'''

LINE = {
    "isa/engines/kinds.py": [
        (
            "from npusim.isa.engines.engine import Engine\n",
            "from npusim.isa.engines.dot import Dot\nfrom npusim.isa.engines.engine import Engine\n",
        ),
        (
            "(Systolic(), Block(), BitSerial(), Stream())",
            "(Systolic(), Block(), BitSerial(), Stream(), Dot())",
        ),
    ]
}

SCRIPT = """
import numpy as np
import npusim
from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware.file import change
from npusim.isa.hardware.units import cycles_of
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.isa.instructions.table import decode_all
from npusim.numbers.area import area
from npusim.numbers.causes import CAUSES
from npusim.reports.run import html, terminal

systolic = change(npusim.hardware("edge-128"), {"dram.bandwidth_gb_per_s": 100.0})
dot = change(systolic, {"mac_array.kind": "dot"})
assert (dot.macs_per_cycle, systolic.macs_per_cycle, dot.tops) == (256, 128, 2 * systolic.tops)
assert area(dot).by_component["mac_array"] > 1.5 * area(systolic).by_component["mac_array"]

before, after = (npusim.run("ds_cnn", hw=hw) for hw in (systolic, dot))
assert all(map(np.array_equal, before.outputs, after.outputs))
assert before.cycles != after.cycles
rows = [each for each in decode_all(after.program.code) if isinstance(each, Convolve | Depthwise)]
assert {type(each) for each in rows} == {Convolve, Depthwise}
for each in rows:
    context = after.program.context
    split = each.split(context)
    assert list(split) == ["edge_tiles", "pipeline"] and min(split.values()) >= 0
    assert cycles_of(each.demand(context), 256) + sum(split.values()) == each.cost(context).cycles
for account in (after.accounts.network, *after.accounts.layers):
    assert account.bound.cycles + sum(account.lost.values()) == account.cycles
assert after.accounts.network.bound.mac == -(-sum(layer.macs for layer in after.layers if layer.unit == "mac") // 256)
conv = next(layer for layer in after.accounts.layers if layer.bound.bound_by == "mac")
assert conv.lost["pipeline"] > 0 and not {"fill_drain", "port", "output_stage"} & set(conv.lost)
assert "pipeline" in CAUSES and "inside the MAC array: ten stages" in html.render(after)
assert "pipeline" in terminal.render(after)
for settings in ({"mac_array.kind": "dote"}, {"mac_array.kind": "dot", "mac_array.columns": 7}):
    try:
        change(systolic, settings)
    except HardwareError as fault:
        print(fault)
"""


@pytest.mark.slow
def test_a_second_kind_of_array_is_one_file_and_one_line(tmp_path: Path) -> None:
    folder = clone(tmp_path, {"isa/engines/dot.py": DOT}, LINE)
    assert lines_added(LINE) == {"isa/engines/kinds.py": 1}
    said = execute(folder, SCRIPT).splitlines()
    assert said[-2:] == [
        "hardware: 1 fault: mac_array.kind: dote is not one of systolic, block, bit_serial, stream, dot, "
        "did you mean dot?",
        "hardware: 1 fault: mac_array.columns: is odd",
    ]
