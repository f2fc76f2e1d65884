"""The shape of a row of the operation table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npusim.frontends.nnef.operations.call_conversion import CallConversion

Convert = Callable[[CallConversion], Sequence[int]]
"""Adds the nodes of a call to a graph and returns the tensors of its results, arrays flattened."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of NNEF.

    name:      as documents have it.
    convert:   how a call becomes nodes.
    operators: the operators that these nodes may have, the main one first.
    activated: whether the main operator takes an activation that follows as an operation of its own.
    """

    name: str
    convert: Convert
    operators: tuple[str, ...]
    activated: bool = False
