"""Classes with lazy methods behave as those of the standard library, and have no method before its first call."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from functools import cached_property, partial
from typing import Any, ClassVar

import pytest

from npusim.isa.base.lazy_dataclass import dataclass, metadata_of


def declared(dataclass: Any, **options: bool) -> type:
    """Return a class, derived from another, with every sort of field."""

    @dataclass(**options)
    class Base:
        first: int
        second: list[int] = field(default_factory=list)

        shared: ClassVar[int] = 5

    @dataclass(**options)
    class Derived(Base):
        second: list[int] = field(default_factory=partial(list, [1]), compare=False)
        third: str = "x"
        hidden: int = field(default=7, init=False, repr=False)
        keyword: int = field(default=3, kw_only=True, metadata={"width": 4})

        def __post_init__(self) -> None:
            object.__setattr__(self, "hidden", self.first + 1)

    return Derived


OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "repr": False},
    {"slots": True, "kw_only": True},
    {"eq": False},
]


def observed(act: Callable[[], object]) -> object:
    """Return what a call returns, or its error."""
    try:
        return act()
    except (TypeError, AttributeError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_behaves_as_that_of_the_standard_library(options: dict[str, bool]) -> None:
    """Values, errors, signature, fields and frozenness of both classes are the same."""

    def behaviour(kind: Any) -> list[object]:
        value = kind(first=1)
        return [
            observed(lambda: dataclasses.astuple(kind(1))),
            observed(lambda: dataclasses.astuple(kind(2, [4], "y", keyword=9))),
            observed(lambda: dataclasses.astuple(kind(1, [2], "z", 4))),
            observed(lambda: dataclasses.astuple(kind())),
            observed(lambda: dataclasses.astuple(kind(first=1, hidden=3))),
            dataclasses.astuple(value),
            repr(value).split(" object at")[0],
            value == kind(first=1, second=[9]),
            value == kind(first=2),
            value == 5,
            observed(lambda: hash(value) == hash(kind(first=1))),
            kind.__hash__ is None,
            str(inspect.signature(kind)),
            kind.__match_args__,
            [str(item) for item in dataclasses.fields(kind)],
            dataclasses.asdict(value),
            dataclasses.replace(value, third="w").third,
            observed(lambda: dataclasses.replace(value, hidden=1)),
            copy.copy(value).third,
            observed(lambda: setattr(value, "first", 4)),
            observed(lambda: delattr(value, "third")),
            kind.shared,
            hasattr(value, "__dict__"),
            getattr(kind, "third", None) == "x",
            hasattr(kind, "second"),
        ]

    assert behaviour(declared(dataclass, **options)) == behaviour(declared(dataclasses.dataclass, **options))


def test_methods_are_written_when_they_are_first_called() -> None:
    """A new class has no function of its own; a call writes the one that it needs."""
    kind: Any = declared(dataclass, frozen=True, slots=True)
    lazy = {name for name, item in vars(kind).items() if type(item).__name__ == "_Lazy"}
    assert {"__init__", "__repr__", "__eq__", "__hash__", "__dataclass_fields__"} <= lazy
    kind(1)
    assert inspect.isfunction(vars(kind)["__init__"])
    assert {"__repr__", "__eq__", "__hash__"} == {
        name
        for name in ("__init__", "__repr__", "__eq__", "__hash__")
        if not inspect.isfunction(vars(kind)[name])
    }


@dataclass(frozen=True, slots=True)
class Point:
    """A class that pickle finds by its name."""

    x: int
    y: list[int] = field(default_factory=list)


def test_frozen_slots_are_pickled() -> None:
    """pickle and deepcopy set the slots of a frozen class."""
    point = Point(3, [4])
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point


def test_a_class_keeps_the_methods_that_it_defines() -> None:
    """Own `__init__`, `__repr__`, `__eq__` and `__hash__` stay, and a plain subclass inherits the lazy ones."""

    @dataclass(frozen=True)
    class Named:
        name: str

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "named"

        @cached_property
        def length(self) -> int:
            return len(self.name)

    class Longer(Named):
        def __init__(self, name: str) -> None:
            super().__init__(name + "!")

    value = Longer("a")
    assert (value.name, value.length, repr(value), value == 3, hash(value)) == (
        "a!",
        2,
        "named",
        True,
        hash(("a!",)),
    )
    assert value.__class__ is Longer
    assert Longer.__init__ is not Named.__init__


def test_a_wrong_declaration_is_refused_at_the_first_call() -> None:
    """A mutable default is the fault that the standard library names at the declaration."""

    @dataclass
    class Wrong:
        values: list[int] = []  # noqa: RUF012

    with pytest.raises(ValueError, match="mutable default <class 'list'> for field values is not allowed"):
        Wrong()


def test_a_standard_dataclass_may_derive_from_one() -> None:
    base = declared(dataclass, frozen=True, slots=True)

    @dataclasses.dataclass(frozen=True, slots=True)
    class Own(base):
        wide: int = field(default=1, metadata={"width": 9})

    metadata = metadata_of(Own)
    assert list(metadata) == [item.name for item in dataclasses.fields(Own)]
    assert {name: dict(each) for name, each in metadata.items() if each} == {
        "keyword": {"width": 4},
        "wide": {"width": 9},
    }
    assert Own(4, wide=2).wide == 2
