"""The lexer of NNEF text: identifiers, keywords, numbers, strings and operators; and the base of the parsers."""

from __future__ import annotations

import math
import re

from npusim.frontends.nnef.places import DocumentError, Source, quoted

IDENTIFIER, NUMBER, QUOTED, SYMBOL, END = range(1, 6)
"""Kinds of elements; a keyword is an IDENTIFIER whose text is one of the dialect's."""

_SPACE = r"[ \t\v\f\n\r]*"
_ELEMENT = re.compile(
    r"(?:([A-Za-z_][A-Za-z0-9_]*)"
    r"|([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|('[^'\n\r]*'|\"[^\"\n\r]*\")"
    r"|(->|<=|>=|==|!=|&&|\|\||[-+*/^<>!()\[\]{}:=,;?]))" + _SPACE
)
_SKIPPED = re.compile(_SPACE + r"(?:#[^\n\r]*" + _SPACE + ")*")
_PLAIN = re.compile(r"[-+.0-9eE, \t\v\f\n\r]*")
_REAL = re.compile(_SPACE + r"-?[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)" + _SPACE)

_COMMON_KEYWORDS = (
    *("graph", "fragment", "tensor", "scalar", "logical", "string", "shape_of", "length_of", "range_of"),
    *("for", "in", "if", "else", "version", "true", "false"),
)
FINAL_KEYWORDS = frozenset((*_COMMON_KEYWORDS, "integer", "extension", "yield"))
PROVISIONAL_KEYWORDS = frozenset((*_COMMON_KEYWORDS, "extent"))

MOST_INTEGER = 1 << 63
MOST_ITEMS = 1 << 20
"""Most items of an array that is written out."""

MOST_DIGITS = 400
"""Most characters of a number: more than those of the longest float64 that is written out."""


class Lexer:
    """A text and its current element: `kind`, `text` and `offset`."""

    __slots__ = ("_next", "kind", "offset", "source", "text")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.kind, self.text, self.offset = END, "", 0
        self._next = _SKIPPED.match(source.text).end()  # type: ignore[union-attr]  # it matches anything
        self.advance()

    def advance(self) -> None:
        """Go on to the next element."""
        text, offset = self.source.text, self._next
        self.offset = offset
        match = _ELEMENT.match(text, offset)
        if match is None:
            if offset < len(text):
                raise self._unknown(offset)
            self.kind, self.text = END, ""
            return
        kind = match.lastindex or 0
        self.kind, self.text = kind, match[kind]
        end = match.end()
        if kind == NUMBER and (after := text[match.end(NUMBER) : match.end(NUMBER) + 1]):
            self._check_number(after, match.end(NUMBER))
        if text[end : end + 1] == "#":
            end = _SKIPPED.match(text, end).end()  # type: ignore[union-attr]
        self._next = end

    def plain_array(self) -> list[int] | list[float] | None:
        """Read an array of integers alone, or of scalars alone, at once; the element after it becomes the current one.

        Return None, and change nothing, for any other array.
        """
        text, begin = self.source.text, self.offset + 1
        end = _PLAIN.match(text, begin).end()  # type: ignore[union-attr]
        if text[end : end + 1] != "]" or text.count(",", begin, end) >= MOST_ITEMS:
            return None
        words = text[begin:end].split(",")
        if max(map(len, words)) > MOST_DIGITS:
            return None
        values: list[int] | list[float]
        if "+" not in words[0] and "." not in words[0] and words[0].strip().lstrip("-").isdigit():
            try:
                values = [int(word) for word in words]
            except ValueError:
                return None
            if "+" in text[begin:end] or not -MOST_INTEGER < min(values) <= max(values) < MOST_INTEGER:
                return None
        else:
            if not all(map(_REAL.fullmatch, words)):
                return None
            values = [float(word) for word in words]
            if not all(map(math.isfinite, values)):
                return None
        self._next = _SKIPPED.match(text, end + 1).end()  # type: ignore[union-attr]
        self.advance()
        return values

    def number(self) -> int | float:
        """Return the value of the current NUMBER. Raises DocumentError if it has none."""
        if len(self.text) > MOST_DIGITS:
            raise self.fault("N", f"a number of {len(self.text)} characters; at most {MOST_DIGITS} are read")
        if self.text.isdigit():
            whole = int(self.text)
            if whole >= MOST_INTEGER:
                raise self.fault("L2", f"integer {quoted(self.text)} does not fit 64 bits")
            return whole
        real = float(self.text)
        if math.isinf(real):
            raise self.fault("L2", f"{quoted(self.text)} is beyond the largest number of 64 bits")
        return real

    def fault(self, rule: str, text: str) -> DocumentError:
        """Return the error for the current element."""
        return self.source.fault(self.offset, rule, text)

    def shown(self) -> str:
        """Return the current element as messages show it."""
        return "the end of the text" if self.kind == END else quoted(self.text)

    def _check_number(self, after: str, end: int) -> None:
        """Raise DocumentError if characters directly behind a number belong neither to it nor to the next element."""
        if after == ".":
            text = self.source.text[end + 1 : end + 2]
            problem = (
                "a second point" if "." in self.text or text.isdigit() else "a point without digits after it"
            )
            raise self.source.fault(end, "L2", f"{problem} in number {quoted(self.text + after)}")
        if after in "eE" and not self.source.text[end + 1 : end + 2].isalpha():
            raise self.source.fault(end, "L2", f"an exponent without digits after {quoted(self.text)}")
        if after.isalnum() or after == "_":
            raise self.fault(
                "L1", f"{quoted(self.text + after)} begins with a digit; it is neither number nor name"
            )

    def _unknown(self, offset: int) -> DocumentError:
        character = self.source.text[offset]
        if character in "'\"":
            return self.source.fault(
                offset, "L3", f"the string that begins with {character} is not closed on its line"
            )
        if character == ".":
            return self.source.fault(offset, "L2", "a number does not begin with a point; write 0.5 for .5")
        if character in "&|":
            return self.source.fault(offset, "L6", f"{quoted(character)} stands alone; write {character * 2}")
        if character.isalnum() or character == "$":
            return self.source.fault(offset, "L1", f"{quoted(character)} cannot be in an identifier")
        return self.source.fault(offset, "L6", f"unknown character {quoted(character)}")


