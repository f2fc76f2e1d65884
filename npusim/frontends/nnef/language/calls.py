"""The calls that an expansion makes: operands, result names, kinds of values, and the place of each call."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from npusim.frontends.nnef.call_network import Call, Infer, Item, Operand, ResultNames, Shape
from npusim.frontends.nnef.language.syntax import Fragment, Parameter
from npusim.frontends.nnef.language.value_operators import item_of
from npusim.frontends.nnef.language.value_types import (
    ANY,
    ITEMS,
    Array,
    Primitive,
    Tensor,
    Type,
    holds_tensors,
)
from npusim.frontends.nnef.places import DocumentError, Place, Source, quoted
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.graph.limits import MOST_WRITTEN_OUT

MOST_CALLS = MOST_WRITTEN_OUT
"""Most operations of an expanded document, and most tensors in an array that a call returns."""


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor as the value of an expression."""

    name: str
    item: str


@dataclass(slots=True)
class Frame:
    """A body that is being executed.

    values: of its identifiers.
    base: the beginning of its tensors' names.
    item: what `?` is.
    within: the fragments that it is nested in.
    place: for bodies of standard operations, the place of the call in the document.
    """

    source: Source
    values: dict[str, Any]
    base: str
    item: str
    within: tuple[tuple[str, Place], ...]
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a call within a body."""

    frame: Frame
    offset: int

    @property
    def place(self) -> Place:
        """The place in the document."""
        return self.frame.place or Place(self.frame.source, self.offset)

    def fault(self, rule: str, text: str) -> DocumentError:
        """Return the error, with the call in the graph that led to it."""
        if self.frame.within:
            name, place = self.frame.within[0]
            text += f"; in {quoted(name)}, called at line {place.line}, column {place.column}"
        return self.place.fault(rule, text)


class CallMaker:
    """The calls of a document, as they are collected; `graph_names` are the identifiers of its graph."""

    def __init__(self, graph_names: Collection[str], infer: Infer | None, is_provisional: bool) -> None:
        self.calls: list[Call] = []
        self.items: dict[str, Item] = {}
        self._graph_names = frozenset(graph_names)
        self._names = set(graph_names)
        self._suffixes: dict[str, int] = {}
        self._infer = infer
        self._is_provisional = is_provisional
        self._shapes: dict[str, Shape] = {}
        self._inferred = 0

    def emit(self, declaration: Fragment, values: list[Any], item: str, site: Site, target: Any) -> Any:
        """Add a call with the values of its parameters; return its result, or a tuple of its results.

        target: the name of the result, a list of names for an array, a tuple for several results; for None, names are
                invented.
        """
        tensors: dict[str, Operand] = {}
        attributes: dict[str, Any] = {}
        for parameter, value in zip(declaration.parameters, values, strict=True):
            if not isinstance(parameter.type, Primitive) and holds_tensors(parameter.type):
                tensors[parameter.name] = _operand(value)
                if self._is_provisional:
                    _check_items(declaration, parameter, value, site)
                continue
            attributes[parameter.name] = value
            if parameter.values and value not in parameter.values:
                known = ", ".join(parameter.values)
                text = f"{quoted(parameter.name)} of {quoted(declaration.name)} is {quoted(value)}, none of {known}"
                raise site.fault("C9", text)
        call = Call(declaration.name, (), tensors, attributes, _item(item), site.place, site.frame.within)
        results = declaration.results
        if len(results) == 1:
            outputs = [self._result(call, results[0], target, site)]
        else:
            targets = target if isinstance(target, tuple) else (None,) * len(results)
            outputs = [self._result(call, *pair, site) for pair in zip(results, targets, strict=True)]
        self._add(call, tuple(map(_names_of, outputs)))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def named(self, name: str, value: Any, place: Place) -> TensorValue:
        """Return a value as the tensor of a graph's identifier: another tensor is copied, and a literal becomes a
        constant.
        """
        if isinstance(value, TensorValue):
            if value.name == name:
                return value
            call = Call("copy", (), {"x": value.name}, {}, _item(value.item), place)
            item = value.item
        else:
            item = item_of(value)
            call = Call("constant", (), {}, {"shape": [1], "value": [value]}, _item(item), place)
        self.items[name] = _item(item) or "scalar"
        self._add(call, (name,))
        return TensorValue(name, item)

    def shape(self, name: str, site: Site) -> Shape:
        """Return the shape of a tensor. Raises DocumentError if shapes are not known."""
        if self._infer is None:
            raise site.fault("S1", f"the shape of {name} is needed before shapes are known")
        while self._inferred < len(self.calls):
            self._infer(self.calls[self._inferred], self._shapes)
            self._inferred += 1
        return self._shapes[name]

    def fresh(self, name: str) -> str:
        """Return a name that no tensor has yet: this one, or this one with a number."""
        chosen = name
        while chosen in self._names:
            number = self._suffixes.get(name, 1) + 1
            self._suffixes[name] = number
            chosen = f"{name}.{number}"
        self._names.add(chosen)
        return chosen

    def _add(self, call: Call, results: tuple[ResultNames, ...]) -> None:
        if len(self.calls) >= MOST_CALLS:
            raise call.place.fault("N", f"the document expands to more than {MOST_CALLS:,} operations")
        self.calls.append(replace(call, results=results))

    def _result(self, call: Call, result: Parameter, target: Any, site: Site) -> Any:
        """Return the tensor, or the list of tensors, that a call makes."""
        kind = result.type
        if isinstance(kind, Tensor):
            return self._tensor(target, result.name, _held(kind, call), site)
        if not (isinstance(kind, Array) and isinstance(kind.item, Tensor)):
            text = f"{quoted(call.operation)} has no body that gives {quoted(result.name)}, of type {kind}"
            raise site.fault("F6", text)
        targets = target if isinstance(target, list) else None
        is_unread = isinstance(target, str) and target in self._graph_names
        count = self._count(call, None if targets is None else len(targets), site, is_unread)
        item = _held(kind.item, call)
        return [self._tensor(part, result.name, item, site) for part in targets or [None] * count]

    def _tensor(self, target: Any, result: str, item: str, site: Site) -> TensorValue:
        if isinstance(target, str) and target in self._graph_names and target not in self.items:
            name = target
        else:
            name = self.fresh(target if isinstance(target, str) else f"{site.frame.base}/{result}")
        self.items[name] = _item(item) or "scalar"
        return TensorValue(name, self.items[name])

    def _count(self, call: Call, wanted: int | None, site: Site, is_unread: bool) -> int:
        """Return the number of tensors in an array that a call returns; `wanted` is the number on its left side.

        If the number is unknown and nothing reads the array (`is_unread`), it is 0.
        """
        known: int | None = None
        if call.operation == "split":
            known = len(call.attributes["ratios"])  # type: ignore[arg-type]  # an array, by its type
        elif call.operation == "copy_n":
            known = max(call.attributes["times"], 0)  # type: ignore[assignment]  # an integer
        elif (
            call.operation == "unstack"
            and wanted is None
            and isinstance(source := call.tensors["value"], str)
        ):
            shape, axis = self.shape(source, site), call.attributes["axis"]
            known = shape[axis] if isinstance(axis, int) and 0 <= axis < len(shape) else 0
        if wanted is not None and known not in (None, wanted):
            text = f"{quoted(call.operation)} gives {known} tensors, and {wanted} stand left of '='"
            raise site.fault("I6", text)
        count = known if wanted is None else wanted
        if count is None and is_unread:
            return 0
        if count is None:
            text = f"nothing says how many tensors {quoted(call.operation)} gives; write [a, b] = ..."
            raise site.fault("I6", text)
        if count > MOST_CALLS:
            raise site.fault(
                "N", f"{quoted(call.operation)} gives {count:,} tensors; at most {MOST_CALLS:,} are made"
            )
        return count


def items_of(value: Any) -> Iterator[str]:
    """Yield the kinds of values of the tensors and literals in a value, perhaps repeatedly."""
    if isinstance(value, TensorValue):
        yield value.item
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from items_of(part)
    elif (item := item_of(value)) != ANY:
        yield item


def _check_items(declaration: Fragment, parameter: Parameter, value: Any, site: Site) -> None:
    """Raise DocumentError for a tensor of the wrong kind; the provisional dialect, without tensor types, shows it
    only here.
    """
    kind: Type | None = parameter.type
    while isinstance(kind, Array):
        kind = kind.item
    wanted = kind.item if isinstance(kind, Tensor) else ANY
    for item in items_of(value):
        if wanted in ITEMS and item != wanted:
            text = (
                f"{quoted(parameter.name)} of {quoted(declaration.name)} is a tensor of {wanted}, not {item}"
            )
            raise site.fault("C9", text)


def _held(kind: Tensor, call: Call) -> str:
    return call.item or "scalar" if kind.item not in ITEMS else kind.item


def _item(item: str) -> Item | None:
    return item if item in ITEMS else None  # type: ignore[return-value]  # a str is not narrowed to literals


def _operand(value: Any) -> Operand:
    if isinstance(value, TensorValue):
        return value.name
    if isinstance(value, (list, tuple)):
        return tuple(map(_operand, value))
    number: Operand = value
    return number


def _names_of(value: Any) -> ResultNames:
    return value.name if isinstance(value, TensorValue) else tuple(part.name for part in value)
