"""Calls of the C interface: checks of parameters, and result codes instead of exceptions."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, NNAdapterError, ResultCode
from npusim.frontends.nnadapter.operand import Operand
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.nnadapter.compilation import Compilation
from npusim.nnadapter.device_context import Context, Device
from npusim.nnadapter.model_execution import Execution


@dataclass
class Ref:
    """A place for a result, like a pointer to a variable in C."""

    value: Any = None


@dataclass
class _Error:
    """The message of the last call that failed."""

    text: str = ""


_ERROR = _Error()

MISSING: Any = object()
"""Stands for an argument that the short form of a function lacks."""

_DESTROYED: weakref.WeakSet[Any] = weakref.WeakSet()
"""Destroyed models that the caller still refers to."""


def last_error() -> str:
    """Return the message of the last call that failed; "" if none has."""
    return _ERROR.text


def destroy(model: Model) -> None:
    """Mark a model as destroyed, which makes its operands and unfinished compilations invalid."""
    _DESTROYED.add(model)


def require_there(model: Model | None) -> None:
    """Raise InvalidParameter for a destroyed model."""
    if model is not None and model in _DESTROYED:
        raise InvalidParameter("model: is destroyed")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function.

    kind:    a name of `KINDS`.
    null:    whether it may be None, the null pointer.
    omitted: whether the function has a short form without it, in which the parameters behind it come one place earlier.
    """

    name: str
    kind: str = "any"
    null: bool = False
    omitted: bool = False


def parameter(word: str) -> Parameter:
    """Parse a parameter of a row: `name:kind`, followed by "?" if it may be None and "~" if it may be omitted."""
    name, _, kind = word.rstrip("?~").partition(":")
    return Parameter(name, kind or "any", "?" in word, "~" in word)


def _instance(
    kinds: Any, words: str, allows: Callable[[Any], bool] = lambda value: True
) -> Callable[[Any, str], Any]:
    """Return the check that an argument is an instance of some types and allowed; messages call that `words`."""

    def check(value: Any, name: str) -> Any:
        if not isinstance(value, kinds) or not allows(value):
            raise InvalidParameter(f"{name}: is {_short(value)}, must be {words}")
        return value

    return check


def _handle(kind: type, words: str) -> Callable[[Any, str], Any]:
    """Return the check of a handle, which must not be destroyed or released."""
    instance = _instance(kind, words)

    def check(value: Any, name: str) -> Any:
        instance(value, name)
        if isinstance(value, Model):
            gone = value in _DESTROYED
        else:
            gone = getattr(value, "destroyed", False) or getattr(value, "released", False)
        if gone:
            raise InvalidParameter(f"{name}: is destroyed")
        return value

    return check


def _operand(value: Any, name: str) -> Any:
    _instance(Operand, "an operand")(value, name)
    if value.model in _DESTROYED:
        raise InvalidParameter(f"{name}: its model is destroyed")
    return value


KINDS: dict[str, Callable[[Any, str], Any]] = {
    "any": lambda value, _: value,
    "ref": _instance(Ref, "a place for the result (Ref)"),
    "places": _instance((Ref, list), "a list, or a place for one (Ref)"),
    "text": _instance(str, "a text"),
    "count": _instance(
        int, "a whole number, 0 or more", lambda value: not isinstance(value, bool) and value >= 0
    ),
    "flag": _instance(int, "true or false"),
    "array": _instance(Sequence, "a list", lambda value: not isinstance(value, (str, bytes))),
    "function": _instance(Callable, "a function"),
    "operand": _operand,
    "device": _handle(Device, "a device"),
    "context": _handle(Context, "a context"),
    "model": _handle(Model, "a model"),
    "compilation": _handle(Compilation, "a compilation"),
    "execution": _handle(Execution, "an execution"),
}
"""The check of each kind of parameter: it returns the value, or raises InvalidParameter with the parameter's name."""


def _short(value: Any) -> str:
    if value is None:
        return "null"
    text = type(value).__name__ if not isinstance(value, int | str | bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True)
class Row:
    """One function of the C interface.

    parameters: its parameters as text (`parameter`).
    call:       the function that gets the checked arguments.
    rule:       the number of its rule in the manual.
    means:      its description.
    void:       whether it returns nothing.
    """

    name: str
    parameters: str
    call: Callable[..., None]
    rule: str
    means: str
    void: bool = False
    slots: tuple[Parameter, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", tuple(parameter(word) for word in self.parameters.split()))


def function(row: Row) -> Callable[..., int | None]:
    """Return the function of a row: it returns a result code, or None if it is void, and raises nothing."""

    def call(*arguments: Any, **named: Any) -> int | None:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            code = _code(row, arguments, named)
        for one in noted:
            with suppress(Warning):  # no exception leaves the C interface, even if warnings are errors
                warnings.warn(one.message, one.category, stacklevel=2)
        return None if row.void else code

    call.__name__ = call.__qualname__ = row.name
    call.__module__ = "npusim.nnadapter.c"
    call.__doc__ = f"{row.means} (rule {row.rule})"
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(slot.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for slot in row.slots]
    )
    return call


def _code(row: Row, arguments: Sequence[Any], named: dict[str, Any]) -> int:
    try:
        row.call(*_checked(row, arguments, named))
    except NNAdapterError as fault:
        return _failed(row, fault.code, str(fault))
    except NpusimError as fault:
        return _failed(row, ResultCode.INVALID_PARAMETER, str(fault))
    except MemoryError:
        return _failed(row, ResultCode.OUT_OF_MEMORY, "there is no memory left")
    except Exception as fault:  # a bug of npusim, or an argument that raises when it is inspected
        text = f"npusim itself fails: {type(fault).__name__}: {fault}; please report it"
        return _failed(row, ResultCode.DEVICE_INTERNAL_ERROR, text)
    return int(ResultCode.NO_ERROR)


def _failed(row: Row, code: ResultCode, text: str) -> int:
    _ERROR.text = f"{row.name}: {text}"
    return int(code)


def _checked(row: Row, arguments: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """Return the arguments in order. Raises InvalidParameter for the first wrong one."""
    slots = [slot for slot in row.slots if slot.name not in named]
    if len(arguments) == len(slots) - 1 and any(slot.omitted for slot in slots):
        named = {**named, next(slot.name for slot in slots if slot.omitted): MISSING}
        slots = [slot for slot in slots if not slot.omitted]
    known = {slot.name for slot in row.slots}
    if len(arguments) != len(slots) or not known >= set(named):
        raise InvalidParameter(
            f"{len(arguments) + len(named)} arguments, must be {len(row.slots)}: "
            f"{', '.join(slot.name for slot in row.slots)}"
        )
    values = named | dict(zip((slot.name for slot in slots), arguments, strict=True))
    return [_value(slot, values[slot.name]) for slot in row.slots]


def _value(slot: Parameter, value: Any) -> Any:
    if value is MISSING or (value is None and slot.null):
        return value
    if value is None:
        raise InvalidParameter(f"{slot.name}: is null")
    return KINDS[slot.kind](value, slot.name)
