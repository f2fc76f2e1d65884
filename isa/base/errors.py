"""The errors that npusim reports to its user, and helpers for their messages.

A message is one line that says where the fault is, what the file has, what is allowed, and what to do. Text from
files is escaped, so that it cannot move the cursor, change colours or hide text. Misspelt words get a suggestion.
"""

import re
from collections.abc import Iterable
from itertools import takewhile


class NpusimError(Exception):
    """An error in the user's input; the command line prints its text and exits with status 2."""

    def __str__(self) -> str:
        """Return the message, shortened, because names and lists in it come from files of any size."""
        return within(super().__str__())


class FormatError(NpusimError):
    """An error for a model file that cannot be read."""


class GraphError(NpusimError):
    """An error for a graph whose operators, shapes or types do not fit together."""


class HardwareError(NpusimError):
    """An error for a hardware description with faults; its text lists all of them."""


class ProgramError(NpusimError):
    """An error for a program image that is damaged, too new, or breaks a rule of the instruction set."""


class CompileError(NpusimError):
    """An error for a model that does not fit the hardware it is compiled for."""


class SimulationError(NpusimError):
    """An error for a program that cannot finish: instructions that wait for each other, or wrong inputs."""


class OperandFault(SimulationError):
    """An error for operand values that an operation cannot take, such as an index outside its range.

    The message names the values; the caller that executes the operation adds the place.
    """


_INVISIBLE = re.compile(
    # Characters that Python calls printable but Unicode default-ignorable: fillers, joiners, variation selectors.
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Source: Unicode DerivedCoreProperties.txt, Default_Ignorable_Code_Point, categories Lo and Mn."""

_NOT_PLAIN = re.compile("[^\n -~]")


def visible(text: str) -> bool:
    """Return whether every character of a text is visible; line ends and other control characters are not."""
    return text.isprintable() and (text.isascii() or not _INVISIBLE.search(text))


def printable(text: str) -> str:
    """Return a text on one line, with invisible characters as escapes: \\n, \\x1b, \\u202e."""
    if visible(text):
        return text
    return "".join(mark if visible(mark) else mark.encode("unicode_escape").decode() for mark in text)


def printable_lines(text: str) -> str:
    """Return a text with invisible characters as escapes, except the ends of lines."""
    return "\n".join(map(printable, text.split("\n"))) if _NOT_PLAIN.search(text) else text


def replaced(text: str, most: int) -> str:
    """Return at most `most` characters of a text on one line, with invisible characters as question marks."""
    shown = "".join(mark if visible(mark) else "?" for mark in text[:most])
    return shown if len(text) <= most else f"{shown}..."


LONGEST_MESSAGE = 380
"""Maximum length of a message in characters: with the prefix "npusim: warning: " a line then has at most 400."""

_MANY_ITEMS = re.compile(r"((?:[^\s,;:\[({][^,;:\[\](){}]{0,80}, ){3})(?:[^,;:\[\](){}]{1,80}, ){3,}")
_MANY_PARTS = re.compile(r"((?:(?:^|(?<=; ))[^;]+; ){2})(?:[^;]+; ){2,}")
_LONG_WORD = re.compile(r"(?<!\S)(\S{20})\S{24,}(\S{36})")
_MOST_LOOKED_AT = 4000
"""Characters at each end of a text that are searched for lists; the search takes time quadratic in the length."""


def within(text: str, most: int = LONGEST_MESSAGE) -> str:
    """Shorten a message to at most `most` characters: first long lists and words, then the middle.

    Both ends are kept, because the beginning says where the fault is and the end says what to do about it.
    """
    if len(text) > 2 * _MOST_LOOKED_AT:
        text = f"{text[:_MOST_LOOKED_AT]}...{text[-_MOST_LOOKED_AT:]}"
    for pattern, shorter in ((_MANY_ITEMS, r"\1..., "), (_LONG_WORD, r"\1...\2"), (_MANY_PARTS, r"\1...; ")):
        if len(text) <= most:
            return text
        text = pattern.sub(shorter, text)
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 5]} ... {text[-end:]}"


LONGEST_CAUSE = 300
"""Most characters quoted of another package's message: LiteRT, for one, may list a fault for every tensor."""


def one_line(fault: BaseException) -> str:
    """Return the message of another package's exception on one line, or the name of its class if it has none."""
    text = " ".join(str(fault).split()) or type(fault).__name__
    return text if len(text) <= LONGEST_CAUSE else f"{text[:LONGEST_CAUSE]}..."


LEAST_SIMILARITY = 0.6
# Longer words are cut, because comparing takes time in proportion to the length. No known word is this long.
LONGEST_WORD = 80


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar known word, or None if nothing is similar; a longer common prefix breaks ties."""
    from difflib import SequenceMatcher  # only messages need it: a run without a mistake does not import it

    word = word[:LONGEST_WORD]

    def rank(candidate: str) -> tuple[float, int]:
        similarity = SequenceMatcher(None, candidate, word).ratio()
        common = takewhile(lambda pair: pair[0] == pair[1], zip(candidate, word, strict=False))
        return similarity, len(list(common))

    best = max(known, key=rank, default=None)
    return best if best is not None and rank(best)[0] >= LEAST_SIMILARITY else None
