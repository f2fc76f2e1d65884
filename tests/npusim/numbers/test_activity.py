"""The activity of a run, summed by what happens, is that of its intervals in the order of time."""

from __future__ import annotations

from collections import Counter

import pytest

import npusim
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.machine.system import execute
from npusim.machine.trace import Execution
from npusim.numbers.activity import activity


def sums(program: Program, execution: Execution, *, in_time: bool) -> Counter[tuple[int, ...]]:
    """Cycles by layer, `Doing`, delayed layer and served layers."""
    instructions = decode_all(program.code)
    costs = [each.cost(program.context) for each in instructions]
    seen = activity(program, execution, instructions, costs, in_time=in_time)
    found: Counter[tuple[int, ...]] = Counter()
    for cycles, *what in zip(seen.cycles, seen.layer, seen.doing, seen.delayed, *seen.serves, strict=True):
        found[tuple(map(int, what))] += int(cycles)
    return found


@pytest.mark.parametrize("model", ["digits_cnn", "ds_cnn"])
@pytest.mark.parametrize("hardware", ["edge-128", "mobile-1024", "gap9", "stm32n6"])
def test_sums_are_those_of_the_intervals_in_time(model: str, hardware: str) -> None:
    program = npusim.compile(npusim.load(model), hardware)
    assert isinstance(program, Program)
    execution = execute(program, data=False)
    summed = sums(program, execution, in_time=False)
    assert summed == sums(program, execution, in_time=True)
    assert sum(summed.values()) == execution.cycles
