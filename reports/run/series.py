"""What charts of a run show, as plain columns: the units over time, stalls with their causes, the roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npusim.isa.instructions.table import BY_OPCODE, decode_all
from npusim.numbers.activity import CAUSE_OF, Doing, activity
from npusim.numbers.timeline import Times, owners

if TYPE_CHECKING:
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.run import RunResult


@dataclass(frozen=True, slots=True)
class Work:
    """Instructions on their units: int64 [n] each, in the order of the program; cycles are half-open.

    number: how many instructions an entry stands for, 1 unless neighbours were merged.
    busy:   cycles in which they work: all of it, unless there are gaps between merged ones.
    """

    unit: Times
    layer: Times
    opcode: Times
    begin: Times
    end: Times
    number: Times
    busy: Times

    def mnemonics(self) -> list[str]:
        """The name of each instruction."""
        return [BY_OPCODE[opcode].mnemonic for opcode in self.opcode.tolist()]


def work(result: RunResult, most: int | None = None) -> Work:
    """The instructions of a run; of more than `most`, neighbours of a layer and kind on a unit are merged.

    Only gaps are merged that a chart of `most` points could not show: shorter than the run / `most`.
    """
    trace, program = result.execution.trace, result.program
    columns = np.array(
        [
            trace.unit.astype(np.int64),
            program.layer_of.astype(np.int64),
            program.code[:, 0].astype(np.int64),
            trace.started,
            trace.ended,
            np.ones(program.instructions, np.int64),
            trace.ended - trace.started,
        ]
    )
    if most is None or program.instructions <= most:
        return Work(*columns)
    columns = columns[:, np.lexsort((columns[3], columns[0]))]
    new = np.ones(columns.shape[1], bool)
    same = (columns[:3, 1:] == columns[:3, :-1]).all(0)
    new[1:] = ~(same & (columns[3, 1:] - columns[4, :-1] <= int(result.cycles) // most))
    first = np.flatnonzero(new)
    unit, layer, opcode, begin = columns[:4, first]
    ended = np.maximum.reduceat(columns[4], first)
    number, busy = np.add.reduceat(columns[5:], first, axis=1)
    return Work(unit, layer, opcode, begin, ended, number, busy)


@dataclass(frozen=True, slots=True)
class Stalls:
    """Stretches in which nothing computes: their causes (`npusim.numbers.causes.CAUSES`), layers, and times."""

    cause: tuple[str, ...]
    layer: Times
    begin: Times
    end: Times


def stalls(result: RunResult) -> Stalls:
    """The stalls of a run, in order; neighbours of one cause and layer are one."""
    program = result.program
    instructions = decode_all(program.code)
    context = program.context
    costs = [each.cost(context) for each in instructions]
    seen = activity(program, result.execution, instructions, costs)
    ends = np.cumsum(seen.cycles)
    idle = np.flatnonzero((seen.doing > Doing.MOVES) & (seen.cycles > 0))
    if not len(idle):
        none = np.zeros(0, np.int64)
        return Stalls((), none, none, none)
    kind, layer, end = seen.doing[idle], seen.layer[idle], ends[idle]
    begin = end - seen.cycles[idle]
    new = np.ones(len(idle), bool)
    new[1:] = (kind[1:] != kind[:-1]) | (layer[1:] != layer[:-1]) | (begin[1:] != end[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(idle)) - 1
    causes = tuple(CAUSE_OF[each] for each in kind[first].tolist())
    return Stalls(causes, layer[first].astype(np.int64), begin[first], end[last])


@dataclass(frozen=True, slots=True)
class Turns:
    """Whose cycles they are, one layer after the other: int64 [n] each, without gaps from 0 to the end."""

    layer: Times
    begin: Times
    end: Times


def turns(result: RunResult) -> Turns:
    """The layers in the order in which they own cycles (`npusim.numbers.timeline.owners`); a layer may come again."""
    program = result.program
    found = owners(program, result.execution.trace, int(result.cycles))
    layer = np.append(program.layer_of.astype(np.int64), 0)[found.instruction]
    new = np.append(True, layer[1:] != layer[:-1])[: len(layer)]
    first = np.flatnonzero(new)
    begin = found.bounds[:-1][first]
    return Turns(layer[first], begin, np.append(begin[1:], found.bounds[-1])[: len(first)])


@dataclass(frozen=True, slots=True)
class Roofline:
    """What a machine can reach: multiply-accumulates per cycle over those per byte of DRAM traffic.

    The roof is min(peak_macs_per_cycle, bytes_per_cycle * macs per byte).
    """

    peak_macs_per_cycle: float
    bytes_per_cycle: float
    points: tuple[RooflinePoint, ...]

    @property
    def ridge_macs_per_byte(self) -> float:
        """Where both limits meet."""
        return self.peak_macs_per_cycle / self.bytes_per_cycle


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A layer in the roofline. macs_per_byte is None where the layer moves no bytes through the DRAM port."""

    index: int
    layer: LayerResult
    macs_per_byte: float | None
    macs_per_cycle: float


def roofline(result: RunResult) -> Roofline:
    """The layers of the MAC array in the roofline of their hardware."""
    points = [
        RooflinePoint(i, layer, layer.macs / layer.bytes if layer.bytes else None, layer.macs / layer.cycles)
        for i, layer in enumerate(result.layers)
        if layer.unit == "mac" and layer.macs and layer.cycles
    ]
    hardware = result.hardware
    return Roofline(float(hardware.macs_per_cycle), hardware.dram_bytes_per_cycle, tuple(points))
