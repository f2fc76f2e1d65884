"""First-fit placement of buffers in a memory over address and time, and the interval structures that it needs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Self, TypeVar

from npusim.isa.hardware.hardware import Hardware

_FEW = 512
"""Up to this many uses, a scan of the list is faster than the tree: MobileNetV2 has 249, and saves 20 of 70 ms."""


class Busy:
    """The bytes of a memory that are in use over time: a list while uses are few, then a segment tree over time.

    The list has (last, first, start, end) in order, so uses that ended before a span are skipped without a look.

    A node of the tree stands for 2**k moments, its two children for the halves. A use covers at most two whole nodes
    of each size. Every node holds the union of the bytes of uses that cover it (`_covered`), and of all uses within it
    (`_within`). So the bytes in use during a span are the union of a few unions. The root is node 1; the children of
    node n are 2n and 2n + 1. A union is the ascending list of its edges: begin, end, begin, end, ...
    """

    __slots__ = ("_covered", "_few", "_moments", "_most_few", "_within")

    def __init__(self, most_few: int = _FEW) -> None:
        self._most_few = most_few
        self._few: list[tuple[int, ...]] | None = []
        self._moments = 64
        self._covered: dict[int, list[int]] = {}
        self._within: dict[int, list[int]] = {}

    def add(self, start: int, end: int, first: int, last: int) -> None:
        """Mark bytes from `start` to before `end` as in use from `first` (-1 or later) to `last`, both included."""
        if self._few is None:
            self._plant(start, end, first, last)
        elif start < end:
            insort(self._few, (last, first, start, end))
            if len(self._few) > self._most_few:
                few, self._few = self._few, None
                for done, begun, use_start, use_end in few:
                    self._plant(use_start, use_end, begun, done)

    def _plant(self, start: int, end: int, first: int, last: int) -> None:
        while last + 1 >= self._moments:
            self._grow()
        for node in self._nodes(first, last):
            _unite(self._covered.setdefault(node, []), start, end)
            # If a node had these bytes within it already, so had all nodes above it.
            while node and _unite(self._within.setdefault(node, []), start, end):
                node >>= 1

    def during(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the byte spans that are in use at some time from `first` to `last`, sorted by start."""
        if self._few is not None:
            ended = bisect_left(self._few, (first,))
            return sorted([(start, end) for _, begun, start, end in self._few[ended:] if begun <= last])
        unions = []
        above: set[int] = set()
        for node in self._nodes(first, min(last, self._moments - 2)):
            if node in self._within:
                unions.append(self._within[node])
            node >>= 1
            while node and node not in above:
                above.add(node)
                if node in self._covered:
                    unions.append(self._covered[node])
                node >>= 1
        return sorted([pair for union in unions for pair in zip(union[::2], union[1::2], strict=True)])

    def _nodes(self, first: int, last: int) -> list[int]:
        """Return the largest nodes that together cover exactly `first` to `last`; moment -1 is the first leaf."""
        nodes = []
        low, high = first + 1 + self._moments, last + 2 + self._moments
        while low < high:
            if low & 1:
                nodes.append(low)
                low += 1
            if high & 1:
                high -= 1
                nodes.append(high)
            low >>= 1
            high >>= 1
        return nodes

    def _grow(self) -> None:
        """Double the moments that the tree covers: the old tree becomes the left half of the new one."""
        self._moments *= 2
        self._covered, self._within = (
            {node + (1 << node.bit_length() - 1): union for node, union in unions.items()}
            for unions in (self._covered, self._within)
        )
        if 2 in self._within:
            self._within[1] = list(self._within[2])


def _unite(union: list[int], start: int, end: int) -> bool:
    """Add bytes from `start` to before `end` to a union. Return False if it held them already."""
    low, high = bisect_left(union, start), bisect_right(union, end)
    edges = ([] if low & 1 else [start]) + ([] if high & 1 else [end])
    if union[low:high] == edges or start == end:
        return False
    union[low:high] = edges
    return True


ALIGNMENT_BYTES = 16


