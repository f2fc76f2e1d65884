"""Which bytes are in use at some time of a span, without going through every use there is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

_FEW = 512
"""As many uses are looked through faster than they are found in a tree: 249 in a MobileNetV2, 20 ms of its 70."""


class Busy:
    """A list of uses while they are few, then a tree over time.

    A node stands for 2**k moments, its two children for the halves. A use covers few whole nodes, at most two of each
    size. Every node knows the union of the bytes of uses that cover it (`_covered`), and of all uses within it
    (`_within`): so what is in use during a span is the union of few unions. Nodes are numbered from the root, 1,
    downwards: those below n are 2n and 2n + 1. A union is a list of its edges in ascending order, begin and end by
    turns.
    """

    __slots__ = ("_covered", "_few", "_moments", "_most_few", "_within")

    def __init__(self, most_few: int = _FEW) -> None:
        self._most_few = most_few
        self._few: list[tuple[int, int, int, int]] | None = []
        self._moments = 64
        self._covered: dict[int, list[int]] = {}
        self._within: dict[int, list[int]] = {}

    def add(self, start: int, end: int, first: int, last: int) -> None:
        """Bytes from `start` to before `end` are in use from `first` (-1 or later) to `last`, both included."""
        if self._few is None:
            self._plant(start, end, first, last)
        elif start < end:
            self._few.append((start, end, first, last))
            if len(self._few) > self._most_few:
                few, self._few = self._few, None
                for use in few:
                    self._plant(*use)

    def _plant(self, start: int, end: int, first: int, last: int) -> None:
        while last + 1 >= self._moments:
            self._grow()
        for node in self._nodes(first, last):
            _unite(self._covered.setdefault(node, []), start, end)
            # Above a node that had them within already, all nodes have.
            while node and _unite(self._within.setdefault(node, []), start, end):
                node >>= 1

    def during(self, first: int, last: int) -> list[tuple[int, int]]:
        """Spans of bytes that are in use at some time from `first` to `last`, in order of their begins."""
        if self._few is not None:
            return sorted(
                [(start, end) for start, end, begun, done in self._few if begun <= last and first <= done]
            )
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
        """The largest nodes that together are just the moments from `first` to `last`; moment -1 is the first leaf."""
        found = []
        low, high = first + 1 + self._moments, last + 2 + self._moments
        while low < high:
            if low & 1:
                found.append(low)
                low += 1
            if high & 1:
                high -= 1
                found.append(high)
            low >>= 1
            high >>= 1
        return found

    def _grow(self) -> None:
        """Make the tree the left half of one twice as large."""
        self._moments *= 2
        self._covered, self._within = (
            {node + (1 << node.bit_length() - 1): union for node, union in unions.items()}
            for unions in (self._covered, self._within)
        )
        if 2 in self._within:
            self._within[1] = list(self._within[2])


def _unite(union: list[int], start: int, end: int) -> bool:
    """Add the bytes from `start` to before `end` to a union; False if it had them."""
    low, high = bisect_left(union, start), bisect_right(union, end)
    edges = ([] if low & 1 else [start]) + ([] if high & 1 else [end])
    if union[low:high] == edges or start == end:
        return False
    union[low:high] = edges
    return True
