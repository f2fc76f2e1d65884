"""A replacement for `dataclasses.dataclass` that generates each method of a class when it is first called.

The standard library writes and compiles up to six functions for each class when its module is imported. For the 200
classes of a small run these were a fifth of all instructions of the process, and most of them were never called.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

_WRITTEN = {"__repr__": "repr", "__eq__": "eq"}
"""Methods that the standard library generates, each with the option of `dataclasses.dataclass` that requests it."""

_NONE = {"init": False, "repr": False, "eq": False}
"""Options of `dataclasses.dataclass` that turn off all generated methods."""


class _Factory:
    """The default that the signature of `__init__` shows for a field with a `default_factory`."""

    def __repr__(self) -> str:
        return "<factory>"


class _Declared:
    """A field as its class declares it: its annotation, and its value or `dataclasses.field(...)`."""

    __slots__ = ("_kw_only", "_value", "annotation")

    def __init__(self, annotation: Any, value: Any, kw_only: bool) -> None:
        self.annotation, self._value, self._kw_only = annotation, value, kw_only

    def _option(self, name: str, otherwise: Any) -> Any:
        """Return an option of `dataclasses.field(...)`; `otherwise` if there is none."""
        return getattr(self._value, name) if isinstance(self._value, Field) else otherwise

    @property
    def default(self) -> Any:
        """The default value, or MISSING."""
        return self._option("default", self._value)

    @property
    def factory(self) -> Any:
        """The function that makes default values, or MISSING."""
        return self._option("default_factory", MISSING)

    @property
    def init(self) -> bool:
        """Whether `__init__` takes it."""
        return bool(self._option("init", True))

    @property
    def keyword(self) -> bool:
        """Whether `__init__` takes it by name only."""
        return bool(self._kw_only if (own := self._option("kw_only", MISSING)) is MISSING else own)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the declaration says beyond the dataclass, as in `dataclasses.field(metadata=...)`."""
        metadata: Mapping[str, Any] = self._option("metadata", {})
        return metadata

    @property
    def hashed(self) -> bool:
        """Whether the hash of an object depends on it."""
        own = self._option("hash", None)
        return bool(self._option("compare", True) if own is None else own)


class _Lazy:
    """A descriptor that computes a class attribute on the first access. The value then replaces the descriptor."""

    __slots__ = ("compute", "name", "owner")

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = self.compute(self.owner)
        setattr(self.owner, self.name, value)
        return value.__get__(instance, owner) if isinstance(value, FunctionType) else value


