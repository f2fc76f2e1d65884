"""Gears: the combinations of input shapes that a model is compiled for, each with programs of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import InvalidDimensions, InvalidParameter, text_of
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import Shape, checked
from npusim.frontends.nnadapter.operation_graphs import GraphNetwork, Network
from npusim.isa.base.errors import nearest
from npusim.kernels.graph.inference import fits

Input = TypeVar("Input", str, Operand)

Shapes = Mapping[str, Sequence[Sequence[int]]]
"""The shapes that inputs may take, by name: shape k of each is gear k."""


def by_gear(shapes: Mapping[Input, Sequence[Sequence[int]]]) -> list[dict[Input, Shape]]:
    """Return the shapes of the inputs in each gear, without repetitions: one empty gear if no shapes are given.

    Gear k has shape k of every input; an input with a single shape has it in all gears. Raises InvalidDimensions if
    inputs have different numbers of shapes.
    """
    counts = {one: len(rows) for one, rows in shapes.items() if len(rows) != 1}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        names = {one: one if isinstance(one, str) else one.name for one in counts}
        listed = ", ".join(f"{names[one]} {count}" for one, count in counts.items())
        raise InvalidDimensions(
            f"dynamic: inputs must say the same number of shapes, one or more; they say {listed}"
        )
    distinct: list[dict[Input, Shape]] = []
    for number in range(max(counts.values(), default=1)):
        gear = {one: tuple(rows[min(number, len(rows) - 1)]) for one, rows in shapes.items()}
        if gear not in distinct:
            distinct.append(gear)
    return distinct


def shapes_come_with_runs(model: Model) -> bool:
    """Return whether an input has open sizes and no gears, so that only a run tells which shapes to compile for."""
    return any(not operand.type.known and not operand.type.dynamic for operand in model.input_operands)


def networks(model: Model) -> tuple[Network, ...]:
    """Return a finished model as contexts see it, once per gear; none if only a run gives the shapes of its inputs.

    Raises InvalidParameter for a model that is not finished, InvalidDimensions for gears that do not fit each other.
    """
    graphs = getattr(model, "graphs", ())
    if graphs:
        return tuple(GraphNetwork(graph) for graph in graphs)
    if not model.finished:
        model.network()  # raises the error
    if shapes_come_with_runs(model):
        return ()
    shapes = {operand: operand.type.dynamic for operand in model.input_operands if not operand.type.known}
    return tuple(model.network(gear) for gear in by_gear(shapes))


def network_for(model: Model, shapes: Sequence[Shape]) -> Network:
    """Return a finished model with given input shapes. Raises InvalidDimensions for shapes that do not fit."""
    for operand, shape in zip(model.input_operands, shapes, strict=True):
        type_ = operand.type
        may = [tuple(row) for row in type_.dynamic]
        if not fits(type_.shape, shape) or (may and shape not in may):
            wanted = " or ".join(str(list(row)) for row in may) or type_.words()
            raise InvalidDimensions(f"{operand.name}: has shape {list(shape)}, must be {wanted}")
    return model.network(dict(zip(model.input_operands, shapes, strict=True)))


def require_shapes(shapes: object) -> None:
    """Raise InvalidParameter for anything but a mapping from names to lists of shapes."""
    if not isinstance(shapes, Mapping) or not all(
        isinstance(name, str) and _are_shapes(rows) for name, rows in shapes.items()
    ):
        raise InvalidParameter(f"dynamic: is {text_of(shapes)}, must map names of inputs to lists of shapes")


def _are_shapes(rows: object) -> bool:
    return isinstance(rows, Sequence) and all(
        isinstance(row, Sequence) and all(isinstance(size, int) for size in row) for row in rows
    )


def with_gears(model: Model, shapes: Shapes) -> Model:
    """Set the shapes that inputs of a finished model with open sizes may take, by name, and return the model.

    Raises InvalidParameter for a name that no such input has, and for shapes that do not fit it.
    """
    inputs = {operand.name: operand for operand in model.input_operands if not operand.type.known}
    for name, rows in shapes.items():
        if name not in inputs:
            near = nearest(str(name), inputs)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(inputs) or 'none'}"
            raise InvalidParameter(f"dynamic shapes: {name}: no input with open sizes has this name, {hint}")
        type_ = inputs[name].type
        wanted = replace(type_, dynamic=[list(row) for row in rows])
        type_.dynamic = checked(wanted, name).dynamic
    return model
