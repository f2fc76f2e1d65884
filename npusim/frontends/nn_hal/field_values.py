"""Field values of structs as plain Python values, or a fault that states what the field holds instead.

A field may hold any Python object, also one whose methods raise or return another value each time. So every value is
read once, by these functions, and only `Broken` is raised.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Set
from enum import IntEnum
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from npusim.frontends.nn_hal.checked import Bytes
from npusim.frontends.nn_hal.fault import Fault
from npusim.isa.base.errors import replaced

Enumeration = TypeVar("Enumeration", bound=IntEnum)
Value = TypeVar("Value")
Read = TypeVar("Read")

UINT32_MOST = (1 << 32) - 1
INT32 = (-(1 << 31), (1 << 31) - 1)

_MOST_ELEMENTS = 1 << 24
"""Most elements of a vec. A longer one is refused before its elements are read."""

_SHOWN_LETTERS = 40
_name_of: Callable[[type], str] = type.__dict__["__name__"].__get__


class Broken(Exception):
    """Raised for a value that breaks a rule of the HAL; carries the fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def broken(place: str, text: str, rule: str = "G1") -> Broken:
    """Return the exception of a fault."""
    return Broken(Fault(place, text, rule))


def shown(value: object) -> str:
    """Return a value as messages show it: a plain value itself, for others the type."""
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return str(value)
    if issubclass(kind, int):
        number = int.__add__(value, 0)  # type: ignore[operator]
        return str(number) if abs(number) < 1 << 64 else f"an integer of {number.bit_length()} bits"
    if kind is str:
        return repr(replaced(str(value), _SHOWN_LETTERS))
    return f"of type {replaced(_name_of(kind), _SHOWN_LETTERS)}"


def integer(place: str, value: object, low: int, high: int) -> int:
    """Return a value as a plain int within limits."""
    if type(value) is int and low <= value <= high:
        return value
    number = whole(value)
    if number is None:
        raise broken(place, f"is {shown(value)}, must be an integer {low}..{high}")
    if not low <= number <= high:
        raise broken(place, f"is {shown(number)}, must be {low}..{high}")
    return number


def whole(value: Any) -> int | None:
    """Return a value as a plain int; None if it is no integer."""
    try:
        kind = type(value)
        if issubclass(kind, bool) or not issubclass(kind, Integral):
            return None
        return int.__add__(value if issubclass(kind, int) else value.__index__(), 0)
    except Exception:
        return None


def uint32(place: str, value: object) -> int:
    """Return a value as a plain unsigned 32-bit int."""
    return integer(place, value, 0, UINT32_MOST)


def float32(place: str, value: object) -> float:
    """Return a value as a finite float, rounded to float32."""
    try:
        if type(value) is not float:
            kind: type = type(value)
            if issubclass(kind, bool) or not issubclass(kind, Real):
                raise TypeError
            value = float.__add__(float(value), 0.0)  # type: ignore[arg-type]
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
        if math.isfinite(rounded):
            return rounded
    except Exception:
        pass
    raise broken(place, f"is {shown(value)}, must be a finite float32")


def truth(place: str, value: object) -> bool:
    """Return a value as a bool; 0 and 1 are allowed."""
    if value is True or value is False:
        return value
    try:
        kind = type(value)
        if issubclass(kind, np.bool_):
            return bool(value)
        number = whole(value)
        if number in (0, 1):
            return bool(number)
    except Exception:
        pass
    raise broken(place, f"is {shown(value)}, must be a bool")


def enumerator(place: str, value: object, kind: type[Enumeration], rule: str) -> Enumeration:
    """Return the enumerator of a number."""
    if type(value) is kind:
        return value
    number = whole(value)
    if number is None:
        raise broken(place, f"is {shown(value)}, must be one of {kind.__name__}")
    try:
        return kind(number)
    except ValueError:
        raise broken(place, f"is {shown(number)}, which is none of {kind.__name__}", rule) from None


