"""The order of operations on several devices, in as few pieces as their dependencies allow.

A piece is a group of operations that one device runs in a row. An operation is known here only by the tensors that it
reads and writes. Some operations belong together, such as those that read a state and the one that computes its next
value. With all operations on paths between them they form a *unit*, which stays in one piece. A piece runs to its end
before the next one begins, so no result leaves a piece and comes back into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

WIDTH = 8
"""Beam width: partial orders that the search keeps. With two devices, two suffice for the fewest pieces."""


class Operation(NamedTuple):
    """The tensors that an operation reads and writes, by number."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Piece(NamedTuple):
    """Operations of one device, by number, in an order in which they can run."""

    device: int
    operations: tuple[int, ...]


def units(
    operations: Sequence[Operation], together: Iterable[Iterable[int]] = ()
) -> tuple[tuple[int, ...], ...]:
    """Group operations into units. Return the ascending operation numbers of each, sorted by their first ones.

    operations: in an order in which they can run.
    together:   groups that belong into one unit; operations on a path between two of a group join it.
    """
    befores, afters = _reach(operations)
    groups = [frozenset(group) for group in together]
    while True:
        whole = _merged(_circles(_merged([_closed(group, befores, afters) for group in groups]), befores))
        if whole == groups:
            break
        groups = whole
    inside = frozenset[int]().union(*groups)
    alone = [frozenset({number}) for number in range(len(operations)) if number not in inside]
    return tuple(sorted(tuple(sorted(group)) for group in (*groups, *alone) if group))


def pieces(
    operations: Sequence[Operation], devices: Sequence[int], parts: Sequence[Sequence[int]] | None = None
) -> tuple[Piece, ...]:
    """Group operations into pieces, and return these in an order in which they can run.

    operations: in an order in which they can run.
    devices:    the device of each operation.
    parts:      the units; None if each operation is a unit. All operations of a unit have one device.

    A beam search extends partial orders piece by piece. A piece takes every operation that is ready on its device, or
    becomes ready within the piece. The WIDTH partial orders with most operations are kept. It is deterministic.
    """
    parts = [(number,) for number in range(len(operations))] if parts is None else parts
    graph = _Units(operations, devices, parts)
    orders: list[_Order] = [(0, ())]
    full = (1 << len(parts)) - 1
    while all(done != full for done, _ in orders):
        orders = _best(
            [
                (more, (*order, (device, more & ~done)))
                for done, order in orders
                for device in sorted(set(graph.devices))
                if (more := graph.grown(done, device)) != done
            ]
        )
    order = next(order for done, order in orders if done == full)
    return tuple(
        Piece(device, tuple(sorted(operation for unit in _bits(taken) for operation in parts[unit])))
        for device, taken in order
    )


_Order = tuple[int, tuple[tuple[int, int], ...]]
"""A partial order: the bit set of units that have run, and its pieces, each a device and the bit set of its units."""


class _Units:
    """The dependencies of units (`waits`, one bit set per unit), and the device of each unit."""

    def __init__(
        self, operations: Sequence[Operation], devices: Sequence[int], parts: Sequence[Sequence[int]]
    ) -> None:
        self.devices = [devices[part[0]] for part in parts]
        unit_of = {node: number for number, part in enumerate(parts) for node in part}
        writer = {tensor: number for number, node in enumerate(operations) for tensor in node.outputs}
        self.waits = [0] * len(parts)
        for number, node in enumerate(operations):
            for tensor in node.inputs:
                if tensor in writer and unit_of[writer[tensor]] != unit_of[number]:
                    self.waits[unit_of[number]] |= 1 << unit_of[writer[tensor]]
        self.of_device = {
            device: [unit for unit, its in enumerate(self.devices) if its == device]
            for device in set(self.devices)
        }

    def grown(self, done: int, device: int) -> int:
        """Return the units that have run after the largest piece of a device that can start when `done` have run."""
        left = [unit for unit in self.of_device[device] if not done >> unit & 1]
        before = -1
        while before != done:
            before = done
            for unit in left:
                if not self.waits[unit] & ~done:
                    done |= 1 << unit
            left = [unit for unit in left if not done >> unit & 1]
        return done


def _best(orders: list[_Order]) -> list[_Order]:
    """Return up to WIDTH partial orders with most units, without those whose units another order includes."""
    kept: list[_Order] = []
    for order in sorted(orders, key=lambda order: -order[0].bit_count()):
        if all(order[0] & ~other for other, _ in kept):
            kept.append(order)
    return kept[:WIDTH]


def _bits(number: int) -> list[int]:
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


def _reach(operations: Sequence[Operation]) -> tuple[list[int], list[int]]:
    """Return, as bit sets, the operations that each operation depends on, and those that depend on it."""
    writer = {tensor: number for number, operation in enumerate(operations) for tensor in operation.outputs}
    befores, afters = [0] * len(operations), [0] * len(operations)
    for number, operation in enumerate(operations):
        for tensor in operation.inputs:
            if tensor in writer:
                befores[number] |= befores[writer[tensor]] | 1 << writer[tensor]
    for number in reversed(range(len(operations))):
        for tensor in operations[number].inputs:
            if tensor in writer:
                afters[writer[tensor]] |= afters[number] | 1 << number
    return befores, afters


def _closed(group: frozenset[int], befores: Sequence[int], afters: Sequence[int]) -> frozenset[int]:
    """Return a group with all operations on paths between its members."""
    before = after = 0
    for number in group:
        before, after = before | befores[number], after | afters[number]
    return group | frozenset(_bits(before & after))


def _circles(groups: Sequence[frozenset[int]], befores: Sequence[int]) -> list[frozenset[int]]:
    """Return each group united with the groups that it depends on and that depend on it.

    The same union appears once for each group in it; `_merged` removes the repetitions.
    """
    waits = []
    for group in groups:
        before = 0
        for number in group:
            before |= befores[number]
        waits.append(
            {other for other, its in enumerate(groups) if any(before >> number & 1 for number in its)}
        )
    for middle in range(len(groups)):  # transitive closure, by Warshall's algorithm
        waits = [reached | waits[middle] if middle in reached else reached for reached in waits]
    return [
        group.union(*(groups[other] for other in waits[number] if number in waits[other]))
        for number, group in enumerate(groups)
    ]


def _merged(groups: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Unite groups that share members, so that the resulting groups are disjoint."""
    merged: list[frozenset[int]] = []
    for group in groups:
        apart = [other for other in merged if not other & group]
        merged = [*apart, group.union(*(other for other in merged if other & group))]
    return merged