MOST_DEPTH = 64
"""Most levels of brackets in brackets."""

MOST_PARTS = 2_000_000
"""Most identifiers, literals and operators of a document."""


class ElementReader:
    """A walk through a source's elements, in the final dialect until `use_provisional`."""

    def __init__(self, source: Source) -> None:
        self.lexer = Lexer(source)
        self.source = source
        self.is_provisional = False
        self.keywords = FINAL_KEYWORDS
        self._depth = 0
        self._parts = 0

    def use_provisional(self) -> None:
        """Read the rest of the text in the provisional dialect."""
        self.is_provisional = True
        self.keywords = PROVISIONAL_KEYWORDS

    def at(self, symbol: str) -> bool:
        """Return whether the current element is this operator or punctuation."""
        return self.lexer.text == symbol and self.lexer.kind == SYMBOL

    def at_word(self, word: str) -> bool:
        """Return whether the current element is this keyword."""
        return self.lexer.text == word and self.lexer.kind == IDENTIFIER

    def expect(self, symbol: str, rule: str, where: str) -> int:
        """Go past a symbol and return its offset. Raises DocumentError if something else stands there."""
        offset = self.lexer.offset
        if self.lexer.text != symbol or self.lexer.kind != SYMBOL:
            raise self.lexer.fault(rule, f"expected {quoted(symbol)} {where}, found {self.lexer.shown()}")
        self.lexer.advance()
        return offset

    def identifier(self, what: str, rule: str) -> tuple[str, int]:
        """Go past an identifier and return it with its offset; `what` is what it names, for messages."""
        lexer = self.lexer
        if lexer.kind != IDENTIFIER:
            raise lexer.fault(rule, f"expected {what}, found {lexer.shown()}")
        if lexer.text in self.keywords:
            raise lexer.fault("L4", f"expected {what}, found keyword {lexer.shown()}")
        name, offset = lexer.text, lexer.offset
        self.count(offset)
        lexer.advance()
        return name, offset

    def count(self, offset: int) -> None:
        """Count one more part of the document. Raises DocumentError beyond the limit."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise self.source.fault(offset, "N", f"more than {MOST_PARTS:,} parts")

    def deeper(self) -> None:
        """Enter a level of brackets; `shallower` leaves it."""
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self.lexer.fault("N", f"brackets are nested deeper than {MOST_DEPTH} levels")

    def shallower(self) -> None:
        """Leave a level of brackets."""
        self._depth -= 1

    def mixed(self, what: str, advice: str = "") -> DocumentError:
        """Return the error for one dialect in a document of the other, at the current element."""
        own, other = ("provisional", "final") if self.is_provisional else ("final", "provisional")
        return self.lexer.fault(
            "P", f"{what} is of the {other} dialect, this document of the {own} one{advice}"
        )
