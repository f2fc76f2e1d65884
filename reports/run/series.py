"""The series of a run that charts, tables and traces show, each computed once: activity of units, stalls, roofline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.table import decode_all, row_of
from npusim.numbers.activity import CAUSE_OF, Doing, activity
from npusim.numbers.causes import STAGES
from npusim.numbers.timeline import Times, accumulate, owners
from npusim.reports.words.names import TRACK_NAMES

if TYPE_CHECKING:
    from npusim.isa.program.program import Buffer
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.power import Amounts, MovingPower
    from npusim.numbers.run import RunResult
    from npusim.numbers.stage import Stage
    from npusim.numbers.timeline import Occupancy

MOST_ITEMS = 20_000
"""Most instructions in a timeline. Beyond, neighbours are merged to keep it small; none could be told apart."""


class Charts:
    """The series of a run, each computed at its first use and kept for all charts, tables and traces of the run."""

    def __init__(self, result: RunResult) -> None:
        self.result = result

    @classmethod
    def of(cls, given: RunResult | Charts) -> Charts:
        """Return the series of a result; those given stay as they are."""
        return given if isinstance(given, cls) else cls(given)  # type: ignore[arg-type]

    @cached_property
    def work(self) -> Work:
        """The instructions; beyond `MOST_ITEMS`, neighbours are merged."""
        return work(self.result, MOST_ITEMS)

    @cached_property
    def power(self) -> MovingPower:
        """The power over time, averaged over a moving window."""
        return self.result.moving_power()

    @cached_property
    def occupancy(self) -> Occupancy:
        """The scratchpad bytes in use over time."""
        return self.result.scratchpad_use()

    @cached_property
    def layer_energy_uj(self) -> dict[str, Amounts]:
        """The energy by component and layer."""
        return self.result.layer_energy_uj()

    @cached_property
    def devices(self) -> Times:
        """The index of the device of each instruction, int64 [n]."""
        numbers = [stage.device for stage in self.result.stages]
        return np.repeat(numbers, [stage.program.instructions for stage in self.result.stages])

    @cached_property
    def stalls(self) -> Stalls:
        """The stalls of the run in order; neighbours with the same cause and layer are joined."""
        parts = [_stalls_of(stage) for stage in self.result.stages]
        columns = (np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*parts, strict=True))
        kind, layer, begin, end = columns
        lasts = np.flatnonzero(end > begin)
        kind, layer, begin, end = kind[lasts], layer[lasts], begin[lasts], end[lasts]
        new = np.ones(len(kind), bool)
        new[1:] = (kind[1:] != kind[:-1]) | (layer[1:] != layer[:-1]) | (begin[1:] != end[:-1])
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(kind))[: len(first)] - 1
        causes = tuple(STAGES.name if cause == _LATE else CAUSE_OF[cause] for cause in kind[first].tolist())
        return Stalls(causes, layer[first], begin[first], end[last])

    @cached_property
    def turns(self) -> Turns:
        """The intervals in which layers own the cycles (`npusim.numbers.timeline.owners`), several of a layer."""
        stages = self.result.stages
        parts = [_turns_of(stage) for stage in stages]
        layer, begin = (np.concatenate(column) for column in zip(*parts, strict=True))
        end = np.append(begin[1:], stages[-1].end_cycle)
        lasts = np.flatnonzero(end > begin) if int(self.result.cycles) else np.arange(len(layer))
        return Turns(layer[lasts], begin[lasts], end[lasts])

    @cached_property
    def buffers(self) -> list[BufferUse]:
        """The buffers of all programs."""
        return [
            BufferUse(
                buffer,
                stage.device,
                stage.cycle_of_run(int(stage.execution.trace.started[buffer.first_instruction])),
                stage.cycle_of_run(int(stage.execution.trace.ended[buffer.last_instruction])),
            )
            for stage in self.result.stages
            for buffer in stage.program.buffers
        ]

    @cached_property
    def roofline(self) -> Roofline:
        """The roofline of the hardware, with the layers on MAC arrays as points."""
        points = [
            RooflinePoint(
                i, layer, layer.macs / layer.bytes if layer.bytes else None, layer.macs / layer.cycles
            )
            for i, layer in enumerate(self.result.layers)
            if layer.unit == "mac" and layer.macs and layer.cycles
        ]
        return Roofline(_roofs(self.result), self.result.hardware.dram_bytes_per_cycle, tuple(points))


@dataclass(frozen=True, slots=True)
class Work:
    """The instructions of a run on their units: int64 [n] each, in program order; intervals of cycles are half-open.

    device: index of the device in the run.
    number: number of instructions that an entry stands for, 1 unless neighbours were merged.
    busy:   cycles in which they work; less than the whole interval if there are gaps between merged ones.
    """

    device: Times
    unit: Times
    layer: Times
    opcode: Times
    begin: Times
    end: Times
    number: Times
    busy: Times

    def mnemonics(self) -> list[str]:
        """Return the mnemonic of each instruction."""
        return [row_of(opcode).mnemonic for opcode in self.opcode.tolist()]


def work(result: RunResult, most: int | None = None) -> Work:
    """Return the instructions of a run; if there are more than `most`, neighbours are merged.

    Only neighbours of one unit, layer and mnemonic are merged, and only over gaps that a chart of `most` points could
    not show, which are shorter than the run / `most`.
    """
    trace, program = result.execution.trace, result.program
    columns = np.array(
        [
            Charts(result).devices,
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
    columns = columns[:, np.lexsort((columns[4], columns[1], columns[0]))]
    new = np.ones(columns.shape[1], bool)
    same = (columns[:4, 1:] == columns[:4, :-1]).all(0)
    new[1:] = ~(same & (columns[4, 1:] - columns[5, :-1] <= int(result.cycles) // most))
    first = np.flatnonzero(new)
    device, unit, layer, opcode, begin = columns[:5, first]
    ended = np.maximum.reduceat(columns[5], first)
    number, busy = np.add.reduceat(columns[6:], first, axis=1)
    return Work(device, unit, layer, opcode, begin, ended, number, busy)


class Track(NamedTuple):
    """The instructions of one unit of a device: their indices in `Work`, int64, sorted by start."""

    device: int
    unit: Unit
    items: Times


def tracks(work: Work) -> tuple[Track, ...]:
    """Return the tracks of a timeline from top to bottom: device by device, the units that do something."""
    tracks = []
    for device in sorted(set(work.device.tolist())):
        for unit in TRACK_NAMES:
            mine = np.flatnonzero((work.device == device) & (work.unit == unit) & (work.end > work.begin))
            if len(mine):
                tracks.append(Track(device, unit, mine[np.argsort(work.begin[mine], kind="stable")]))
    return tuple(tracks)


@dataclass(frozen=True, slots=True)
class Stalls:
    """Intervals in which nothing computes: their causes (`npusim.numbers.causes.CAUSES`), layers, and cycles."""

    cause: tuple[str, ...]
    layer: Times
    begin: Times
    end: Times


_LATE = -1
"""Value beside those of `Doing`: a program has not begun, because it waits for its core or its clock edge."""


def _stalls_of(stage: Stage) -> tuple[Times, Times, Times, Times]:
    """Return the intervals of a stage without computation: `Doing`, layer, begin and end in cycles of the run."""
    program = stage.program
    instructions = decode_all(program.code)
    costs = [instruction.cost(program.context) for instruction in instructions]
    seen = activity(program, stage.execution, instructions, costs)
    idle = np.flatnonzero(seen.doing > Doing.MOVES)
    ends = np.cumsum(seen.cycles)
    begin, end = stage.of_run((ends - seen.cycles)[idle]), stage.of_run(ends[idle])
    layer = seen.layer[idle].astype(np.int64) + stage.first_layer
    late = stage.start_cycle + np.array([0, stage.late_cycles], np.int64)
    return (
        np.append(_LATE, seen.doing[idle]).astype(np.int64),
        np.append(stage.first_layer, layer),
        np.append(late[0], begin),
        np.append(late[1], end),
    )


@dataclass(frozen=True, slots=True)
class Turns:
    """The intervals that are attributed to one layer: layer and end, int64 [n] each, without gaps from cycle 0 on."""

    layer: Times
    begin: Times
    end: Times


def _turns_of(stage: Stage) -> tuple[Times, Times]:
    """Return the layer of each interval of a stage, and the cycle of the run in which the interval begins."""
    program = stage.program
    turns = owners(program, stage.execution.trace, stage.execution.cycles)
    layer = np.append(program.layer_of.astype(np.int64), 0)[turns.instruction]
    new = np.append(True, layer[1:] != layer[:-1])[: len(layer)]
    first = np.flatnonzero(new)
    begin = stage.of_run(turns.bounds[:-1][first])
    begin[:1] = stage.start_cycle
    return layer[first] + stage.first_layer, begin


@dataclass(frozen=True, slots=True)
class BufferUse:
    """A buffer of a device's scratchpad: the device's index in the run, and the cycles from and to which it is used."""

    buffer: Buffer
    device: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Roof:
    """The peak throughput of one machine in MACs per cycle of the run; `name` is empty if there is only one."""

    name: str
    peak_macs_per_cycle: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """The roofline of a run: limits of MACs per cycle over arithmetic intensity in MACs per byte of DRAM traffic.

    A roof is min(peak_macs_per_cycle, bytes_per_cycle * MACs per byte). Roofs are sorted from the highest to the
    lowest; devices with the same peak share one.
    """

    roofs: tuple[Roof, ...]
    bytes_per_cycle: float
    points: tuple[RooflinePoint, ...]

    @property
    def peak_macs_per_cycle(self) -> float:
        """The highest roof, in MACs per cycle."""
        return self.roofs[0].peak_macs_per_cycle

    @property
    def ridge_macs_per_byte(self) -> float:
        """The arithmetic intensity at which both limits meet under the highest roof."""
        return self.peak_macs_per_cycle / self.bytes_per_cycle


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A layer in the roofline. macs_per_byte is None if the layer moves no bytes through the DRAM port."""

    index: int
    layer: LayerResult
    macs_per_byte: float | None
    macs_per_cycle: float


