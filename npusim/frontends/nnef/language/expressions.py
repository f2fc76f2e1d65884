"""The grammar of expressions, flat and compositional, in both dialects.

Flat syntax is the same grammar without what `_beyond_flat` refuses, so that messages can name the construct.
"""

from __future__ import annotations

from npusim.frontends.nnef.language.lexer import (
    END,
    IDENTIFIER,
    MOST_DEPTH,
    NUMBER,
    QUOTED,
    SYMBOL,
    ElementReader,
)
from npusim.frontends.nnef.language.syntax import (
    Builtin,
    Chain,
    Comprehension,
    Expression,
    Invocation,
    Literal,
    Name,
    Range,
    Select,
    Subscript,
    Unary,
    gathered,
)
from npusim.frontends.nnef.language.value_types import (
    INTEGER,
    INTEGERS,
    LOGICAL,
    SCALAR,
    STRING,
    Array,
)
from npusim.frontends.nnef.places import DocumentError, Source, quoted

PRECEDENCE = {
    "^": 6,
    **dict.fromkeys("*/", 5),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    "&&": 2,
    "||": 1,
}
"""Binary operators by binding strength; higher binds tighter, and equal ones associate to the left."""

_PREFIXES = frozenset("+-!")
_TYPE_NAMES = frozenset(("scalar", "logical", "string", "integer", "extent"))
_BUILTINS = frozenset((*_TYPE_NAMES, "shape_of", "length_of", "range_of"))
_SCALARS = Array(SCALAR)

_MOST_LEFT = 300
"""Most elements of a left side that follows an expression without a ';' between them."""

_IN_LEFT_SIDES = {"[": 1, "(": 1, "]": -1, ")": -1, ",": 0}
"""Punctuation of left sides, with the change of the nesting depth."""


