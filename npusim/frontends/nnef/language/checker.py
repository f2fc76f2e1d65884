"""The check of a document before anything is evaluated: names, types and calls in fragments and graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from npusim.frontends.nnef.language import invocations, standard
from npusim.frontends.nnef.language.syntax import (
    Assignment,
    Builtin,
    Chain,
    Comprehension,
    Expression,
    Fragment,
    Graph,
    Invocation,
    Items,
    Literal,
    Name,
    Parsed,
    Range,
    Select,
    Subscript,
    Unary,
    names_of,
)
from npusim.frontends.nnef.language.value_operators import (
    BUILTIN_OPERANDS,
    binary_type,
    builtin_type,
    unary_type,
)
from npusim.frontends.nnef.language.value_types import (
    INTEGER,
    LOGICAL,
    OPEN,
    SCALAR,
    STRING,
    Array,
    Tensor,
    Tuple,
    Type,
    castable,
    common,
    common_of,
    is_generic,
    substitute,
)
from npusim.frontends.nnef.places import DocumentError, Source, quoted

_GRAPH_ONLY = ("external", "variable", "update")


def check(parsed: Parsed) -> None:
    """Raise DocumentError for a rule that the document breaks; add warnings to the document."""
    try:
        _check(parsed)
    except RecursionError:
        raise parsed.source.fault(
            0, "N", "expressions nest too deeply for what is left of the stack"
        ) from None


def _check(parsed: Parsed) -> None:
    source = parsed.source
    own: dict[str, Fragment] = {}
    later = {fragment.name for fragment in parsed.fragments}
    # The provisional text only demands a declaration; the final dialect demands it before the first call.
    visible = {fragment.name: fragment for fragment in parsed.fragments} if parsed.is_provisional else own
    for fragment in parsed.fragments:
        name = fragment.name
        if name in standard.OPERATIONS or name in own:
            what = "a standard operation" if name in standard.OPERATIONS else "defined already"
            raise source.fault(fragment.offset, "F1", f"{quoted(name)} is {what}")
        own[name] = fragment
        later.discard(name)
        _Check(source, visible, later, parsed.is_provisional, parsed.warnings).fragment(fragment)
    if parsed.graph.name in standard.OPERATIONS or parsed.graph.name in own:
        raise source.fault(
            parsed.graph.offset, "F1", f"{quoted(parsed.graph.name)} is the name of an operation"
        )
    _GraphCheck(source, own, (), parsed.is_provisional, parsed.warnings).graph(parsed.graph)


def check_standard(fragment: Fragment) -> None:
    """Find the declarations that the body of a standard operation calls."""
    if not fragment.checked and fragment.source is not None:
        _Check(fragment.source, {}, (), False, []).fragment(fragment)


class _Check:
    """The check of one body; `types` are those of its identifiers so far."""

    unassigned_rule = "B4"
    again_rule = "B5"

    def __init__(
        self,
        source: Source,
        own: Mapping[str, Fragment],
        later: Collection[str],
        is_provisional: bool,
        warnings: list[str],
    ) -> None:
        self._source = source
        self._own = own
        self._later = later
        self._is_provisional = is_provisional
        self._warnings = warnings
        self._types: dict[str, Type] = {}
        self._generic = False
        self._checks: Mapping[type, Callable[[Any], Type]] = {
            Literal: lambda literal: literal.type,
            Name: self._named,
            Invocation: self._invocation,
            Items: self._items,
            Chain: self._chain,
            Unary: self._unary,
            Select: self._select,
            Subscript: self._subscript,
            Range: self._range,
            Comprehension: self._comprehension,
            Builtin: self._builtin,
        }

    def fragment(self, fragment: Fragment) -> None:
        """Check defaults and body of a fragment."""
        self._generic = fragment.generic is not None
        for parameter in fragment.parameters:
            self._types[parameter.name] = parameter.type
            if parameter.default is not None and not self._fits(parameter.default, parameter.type):
                text = f"the default of {quoted(parameter.name)} is {parameter.default.type}, not {parameter.type}"
                raise self._fault(parameter.default, "F3", text)
        if fragment.body is not None:
            self._body(fragment, fragment.body)
        fragment.checked = True

    def _fits(self, literal: Literal, kind: Type) -> bool:
        if is_generic(kind):
            return True
        return castable(literal.type, kind) or self._made_real(literal, kind)

    def _body(self, fragment: Fragment, body: list[Assignment]) -> None:
        results = {result.name: result for result in fragment.results}
        parameters = {parameter.name for parameter in fragment.parameters}
        for assignment in body:
            kind = self.type_of(assignment.right)
            for name in names_of(assignment.left):
                if name.name in parameters:
                    raise self._fault(
                        name, "B1", f"{quoted(name.name)} is a parameter of {quoted(fragment.name)}"
                    )
                if name.name in results and name.name in self._types:
                    raise self._fault(name, "B3", f"result {quoted(name.name)} is assigned a second time")
            self._assign(assignment.left, kind)
            for name in names_of(assignment.left):
                result = results.get(name.name)
                have = self._types[name.name]
                if result is not None and not castable(have, result.type):
                    text = f"result {quoted(name.name)} is declared {result.type}, and assigned {have}"
                    raise self._fault(name, "B6", text)
        for name_of_result in results:
            if name_of_result not in self._types:
                text = f"result {quoted(name_of_result)} of {quoted(fragment.name)} is not assigned"
                raise self._source.fault(fragment.end, "B3", text)

    # Left sides

    def _assign(self, left: Expression, kind: Type) -> None:
        """Give the identifiers of a left side their types (rules I4, I5, I6, B5)."""
        if isinstance(left, Name):
            if left.name in self._types:
                raise self._fault(left, self.again_rule, f"{quoted(left.name)} is assigned already")
            self._types[left.name] = self._assignable(left, kind)
            return
        assert isinstance(left, Items)
        if left.is_tuple:
            if not isinstance(kind, Tuple) or len(kind.items) != len(left.items):
                text = f"a tuple of {len(left.items)} is assigned {kind}; the left side must be of that structure"
                raise self._fault(left, "I6", text)
            for item, part in zip(left.items, kind.items, strict=True):
                self._assign(item, part)
        elif not isinstance(kind, Array) or kind.item is None:
            raise self._fault(
                left, "I6", f"an array is assigned {kind}; the left side must be of that structure"
            )
        else:
            for item in left.items:
                self._assign(item, kind.item)

    def _assignable(self, left: Name, kind: Type) -> Type:
        """Return the type of an identifier that is assigned a type."""
        return kind

    # Expressions

    def type_of(self, expression: Expression) -> Type:
        """Return the type of an expression. Raises DocumentError if it has none."""
        kind: Type = self._checks[type(expression)](expression)
        return kind

    def _named(self, expression: Name) -> Type:
        kind = self._types.get(expression.name)
        if kind is None:
            raise self._unassigned(expression)
        return kind

    def _builtin(self, expression: Builtin) -> Type:
        operand = self.type_of(expression.operand)
        kind = builtin_type(expression.name, operand)
        if kind is None:
            takes = BUILTIN_OPERANDS.get(expression.name, "an integer, scalar, logical or string")
            raise self._fault(expression, "E7", f"{expression.name}() takes {takes}, not {operand}")
        return kind

    def _unassigned(self, name: Name) -> DocumentError:
        hint = f"; perhaps {name.name.lower()}" if name.name.lower() in ("true", "false") else ""
        rule = "L5" if hint else self.unassigned_rule
        return self._fault(name, rule, f"{quoted(name.name)} is not assigned before it is used{hint}")

    def _items(self, expression: Items) -> Type:
        kinds = [self.type_of(item) for item in expression.items]
        if expression.is_tuple:
            return Tuple(tuple(kinds))
        kind = common_of(list(dict.fromkeys(kinds)))
        if kind is None and kinds:
            shown = ", ".join(map(str, dict.fromkeys(kinds)))
            raise self._fault(expression, "T4", f"an array of items of {shown}")
        return Array(kind)

    def _chain(self, expression: Chain) -> Type:
        left = self.type_of(expression.first)
        for operator, operand in expression.rest:
            right = self.type_of(operand)
            kind = binary_type(operator, left, right)
            if kind is None:
                raise self._fault(expression, "E6", f"{quoted(operator)} between {left} and {right}")
            left = kind
        return left

    def _unary(self, expression: Unary) -> Type:
        operators = [expression]
        while isinstance(operators[-1].operand, Unary):
            operators.append(operators[-1].operand)
        kind = self.type_of(operators[-1].operand)
        for one in reversed(operators):
            result = unary_type(one.operator, kind)
            if result is None:
                raise self._fault(one, "E6", f"{quoted(one.operator)} before {kind}")
            kind = result
        return kind

    def _select(self, expression: Select) -> Type:
        kind: Type | None = None
        last: Expression = expression
        while isinstance(last, Select):
            condition = self.type_of(last.condition)
            if condition != LOGICAL:
                advice = "; for tensors there is select(...)" if isinstance(condition, Tensor) else ""
                raise self._fault(last.condition, "E4", f"a condition of type {condition}{advice}")
            kind = self._branch(kind, last.value)
            last = last.otherwise
        return self._branch(kind, last)

    def _branch(self, kind: Type | None, branch: Expression) -> Type:
        other = self.type_of(branch)
        both = other if kind is None else common(kind, other)
        if both is None:
            raise self._fault(branch, "E4", f"branches of {kind} and {other}")
        return both

    def _subscript(self, expression: Subscript) -> Type:
        operand = self.type_of(expression.operand)
        index = self.type_of(expression.index)
        if index != INTEGER:
            raise self._fault(expression.index, "E2", f"an index of type {index}")
        if isinstance(operand, Tuple):
            if not isinstance(expression.index, Literal):
                raise self._fault(expression.index, "E3", "the index of a tuple is no integer literal")
            position: int = expression.index.value
            if not 0 <= position < len(operand.items):
                text = f"index {position} of a tuple of {len(operand.items)}"
                raise self._fault(expression.index, "E1", text)
            return operand.items[position]
        if isinstance(operand, Array) and operand.item is not None:
            return operand.item
        if operand == STRING:
            return STRING
        raise self._fault(expression, "E3", f"an index into {operand}")

    def _range(self, expression: Range) -> Type:
        operand = self.type_of(expression.operand)
        if not isinstance(operand, Array) and operand != STRING:
            raise self._fault(expression, "E3", f"a range of {operand}")
        for end in (expression.begin, expression.end):
            if end is not None and (kind := self.type_of(end)) != INTEGER:
                raise self._fault(end, "E2", f"an end of a range of type {kind}")
        return operand

    def _comprehension(self, expression: Comprehension) -> Type:
        arrays = [self.type_of(array) for _, _, array in expression.iterators]
        names = []
        for (name, offset, array), kind in zip(expression.iterators, arrays, strict=True):
            if not isinstance(kind, Array):
                raise self._fault(array, "E5", f"a comprehension over {kind}")
            if name in self._types:
                raise self._source.fault(offset, self.again_rule, f"{quoted(name)} is assigned already")
            self._types[name] = kind.item or INTEGER
            names.append(name)
        if expression.condition is not None:
            condition = self.type_of(expression.condition)
            if condition != LOGICAL:
                raise self._fault(expression.condition, "E5", f"a filter of type {condition}")
        value = self.type_of(expression.value)
        for name in names:
            del self._types[name]
        return Array(value)

    # Calls

    def _invocation(self, call: Invocation, is_whole: bool = False) -> Type:
        """Return the type of a call; `is_whole` if it is everything right of `=`."""
        declaration = self._own.get(call.name) or standard.fragment(call.name)
        if declaration is None:
            raise invocations.unknown(self._source, call, self._own, self._later)
        self._allow(call, is_whole)
        call.declaration = declaration
        warnings = invocations.match(self._source, call, declaration, self._is_provisional)
        self._warnings.extend(warnings)
        given = [None if argument is None else self.type_of(argument) for argument in call.arguments]
        item = self._item(call, declaration, given)
        for parameter, argument, have in zip(declaration.parameters, call.arguments, given, strict=True):
            if argument is None or have is None:
                continue
            want = parameter.type if item is None else substitute(parameter.type, item)
            if not castable(have, want) and not self._made_real(argument, want):
                text = f"{quoted(parameter.name)} of {quoted(call.name)} is {want}, not {have}"
                raise self._fault(argument, "C9", text)
        kinds = [
            result.type if item is None else substitute(result.type, item) for result in declaration.results
        ]
        return kinds[0] if len(kinds) == 1 else Tuple(tuple(kinds))

    def _item(self, call: Invocation, declaration: Fragment, given: list[Type | None]) -> str | None:
        if declaration.generic is None:
            if call.generic is not None:
                text = f"{quoted(call.name)} is not generic; write {call.name}(...)"
                raise self._fault(call, "C10", text)
            return None
        item = invocations.bound_item(self._source, call, declaration, given, self._is_provisional)
        if item == OPEN and not self._generic:
            raise self._fault(call, "C10", "? outside of a generic fragment")
        return item

    def _made_real(self, argument: Expression, want: Type) -> bool:
        """Take an integer literal as a scalar where the dialect's own examples write one."""
        is_integer = isinstance(argument, Literal) and argument.type == INTEGER
        if not (self._is_provisional and want == SCALAR and is_integer):
            return False
        assert isinstance(argument, Literal)
        self._warn(argument, f"integer {argument.value} for a scalar; write {argument.value}.0")
        argument.value, argument.type = float(argument.value), SCALAR
        return True

    def _allow(self, call: Invocation, is_whole: bool) -> None:
        """Raise DocumentError for an operation that is not allowed at its place."""
        if call.name in _GRAPH_ONLY and not (call.name == "variable" and self._is_provisional):
            raise self._fault(call, "B2", f"{quoted(call.name)} in a fragment")

    def _warn(self, part: Expression, text: str) -> None:
        self._warnings.append(f"line {self._source.line_and_column(part.offset)[0]}: {text}")

    def _fault(self, part: Expression, rule: str, text: str) -> DocumentError:
        return self._source.fault(part.offset, rule, text)


