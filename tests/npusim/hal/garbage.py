"""Values that no field of a struct should hold, and the places of a struct where they may be put."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import npusim.hal as hal


class Refuses:
    """Raises whatever is done with it."""

    def _refuse(self, *_: object) -> Any:
        raise ZeroDivisionError("on purpose")

    __len__ = __getitem__ = __iter__ = __index__ = __int__ = __float__ = __bool__ = __hash__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __call__ = _refuse  # type: ignore[assignment]
    __repr__ = __str__ = __format__ = __getattr__ = __array__ = __buffer__ = __complex__ = _refuse
    __class__ = property(_refuse)  # type: ignore[assignment]


class Number(int):
    """An int whose methods raise."""

    def _refuse(self, *_: object) -> Any:
        raise MemoryError

    __index__ = __int__ = __float__ = __repr__ = __str__ = __hash__ = __bool__ = _refuse
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse  # type: ignore[assignment]


class Real(float):
    """A float whose methods raise."""

    def _refuse(self, *_: object) -> Any:
        raise RecursionError

    __float__ = __repr__ = __eq__ = __lt__ = __gt__ = __hash__ = _refuse  # type: ignore[assignment]


class Endless:
    """A sequence of a number of elements that no memory holds."""

    def __len__(self) -> int:
        return 1 << 62

    def __getitem__(self, index: int) -> int:
        return 0


class Liar:
    """A sequence with fewer elements than it says."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return [1][index]


class Itself(list):  # type: ignore[type-arg]
    """A list that holds itself."""

    def __init__(self) -> None:
        super().__init__()
        self.append(self)


class Meta(type):
    """The class of a class whose name cannot be had."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise ValueError


class Nameless(metaclass=Meta):
    """A value of such a class."""


def released() -> memoryview:
    view = memoryview(b"abcd")
    view.release()
    return view


def closed() -> mmap.mmap:
    memory = mmap.mmap(-1, 64)
    memory.close()
    return memory


GARBAGE: tuple[Callable[[], Any], ...] = (
    *(
        Refuses,
        Number,
        Real,
        Endless,
        Liar,
        Itself,
        Nameless,
        object,
        released,
        closed,
        dict,
        set,
        list,
        bytearray,
    ),
    *(lambda value=value: value for value in (None, True, False, 0, 1, -1, 2**31, 2**32, 2**64, -(10**5000))),
    *(lambda value=value: value for value in (1.5, -0.0, 1e39, 1e-60, float("nan"), float("inf"), 3j)),
    *(
        lambda value=value: value
        for value in ("", "ADD", "\x1b[31m\n", "\ud800", b"", b"abc", (), ((),), [[]], [None])
    ),
    *(
        lambda value=value: value
        for value in (Ellipsis, NotImplemented, int, hal.Operand, len, Decimal(1), Fraction(1, 3))
    ),
    lambda: Number(3),
    lambda: Real(0.5),
    lambda: (number for number in range(3)),
    lambda: iter([1, 2]),
    lambda: range(1 << 40),
    lambda: {0: 1},
    lambda: np.float32("nan"),
    lambda: np.float64(1e300),
    lambda: np.int64(3),
    lambda: np.uint8(200),
    lambda: np.bool_(True),
    lambda: np.datetime64("2020-01-01"),
    lambda: np.str_("3"),
    lambda: np.array(3),
    lambda: np.zeros((2, 2), np.int32),
    lambda: np.zeros((4, 4), np.uint8)[:, 1],
    lambda: np.asfortranarray(np.zeros((3, 4), np.float32)),
    lambda: np.array([None, "x"], object),
    lambda: np.zeros(3, [("a", "<i4"), ("b", "O")]),
    lambda: np.zeros(3, "V0"),
    lambda: np.zeros(8, "datetime64[s]"),
    lambda: np.ma.masked_array([1, 2], [True, False]),
    lambda: memoryview(np.zeros(12, np.int16))[::2],
    lambda: hal.OperandType.TENSOR_INT32,
    lambda: hal.DataLocation(),
    lambda: hal.Operand(Refuses()),  # type: ignore[arg-type]
    lambda: hal.Operation(None, None, None),  # type: ignore[arg-type]
)
"""Makers, for some of these may not be used twice."""

Put = Callable[[Any], None]


def places(struct: Any, name: str = "") -> Iterator[tuple[str, Put]]:
    """Every place of a struct, those of its parts included, and how a value gets there."""
    if is_dataclass(struct):
        for field in fields(struct):
            below = f"{name}.{field.name}" if name else field.name
            yield below, lambda value, field=field: setattr(struct, field.name, value)  # type: ignore[misc]
            yield from places(getattr(struct, field.name), below)
    elif isinstance(struct, list):
        for index, value in enumerate(struct):
            yield f"{name}[{index}]", lambda value, index=index: struct.__setitem__(index, value)  # type: ignore[misc]
            yield from places(value, f"{name}[{index}]")


def put(struct: Any, place: str, value: Any) -> None:
    """Put a value at a place of a struct."""
    next(setter for name, setter in places(struct) if name == place)(value)
