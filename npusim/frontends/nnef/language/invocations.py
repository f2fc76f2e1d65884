"""Calls of operations: the parameter of each argument, and what `?` stands for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from npusim.frontends.nnef.language.standard import OPERATIONS, PROVISIONAL_NAMES
from npusim.frontends.nnef.language.syntax import Expression, Fragment, Invocation, Name
from npusim.frontends.nnef.language.value_types import (
    ITEMS,
    OPEN,
    UNTYPED,
    UNTYPED_TENSOR,
    Array,
    Type,
    bind,
    castable,
    holds_tensors,
    is_generic,
    substitute,
)
from npusim.frontends.nnef.places import DocumentError, Source, quoted


def unknown(source: Source, call: Invocation, own: Collection[str], later: Collection[str]) -> DocumentError:
    """Return the error for a name that is no operation, or not declared yet."""
    if call.name in later:
        text = f"fragment {quoted(call.name)} is called before it is defined"
        return source.fault(call.offset, "B7", text)
    near = get_close_matches(call.name.lower(), [*OPERATIONS, *own], 3, 0.7) if len(call.name) < 64 else []
    advice = f"; perhaps {' or '.join(near)}" if near else ""
    return source.fault(call.offset, "C1", f"{quoted(call.name)} is no operation{advice}")


def match(source: Source, call: Invocation, declaration: Fragment, is_provisional: bool) -> list[str]:
    """Set `call.arguments`, one for each parameter, and return warnings. Raises DocumentError for rules C2 to C8."""
    parameters = declaration.parameters
    arguments: list[Expression | None] = [None] * len(parameters)
    warnings = []
    for index, value in enumerate(call.positional):
        if index == len(parameters):
            takes = f"{quoted(call.name)} takes {len(parameters)}"
            raise source.fault(value.offset, "C2", f"argument {index + 1} of a call where {takes}")
        parameter = parameters[index]
        if not holds_tensors(parameter.type):
            # The provisional text passes an array to its own sum_of by position, against its own rule.
            text = f"{quoted(parameter.name)} of {quoted(call.name)} is an attribute; write {parameter.name} = ..."
            if not (is_provisional and isinstance(parameter.type, Array)) or call.name in OPERATIONS:
                raise source.fault(value.offset, "C8", text)
            line = source.line_and_column(value.offset)[0]
            warnings.append(f"line {line}: {text}")
        arguments[index] = value
    places = {parameter.name: index for index, parameter in enumerate(parameters)}
    named: set[str] = set()
    for given, offset, value in call.named:
        name = PROVISIONAL_NAMES.get((call.name, given), given) if is_provisional else given
        place = places.get(name)
        if place is None:
            known = ", ".join(places)
            raise source.fault(
                offset, "C5", f"{quoted(call.name)} has no parameter {quoted(given)}; it has {known}"
            )
        if name in named:
            raise source.fault(
                offset, "C6", f"parameter {quoted(given)} of {quoted(call.name)} is named twice"
            )
        if arguments[place] is not None:
            text = f"parameter {quoted(given)} of {quoted(call.name)} has a value by position already"
            raise source.fault(offset, "C7", text)
        named.add(name)
        arguments[place] = value
    for parameter, argument in zip(parameters, arguments, strict=True):
        if argument is None and parameter.default is None:
            text = f"{quoted(call.name)} lacks a value for {quoted(parameter.name)}"
            raise source.fault(call.offset, "C3", text)
    if not call.positional and not call.named:
        raise source.fault(call.offset, "G10", f"{quoted(call.name)} is called without arguments")
    call.arguments = arguments
    return warnings


def bound_item(
    source: Source,
    call: Invocation,
    declaration: Fragment,
    given: Sequence[Type | None],
    is_provisional: bool,
) -> str:
    """Return what `?` stands for in a call of a generic operation; `given` are its arguments' types, None for a
    default.

    UNTYPED is a tensor of the provisional dialect without a type. Raises DocumentError for rules T8 and C10.
    """
    if call.generic is not None:
        if call.generic not in (*ITEMS, OPEN):
            raise source.fault(call.offset, "C10", f"? of {quoted(call.name)} cannot be {call.generic}")
        return call.generic
    items: dict[str, str] = {}
    is_open = False
    for parameter, kind in zip(declaration.parameters, given, strict=True):
        if kind is None:
            continue
        for item in bind(parameter.type, kind):
            items.setdefault(item, parameter.name)
        inner = kind.item if isinstance(kind, Array) else kind
        is_open = is_open or inner == UNTYPED_TENSOR
    if len(items) > 1:
        (one, first), (other, second) = list(items.items())[:2]
        text = f"? of {quoted(call.name)} is {one} by {quoted(first)} and {other} by {quoted(second)}"
        raise source.fault(call.offset, "T8", text)
    if items:
        return next(iter(items))
    if declaration.generic:
        return declaration.generic
    if is_provisional and is_open:
        return UNTYPED
    for parameter, kind in zip(declaration.parameters, given, strict=True):
        if kind is None or not is_generic(parameter.type):
            continue
        if not castable(kind, substitute(parameter.type, "scalar")):
            text = f"{quoted(parameter.name)} of {quoted(call.name)} is {parameter.type}, not {kind}"
            raise source.fault(call.offset, "C9", text)
    text = f"no argument says what ? of {quoted(call.name)} is; write {call.name}<scalar>(...)"
    raise source.fault(call.offset, "C10", text)


def updated_variable(call: Invocation) -> str | None:
    """Return the name of the first argument of `update`; None if it is no identifier."""
    first = call.arguments[0]
    return first.name if isinstance(first, Name) else None