class _GraphCheck(_Check):
    """The check of the graph's body."""

    unassigned_rule = "I3"
    again_rule = "I4"

    def graph(self, graph: Graph) -> None:
        """Check the body, and that the graph's lists of inputs and outputs fit it."""
        self._parameters = dict(graph.parameters)
        self._variables: set[str] = set()
        self._arrays: set[str] = set()
        for assignment in graph.body:
            self._assignment(assignment)
        for name, rule, what in (
            *((name, "I1", "parameter") for name in self._parameters),
            *((name, "I2", "result") for name, _ in graph.results),
        ):
            if name not in self._types:
                text = f"{what} {quoted(name)} of the graph is not assigned"
                raise self._source.fault(graph.end, rule, text)
            if name in self._arrays:
                raise self._source.fault(graph.end, "I5", f"result {quoted(name)} of the graph is an array")

    def _assignment(self, assignment: Assignment) -> None:
        left, right = assignment.left, assignment.right
        call = right if isinstance(right, Invocation) else None
        kind = self.type_of(right) if call is None else self._invocation(call, is_whole=True)
        operation = "an expression" if call is None else quoted(call.name)
        is_external = call is not None and call.name == "external"
        for name in names_of(left):
            if is_external != (name.name in self._parameters):
                text = (
                    f"{quoted(name.name)} is no parameter of the graph, but assigned by external"
                    if is_external
                    else f"parameter {quoted(name.name)} of the graph is assigned by {operation}"
                )
                raise self._fault(name, "I1", text)
        if call and call.name == "update" and invocations.updated_variable(call) not in self._variables:
            raise self._fault(call, "I8", "what update changes is the result of no variable")
        self._assign(left, kind)
        if call and call.name == "variable" and isinstance(left, Name):
            self._variables.add(left.name)

    def _assignable(self, left: Name, kind: Type) -> Type:
        if isinstance(kind, (Array, Tuple)):
            what = "an array" if isinstance(kind, Array) else "a tuple"
            advice = "[a, b]" if isinstance(kind, Array) else "a, b"
            text = f"{quoted(left.name)} is assigned {what}, {kind}; write {advice} = ..."
            if not (self._is_provisional and isinstance(kind, Array) and isinstance(kind.item, Tensor)):
                raise self._fault(left, "I5", text)
            # An example of the provisional text assigns an array that nothing reads to one name, against its own rule.
            self._warn(left, text)
            self._arrays.add(left.name)
            return kind
        if left.name in self._parameters or isinstance(kind, Tensor):
            return kind
        raise self._fault(left, "I4", f"{quoted(left.name)} is assigned {kind}, which is no tensor")

    def type_of(self, expression: Expression) -> Type:
        """Return the type of an expression. Raises DocumentError if it has none or is an array under one name."""
        if isinstance(expression, Name) and expression.name in self._arrays:
            text = f"{quoted(expression.name)} is an array; write [a, b] = ... where it is assigned"
            raise self._fault(expression, "I5", text)
        return super().type_of(expression)

    def _unassigned(self, name: Name) -> DocumentError:
        if name.name in self._parameters:
            text = f"parameter {quoted(name.name)} is used before it is assigned by external"
            return self._fault(name, "I1", text)
        return super()._unassigned(name)

    def _allow(self, call: Invocation, is_whole: bool) -> None:
        if call.name == "external" and not is_whole:
            raise self._fault(call, "I1", "external within an expression")
