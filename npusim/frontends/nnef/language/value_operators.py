"""Operators and built-in functions: the types that they take and return, their values, the operations of tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from npusim.frontends.nnef.language.lexer import MOST_DIGITS, MOST_INTEGER
from npusim.frontends.nnef.language.value_types import (
    ANY,
    INTEGER,
    INTEGERS,
    LOGICAL,
    SCALAR,
    SCALARS,
    STRING,
    TENSOR_OF,
    Array,
    Primitive,
    Tensor,
    Type,
    castable,
    common,
    holds_tensors,
)

BINARY_OPERATIONS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "^": "pow",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "&&": "and",
    "||": "or",
}
"""The operation that each operator stands for between tensors."""

UNARY_OPERATIONS = {"-": "neg", "+": "copy", "!": "not"}

MOST_LENGTH = 1 << 20
"""Most items of an array, or characters of a string, that an expression makes."""

_ARITHMETIC = frozenset("+-*/^")
_EQUALITY = frozenset(("==", "!="))
_LOGICAL = frozenset(("&&", "||"))
_LOGICALS = TENSOR_OF["logical"]
_NUMBERS = (INTEGER, SCALAR)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class NoValue(Exception):
    """An expression has no value; the text says why, and the evaluator adds the place."""


def binary_type(operator: str, left: Type, right: Type) -> Type | None:
    """Return the type of `left operator right`; None if the operator does not take them (rules E6, E9)."""
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _tensor_type(operator, left, right)
    if operator in _ARITHMETIC:
        if left == right and left in _NUMBERS:
            return left
        if operator == "+":
            return common(left, right) if isinstance(left, Array) or left == right == STRING else None
        repeats = operator == "*" and right == INTEGER and (isinstance(left, Array) or left == STRING)
        return left if repeats else None
    if operator in _LOGICAL:
        return LOGICAL if left == right == LOGICAL else None
    if holds_tensors(left) or holds_tensors(right):
        return None
    if operator in _EQUALITY:
        return LOGICAL if common(left, right) is not None else None
    if operator == "in":
        is_fit = isinstance(right, Array) and (right.item is None or common(left, right.item) is not None)
        return LOGICAL if is_fit else None
    return LOGICAL if left == right and left in (*_NUMBERS, STRING) else None


def _tensor_type(operator: str, left: Type, right: Type) -> Type | None:
    if operator not in BINARY_OPERATIONS:
        return None
    wanted = _LOGICALS if operator in _LOGICAL else SCALARS
    if not (castable(left, wanted) and castable(right, wanted)):
        return None
    return SCALARS if operator in _ARITHMETIC else _LOGICALS


def unary_type(operator: str, operand: Type) -> Type | None:
    """Return the type of `operator operand`; None if the operator does not take it."""
    if isinstance(operand, Tensor):
        if operator == "+":
            return operand
        wanted = _LOGICALS if operator == "!" else SCALARS
        return wanted if castable(operand, wanted) else None
    if operator == "!":
        return LOGICAL if operand == LOGICAL else None
    return operand if operand in _NUMBERS else None


def builtin_type(name: str, operand: Type) -> Type | None:
    """Return the type of a built-in function's value; None if it does not take the operand (rule E7)."""
    if name in ("length_of", "range_of"):
        if not (isinstance(operand, Array) or operand == STRING):
            return None
        return INTEGER if name == "length_of" else INTEGERS
    if name == "shape_of":
        return INTEGERS if isinstance(operand, (Tensor, Primitive)) else None
    is_value = operand in (INTEGER, SCALAR, LOGICAL, STRING)
    return Primitive(name) if is_value else None


BUILTIN_OPERANDS = {
    "length_of": "an array or a string",
    "range_of": "an array or a string",
    "shape_of": "a tensor",
}
"""The operands of built-in functions, for messages; all others take an integer, scalar, logical or string."""


def unary_value(operator: str, operand: Any) -> Any:
    """Return the value of an operator before an attribute."""
    if operator == "!":
        return not operand
    return (
        whole(-operand)
        if operator == "-" and isinstance(operand, int)
        else -operand
        if operator == "-"
        else operand
    )


def whole(value: int) -> int:
    """Return an integer. Raises NoValue if it does not fit 64 bits."""
    if not -MOST_INTEGER <= value < MOST_INTEGER:
        raise NoValue("the integer does not fit 64 bits")
    return value


def real(value: float) -> float:
    """Return a scalar. Raises NoValue if it is infinite or not a number."""
    if not math.isfinite(value):
        raise NoValue("the scalar is beyond the largest number of 64 bits")
    return value


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, (list, str)):
        bounded(len(left) + len(right))
        return left + right
    return whole(left + right) if isinstance(left, int) else real(left + right)


def _subtract(left: Any, right: Any) -> Any:
    return whole(left - right) if isinstance(left, int) else real(left - right)


def _multiply(left: Any, right: Any) -> Any:
    if isinstance(left, (list, str)):
        if right < 0:
            raise NoValue(f"it repeats {right} times")
        bounded(len(left) * right)
        return left * right
    return whole(left * right) if isinstance(left, int) else real(left * right)


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise NoValue("division by zero")
    if isinstance(left, int):
        quotient = abs(left) // abs(right)
        return whole(quotient if (left < 0) == (right < 0) else -quotient)
    return real(left / right)


def _power(left: Any, right: Any) -> Any:
    if left == 0 and right < 0:
        raise NoValue("division by zero")
    if isinstance(left, int):
        if right < 0:
            return left ** (right % 2) if abs(left) == 1 else 0
        if abs(left) > 1 and right > 63:
            raise NoValue("the integer does not fit 64 bits")
        return whole(left ** (right if abs(left) > 1 else min(right, 2 + right % 2)))
    if left < 0 and not right.is_integer():
        raise NoValue("a negative number to a power that is not whole")
    try:
        return real(left**right)
    except OverflowError:
        return real(math.inf)


def bounded(length: int) -> None:
    """Raise NoValue for an array or string beyond the limit of length."""
    if length > MOST_LENGTH:
        raise NoValue(f"it has {length:,} items; at most {MOST_LENGTH:,} are made")


BINARY_VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "^": _power,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "&&": lambda left, right: left and right,
    "||": lambda left, right: left or right,
    "in": lambda left, right: left in right,
}
"""The functions (left, right) -> value, of attributes whose types fit. They raise NoValue."""


def builtin_value(name: str, value: Any) -> Any:
    """Return the value of a built-in function other than shape_of. Raises NoValue."""
    if name == "length_of":
        return len(value)
    if name == "range_of":
        return list(range(len(value)))
    if name == "string":
        return str(value).lower() if isinstance(value, bool) else str(value)
    if name == "logical":
        return bool(value)
    if isinstance(value, str):
        return _parsed(name, value)
    if name == "scalar":
        return float(value)
    return whole(math.floor(value))


def _parsed(name: str, text: str) -> int | float:
    match = _NUMBER.fullmatch(text)
    is_real = match is not None and (match[1] or match[2])
    if match is None or len(text) > MOST_DIGITS or (name == "integer" and is_real):
        shown = text if len(text) < 40 else f"{text[:40]}..."
        raise NoValue(f"{shown!a} is no literal of type {name}")
    return whole(int(text)) if name == "integer" else real(float(text))


def item_of(value: Any) -> str:
    """Return the kind of value of a literal that stands for a tensor; ANY for other values."""
    if isinstance(value, bool):
        return "logical"
    return "integer" if isinstance(value, int) else "scalar" if isinstance(value, float) else ANY