def _roofs(result: RunResult) -> tuple[Roof, ...]:
    """Return the roofs of the machines that run a part of the model, converted to cycles of the run."""
    named: dict[float, list[str]] = {}
    for name, hardware in result.npus:
        per_cycle = hardware.macs_per_cycle * hardware.clock_mhz / result.hardware.clock_mhz
        named.setdefault(per_cycle, []).append(name)
    several = result.several_devices
    return tuple(
        Roof(", ".join(named[peak]) if several else "", peak) for peak in sorted(named, reverse=True)
    )


class Patch(NamedTuple):
    """A rectangle of cells of one kind: columns [left, right), rows [low, high)."""

    kind: int
    left: int
    right: int
    low: int
    high: int

    @property
    def cells(self) -> int:
        """The number of cells."""
        return (self.right - self.left) * (self.high - self.low)


class Items(NamedTuple):
    """The items on a track: their kinds, their half-open intervals of cycles, and their busy cycles within these."""

    kind: NDArray[np.int64]
    begin: Times
    end: Times
    busy: Times


def patches(items: Items, total: int, columns: int, rows: int) -> Iterator[Patch]:
    """Yield the rectangles that draw a track of `total` cycles; equal neighbouring columns are joined."""
    at = 0
    for stack, group in groupby(cells(covered(items, total, columns), rows)):
        right, low = at + len(list(group)), 0
        for kind, number in enumerate(stack):
            if number:
                yield Patch(kind, at, right, low, low + number)
                low += number
        at = right


