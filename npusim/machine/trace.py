"""The result of a simulated run: the timeline of its instructions and transfers, and its action counts."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.memories import Space

if TYPE_CHECKING:
    from npusim.isa.instructions.actions import PortActions
    from npusim.isa.instructions.instruction import Cost

INSTRUCTION_FETCH = "fetch"
"""The requester name of the front end in transfers."""

OTHER_CORE = "other core"
"""The requester name, in a core's trace, of all transfers of other cores during its run."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Grants of one requester that a memory's port served in sequence. Cycles are half-open: start <= t < end."""

    requester: str
    start_cycle: int
    end_cycle: int
    size_bytes: int
    write: bool
    core: int = 0
    space: Space = Space.DRAM


class Source(NamedTuple):
    """The fields that all transfers of one requester in one direction share (see `Transfer`)."""

    requester: str
    write: bool
    core: int
    space: Space


class Transfers(Sequence[Transfer]):
    """A sequence of transfers stored as columns, because a run may have millions of them.

    started, ended, size_bytes: int64 [n]. source: index into `sources`, int32 [n].
    """

    def __init__(
        self,
        sources: Sequence[Source],
        started: NDArray[np.int64],
        ended: NDArray[np.int64],
        size_bytes: NDArray[np.int64],
        source: NDArray[np.int32],
    ) -> None:
        self.started, self.ended, self.size_bytes = started, ended, size_bytes
        self.source, self.sources = source, tuple(sources)

    @classmethod
    def of(cls, transfers: Sequence[Transfer]) -> Transfers:
        """Return any sequence of transfers as columns."""
        if isinstance(transfers, Transfers):
            return transfers
        log = TransferLog()
        for requester, started, ended, size_bytes, write, core, space in map(astuple, transfers):
            log.add(Source(requester, write, core, space), started, ended, size_bytes)
        return log.since(0)

    @classmethod
    def joined(cls, parts: Sequence[Transfers]) -> Transfers:
        """Return several sequences as one, in their order."""
        if len(parts) == 1:
            return parts[0]
        numbers: dict[Source, int] = {}
        numbered = [np.zeros(0, np.int32)]
        for part in parts:
            own = np.array([numbers.setdefault(source, len(numbers)) for source in part.sources], np.int32)
            numbered.append(own[part.source])
        empty = [np.zeros(0, np.int64)]
        return cls(
            tuple(numbers),
            np.concatenate(empty + [part.started for part in parts]),
            np.concatenate(empty + [part.ended for part in parts]),
            np.concatenate(empty + [part.size_bytes for part in parts]),
            np.concatenate(numbered),
        )

    def at(self, started: NDArray[np.int64], ended: NDArray[np.int64]) -> Transfers:
        """Return the same transfers at other times."""
        return Transfers(self.sources, started, ended, self.size_bytes, self.source)

    def renamed(self, name_of: Callable[[Source], str]) -> Transfers:
        """Return the same transfers with other names of requesters."""
        sources = [source._replace(requester=name_of(source)) for source in self.sources]
        return Transfers(sources, self.started, self.ended, self.size_bytes, self.source)

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Transfers:
        """Return some of the transfers, by a mask or by their positions."""
        return Transfers(
            self.sources,
            self.started[chosen],
            self.ended[chosen],
            self.size_bytes[chosen],
            self.source[chosen],
        )

    def __len__(self) -> int:
        return len(self.started)

    @overload
    def __getitem__(self, index: int) -> Transfer: ...

    @overload
    def __getitem__(self, index: slice) -> Transfers: ...

    def __getitem__(self, index: int | slice) -> Transfer | Transfers:
        if isinstance(index, slice):
            return self.where(np.arange(len(self))[index])
        requester, write, core, space = self.sources[self.source[index]]
        started, ended, size_bytes = (
            int(column[index]) for column in (self.started, self.ended, self.size_bytes)
        )
        return Transfer(requester, started, ended, size_bytes, write, core, space)

    def __iter__(self) -> Iterator[Transfer]:
        columns = (self.started, self.ended, self.size_bytes, self.source)
        for started, ended, size_bytes, number in zip(*(column.tolist() for column in columns), strict=True):
            requester, write, core, space = self.sources[number]
            yield Transfer(requester, started, ended, size_bytes, write, core, space)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transfers | tuple):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    def __hash__(self) -> int:
        return hash(tuple(self))


class TransferLog:
    """The transfers of a memory's port so far, in the order in which they end."""

    def __init__(self) -> None:
        self._columns = (array("q"), array("q"), array("q"), array("i"))
        self._numbers: dict[Source, int] = {}

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, source: Source, started: int, ended: int, size_bytes: int) -> None:
        """Append one transfer."""
        begins, ends, sizes, numbers = self._columns
        begins.append(started)
        ends.append(ended)
        sizes.append(size_bytes)
        numbers.append(self._numbers.setdefault(source, len(self._numbers)))

    def add_turns(
        self, sources: Sequence[Source], started: int, ended: array[int], sizes: array[int]
    ) -> None:
        """Append transfers whose sources take turns. Each begins in the cycle in which the one before it ends."""
        numbers = [self._numbers.setdefault(source, len(self._numbers)) for source in sources]
        begins, ends, size_bytes, source = self._columns
        begins.append(started)
        begins.extend(ended[:-1])
        ends.extend(ended)
        size_bytes.extend(sizes)
        source.extend((array("i", numbers) * (len(ended) // len(numbers) + 1))[: len(ended)])

    def since(self, first: int) -> Transfers:
        """Return the transfers from a position on."""
        columns = (np.array(memoryview(column)[first:]) for column in self._columns)
        return Transfers(tuple(self._numbers), *columns)


@dataclass(frozen=True)
class Trace:
    """The timeline of a run, one entry per instruction in program order; all times in cycles (int64).

    unit:       `npusim.isa.hardware.units.Unit` of each instruction (FRONT_END for barriers).
    dispatched: the instruction entered the queue of its unit.
    at_head:    it was first in the queue and the unit was free; from then on it waited only for other units.
    ready:      all waits were satisfied; from then on it waited only for bank ports or for the shared host.
    started:    its ports were granted and its operands read.
    ended:      its results became visible.
    blocked_by: the unit whose completion satisfied its last wait; -1 if it did not wait.
    busy:       cycles of its own work (`Cost.cycles`); ended - started - busy is time lost to the DRAM port.
    transfers:  all transfers at the memory ports during the run, including those of other cores.
    """

    unit: NDArray[np.int8]
    dispatched: NDArray[np.int64]
    at_head: NDArray[np.int64]
    ready: NDArray[np.int64]
    started: NDArray[np.int64]
    ended: NDArray[np.int64]
    blocked_by: NDArray[np.int8]
    busy: NDArray[np.int64]
    transfers: Sequence[Transfer]


@dataclass(frozen=True)
class Execution:
    """The result of one launch of a program; all times count from its start.

    outputs: one array per model output; None in a run without data.
    cycles:  total, from the first fetch to the last completion.
    layer_actions: action counts per layer of the program; the last entry counts the front end's own actions.
    dram_read_bytes, dram_write_bytes: data traffic in whole bursts.
    instruction_bytes: fetched code.
    states: final content of the program's states, one array per state; empty in a run without data.
    equal_layers: in words, which equal layers were counted instead of simulated, or why none were; empty if the program
                  is not known to have such layers, or all were to be simulated.
    """

    outputs: tuple[Array, ...] | None
    cycles: int
    trace: Trace
    layer_actions: tuple[Mapping[str, int], ...]
    dram_read_bytes: int
    dram_write_bytes: int
    instruction_bytes: int
    states: tuple[Array, ...] = ()
    equal_layers: str = ""


class Record(NamedTuple):
    """What a launch recorded, in cycles of the system.

    units, times, blocked_by, costs, layer_of: one entry per instruction; times are those of `Trace`, in its order.
    accounts:  action counts per layer; the last entry is that of the front end.
    transfers: those of each memory's port.
    """

    units: NDArray[np.int8]
    times: Sequence[NDArray[np.int64]]
    blocked_by: NDArray[np.int8]
    costs: Sequence[Cost]
    layer_of: NDArray[np.uint32]
    accounts: Sequence[dict[str, int]]
    transfers: Sequence[Transfers]

    def execution(self, begin: int, transfers: Transfers, off_chip: Sequence[PortActions]) -> Execution:
        """Return the timeline and the counts of the launch, in cycles from its start.

        begin:     the cycle of the system in which the launch starts.
        transfers: those of all ports, in cycles of the launch.
        off_chip:  the names of the actions at the ports of memories outside the chip.
        """
        dispatched, at_head, ready, started, ended = (column - begin for column in self.times)
        own = np.minimum([cost.cycles for cost in self.costs], ended - started)
        trace = Trace(self.units, dispatched, at_head, ready, started, ended, self.blocked_by, own, transfers)
        data, (fetch,) = self.accounts[:-1], self.accounts[-1:]
        return Execution(
            None,
            int(ended.max(initial=0)),
            trace,
            self._layer_actions(),
            sum(account.get(at.read, 0) for account in data for at in off_chip),
            sum(account.get(at.write, 0) for account in data for at in off_chip),
            sum(fetch.get(at.read, 0) for at in off_chip),
        )

    def _layer_actions(self) -> tuple[dict[str, int], ...]:
        """Return the action counts per layer: memory actions, counted by the ports, plus those of the instructions."""
        counts = tuple([dict(account) for account in self.accounts])
        for layer, cost in zip(self.layer_of.tolist(), self.costs, strict=True):
            target = counts[layer]
            for name, number in cost.actions.items():
                target[name] = target.get(name, 0) + number
            target["instruction_issue"] = target.get("instruction_issue", 0) + 1
        return counts
