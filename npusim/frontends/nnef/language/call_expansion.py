"""The expansion of a checked document: fragments are inlined and attributes evaluated, until only calls are left.

Expressions of attributes have a value; expressions with a tensor become calls of the operations that operators stand
for (rule E9). Work, depth and size are limited, because a short document may ask for an unlimited expansion.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from npusim.frontends.nnef.call_network import Call, Infer, Item
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.calls import CallMaker, Frame, Site, TensorValue, items_of
from npusim.frontends.nnef.language.checker import check_standard
from npusim.frontends.nnef.language.syntax import (
    Builtin,
    Chain,
    Comprehension,
    Expression,
    Fragment,
    Invocation,
    Items,
    Literal,
    Name,
    Parameter,
    Parsed,
    Range,
    Select,
    Subscript,
    Unary,
    names_of,
)
from npusim.frontends.nnef.language.value_operators import (
    BINARY_OPERATIONS,
    BINARY_VALUES,
    UNARY_OPERATIONS,
    NoValue,
    builtin_value,
    unary_value,
)
from npusim.frontends.nnef.language.value_types import OPEN, is_generic
from npusim.frontends.nnef.places import DocumentError, Place, quoted

MOST_WORK = 3_000_000
"""Most expressions evaluated and items made for a document; a fragment counts for several."""

_FRAGMENT_WORK = 10
"""The work that inlining a fragment counts for."""

MOST_FRAMES = 1000
"""The deepest nesting of fragments."""

_PYTHON_FRAMES = 40_000
"""Depth of Python's stack that the deepest expansion may take."""


