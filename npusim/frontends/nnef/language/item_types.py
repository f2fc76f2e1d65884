"""The base of the parsers: the current element, expected symbols, and limits of depth and size."""

from __future__ import annotations

from npusim.frontends.nnef.language.lexer import (
    FINAL_KEYWORDS,
    IDENTIFIER,
    PROVISIONAL_KEYWORDS,
    SYMBOL,
    Lexer,
)
from npusim.frontends.nnef.places import DocumentError, Source, quoted

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