class ExpressionParser(ElementReader):
    """The parser of expressions.

    is_flat: whether only flat syntax is allowed at the parser's place.
    flat_reason: how to allow more than flat syntax, for messages.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.is_flat = False
        self.flat_reason = ""
        self._brackets = 0

    # Expressions, from the loosest binding to the tightest

    def expression(self) -> Expression:
        """Parse an expression up to the first element that cannot continue it."""
        self.deeper()
        value = self._operators()
        if self.at_word("if"):
            value = self._select(value)
        self.shallower()
        return value

    def right_side(self) -> Expression:
        """Parse what stands right of `=`: an expression, or a tuple of them without parentheses."""
        begin = self.lexer.offset
        if self.is_flat:
            return self._flat_right_side(begin)
        first = self.expression()
        if not self.at(","):
            return first
        items = [first]
        while self.at(","):
            self.lexer.advance()
            items.append(self.expression())
        return gathered(begin, items, True)

    def _flat_right_side(self, begin: int) -> Expression:
        lexer = self.lexer
        is_call = lexer.kind == IDENTIFIER and lexer.text not in self.keywords
        if is_call:
            name, offset = self.identifier("an operation", "G6")
            generic = self._generic()
            if self.at("("):
                return self._invocation(name, offset, generic)
            shown = f"identifier {quoted(name)}"
        else:
            shown = lexer.shown()
            if lexer.kind in (NUMBER, QUOTED):
                lexer.advance()
        if lexer.kind == SYMBOL and lexer.text in PRECEDENCE:
            raise self._beyond_flat("G7", f"operator {lexer.shown()}")
        raise self.source.fault(
            begin, "G6", f"expected a call of an operation, found {shown}{self.flat_reason}"
        )

    def _select(self, value: Expression) -> Expression:
        branches: list[tuple[Expression, Expression]] = []
        last = value
        while self.at_word("if"):
            if self.is_flat:
                raise self._beyond_flat("G7", "if-else")
            self.lexer.advance()
            condition = self._operators()
            if not self.at_word("else"):
                raise self.lexer.fault("E4", f"expected 'else' of the if-else, found {self.lexer.shown()}")
            self.lexer.advance()
            branches.append((last, condition))
            last = self._operators()
        for chosen, condition in reversed(branches):
            last = Select(chosen.offset, chosen, condition, last)
        return last

    def _operators(self) -> Expression:
        lexer = self.lexer
        operands = [self._unary()]
        pending: list[str] = []
        while True:
            operator = lexer.text
            level = PRECEDENCE.get(operator)
            if level is None or lexer.kind == QUOTED or (operator == "in" and self.is_provisional):
                break
            if self.is_flat:
                raise self._beyond_flat("G7", f"operator {lexer.shown()}")
            while pending and PRECEDENCE[pending[-1]] >= level:
                _reduce(operands, pending)
            pending.append(operator)
            self.count(lexer.offset)
            lexer.advance()
            operands.append(self._unary())
        while pending:
            _reduce(operands, pending)
        return operands[0]

    def _unary(self) -> Expression:
        lexer = self.lexer
        if lexer.kind != SYMBOL or lexer.text not in _PREFIXES:
            return self._postfix()
        prefixes: list[tuple[str, int]] = []
        while lexer.kind == SYMBOL and lexer.text in _PREFIXES:
            prefixes.append((lexer.text, lexer.offset))
            self.count(lexer.offset)
            lexer.advance()
        is_number = lexer.kind == NUMBER
        if self.is_flat and (not is_number or len(prefixes) > 1 or prefixes[0][0] != "-"):
            raise self._beyond_flat("G7", f"operator {quoted(prefixes[0][0])}", prefixes[0][1])
        value = self._postfix()
        if prefixes[-1][0] == "-" and isinstance(value, Literal) and is_number:
            value = Literal(prefixes.pop()[1], -value.value, value.type)
        for operator, offset in reversed(prefixes):
            value = Unary(offset, operator, value)
        return value

    def _postfix(self) -> Expression:
        value = self._primary()
        levels = 0
        while self.at("[") and not self._begins_assignment():
            if self.is_flat:
                raise self._beyond_flat("G7", "subscript '['")
            if levels == MOST_DEPTH:
                raise self.lexer.fault("N", f"more than {MOST_DEPTH} subscripts in a row")
            levels += 1
            value = self._subscript(value)
        return value

    def _subscript(self, operand: Expression) -> Expression:
        offset = operand.offset
        self.count(offset)
        self.lexer.advance()
        self._brackets += 1
        begin = None if self.at(":") else self.expression()
        is_range = self.at(":")
        end = None
        if is_range:
            self.lexer.advance()
            if not self.at("]"):
                end = self.expression()
        self._brackets -= 1
        self.expect("]", "E8", "after a subscript")
        if is_range or begin is None:
            return Range(offset, operand, begin, end)
        return Subscript(offset, operand, begin)

    def _primary(self) -> Expression:
        lexer = self.lexer
        kind, text, offset = lexer.kind, lexer.text, lexer.offset
        self.count(offset)
        if kind == IDENTIFIER:
            if text in self.keywords or (text in _BUILTINS and self._is_call_next()):
                return self._keyword()
            lexer.advance()
            generic = self._generic()
            if generic is None and (not self.at("(") or self._begins_assignment()):
                return Name(offset, text)
            if self.is_flat:
                raise self._beyond_flat("G6", f"call of {quoted(text)} within an argument", offset)
            return self._invocation(text, offset, generic)
        if kind == NUMBER:
            number = lexer.number()
            lexer.advance()
            return Literal(offset, number, INTEGER if isinstance(number, int) else SCALAR)
        if kind == QUOTED:
            lexer.advance()
            return Literal(offset, text[1:-1], STRING)
        if text == "[" and kind == SYMBOL:
            return self._array()
        if text == "(" and kind == SYMBOL:
            return self._parentheses()
        raise lexer.fault("E8", f"expected an identifier, a literal, '[' or '(', found {lexer.shown()}")

    def _keyword(self) -> Expression:
        lexer = self.lexer
        word, offset = lexer.text, lexer.offset
        if word in ("true", "false"):
            lexer.advance()
            return Literal(offset, word == "true", LOGICAL)
        if word not in _BUILTINS:
            raise lexer.fault("L4", f"expected an expression, found keyword {lexer.shown()}")
        if word == ("integer" if self.is_provisional else "extent"):
            raise self.mixed(f"{word}()")
        if self.is_flat:
            raise self._beyond_flat("G7", f"built-in function {quoted(word)}")
        lexer.advance()
        self.expect("(", "E7", f"and an argument after {quoted(word)}")
        self._brackets += 1
        operand = self.expression()
        self._brackets -= 1
        if not self.at(")"):
            raise lexer.fault("E7", f"expected ')' after the argument of {word}(), found {lexer.shown()}")
        lexer.advance()
        return Builtin(offset, "integer" if word == "extent" else word, operand)

    def _parentheses(self) -> Expression:
        lexer = self.lexer
        offset = lexer.offset
        lexer.advance()
        self._brackets += 1
        items = [self.expression()]
        while self.at(","):
            lexer.advance()
            items.append(self.expression())
        self._brackets -= 1
        if not self.at(")"):
            raise lexer.fault("E8", f"expected ',' or ')', found {lexer.shown()}")
        if len(items) == 1 and self.is_flat:
            raise self._beyond_flat("G7", "expression in parentheses", offset)
        lexer.advance()
        return items[0] if len(items) == 1 else gathered(offset, items, True)

    def _array(self) -> Expression:
        lexer = self.lexer
        offset = lexer.offset
        plain = lexer.plain_array()
        if plain is not None:
            return Literal(offset, plain, INTEGERS if isinstance(plain[0], int) else _SCALARS)
        lexer.advance()
        self._brackets += 1
        array = self._comprehension(offset) if self.at_word("for") else self._items(offset)
        self._brackets -= 1
        if not self.at("]"):
            raise lexer.fault("E8", f"expected ',' or ']' in an array, found {lexer.shown()}")
        lexer.advance()
        return array

    def _items(self, offset: int) -> Expression:
        items: list[Expression] = []
        if not self.at("]"):
            items.append(self.expression())
            if self.at_word("for"):
                return self._provisional_comprehension(offset, items[0])
            while self.at(","):
                self.lexer.advance()
                items.append(self.expression())
        return gathered(offset, items, False)

    def _iterators(self) -> list[tuple[str, int, Expression]]:
        lexer = self.lexer
        if self.is_flat:
            raise self._beyond_flat("G7", "comprehension 'for'")
        lexer.advance()
        iterators = []
        while True:
            name, offset = self.identifier("the name of an item after 'for'", "E5")
            if not self.at_word("in"):
                raise lexer.fault("E5", f"expected 'in' after 'for {name}', found {lexer.shown()}")
            lexer.advance()
            iterators.append((name, offset, self._operators()))
            if not self.at(","):
                return iterators
            lexer.advance()

    def _filter(self) -> Expression | None:
        if not self.at_word("if"):
            return None
        self.lexer.advance()
        return self._operators()

    def _comprehension(self, offset: int) -> Expression:
        if self.is_provisional:
            raise self.mixed("a comprehension that begins with 'for'", "; write [f for i in a]")
        iterators = self._iterators()
        condition = self._filter()
        if not self.at_word("yield"):
            raise self.lexer.fault("E5", f"expected 'yield' in a comprehension, found {self.lexer.shown()}")
        self.lexer.advance()
        return Comprehension(offset, iterators, condition, self.expression())

    def _provisional_comprehension(self, offset: int, value: Expression) -> Expression:
        if not self.is_provisional:
            raise self.mixed("a comprehension that begins with its value", "; write [for i in a yield f]")
        return Comprehension(offset, self._iterators(), self._filter(), value)

    # Calls

    def _generic(self) -> str | None:
        """Parse `<type>` after the name of an operation, if that is what follows."""
        if not self.at("<"):
            return None
        lexer = self.lexer
        state = (lexer.kind, lexer.text, lexer.offset, lexer._next)
        lexer.advance()
        word, kind, offset = lexer.text, lexer.kind, lexer.offset
        if kind == IDENTIFIER or word == "?":
            lexer.advance()
            if self.at(">"):
                if word in ("scalar", "integer", "logical", "string", "?"):
                    if self.is_provisional:
                        raise self.mixed(f"the type <{word}> of a call")
                    lexer.advance()
                    return word
                lexer.advance()
                if self.at("(") and (self.is_flat or word not in self.keywords):
                    raise self.source.fault(
                        offset, "C10", f"{quoted(word)} is no type; ? is scalar, integer or logical"
                    )
        lexer.kind, lexer.text, lexer.offset, lexer._next = state
        return None

    def _invocation(self, name: str, offset: int, generic: str | None) -> Expression:
        lexer = self.lexer
        self.expect("(", "G10", f"and arguments after {quoted(name)}")
        self._brackets += 1
        positional: list[Expression] = []
        named: list[tuple[str, int, Expression]] = []
        while not self.at(")") or positional or named:
            begin, word = lexer.offset, lexer.text
            is_word = lexer.kind == IDENTIFIER and word not in self.keywords
            value = self.expression()
            if is_word and isinstance(value, Name) and self.at("="):
                lexer.advance()
                named.append((word, begin, self.expression()))
            elif named:
                raise self.source.fault(
                    begin, "C4", f"an argument by position after {quoted(named[-1][0])} by name"
                )
            else:
                positional.append(value)
            if self.at(")"):
                break
            if not self.at(","):
                raise self._after_argument(name)
            lexer.advance()
            if self.at(")"):
                raise lexer.fault("G10", f"expected an argument of {quoted(name)} after ',', found ')'")
        self._brackets -= 1
        lexer.advance()
        return Invocation(offset, name, generic, positional, named)

    def _after_argument(self, name: str) -> DocumentError:
        lexer = self.lexer
        if self.is_flat and (lexer.text in PRECEDENCE or lexer.text in ("[", "if")) and lexer.kind != END:
            return self._beyond_flat("G7", lexer.shown())
        return lexer.fault(
            "G10", f"expected ',' or ')' after an argument of {quoted(name)}, found {lexer.shown()}"
        )

    def _is_call_next(self) -> bool:
        """Return whether '(' follows the current element."""
        return self.source.text[self.lexer._next : self.lexer._next + 1] == "("

    def _begins_assignment(self) -> bool:
        """Return whether a bracket begins the left side of the next assignment, before which ';' may be left out.

        A left side consists of identifiers and brackets, separated by commas and followed by '='. If two of them follow
        each other without a comma, the bracket is an argument list or subscript before the next assignment.
        """
        if not self.is_provisional or self._brackets:
            return False
        lexer = self.lexer
        state = (lexer.kind, lexer.text, lexer.offset, lexer._next)
        level = elements = 0
        is_item = True  # whether the next element may be an item; otherwise it is a comma or '='
        while lexer.kind == IDENTIFIER or (lexer.kind == SYMBOL and lexer.text in _IN_LEFT_SIDES):
            word = lexer.text if lexer.kind == SYMBOL else ""
            elements += 1
            if elements > _MOST_LEFT or (
                level == 0 and (word in ("]", ")", ",") if is_item else word != ",")
            ):
                break
            level += _IN_LEFT_SIDES.get(word, 0)
            is_item = word == ","
            lexer.advance()
        begins = level == 0 and not is_item and self.at("=")
        lexer.kind, lexer.text, lexer.offset, lexer._next = state
        return begins

    def _beyond_flat(self, rule: str, what: str, offset: int | None = None) -> DocumentError:
        offset = self.lexer.offset if offset is None else offset
        return self.source.fault(offset, rule, f"{what} is not flat syntax{self.flat_reason}")


def _reduce(operands: list[Expression], pending: list[str]) -> None:
    operator, right, left = pending.pop(), operands.pop(), operands.pop()
    if isinstance(left, Chain) and PRECEDENCE[left.rest[0][0]] == PRECEDENCE[operator]:
        left.rest.append((operator, right))  # parentheses around the left operand change nothing
        operands.append(left)
    else:
        operands.append(Chain(left.offset, left, [(operator, right)]))
