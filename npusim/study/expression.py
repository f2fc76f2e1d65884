"""Expressions over hardware parameters, for constraints and derived parameters.

    mac_array.rows * mac_array.columns <= 1024 and scratchpad.size_kib >= 256

Names are parameters by their dotted path. Allowed are arithmetic, comparisons, and / or / not, `a if b else c`, `in` a
list, and a few functions. An expression is parsed once into nested closures and never passed to `eval`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npusim.isa.base.errors import nearest
from npusim.isa.base.lazy_dataclass import dataclass

Names = Mapping[str, Any]
"""The values of parameters by path."""

LONGEST_EXPRESSION = 1000
DEEPEST_EXPRESSION = 100
"""Most levels of nested operators. Each is a Python call, and Python allows about a thousand of them."""
LARGEST_EXPONENT = 64
LARGEST_NUMBER = 1e100
MOST_DIGITS = 100
"""Most digits to which `round` may round, before and after the decimal point."""

_Closure = Callable[[Names], Any]

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _round(value: Any, digits: Any = 0) -> Any:
    """Round a number as Python does: to some digits, or to a whole number if `digits` is 0."""
    if abs(digits) > MOST_DIGITS:
        raise ArithmeticError(f"more than {MOST_DIGITS} digits")
    return round(value, digits) if digits else round(value)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": _round,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "log2": math.log2,
}


def _number(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{'text' if isinstance(value, str) else 'a list'} takes no part in arithmetic")


class ExpressionError(ValueError):
    """A fault of an expression, or of its value for some parameters."""


@dataclass(frozen=True)
class Expression:
    """A checked expression. `names` are the parameters that it reads, in order of appearance."""

    text: str
    names: tuple[str, ...]
    _closure: _Closure

    def __call__(self, names: Names) -> Any:
        """Return the value for some parameters. Raises ExpressionError if there is none, as for a division by 0."""
        try:
            value = self._closure(names)
        except KeyError as fault:
            raise ExpressionError(f"{self.text}: {fault.args[0]} is not set") from None
        except (ArithmeticError, TypeError, ValueError) as fault:
            raise ExpressionError(f"{self.text}: {fault}") from None
        except RecursionError:
            raise ExpressionError(f"{self.text}: nested too deeply") from None
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text, because closures cannot be pickled."""
        return parse, (self.text, self.names)


def parse(text: str, known: Sequence[str]) -> Expression:
    """Parse an expression. Raises ExpressionError for syntax that is not allowed, and for names not in `known`."""
    if len(text) > LONGEST_EXPRESSION:
        raise ExpressionError(f"longer than {LONGEST_EXPRESSION} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        names: dict[str, None] = {}
        closure = _Reader(frozenset(known), names).read(tree.body)
    except SyntaxError as fault:
        raise ExpressionError(f"{text}: {fault.msg}") from None
    except ExpressionError:
        raise
    except ValueError as fault:  # a NUL, or a number of thousands of digits
        raise ExpressionError(f"{text}: {fault}") from None
    except (RecursionError, MemoryError):
        raise ExpressionError("nested too deeply") from None
    return Expression(text, tuple(names), closure)


@dataclass
class _Reader:
    """The compiler from a syntax tree to closures. It collects the names of the parameters that they read."""

    known: frozenset[str]
    names: dict[str, None]
    depth: int = 0

    def read(self, node: ast.AST) -> _Closure:
        if self.depth == DEEPEST_EXPRESSION:
            raise ExpressionError("nested too deeply")
        self.depth += 1
        closure = self._read(node)
        self.depth -= 1
        return closure

    def _read(self, node: ast.AST) -> _Closure:
        match node:
            case ast.Constant(value=bool() | str() as value):
                return lambda _: value
            case ast.Constant(value=int() | float() as value):
                if not abs(value) <= LARGEST_NUMBER:
                    raise ExpressionError(f"a number beyond {LARGEST_NUMBER:g}")
                return lambda _: value
            case ast.Name() | ast.Attribute():
                return self._name(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self._binary(_BINARY[type(op)], self.read(left), self.read(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                negated = self.read(operand)
                return lambda names: not negated(names)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                unary, inner = _UNARY[type(op)], self.read(operand)
                return lambda names: unary(_number(inner(names)))
            case ast.BoolOp(op=op, values=values):
                parts = [self.read(part) for part in values]
                several = all if isinstance(op, ast.And) else any
                return lambda names: several(part(names) for part in parts)
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition, then, otherwise = self.read(test), self.read(body), self.read(orelse)
                return lambda names: then(names) if condition(names) else otherwise(names)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                items = [self.read(element) for element in elements]
                return lambda names: tuple([item(names) for item in items])
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                function, inputs = FUNCTIONS[name], [self.read(argument) for argument in arguments]
                return lambda names: function(*(value(names) for value in inputs))
        raise ExpressionError(
            f"{ast.unparse(node)}: not allowed here; an expression has numbers, text, parameters, arithmetic, "
            f"comparisons, and, or, not, if else, and {', '.join(FUNCTIONS)}"
        )

    def _name(self, node: ast.AST) -> _Closure:
        path = ast.unparse(node)
        if path not in self.known:
            # "rows" means mac_array.rows.
            spellings = {known.rpartition(".")[2]: known for known in self.known}
            near = nearest(path, self.known) or spellings.get(nearest(path, spellings) or "")
            hint = f", did you mean {near}?" if near else ""
            raise ExpressionError(f"{path}: no parameter has this name{hint}")
        self.names[path] = None
        return lambda names: names[path]

    @staticmethod
    def _binary(function: Callable[[Any, Any], Any], left: _Closure, right: _Closure) -> _Closure:
        def value(names: Names) -> Any:
            # Checked before the operation, because text or a list times a number may be of any size.
            first, second = _number(left(names)), _number(right(names))
            if function is operator.pow and abs(second) > LARGEST_EXPONENT:
                raise ArithmeticError(f"an exponent beyond {LARGEST_EXPONENT}")
            result = function(first, second)
            if isinstance(result, complex) or not abs(result) <= LARGEST_NUMBER:
                raise ArithmeticError("too large, or not a real number")
            return result

        return value

    def _compare(self, node: ast.Compare) -> _Closure:
        operands = [self.read(side) for side in (node.left, *node.comparators)]
        if any(type(op) not in _COMPARE for op in node.ops):
            raise ExpressionError(f"{ast.unparse(node)}: not allowed here; compare with < <= > >= == != in")
        functions = [_COMPARE[type(op)] for op in node.ops]

        def value(names: Names) -> bool:
            values = [operand(names) for operand in operands]
            pairs = zip(functions, values, values[1:], strict=False)
            return all(function(first, second) for function, first, second in pairs)

        return value