class Expansion:
    """The expansion of a document; `run` makes its calls.

    whole: names of operations that have a body and are kept as one call all the same.
    infer: computes shapes if the document needs them; None refuses such documents.
    """

    def __init__(self, parsed: Parsed, whole: Collection[str] = (), infer: Infer | None = None) -> None:
        self._parsed = parsed
        self._whole = whole
        names = {name.name for assignment in parsed.graph.body for name in names_of(assignment.left)}
        self._maker = CallMaker(names, infer, parsed.is_provisional)
        self._work = 0
        self._evaluators: Mapping[type, Callable[[Any, Frame, Any], Any]] = {
            Literal: lambda literal, frame, target: literal.value,
            Name: lambda name, frame, target: frame.values[name.name],
            Invocation: self._invocation,
            Select: self._select,
            Chain: self._chain,
            Items: self._made_items,
            Unary: self._unary,
            Subscript: self._subscript,
            Range: self._range,
            Comprehension: self._comprehension,
            Builtin: self._builtin,
        }

    @property
    def calls(self) -> list[Call]:
        """The calls, in their order."""
        return self._maker.calls

    @property
    def items(self) -> dict[str, Item]:
        """The kind of values of each tensor, by name."""
        return self._maker.items

    def run(self) -> None:
        """Execute the graph. Raises DocumentError."""
        graph, source = self._parsed.graph, self._parsed.source
        frame = Frame(source, {}, "", "", ())
        with _recursion_room():
            for assignment in graph.body:
                target = _targets(assignment.left, lambda name: name)
                frame.base = next((name.name for name in names_of(assignment.left)), graph.name)
                value = self._evaluate(assignment.right, frame, target)
                self._name(assignment.left, value, assignment.offset, frame)

    # The graph's identifiers are the names of tensors.

    def _name(self, left: Expression, value: Any, offset: int, frame: Frame) -> None:
        if isinstance(left, Items):
            self._check_length(left, value, frame)
            for item, part in zip(left.items, value, strict=True):
                self._name(item, part, offset, frame)
            return
        assert isinstance(left, Name)
        if isinstance(value, list):
            return  # an array under one name: the checker has refused any read of it
        frame.values[left.name] = self._maker.named(left.name, value, Place(frame.source, offset))

    def _check_length(self, left: Items, value: Any, frame: Frame) -> None:
        if len(left.items) != len(value):
            text = f"{len(left.items)} left sides for {len(value)} items"
            raise self._fault(frame, left.offset, "I6", text)

    # Fragments

    def _expand(self, call: Invocation, values: list[Any], item: str, frame: Frame, target: Any) -> Any:
        fragment = call.declaration
        assert fragment is not None
        assert fragment.body is not None
        assert fragment.source is not None
        self._charge(_FRAGMENT_WORK, call, frame)
        place = Site(frame, call.offset).place
        if len(frame.within) >= MOST_FRAMES:
            text = f"{quoted(fragment.name)} is the {MOST_FRAMES + 1}st fragment within another"
            raise self._fault(frame, call.offset, "N", text)
        is_own = fragment.source is self._parsed.source
        if not is_own:
            check_standard(fragment)
        results = [result.name for result in fragment.results]
        targets: dict[str, Any] = {}
        if len(results) == 1:
            targets[results[0]] = target
        elif isinstance(target, tuple):
            targets.update(zip(results, target, strict=True))
        base = target if isinstance(target, str) else self._maker.fresh(f"{frame.base}/{fragment.name}")
        inner = Frame(fragment.source, {}, base, item, (*frame.within, (fragment.name, place)))
        inner.place = None if is_own else place
        for parameter, value in zip(fragment.parameters, values, strict=True):
            inner.values[parameter.name] = value
        for assignment in fragment.body:
            self._assign(assignment.left, assignment.right, inner, targets)
        if len(results) == 1:
            return inner.values[results[0]]
        return tuple(inner.values[name] for name in results)

    def _assign(self, left: Expression, right: Expression, frame: Frame, results: dict[str, Any]) -> None:
        def target_of(name: str) -> Any:
            # A target is reserved only when a tensor is made under it.
            return results.get(name) or f"{frame.base}/{name}"

        self._unpack(left, self._evaluate(right, frame, _targets(left, target_of)), frame)

    def _unpack(self, left: Expression, value: Any, frame: Frame) -> None:
        if isinstance(left, Name):
            frame.values[left.name] = value
            return
        assert isinstance(left, Items)
        self._check_length(left, value, frame)
        for item, part in zip(left.items, value, strict=True):
            self._unpack(item, part, frame)

    # Expressions

    def _evaluate(self, expression: Expression, frame: Frame, target: Any = None) -> Any:
        """Return the value of an expression; a tensor that it makes gets the name `target`, if that is a name."""
        self._charge(1, expression, frame)
        try:
            return self._evaluators[type(expression)](expression, frame, target)
        except NoValue as reason:
            raise self._fault(frame, expression.offset, _rule_of(expression), str(reason)) from None

    def _builtin(self, expression: Builtin, frame: Frame, target: Any) -> Any:
        value = self._evaluate(expression.operand, frame)
        if expression.name == "shape_of":
            return self._shape_of(value, expression, frame)
        if expression.name == "range_of":
            self._charge(len(value), expression, frame)
        return builtin_value(expression.name, value)

    def _made_items(self, expression: Items, frame: Frame, target: Any) -> Any:
        is_fit = isinstance(target, tuple if expression.is_tuple else list) and len(target) == len(
            expression.items
        )
        targets = target if is_fit else [None] * len(expression.items)
        values = [
            self._evaluate(item, frame, part) for item, part in zip(expression.items, targets, strict=True)
        ]
        return tuple(values) if expression.is_tuple else values

    def _select(self, expression: Select, frame: Frame, target: Any) -> Any:
        chosen: Expression = expression
        while isinstance(chosen, Select):
            chosen = chosen.value if self._evaluate(chosen.condition, frame) else chosen.otherwise
        return self._evaluate(chosen, frame, target)

    def _chain(self, expression: Chain, frame: Frame, target: Any) -> Any:
        left = self._evaluate(expression.first, frame)
        last = len(expression.rest) - 1
        for index, (operator, operand) in enumerate(expression.rest):
            right = self._evaluate(operand, frame)
            if isinstance(left, TensorValue) or isinstance(right, TensorValue):
                name = target if index == last else None
                left = self._operator(BINARY_OPERATIONS[operator], [left, right], expression, frame, name)
                continue
            try:
                left = BINARY_VALUES[operator](left, right)
            except NoValue as reason:
                raise self._fault(frame, expression.offset, "E10", f"{quoted(operator)}: {reason}") from None
            if isinstance(left, (list, str)):
                self._charge(len(left), expression, frame)
        return left

    def _unary(self, expression: Unary, frame: Frame, target: Any) -> Any:
        operators = [expression.operator]
        operand = expression.operand
        while isinstance(operand, Unary):
            operators.append(operand.operator)
            operand = operand.operand
        value = self._evaluate(operand, frame)
        while operators:
            operator = operators.pop()
            if isinstance(value, TensorValue):
                name = None if operators else target
                value = self._operator(UNARY_OPERATIONS[operator], [value], expression, frame, name)
            else:
                value = unary_value(operator, value)
        return value

    def _subscript(self, expression: Subscript, frame: Frame, target: Any) -> Any:
        value = self._evaluate(expression.operand, frame)
        index = self._evaluate(expression.index, frame)
        if not 0 <= index < len(value):
            raise NoValue(f"index {index} is outside of {len(value)} items")
        return value[index]

    def _range(self, expression: Range, frame: Frame, target: Any) -> Any:
        value = self._evaluate(expression.operand, frame)
        begin = 0 if expression.begin is None else self._evaluate(expression.begin, frame)
        end = len(value) if expression.end is None else self._evaluate(expression.end, frame)
        for bound in (begin, end):
            if not 0 <= bound <= len(value):
                raise NoValue(f"range {begin}:{end} is outside of {len(value)} items")
        self._charge(max(end - begin, 0), expression, frame)
        return value[begin : max(begin, end)]

    def _comprehension(self, expression: Comprehension, frame: Frame, target: Any) -> Any:
        arrays = [self._evaluate(array, frame) for _, _, array in expression.iterators]
        names = [name for name, _, _ in expression.iterators]
        if len(set(map(len, arrays))) > 1:
            raise NoValue(f"arrays of {' and '.join(str(len(array)) for array in arrays)} items")
        values = []
        for items in zip(*arrays, strict=True):
            frame.values.update(zip(names, items, strict=True))
            if expression.condition is None or self._evaluate(expression.condition, frame):
                values.append(self._evaluate(expression.value, frame))
        return values

    def _shape_of(self, value: Any, expression: Builtin, frame: Frame) -> list[int]:
        is_tensor = isinstance(value, TensorValue)
        shape = self._maker.shape(value.name, Site(frame, expression.offset)) if is_tensor else (1,)
        least = 2 if self._parsed.is_provisional else 0
        return [*shape, *(1,) * (least - len(shape))]

    # Calls

    def _invocation(self, call: Invocation, frame: Frame, target: Any) -> Any:
        declaration = call.declaration
        assert declaration is not None
        values = [
            self._default(parameter) if argument is None else self._evaluate(argument, frame)
            for parameter, argument in zip(declaration.parameters, call.arguments, strict=True)
        ]
        item = ""
        if declaration.generic is not None:
            item = call.generic or self._bound(declaration, values, call, frame)
            item = frame.item if item == OPEN else item
        if declaration.body is None or declaration.name in self._whole:
            return self._maker.emit(declaration, values, item, Site(frame, call.offset), target)
        return self._expand(call, values, item, frame, target)

    @staticmethod
    def _default(parameter: Parameter) -> Any:
        assert parameter.default is not None
        value = parameter.default.value
        return value.copy() if isinstance(value, list) else value  # the declaration keeps its own list

    def _bound(self, declaration: Fragment, values: list[Any], call: Invocation, frame: Frame) -> str:
        """Return what `?` of a call is by the values of its arguments."""
        items = {
            item
            for parameter, value in zip(declaration.parameters, values, strict=True)
            if is_generic(parameter.type)
            for item in items_of(value)
        }
        if len(items) > 1:
            text = f"? of {quoted(declaration.name)} is {' and '.join(sorted(items))}"
            raise self._fault(frame, call.offset, "T8", text)
        return items.pop() if items else declaration.generic or frame.item or "scalar"

    def _operator(
        self, name: str, values: list[Any], at: Expression, frame: Frame, target: Any
    ) -> TensorValue:
        declaration = standard.fragment(name)
        assert declaration is not None
        item = values[0].item if declaration.generic is not None else ""
        result = self._maker.emit(declaration, values, item, Site(frame, at.offset), target)
        assert isinstance(result, TensorValue)
        return result

    # Limits and errors

    def _charge(self, work: int, expression: Expression, frame: Frame) -> None:
        self._work += work
        if self._work > MOST_WORK:
            text = f"more than {MOST_WORK:,} expressions and items to evaluate"
            raise self._fault(frame, expression.offset, "N", text)

    def _fault(self, frame: Frame, offset: int, rule: str, text: str) -> DocumentError:
        return Site(frame, offset).fault(rule, text)


