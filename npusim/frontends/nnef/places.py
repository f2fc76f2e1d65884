"""Places in a document, and errors that name the place, what is there, and the rule."""

from __future__ import annotations

import re
from bisect import bisect_right

from npusim.frontends.nnef.nnef_rules import RULES
from npusim.isa.base.errors import FormatError
from npusim.isa.base.lazy_dataclass import dataclass

_LINE_END = re.compile(r"\r\n|\n|\r")
_SHOWN_CHARACTERS = 40


class DocumentError(FormatError):
    """A document, data file or container breaks a rule; the text is one line and names place and rule."""


class Source:
    """A text and its name in messages ("" if the caller adds the path)."""

    __slots__ = ("_starts", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._starts: list[int] | None = None

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Return line and column, both from 1; a column is a character."""
        if self._starts is None:
            self._starts = [0, *(end.end() for end in _LINE_END.finditer(self.text))]
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def fault(self, offset: int, rule: str, text: str) -> DocumentError:
        """Return the error for what stands at an offset."""
        return Place(self, offset).fault(rule, text)


@dataclass(frozen=True, slots=True)
class Place:
    """An offset in a source."""

    source: Source
    offset: int

    @property
    def line(self) -> int:
        """The line, from 1."""
        return self.source.line_and_column(self.offset)[0]

    @property
    def column(self) -> int:
        """The character in its line, from 1."""
        return self.source.line_and_column(self.offset)[1]

    def __str__(self) -> str:
        line, column = self.source.line_and_column(self.offset)
        return f"{self.source.name}{', ' if self.source.name else ''}line {line}, column {column}"

    def fault(self, rule: str, text: str) -> DocumentError:
        """Return the error: place, text, and the rule in words."""
        return DocumentError(f"{self}: {text} (rule {rule}: {RULES[rule]})")


def quoted(text: str) -> str:
    """Return a text in quotes, cut short, without characters that would break a message's line."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return "'" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown) + "'"
