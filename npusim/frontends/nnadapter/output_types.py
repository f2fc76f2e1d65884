"""What the outputs of an operation are: precision, scale, sizes and, where they follow from shapes, values.

Operands with unknown sizes may say shapes that they take, their gears. Row k of each is gear k: an operation of such
operands gives outputs with as many gears.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from npusim.frontends.nnadapter import operation_table
from npusim.frontends.nnadapter.nnadapter_codes import Lifetime
from npusim.frontends.nnadapter.nnadapter_errors import InvalidDimensions
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operand_type import Shape
from npusim.frontends.nnadapter.operation_arguments import Bound
from npusim.frontends.nnadapter.operation_conversion import NotKnown
from npusim.frontends.nnadapter.operation_graphs import Parts
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import UNKNOWN, UNRANKED

TEMPORARY = (Lifetime.TEMPORARY_VARIABLE, Lifetime.TEMPORARY_SHAPE)
"""The lifetimes of what is computed and not given to the caller."""


class Found(NamedTuple):
    """What an output is in one gear; `value` where it is fixed before anything runs."""

    shape: Shape
    value: Array | None


def give_types(name: str, operation: Operation, pending: Callable[[Operand], bool]) -> None:
    """Gives the outputs of an operation of a model called `name` what follows from its inputs, as far as it does.

    pending: whether an input is of a shape that somebody is still to say.

    Raises InvalidParameter for a broken rule, InvalidDimensions where inputs have different numbers of gears.
    """
    row = operation_table.row(operation.type)
    row.types(Bound(operation, row.signature))
    try:
        gears = [_in_gear(name, operation, gear, pending) for gear in range(_gears(operation))]
    except NotKnown:
        return
    for operand, found in zip(operation.output_operands, zip(*gears, strict=True), strict=True):
        _take(operand, found)


def _gears(operation: Operation) -> int:
    """How many gears an operation has; 1 where all inputs are the same in all."""
    inputs = [operand for operand in operation.input_operands if operand is not None]
    counts = {operand.name: operand.gears for operand in inputs if operand.gears > 1}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InvalidDimensions(
            f"{operation.place}: inputs have different numbers of shapes (dynamic): {said}; shape k of each is gear k"
        )
    return max(counts.values(), default=1)


def _in_gear(name: str, operation: Operation, gear: int, pending: Callable[[Operand], bool]) -> list[Found]:
    """What the outputs are in a gear. Raises NotKnown where that cannot be known yet."""
    inputs = [operand for operand in operation.input_operands if operand is not None]
    shapes = {operand: UNRANKED if pending(operand) else operand.shape(gear) for operand in inputs}
    values = {operand: value for operand in inputs if (value := operand.value(gear)) is not None}
    parts = Parts(name, shapes, values)
    parts.add(operation)
    return [Found(parts.shape(operand), parts.values.get(operand)) for operand in operation.output_operands]


def _take(operand: Operand, found: Sequence[Found]) -> None:
    """Gives an operand what it is in each gear."""
    shapes = list(dict.fromkeys(one.shape for one in found))
    kind = operand.type
    if len(shapes) == 1:
        kind.dimensions, kind.dynamic, kind.ranked = list(shapes[0]), (), True
    else:
        kind.ranked = len({len(shape) for shape in shapes}) == 1
        kind.dimensions = [_common(sizes) for sizes in zip(*shapes, strict=True)] if kind.ranked else []
        kind.dynamic = tuple(one.shape for one in found)
    values = [one.value for one in found if one.value is not None]
    same = all(value.shape == values[0].shape and (value == values[0]).all() for value in values)
    operand.values = tuple(values[:1] if same else values) if len(values) == len(found) else ()
    if kind.lifetime in TEMPORARY:
        kind.lifetime = lifetime(operand)


def lifetime(operand: Operand) -> Lifetime:
    """That of an operand which is no constant and which the caller neither gives nor gets."""
    return Lifetime.TEMPORARY_SHAPE if operand.values else Lifetime.TEMPORARY_VARIABLE


def _common(sizes: Sequence[int]) -> int:
    """A size that is the same in all gears; -1 where they differ."""
    return sizes[0] if len(set(sizes)) == 1 else UNKNOWN
