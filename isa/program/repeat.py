"""Programs of equal parts that follow one another, each with its data at a fixed distance from that of the part before.

A program that was compiled from a shortened network carries the short program and how it was lengthened. The machine
may then simulate the short one, if it proves that every further part takes the same cycles.
"""

from __future__ import annotations

from typing import NamedTuple

from npusim.isa.base.identity_cache import IdentityCache
from npusim.isa.program.program import Program


class Range(NamedTuple):
    """Addresses of a memory that each part accesses `step` bytes behind the part before it.

    first, end: of all parts of the short program.
    last:       the lowest address of the last part.
    """

    space: int
    first: int
    last: int
    end: int
    step: int


class Repeat(NamedTuple):
    """A program described by a short one with fewer of its equal parts.

    first:  the first instruction of the first of `number` equal parts.
    size:   instructions of a part.
    copies: how many more of them the whole program has, behind the last.
    layers: layers of the program in a part.
    grouped: equal layers of the model in a part, 2 if they take turns with two sets of addresses.
    ranges: what parts access at different addresses, code included, disjoint and apart by whole rows.
    """

    short: Program
    first: int
    size: int
    number: int
    copies: int
    layers: int
    grouped: int
    ranges: tuple[Range, ...]

    @property
    def end(self) -> int:
        """The instruction of the short program behind the equal parts."""
        return self.first + self.number * self.size


_REPEATS = IdentityCache[tuple[Repeat, ...]]()
_DIFFERENCES = IdentityCache[str]()


def repeats_of(program: Program) -> tuple[Repeat, ...]:
    """Return how a program repeats, with short programs of rising length; none for one that was read from a file."""
    return _REPEATS.get(program.code) or ()


def remember(program: Program, *repeats: Repeat) -> Program:
    """Note how a program repeats, and return the program."""
    _REPEATS.put(program.code, repeats)
    return program


def difference_of(program: Program) -> str:
    """Return why a program of equal layers does not repeat; empty if it does, or is not known to have such layers."""
    return _DIFFERENCES.get(program.code) or ""


def remember_difference(program: Program, why: str) -> Program:
    """Note why a program does not repeat although the layers of its network are equal, and return the program."""
    _DIFFERENCES.put(program.code, why)
    return program