def aligned(size_bytes: int, alignment: int = ALIGNMENT_BYTES) -> int:
    """Round up to a multiple of `alignment`."""
    return -(-size_bytes // alignment) * alignment


class Allocator:
    """First-fit allocator of buffers over address and time. Times are integers; spans include both ends.

    bank_bytes: if not 0, buffers that live at the same time get separate banks of this size where there is room.
    """

    def __init__(self, capacity_bytes: int, bank_bytes: int = 0) -> None:
        self.capacity_bytes = capacity_bytes
        self._bank_bytes = bank_bytes
        self._peak_bytes = 0
        self._busy = Busy()

    @classmethod
    def of_scratchpad(cls, capacity_bytes: int, hardware: Hardware) -> Self:
        """Return an allocator for the scratchpad; it separates buffers by bank if banks have a single port.

        Two units cannot access a single-ported bank at the same time. With more ports, one serves the computing unit
        and one the transfers, and aligning buffers to whole banks would only leave holes.
        """
        scratchpad = hardware.scratchpad
        apart = scratchpad.bank_ports == 1
        return cls(capacity_bytes, hardware.scratchpad_bytes // scratchpad.banks if apart else 0)

    def find(self, size_bytes: int, first: int, last: int, *, from_top: bool = False) -> int | None:
        """Return the lowest or highest address with `size_bytes` free from `first` to `last`; None if none is."""
        taken = self._busy.during(first, last)
        if self._bank_bytes:
            bank = self._bank_bytes
            banks = [(start // bank * bank, aligned(end, bank)) for start, end in taken]
            apart = self._fit(size_bytes, banks, from_top)
            if apart is not None:
                return apart
        return self._fit(size_bytes, taken, from_top)

    def _fit(self, size_bytes: int, taken: Sequence[tuple[int, int]], from_top: bool) -> int | None:
        """Return the lowest or highest gap between intervals in use, which are in order of address."""
        size = aligned(size_bytes)
        highest = None
        free = 0
        for start, end in taken:
            if start - free >= size:
                if not from_top:
                    return free
                highest = start - size
            if end > free:
                free = end
        top = self.capacity_bytes - self.capacity_bytes % ALIGNMENT_BYTES
        if top - free >= size:
            return top - size if from_top else free
        return highest

    def take(self, address: int, size_bytes: int, first: int, last: int) -> None:
        """Mark bytes as in use from `first` to `last`."""
        end = address + aligned(size_bytes)
        self._busy.add(address, end, first, last)
        self._peak_bytes = max(self._peak_bytes, end)

    def place(self, size_bytes: int, first: int, last: int, *, from_top: bool = False) -> int | None:
        """Find an address and mark its bytes as in use; None if none is free."""
        address = self.find(size_bytes, first, last, from_top=from_top)
        if address is not None:
            self.take(address, size_bytes, first, last)
        return address

    @property
    def peak_bytes(self) -> int:
        """The address after the highest byte that was ever in use."""
        return self._peak_bytes


Key = TypeVar("Key")
Value = TypeVar("Value")


class Spans(Generic[Key, Value]):
    """An index of integer intervals, both ends included, each with a key and a value. A later equal key replaces.

    An interval of 2**(k-1) to 2**k - 1 numbers is entered in the blocks of 2**k numbers that it touches, at most two.
    So a query reads few blocks of each size, however many intervals there are.
    """

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: dict[int, dict[int, dict[Key, Value]]] = {}

    def add(self, first: int, last: int, key: Key, value: Value) -> None:
        """Enter a span; an equal key, which must have the same span, is replaced and counts as new."""
        level = (last - first + 1).bit_length()
        blocks = self._levels.setdefault(level, {})
        low, high = first >> level, last >> level
        for number in (low,) if low == high else (low, high):
            block = blocks.setdefault(number, {})
            block.pop(key, None)
            block[key] = value

    def near(self, first: int, last: int) -> Iterator[dict[Key, Value]]:
        """Yield blocks, each oldest first, that together hold every span that touches this one.

        The blocks hold other spans too, and some spans twice; the caller filters.
        """
        for level, blocks in self._levels.items():
            low, high = first >> level, last >> level
            if high - low < len(blocks):
                for number in range(low, high + 1):
                    if number in blocks:
                        yield blocks[number]
            else:
                yield from [block for number, block in blocks.items() if low <= number <= high]


_PART = 128
"""Positions per part of `Sums`, to which one addition can apply at once."""


class Sums:
    """An array of sums. Adding to a long interval changes whole parts of the array at once."""

    __slots__ = ("_parts", "_single")

    def __init__(self, values: Iterable[int]) -> None:
        self._single = list(values)
        self._parts = [0] * (len(self._single) // _PART + 1)

    def __getitem__(self, position: int) -> int:
        return self._single[position] + self._parts[position // _PART]

    def add(self, span: range, amount: int) -> None:
        """Add to every position of a span of step 1."""
        first, end = -(-span.start // _PART), span.stop // _PART
        if first >= end:
            for position in span:
                self._single[position] += amount
            return
        for part in range(first, end):
            self._parts[part] += amount
        for rest in (range(span.start, first * _PART), range(end * _PART, span.stop)):
            for position in rest:
                self._single[position] += amount
