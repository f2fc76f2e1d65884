"""Spans of whole numbers with something attached: what touches a span, and sums, without going through everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Spans(Generic[Key, Value]):
    """Spans (both ends included), each with a key and a value; of equal keys the last one counts.

    They lie in blocks by their length: one of 2**(k-1) to 2**k - 1 numbers touches at most two blocks of 2**k. So it is
    entered once or twice whatever its length, and a question goes through the few blocks of each size that it touches.
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
        """Blocks, each oldest first, that hold all spans that touch this one; they hold others too, and some twice."""
        for level, blocks in self._levels.items():
            low, high = first >> level, last >> level
            if high - low < len(blocks):
                for number in range(low, high + 1):
                    if number in blocks:
                        yield blocks[number]
            else:
                yield from [block for number, block in blocks.items() if low <= number <= high]


_PART = 128


class Sums:
    """Whole numbers at positions from 0, zero at first. Adding to a long span changes whole parts of them at once."""

    __slots__ = ("_parts", "_single")

    def __init__(self, count: int) -> None:
        self._single = [0] * count
        self._parts = [0] * (count // _PART + 1)

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
