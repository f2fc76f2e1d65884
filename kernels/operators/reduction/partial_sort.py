"""The largest few of some values, with equal values in the order that LiteRT leaves them in."""

from __future__ import annotations

from collections.abc import Sequence


def largest(values: Sequence[float], count: int) -> list[int]:
    """Positions of the `count` largest values, from the largest down; `count` is 1..len(values).

    This is libstdc++'s `std::partial_sort`: a heap of the best so far with the worst of them on top, in which a
    strictly better value replaces the top. It is not stable, and which of several equal values comes first, or
    comes at all, depends on every step of it.
    """
    heap = list(range(count))
    for parent in reversed(range(count // 2)):
        _place(heap, values, parent, count, heap[parent])
    for position in range(count, len(values)):
        if values[position] > values[heap[0]]:
            _place(heap, values, 0, count, position)
    for size in reversed(range(1, count)):
        displaced, heap[size] = heap[size], heap[0]
        _place(heap, values, 0, size, displaced)
    return heap


def _place(heap: list[int], values: Sequence[float], hole: int, size: int, item: int) -> None:
    """Put an item into a part of the heap whose root is free: the hole sinks to a leaf, the item rises from there."""
    root = hole
    while (left := 2 * hole + 1) < size:
        right = left + 1
        child = right if right < size and values[heap[right]] <= values[heap[left]] else left
        heap[hole], hole = heap[child], child
    while hole > root and values[heap[(hole - 1) // 2]] > values[item]:
        heap[hole], hole = heap[(hole - 1) // 2], (hole - 1) // 2
    heap[hole] = item