def _dataclass(
    cls: type | None = None,
    /,
    *,
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
) -> Any:
    """Make a class of annotated fields. The options mean what they mean to `dataclasses.dataclass`.

    A fault in the declaration, for example a field without default after one with a default, shows at the first call.
    """

    def made(cls: type) -> type:
        body = dict(cls.__dict__)
        names = [name for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)]
        defaults = {name: body.pop(name) for name in names if name in body}
        options = {"repr": repr, "eq": eq, "frozen": frozen, "slots": slots, "kw_only": kw_only}
        added: dict[str, Any] = {
            "__declared__": (names, defaults, kw_only),
            "__dataclass_fields__": _Lazy(lambda cls: _fields(cls, defaults, kw_only)),
            "__dataclass_params__": _Lazy(lambda cls: _twin(cls, {}, options).__dataclass_params__),
            "__match_args__": _Lazy(_positional),
            "__init__": _Lazy(lambda cls: _initializer(cls, frozen)),
        }
        if repr:
            added["__repr__"] = _Lazy(lambda cls: _written(cls, "__repr__"))
        if eq:
            added["__eq__"] = _Lazy(lambda cls: _written(cls, "__eq__"))
        if sys.version_info >= (3, 13):
            added["__replace__"] = _Lazy(lambda cls: _twin(cls, {}, {}).__replace__)
        added = {name: item for name, item in added.items() if name not in body}
        # Python sets the hash of a class that defines only `__eq__` to None, which is no hash of its own.
        if eq and (body.get("__hash__") is None if "__eq__" in body else "__hash__" not in body):
            added["__hash__"] = _Lazy(_hash) if frozen else None
        if slots:
            cls = _with_slots(cls, names, body | added)
        else:
            for name, item in added.items():
                setattr(cls, name, item)
                if isinstance(item, _Lazy):
                    item.__set_name__(cls, name)
            for name, default in defaults.items():
                if isinstance(default, Field) and default.default is MISSING:
                    delattr(cls, name)
                elif isinstance(default, Field):
                    setattr(cls, name, default.default)
        if frozen:
            _freeze(cls, frozenset(names))
        return cls

    return made if cls is None else made(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass


def _with_slots(cls: type, names: list[str], body: dict[str, Any]) -> type:
    """Return a copy of the class with a slot for each field that has no slot in a base class."""
    taken = {slot for base in cls.__mro__[1:-1] for slot in base.__dict__.get("__slots__", ())}
    body["__slots__"] = tuple(name for name in names if name not in taken)
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    slotted = type(cls)(cls.__name__, cls.__bases__, body)
    slotted.__qualname__ = cls.__qualname__
    return slotted


def _freeze(cls: Any, names: frozenset[str]) -> None:
    """Make instances immutable: setting or deleting a field raises FrozenInstanceError. pickle and copy still work."""
    if "__setattr__" not in cls.__dict__:
        inherited_set, inherited_delete = cls.__setattr__, cls.__delattr__

        def set_attribute(self: Any, name: str, value: Any) -> None:
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            inherited_set(self, name, value)

        def delete_attribute(self: Any, name: str) -> None:
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            inherited_delete(self, name)

        cls.__setattr__, cls.__delattr__ = set_attribute, delete_attribute
    if "__slots__" in cls.__dict__ and "__getstate__" not in cls.__dict__:
        cls.__getstate__, cls.__setstate__ = _state, _set_state


def _state(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for item, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)


def _twin(cls: type, body: dict[str, Any], options: dict[str, bool]) -> Any:
    """Return a standard-library dataclass of the same name, made from the annotations and defaults in `body`."""
    named = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return dataclasses.dataclass(**_NONE | options)(type(cls.__name__, (), named | body))


def _fields(cls: type, defaults: dict[str, Any], kw_only: bool) -> dict[str, Field[Any]]:
    """Return the fields of a class by name: those of its bases, then its own, which replace inherited ones."""
    fields: dict[str, Field[Any]] = {}
    for base in cls.__mro__[:0:-1]:
        fields |= getattr(base, "__dataclass_fields__", {})
    body = defaults | {"__annotations__": cls.__annotations__}
    declared: dict[str, Field[Any]] = _twin(cls, body, {"kw_only": kw_only}).__dataclass_fields__
    return fields | declared


def _declared(cls: type) -> dict[str, _Declared]:
    """Return the fields of a class in order, without the `Field` of each, for which the standard library takes long.

    A base class may also be a dataclass of the standard library.
    """
    declared: dict[str, _Declared] = {}
    for base in cls.__mro__[::-1]:
        if "__declared__" in base.__dict__:
            names, defaults, kw_only = base.__dict__["__declared__"]
            for name in names:
                declared[name] = _Declared(base.__annotations__[name], defaults.get(name, MISSING), kw_only)
        elif "__dataclass_fields__" in base.__dict__:
            for field in dataclasses.fields(base):
                declared[field.name] = _Declared(field.type, field, bool(field.kw_only))
    return declared


def metadata_of(cls: type) -> dict[str, Mapping[str, Any]]:
    """Return the metadata of each field of a dataclass in order."""
    return {name: item.metadata for name, item in _declared(cls).items()}


def _positional(cls: type) -> tuple[str, ...]:
    return tuple(name for name, item in _declared(cls).items() if item.init and not item.keyword)


def _hash(cls: type) -> FunctionType:
    """Generate `__hash__`, the hash of all fields that are compared."""
    values = "".join(f"self.{name}, " for name, item in _declared(cls).items() if item.hashed)
    return _generated(cls, "__hash__", "self", [f" return hash(({values}))"], {})


def _written(cls: Any, name: str) -> Any:
    """Return the method of this name that the standard library generates for the class."""
    fields = {item.name: item for item in dataclasses.fields(cls)}
    body = fields | {"__annotations__": {name: item.type for name, item in fields.items()}}
    return getattr(_twin(cls, body, {_WRITTEN[name]: True}), name)


def _initializer(cls: type, frozen: bool) -> FunctionType:
    """Generate `__init__`. For a frozen class the standard library would generate two more functions with it."""
    values: dict[str, Any] = {"_set": object.__setattr__, "_factory": _Factory()}
    positional, keywords = ["self"], list[str]()
    lines: list[str] = []
    declared = _declared(cls)
    for name, item in declared.items():
        argument, value = name, name
        if item.default is not MISSING:
            if type(item.default).__hash__ is None:
                kind = type(item.default)
                raise ValueError(
                    f"mutable default {kind} for field {name} is not allowed: use default_factory"
                )
            values[f"_default_{name}"] = item.default
            argument = f"{name}=_default_{name}"
        elif item.factory is not MISSING:
            values[f"_default_{name}"] = item.factory
            argument = f"{name}=_factory"
            value = f"_default_{name}() if {name} is _factory else {name}"
        if not item.init:
            if item.factory is MISSING:
                continue
            value = f"_default_{name}()"
        else:
            (keywords if item.keyword else positional).append(argument)
        # The descriptor of a slot sets it in half the time of `object.__setattr__`.
        slot = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
        if not frozen:
            lines.append(f" self.{name} = {value}")
        elif isinstance(slot, MemberDescriptorType):
            values[f"_set_{name}"] = slot.__set__
            lines.append(f" _set_{name}(self, {value})")
        else:
            lines.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    arguments = ", ".join(positional + ["*", *keywords] * bool(keywords))
    method = _generated(cls, "__init__", arguments, lines or [" pass"], values)
    method.__annotations__ = {name: item.annotation for name, item in declared.items() if item.init} | {
        "return": None
    }
    return method


def _generated(
    cls: type, name: str, arguments: str, lines: list[str], values: dict[str, Any]
) -> FunctionType:
    """Compile a method of a class. values: what its lines and default arguments refer to."""
    body = "\n ".join(lines)
    outer = f"def write({', '.join(values)}):\n def {name}({arguments}):\n {body}\n return {name}"
    namespace: dict[str, Any] = {}
    exec(outer, {}, namespace)
    method: FunctionType = namespace["write"](**values)
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    return method