def expand(parsed: Parsed, whole: Collection[str] = (), infer: Infer | None = None) -> Expansion:
    """Return the expansion of a checked document. Raises DocumentError."""
    expansion = Expansion(parsed, whole, infer)
    try:
        expansion.run()
    except RecursionError:
        graph = parsed.graph
        raise parsed.source.fault(graph.offset, "N", "fragments and expressions nest too deeply") from None
    return expansion


_room_lock = Lock()
_rooms = 0
_former_limit = 0


@contextmanager
def _recursion_room() -> Iterator[None]:
    """Let Python's stack be as deep as fragments may nest; several threads may be inside."""
    global _rooms, _former_limit
    with _room_lock:
        if _rooms == 0:
            _former_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_former_limit, _PYTHON_FRAMES))
        _rooms += 1
    try:
        yield
    finally:
        with _room_lock:
            _rooms -= 1
            if _rooms == 0:
                sys.setrecursionlimit(_former_limit)


def _rule_of(expression: Expression) -> str:
    """Return the rule that an expression without a value breaks."""
    if isinstance(expression, (Subscript, Range)):
        return "E1"
    if isinstance(expression, Comprehension):
        return "E5"
    return "E7" if isinstance(expression, Builtin) else "E10"


def _targets(left: Expression, name_of: Callable[[str], Any]) -> Any:
    """Return a left side as names of tensors: a name, a list for an array, a tuple for a tuple."""
    if isinstance(left, Name):
        return name_of(left.name)
    assert isinstance(left, Items)
    parts = [_targets(item, name_of) for item in left.items]
    return tuple(parts) if left.is_tuple else parts
