"""Equal parts of a program that are counted instead of simulated, where the machine is proven to repeat itself.

A program with many equal parts is executed in its short form (`npusim.isa.program.repeat`). The state of the machine is
taken before each part. If it is equal before two neighbouring parts, and the rows of memories in it are one step apart,
then everything between recurs: the part after the second one begins in an equal state with equal instructions, and so
do all further ones. What happened between the two states is then counted once more for every copy, and what happened
afterwards takes place that much later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import Unit
from npusim.isa.program.repeat import Range, Repeat
from npusim.machine.trace import Record, Transfers

if TYPE_CHECKING:
    from npusim.machine.core import Launch
    from npusim.machine.state import State

Account = dict[str, int]
Times = NDArray[np.int64]


class Moment(NamedTuple):
    """The machine before a part: its state, the transfers in the log of each port, and the action counts per layer."""

    state: State
    position: int
    transfers: Sequence[int]
    accounts: Sequence[Account]


class PartWatch:
    """Takes the states of a launch before the equal parts of its program, and compares them.

    layer_of: the layer of each instruction of the whole program.
    between: the moments before and after a part that recurs; None as long as none is known to.
    why:     why no part is known to recur.
    """

    def __init__(self, repeat: Repeat, layer_of: NDArray[np.uint32]) -> None:
        self.repeat, self.layer_of = repeat, layer_of
        self.between: tuple[Moment, Moment] | None = None
        self.why = "the state of the machine is another one before each of them"
        self._before: Moment | None = None
        self._ranges: list[Range] = []

    def whole(self, record: Record) -> Record:
        """Return the record of the whole run, or that of the short one if no part is known to recur."""
        return record if self.between is None else _Lengthener(self, *self.between).whole(record)

    def see(self, launch: Launch, position: int) -> None:
        """Take the state before the fetch of an instruction behind a gap, and compare it with the one before."""
        from npusim.machine.state import State, Unknown  # only for programs of equal parts

        repeat = self.repeat
        if self.between is not None or (position - repeat.first) % repeat.size or position > repeat.end:
            return
        try:
            state = State(launch, position, self._completed_before(launch, position), repeat.end)
        except Unknown as unknown:
            self.why, self._before = str(unknown), None
            return
        moment = Moment(
            state,
            position,
            [len(port.log) for port in launch.ports.values()],
            [dict(account) for account in launch.accounts],
        )
        before, self._before = self._before, moment
        if (
            before is not None
            and state.content == before.state.content
            and self._apart(launch, before.state, state)
        ):
            self.between = before, moment

    def _completed_before(self, launch: Launch, position: int) -> dict[Unit, int]:
        counts = np.bincount(launch.units[:position], minlength=len(Unit))
        return {unit: int(counts[unit]) for unit in launch.completions}

    def _apart(self, launch: Launch, before: State, after: State) -> bool:
        """Return whether the rows of two states are one step apart each, as all rows of the parts are.

        Ranges are apart by whole rows of the hardware that the program was compiled for. With longer rows, one may
        belong to two ranges.
        """
        if not self._ranges:
            self._ranges = [*self.repeat.ranges, code_range(launch, self.repeat)]
        compiled_for = self.repeat.short.hardware
        if any(
            port.timing.row_bytes > compiled_for.port_timing(space).row_bytes
            for space, port in launch.ports.items()
        ):
            return False
        for (space, row), (_, later) in zip(before.rows, after.rows, strict=True):
            timing = launch.ports[Space(space)].timing
            steps = [
                each.step
                for each in self._ranges
                if each.space == space
                and each.first // timing.row_bytes <= row < -(-each.end // timing.row_bytes)
            ]
            if later != row + sum(steps) // timing.row_bytes:
                return False
        return all(
            each.step % launch.ports[Space(each.space)].timing.stripe_bytes == 0 for each in self._ranges
        )


def code_range(launch: Launch, repeat: Repeat) -> Range:
    """Return the addresses of the code of the equal parts."""
    segments = launch.program.code_segments
    first, second = segments[repeat.first], segments[repeat.first + repeat.size]
    step = second - first
    last = first + (repeat.number - 1) * step
    return Range(launch.program.code_space, first, last, last + step, step)


class _Lengthener:
    """Extends the record of a short run to that of the whole one.

    A value belongs to the cycle in which it came about. Those up to the second moment stay. Those between the two
    moments recur once per copy, for the instruction one part later. Those after them come `copies` parts later.
    """

    def __init__(self, watch: PartWatch, before: Moment, after: Moment) -> None:
        self.repeat, self.layer_of = watch.repeat, watch.layer_of
        self._begin, self._end = before.state.cycle, after.state.cycle
        self._before, self._after = before, after
        self.cycles = self._end - self._begin

    def whole(self, record: Record) -> Record:
        """Return the record of the whole run."""
        split, size, copies = self._after.position, self.repeat.size, self.repeat.copies
        numbers = np.arange(len(record.units))
        positions = np.concatenate(
            (numbers[:split], np.tile(numbers[split - size : split], copies), numbers[split:])
        )
        _, _, ready, _, _ = record.times
        return Record(
            record.units[positions],
            [self._column(cycles, cycles, self.cycles) for cycles in record.times],
            self._column(record.blocked_by, ready, 0),
            [record.costs[position] for position in positions.tolist()],
            self.layer_of,
            self._accounts(record.accounts),
            list(map(self._transfers, self._before.transfers, self._after.transfers, record.transfers)),
        )

    def _column(self, values: NDArray[Any], cycles: Times, step: int) -> NDArray[Any]:
        """Return a value of each instruction of the whole program.

        values: one of each instruction of the short program, known in these cycles.
        step:   how much larger a value is one part later.
        """
        whole = np.full(len(values) + self.repeat.copies * self.repeat.size, -1, values.dtype)
        for at, copies in self._recurring(cycles):
            whole[at + copies * self.repeat.size] = values[at] + copies * step
        return whole

    def _recurring(self, cycles: Times) -> Iterator[tuple[Times, int]]:
        """Yield instructions of the short program, and after how many copies something of them comes about."""
        copies = self.repeat.copies
        yield np.flatnonzero(cycles <= self._end), 0
        between = np.flatnonzero((cycles > self._begin) & (cycles <= self._end))
        yield from ((between, number) for number in range(1, copies + 1))
        yield np.flatnonzero(cycles > self._end), copies

    def _transfers(self, first: int, end: int, log: Transfers) -> Transfers:
        """Return the transfers at a port, of which those from `first` to `end` are between the moments."""
        copies = self.repeat.copies
        recurring = [(log[first:end], number) for number in range(1, copies + 1)]
        shifted = [
            part.at(part.started + number * self.cycles, part.ended + number * self.cycles)
            for part, number in (*recurring, (log[end:], copies))
        ]
        return Transfers.joined([log[:end], *shifted])

    def _accounts(self, counts: Sequence[Account]) -> list[Account]:
        """Return the action counts per layer; the last entry is that of the front end."""
        copies, layers = self.repeat.copies, self.repeat.layers
        whole: list[Account] = [{} for _ in range(len(counts) + copies * layers)]
        for layer, total in enumerate(counts):
            first, second = self._before.accounts[layer], self._after.accounts[layer]
            step = layers if layer < len(counts) - 1 else 0
            begin = layer if step else len(whole) - 1
            _add(whole[begin], second, {})
            for number in range(1, copies + 1):
                _add(whole[begin + number * step], second, first)
            _add(whole[begin + copies * step], total, second)
        return whole


def _add(account: Account, counts: Mapping[str, int], less: Mapping[str, int]) -> None:
    """Add the differences between two counts to an account."""
    for name, number in counts.items():
        number -= less.get(name, 0)
        if number or name not in less:
            account[name] = account.get(name, 0) + number
