"""How functions of the C interface are called: their parameters, and codes in place of exceptions."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import ResultCode
from npusim.frontends.nnadapter.nnadapter_errors import InvalidParameter, NNAdapterError
from npusim.frontends.nnadapter.operand import Operand
from npusim.isa.base.errors import NpusimError
from npusim.nnadapter.compilation import Compilation
from npusim.nnadapter.device_context import Context, Device
from npusim.nnadapter.model_execution import Execution


@dataclass
class Ref:
    """A place for a result, as a pointer to a variable is in C."""

    value: Any = None


@dataclass
class _Error:
    """The sentence of the last call that failed."""

    text: str = ""


_ERROR = _Error()

MISSING: Any = object()
"""An argument that the seed's form of a function does not have."""

_DESTROYED: weakref.WeakSet[Any] = weakref.WeakSet()
"""Models that were destroyed, as long as somebody has them."""


def last_error() -> str:
    """The sentence of the last call that failed; "" if none has."""
    return _ERROR.text


def destroy(model: Model) -> None:
    """A model is no more: neither are its operands, and no compilation of it can be finished."""
    _DESTROYED.add(model)


def require_there(model: Model | None) -> None:
    """Raises InvalidParameter for a model that is destroyed."""
    if model is not None and model in _DESTROYED:
        raise InvalidParameter("model: is destroyed")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function.

    kind:    what it must be: a name of `KINDS`, or "any".
    null:    whether None may stand for it.
    omitted: whether it may be left out, as in the seed's form of the function; then what follows it comes earlier.
    """

    name: str
    kind: str = "any"
    null: bool = False
    omitted: bool = False


def parameter(word: str) -> Parameter:
    """A parameter of a row: `name:kind`, behind it "?" where None may stand for it, "~" where it may be left out."""
    name, _, kind = word.rstrip("?~").partition(":")
    return Parameter(name, kind or "any", "?" in word, "~" in word)


def _handle(kind: type, what: str) -> Callable[[Any, str], Any]:
    def check(value: Any, name: str) -> Any:
        if not isinstance(value, kind):
            raise InvalidParameter(f"{name}: is {_short(value)}, must be {what}")
        gone = (
            value in _DESTROYED
            if isinstance(value, Model)
            else getattr(value, "destroyed", False) or getattr(value, "released", False)
        )
        if gone:
            raise InvalidParameter(f"{name}: is destroyed")
        return value

    return check


def _operand(value: Any, name: str) -> Any:
    if not isinstance(value, Operand):
        raise InvalidParameter(f"{name}: is {_short(value)}, must be an operand")
    if value.model in _DESTROYED:
        raise InvalidParameter(f"{name}: its model is destroyed")
    return value


def _ref(value: Any, name: str) -> Any:
    if not isinstance(value, Ref):
        raise InvalidParameter(f"{name}: is {_short(value)}, must be a place for the result (Ref)")
    return value


def _places(value: Any, name: str) -> Any:
    if not isinstance(value, Ref | list):
        raise InvalidParameter(f"{name}: is {_short(value)}, must be a list, or a place for one (Ref)")
    return value


def _text(value: Any, name: str) -> Any:
    if not isinstance(value, str):
        raise InvalidParameter(f"{name}: is {_short(value)}, must be a text")
    return value


def _count(value: Any, name: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidParameter(f"{name}: is {_short(value)}, must be a whole number, 0 or more")
    return value


def _flag(value: Any, name: str) -> Any:
    if not isinstance(value, int):
        raise InvalidParameter(f"{name}: is {_short(value)}, must be true or false")
    return bool(value)


def _array(value: Any, name: str) -> Any:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InvalidParameter(f"{name}: is {_short(value)}, must be a list")
    return value


def _function(value: Any, name: str) -> Any:
    if not callable(value):
        raise InvalidParameter(f"{name}: is {_short(value)}, must be a function")
    return value


KINDS: dict[str, Callable[[Any, str], Any]] = {
    "any": lambda value, _: value,
    "ref": _ref,
    "places": _places,
    "text": _text,
    "count": _count,
    "flag": _flag,
    "array": _array,
    "function": _function,
    "operand": _operand,
    "device": _handle(Device, "a device"),
    "context": _handle(Context, "a context"),
    "model": _handle(Model, "a model"),
    "compilation": _handle(Compilation, "a compilation"),
    "execution": _handle(Execution, "an execution"),
}
"""What a parameter must be: each returns the value, or raises InvalidParameter with the name."""


def _short(value: Any) -> str:
    if value is None:
        return "null"
    text = type(value).__name__ if not isinstance(value, int | str | bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True)
class Row:
    """One function.

    parameters: words of `parameter`.
    call:       gets the arguments, each checked.
    rule:       of the checklist.
    void:       it returns nothing.
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
    """The function of a row: it returns a result code, or None where it is void, and raises nothing."""

    def call(*arguments: Any, **named: Any) -> int | None:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            code = _code(row, arguments, named)
        for one in noted:
            with suppress(Warning):  # who turns warnings into errors gets none from here
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
    except Exception as fault:  # a fault of npusim, or an object that fails when it is looked at
        text = f"npusim itself fails: {type(fault).__name__}: {fault}; please report it"
        return _failed(row, ResultCode.DEVICE_INTERNAL_ERROR, text)
    return int(ResultCode.NO_ERROR)


def _failed(row: Row, code: ResultCode, text: str) -> int:
    _ERROR.text = f"{row.name}: {text}"
    return int(code)


def _checked(row: Row, arguments: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """The arguments in their order. Raises InvalidParameter for the first that is wrong."""
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
