"""Tables of a hardware file: the keys of each with their allowed values, and the checked values of one machine.

class Cache(Section):
    size_kib: int = capacity("capacity", default=64, le=1024)

Cache(size_kib=32).size_kib
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import FrozenInstanceError
from functools import partial
from math import inf, nextafter
from sys import float_info
from typing import Any, ClassVar, Literal, NamedTuple, Self, dataclass_transform, get_args

from npusim.isa.base.lazy_dataclass import dataclass

# Factors by which a what-if run multiplies the parameter (npusim.study.what_if).
MORE = (2.0,)
MORE_OR_LESS = (2.0, 0.5)

MOST = float_info.max

_REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class ReadBy:
    """Metadata of a field of a hardware file: which machines read the key or table.

    All machines read a field without this metadata.

    types:  the MAC engine types (`mac_array.kind`) whose cycles depend on the key; empty: all of them.
    priced: whether the other types also read it, for area or energy alone.
    needs:  dotted paths of `Hardware`, or of the key's own table where they begin with a dot. The key is read where
            one of them is neither zero nor false.
    words:  what such a machine has, for messages and documents; the paths of `needs` if empty.
    """

    types: tuple[str, ...] = ()
    priced: bool = False
    needs: tuple[str, ...] = ()
    words: str = ""

    @property
    def needed(self) -> str:
        """Return the features that a machine must have to read the key; empty if only the MAC engine type decides."""
        return self.words or " or ".join(self.needs)


ON_NPU = ReadBy(needs=("has_npu",), words="an NPU that computes something (lacks_operators)")


class Fault(NamedTuple):
    """A key of a table that is missing or unknown, or has a value that is not allowed ("wrong").

    keys:  the path to the key, with positions in lists.
    value: the refused value.
    """

    keys: tuple[str | int, ...]
    kind: Literal["missing", "unknown", "wrong"]
    value: object = None

    def __str__(self) -> str:
        value = "" if self.kind == "missing" else f" {self.value!r}"
        return f"{'.'.join(map(str, self.keys))}: {self.kind}{value}"


class Field:
    """A key of a table. Each subclass is a type of value; `allowed` states the values that the key may have.

    description: the meaning of the key, for messages and manuals.
    default:     the value of an absent key; None makes the value optional.
    what_if:     factors on the value that what-if runs try.
    given:       whether the DRAM, the circuits or the host determine the value, and no architect chooses it.
    read_by:     the machines that read the key; None: all.
    """

    json: str
    """The type in JSON Schema; lists and tables have none."""

    allowed = ""
    choices: tuple[Any, ...] = ()
    table: type[Section] | None = None
    """The table that the key holds, once or in a list."""

    item: Field | None = None
    """The values of a list; None for other types."""

    def __init__(
        self,
        description: str = "",
        *,
        default: Any = _REQUIRED,
        what_if: tuple[float, ...] = (),
        given: bool = False,
        read_by: ReadBy | None = None,
    ) -> None:
        self.required, self.optional = default is _REQUIRED, default is None
        self.default = default
        self.description, self.what_if, self.given, self.read_by = description, what_if, given, read_by

    def read(self, value: Any, keys: tuple[str | int, ...], faults: list[Fault]) -> Any:
        """Check a value and return it as the table stores it. If it is not allowed, add a fault and return None."""
        if value is None and self.optional:
            return None
        try:
            return self.checked(value)
        except (ValueError, TypeError, OverflowError):
            faults.append(Fault(keys, "wrong", value))
            return None

    def checked(self, value: Any) -> Any:
        """Check a value and return it as the table stores it, such as 500 as 500.0.

        Raises ValueError, TypeError or OverflowError for a value that is not allowed.
        """
        raise NotImplementedError


class _Number(Field):
    """A floating-point number within bounds: above or from the lower one, below or up to the upper one."""

    json = "number"
    name = "a number"
    type: type[float] = float

    def __init__(
        self,
        *description: str,
        gt: float | None = None,
        ge: float | None = None,
        lt: float | None = None,
        le: float | None = None,
        **common: Any,
    ) -> None:
        super().__init__(*description, **common)
        self.bounds = (("above", gt), ("from", ge), ("below", lt), ("to", le))
        # An open bound is the next number inside it, so that one comparison is enough.
        self.low = nextafter(gt, inf) if gt is not None else -MOST if ge is None else ge
        self.high = nextafter(lt, -inf) if lt is not None else MOST if le is None else le

    @property
    def allowed(self) -> str:  # type: ignore[override]
        words = [f"{word} {bound:.10g}" for word, bound in self.bounds if bound is not None]
        return " ".join([self.name, *words])

    def checked(self, value: Any) -> Any:
        number = value if type(value) is self.type else self.converted(value)
        if self.low <= number <= self.high:
            return number
        raise ValueError

    def converted(self, value: Any) -> Any:
        """Convert a value of another type to a number. Raises ValueError, TypeError or OverflowError."""
        if isinstance(value, bool | str | bytes):
            raise ValueError
        return float(value)


class _Whole(_Number):
    """A whole number within bounds."""

    json = "integer"
    name = "a whole number"
    type = int

    def converted(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        return int(value)


class _Flag(Field):
    """True or false."""

    json = "boolean"
    allowed = "true or false"

    def checked(self, value: Any) -> Any:
        if value is True or value is False:
            return value
        raise ValueError


class _Text(Field):
    """Text within bounds of length; with a pattern, a word of small letters."""

    json = "string"

    def __init__(
        self,
        *description: str,
        max_length: int,
        min_length: int = 0,
        pattern: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(*description, **common)
        self.min_length, self.max_length, self.pattern = min_length, max_length, pattern

    @property
    def allowed(self) -> str:  # type: ignore[override]
        if self.pattern is not None:
            return f"a word of {self.max_length} small letters, digits and underscores at most"
        return f"text of {self.min_length} to {self.max_length} characters"

    def checked(self, value: Any) -> Any:
        if (
            isinstance(value, str)
            and self.min_length <= len(value) <= self.max_length
            and (self.pattern is None or re.fullmatch(self.pattern, value))
            and (value.isascii() or not re.search("[\ud800-\udfff]", value))  # half a surrogate pair of JSON
        ):
            return str(value)
        raise ValueError


class _Choice(Field):
    """One of a few names or numbers, of a Literal type."""

    def __init__(self, of: Any, *description: str, **common: Any) -> None:
        super().__init__(*description, **common)
        self.choices = get_args(of)
        self.type = type(self.choices[0])
        self.json = "string" if self.type is str else "integer"

    @property
    def allowed(self) -> str:  # type: ignore[override]
        return "one of " + ", ".join(map(str, self.choices))

    def checked(self, value: Any) -> Any:
        # A float equal to a choice is that number: 56 / 2, which a study may derive, is 28.0.
        if isinstance(value, bool) or not isinstance(value, self.type | float):
            raise ValueError
        return self.choices[self.choices.index(value)]


class _List(Field):
    """A list of values; a frozen table holds it as a tuple."""

    def __init__(self, item: Field, *description: str, max_length: int | None = None, **common: Any) -> None:
        super().__init__(*description, **common)
        self.item: Field = item
        self.max_length, self.table = max_length, item.table

    @property
    def allowed(self) -> str:  # type: ignore[override]
        if self.item.table:
            return f"a list of tables, at most {self.max_length}"
        if self.item.choices:
            return f"a list of {', '.join(self.item.choices)}"
        return self.item.allowed.replace("a word", "a list of words", 1)

    def read(self, value: Any, keys: tuple[str | int, ...], faults: list[Fault]) -> Any:
        if not isinstance(value, list | tuple):
            faults.append(Fault(keys, "wrong", value))
            return None
        count = len(faults)
        items = tuple(self.item.read(item, (*keys, at), faults) for at, item in enumerate(value))
        if len(faults) == count and self.max_length is not None and len(items) > self.max_length:
            faults.append(Fault(keys, "wrong", value))
        return items


class _Table(Field):
    """A table inside a table."""

    allowed = "a table"

    def __init__(self, table: type[Section], *description: str, **common: Any) -> None:
        super().__init__(*description, **common)
        self.table: type[Section] = table

    def read(self, value: Any, keys: tuple[str | int, ...], faults: list[Fault]) -> Any:
        if isinstance(value, self.table) or (value is None and self.optional):
            return value
        if not isinstance(value, dict):
            faults.append(Fault(keys, "wrong", value))
            return None
        return self.table.read(value, keys, faults)


number: Callable[..., Any] = _Number
whole: Callable[..., Any] = _Whole
flag: Callable[..., Any] = _Flag
text: Callable[..., Any] = _Text
choice: Callable[..., Any] = _Choice
listed: Callable[..., Any] = _List
table: Callable[..., Any] = _Table
positive: Callable[..., Any] = partial(whole, ge=1, what_if=MORE)
given: Callable[..., Any] = partial(positive, given=True)
# The limits are a thousandth of the least and a thousand times the most that is built. Beyond them, times of a run
# exceed what integer cycle counts and sums of energy can hold.
rate: Callable[..., Any] = partial(number, ge=1e-6, le=1e6, what_if=MORE)
clock: Callable[..., Any] = partial(number, ge=1e-3, le=10_000, what_if=MORE)
# Capacities: what-if runs also halve them, because less is cheaper.
capacity: Callable[..., Any] = partial(whole, ge=1, what_if=MORE_OR_LESS)
# Times: what-if runs also halve them, because less is faster.
cycles: Callable[..., Any] = partial(whole, ge=0, what_if=MORE_OR_LESS, given=True)
positive_cycles: Callable[..., Any] = partial(whole, ge=1, what_if=MORE_OR_LESS)
time: Callable[..., Any] = partial(number, ge=0, le=1e6, what_if=MORE_OR_LESS, given=True)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        number,
        whole,
        flag,
        text,
        choice,
        listed,
        table,
        positive,
        given,
        rate,
        clock,
        capacity,
        cycles,
        positive_cycles,
        time,
    ),
)
class Section:
    """A table of a hardware file: frozen, and unknown keys are refused."""

    model_fields: ClassVar[dict[str, Field]] = {}
    model_config: ClassVar[Mapping[str, Any]] = {"frozen": True, "extra": "forbid", "strict": True}
    """Kept for one version: tables were models of pydantic, which have this attribute."""

    def __init_subclass__(cls) -> None:
        """Collect the fields of the base classes, from the last one on, and those of the class itself."""
        own = {name: item for name, item in vars(cls).items() if isinstance(item, Field)}
        for name in own:
            delattr(cls, name)
        cls.model_fields = {}
        for base in reversed(cls.__bases__):
            cls.model_fields |= getattr(base, "model_fields", {})
        cls.model_fields |= own

    def __init__(self, **values: Any) -> None:
        """Check the values of all keys. Raises ValueError with the faults."""
        faults: list[Fault] = []
        self._fill(values, (), faults)
        if faults:
            raise ValueError("; ".join(map(str, faults)))

    @classmethod
    def model_validate(cls, values: Mapping[str, Any]) -> Self:
        """Check plain values, nested as in the file. Raises ValueError with the faults."""
        return cls(**values)

    @classmethod
    def read(cls, values: Mapping[str, Any], keys: tuple[str | int, ...], faults: list[Fault]) -> Self:
        """Check plain values, nested as in the file, and return the table. Add what is wrong with them to `faults`.

        If this adds faults, the table is incomplete and must not be used.
        """
        self = cls.__new__(cls)
        self._fill(values, keys, faults)
        return self

    def _fill(self, values: Mapping[str, Any], keys: tuple[str | int, ...], faults: list[Fault]) -> None:
        fields, checked = self.model_fields, self.__dict__
        for name, field in fields.items():
            if name in values:
                checked[name] = field.read(values[name], (*keys, name), faults)
            elif field.required:
                faults.append(Fault((*keys, name), "missing"))
            else:
                checked[name] = field.default
        for name in values:
            if name not in fields:
                faults.append(Fault((*keys, name), "unknown", values[name]))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield each key and its value, so that `dict` gives all values."""
        return iter(self.__dict__.items())

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with changed values, which are not checked."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__ | dict(update or {}))
        return copy

    def model_dump(
        self, *, mode: str = "python", exclude_none: bool = False, exclude_defaults: bool = False
    ) -> dict[str, Any]:
        """Return a dictionary of all values, with tables inside it as dictionaries.

        mode:             "json" turns tuples into lists.
        exclude_none:     leave out values that are None.
        exclude_defaults: leave out values that equal their default.
        """

        def plain(value: Any) -> Any:
            if isinstance(value, Section):
                return value.model_dump(
                    mode=mode, exclude_none=exclude_none, exclude_defaults=exclude_defaults
                )
            if isinstance(value, tuple):
                items = map(plain, value)
                return list(items) if mode == "json" else tuple(items)
            return value

        return {
            name: plain(value)
            for name, value in self.__dict__.items()
            if not (exclude_none and value is None)
            and not (exclude_defaults and value == self.model_fields[name].default)
        }

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.__dict__.items())})"
        )
