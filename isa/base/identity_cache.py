"""A cache of values by the identity of the object that each was computed from."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

Source = TypeVar("Source")
Value = TypeVar("Value")


class IdentityCache(Generic[Value]):
    """A cache of values by the identity of the array, graph or program that each was computed from.

    An entry is removed when its object is freed. The objects must not change. A value must not refer to its object,
    because neither would ever be freed.
    """

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def of(self, source: Source, compute: Callable[[Source], Value]) -> Value:
        """Return the cached value of an object. Without one, call `compute` with the object and cache its result."""
        value = self.get(source)
        return self.put(source, compute(source)) if value is None else value

    def get(self, source: object) -> Value | None:
        """Return the cached value of an object; None if there is none."""
        return self._values.get(id(source))

    def put(self, source: object, value: Value) -> Value:
        """Cache a value of an object in place of any earlier one, and return it."""
        if id(source) not in self._values:
            weakref.finalize(source, self._values.pop, id(source), None)
        self._values[id(source)] = value
        return value
