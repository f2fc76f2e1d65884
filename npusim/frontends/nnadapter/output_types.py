"""Inference of the outputs of an operation: precision, scale, sizes, and values if they follow from shapes.

Operands with unknown sizes may list the shapes that they take. Shape k of each is gear k, and the outputs of an
operation get as many shapes as its inputs have gears.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from npusim.frontends.nnadapter import operation_table
from npusim.frontends.nnadapter.nnadapter_codes import InvalidDimensions, Lifetime
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operand_type import Shape
from npusim.frontends.nnadapter.operation_arguments import Bound
from npusim.frontends.nnadapter.operation_conversion import NotKnown
from npusim.frontends.nnadapter.operation_graphs import Parts
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import UNRANKED

TEMPORARY = (Lifetime.TEMPORARY_VARIABLE, Lifetime.TEMPORARY_SHAPE)
"""Lifetimes of operands that are neither constants nor inputs or outputs of the model."""


class Inferred(NamedTuple):
    """An output in one gear; `value` is None if only a run gives it."""

    shape: Shape
    value: Array | None


def give_types(name: str, operation: Operation, pending: Callable[[Operand], bool]) -> None:
    """Set type, shape and value of the outputs of an operation, as far as they follow from its inputs.

    name:    the name of the model.
    pending: whether the shape of an input may still be set later.

    Raises InvalidParameter for a broken rule, InvalidDimensions if inputs have different numbers of gears.
    """
    row = operation_table.row(operation.type)
    row.types(Bound(operation, row.signature))
    try:
        gears = [_in_gear(name, operation, gear, pending) for gear in range(_gears(operation))]
    except NotKnown:
        return
    for operand, by_gear in zip(operation.output_operands, zip(*gears, strict=True), strict=True):
        _take(operand, by_gear)


def _gears(operation: Operation) -> int:
    """Return the number of gears of an operation; 1 if no input differs between gears."""
    inputs = [operand for operand in operation.input_operands if operand is not None]
    counts = {operand.name: operand.gears for operand in inputs if operand.gears > 1}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InvalidDimensions(
            f"{operation.place}: inputs have different numbers of shapes (dynamic): {shown}; shape k of each is gear k"
        )
    return max(counts.values(), default=1)


def _in_gear(
    name: str, operation: Operation, gear: int, pending: Callable[[Operand], bool]
) -> list[Inferred]:
    """Return the outputs in a gear. Raises NotKnown if that cannot be known yet."""
    inputs = [operand for operand in operation.input_operands if operand is not None]
    shapes = {operand: UNRANKED if pending(operand) else operand.shape(gear) for operand in inputs}
    values = {operand: value for operand in inputs if (value := operand.value(gear)) is not None}
    parts = Parts(name, shapes, values)
    parts.add(operation)
    return [
        Inferred(parts.shape(operand), parts.values.get(operand)) for operand in operation.output_operands
    ]


def _take(operand: Operand, gears: Sequence[Inferred]) -> None:
    """Set shapes and values of an operand from what it is in each gear."""
    kind = operand.type
    kind.take_shapes([gear.shape for gear in gears])
    values = [gear.value for gear in gears if gear.value is not None]
    same = all(value.shape == values[0].shape and (value == values[0]).all() for value in values)
    operand.values = tuple(values[:1] if same else values) if len(values) == len(gears) else ()
    if kind.lifetime in TEMPORARY:
        kind.lifetime = lifetime(operand)


def lifetime(operand: Operand) -> Lifetime:
    """Return the lifetime of an operand that is neither constant nor input or output of the model."""
    return Lifetime.TEMPORARY_SHAPE if operand.values else Lifetime.TEMPORARY_VARIABLE