def covered(items: Items, total: int, columns: int) -> NDArray[np.float64]:
    """Return the share of every column's time that each kind takes, float64 [kinds, columns]."""
    edges = np.linspace(0, total, columns + 1)
    shares = np.zeros((int(items.kind.max(initial=-1)) + 1, columns))
    for kind in range(len(shares)):
        mine = items.kind == kind
        grown = accumulate(items.begin[mine], items.end[mine], items.busy[mine].astype(np.float64), total)
        shares[kind] = np.diff(np.interp(edges, grown.corners, grown.reached)) * columns / max(total, 1)
    return shares


def cells(shares: NDArray[np.float64], rows: int) -> Iterator[Sequence[int]]:
    """Return how many of the `rows` cells of each column each kind fills.

    The number of filled cells is the sum of the shares, rounded. Each cell goes to the kind that lacks most of one.
    """
    owed = [0.0] * len(shares)
    for column in (shares.T * rows).tolist():
        wanted = [share + due for share, due in zip(column, owed, strict=True)]
        number = [max(int(want // 1), 0) for want in wanted]
        together = min(max(int(sum(wanted) + 0.5 + 1e-6), 0), rows)
        while sum(number) != together:
            step = 1 if sum(number) < together else -1
            takers = [kind for kind in range(len(number)) if number[kind] + step >= 0 and column[kind]]
            if not takers:
                break
            kind = max(takers, key=lambda candidate: step * (wanted[candidate] - number[candidate]))
            number[kind] += step
        owed = [want - got for want, got in zip(wanted, number, strict=True)]
        yield tuple(number)