def instance(place: str, value: object, kind: type[Value]) -> Value:
    """Return a value if it is an instance of a struct class; its fields are not read."""
    try:
        if issubclass(type(value), kind):
            return value  # type: ignore[return-value]
    except Exception:
        pass
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    raise broken(place, f"is {shown(value)}, must be {article} {kind.__name__}")


def field(place: str, value: object, name: str) -> Any:
    """Return a field of a struct, unchecked."""
    try:
        return getattr(value, name)
    except Exception as fault:
        raise broken(f"{place}.{name}" if place else name, f"cannot be read ({_kind(fault)})") from None


class Fields:
    """The fields of a struct, each of which is read once."""

    def __init__(self, place: str, value: object, kind: type[Any]) -> None:
        """`value` must be an instance of the struct class; its fields are not read yet."""
        self._place = place
        self._struct = instance(place or "model", value, kind)

    def at(self, name: str) -> str:
        """Return the place of a field."""
        return f"{self._place}.{name}" if self._place else name

    def value(self, name: str) -> Any:
        """Return a field, unchecked."""
        return field(self._place, self._struct, name)

    def read(self, name: str, reader: Callable[..., Read], *more: Any) -> Read:
        """Return a field as a function of this module, such as `uint32`, reads it."""
        return reader(self.at(name), self.value(name), *more)

    def each(self, name: str) -> list[tuple[str, Any]]:
        """Return place and value of each element of a sequence, unchecked."""
        return [(f"{self.at(name)}[{index}]", value) for index, value in enumerate(self.read(name, vec))]


def vec(place: str, value: Any) -> list[Any] | tuple[Any, ...]:
    """Return the elements of any sequence, unchecked."""
    kind = type(value)
    if kind is tuple:
        return value  # type: ignore[no-any-return]
    try:
        if kind is list:
            return list(value)
        if issubclass(kind, np.ndarray) and np.ndarray.__getattribute__(value, "ndim") == 1:
            return np.ndarray.tolist(value)  # type: ignore[no-any-return]
        sequence = hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
        if sequence and not issubclass(kind, (str, Mapping, Set, np.generic)):
            size = len(value)
            if size > _MOST_ELEMENTS:
                raise broken(place, f"has {size} elements, may have {_MOST_ELEMENTS}")
            return [value[index] for index in range(size)]
    except Broken:
        raise
    except Exception as fault:
        raise broken(place, f"cannot be read ({_kind(fault)})") from None
    raise broken(place, f"is {shown(value)}, must be a sequence")


def uint32s(place: str, value: object) -> tuple[int, ...]:
    """Return the elements of a sequence as plain unsigned 32-bit ints."""
    elements = vec(place, value)
    if all(type(element) is int and 0 <= element <= UINT32_MOST for element in elements):
        return tuple(elements)
    return tuple([uint32(f"{place}[{index}]", element) for index, element in enumerate(elements)])


def memory(place: str, value: Any, rule: str = "P1") -> Bytes:
    """Return a view of the bytes of a C-contiguous buffer, writable if the buffer is."""
    try:
        if issubclass(type(value), np.ndarray):
            return _bytes_of_array(place, np.ndarray.view(value, np.ndarray), rule)
        view = memoryview(value)
        if "O" in view.format or not view.c_contiguous:
            raise broken(place, "must be a C-contiguous buffer of plain elements", rule)
        return np.frombuffer(value, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    except Broken:
        raise
    except TypeError:
        raise broken(place, f"is {shown(value)}, must be a C-contiguous buffer", rule) from None
    except Exception as fault:
        raise broken(place, f"cannot be read as a C-contiguous buffer ({_kind(fault)})", rule) from None


def _bytes_of_array(place: str, array: np.ndarray[Any, Any], rule: str) -> Bytes:
    if array.dtype.hasobject or not array.flags.c_contiguous:
        raise broken(place, "must be a C-contiguous array of plain elements", rule)
    return array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)


def _kind(fault: Exception) -> str:
    return replaced(_name_of(type(fault)), _SHOWN_LETTERS)
