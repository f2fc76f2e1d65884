"""Gears: the choices of input shapes that a model is compiled for, a program for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_errors import InvalidDimensions, InvalidParameter, said
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import Shape, checked
from npusim.frontends.nnadapter.operation_graphs import GraphNetwork, Network
from npusim.isa.base.nearest import nearest
from npusim.kernels.graph.inference import fits

Shapes = Mapping[str, Sequence[Sequence[int]]]
"""The gears of inputs by name."""

Gear = Mapping[Operand, Shape]
"""The shapes of the inputs whose types leave sizes open."""


def gears(model: Model) -> tuple[Gear, ...]:
    """Return the gears of a finished model: one empty gear if all sizes are known, none if only a run gives them.

    Gear k has row k of `dynamic` of every input with open sizes; an input with a single row has it in all gears. Raises
    InvalidDimensions if inputs have different numbers of rows.
    """
    open_inputs = [operand for operand in model.input_operands if not operand.type.known]
    if not open_inputs:
        return ({},)
    if told_later(model):
        return ()
    counts = {one.name: len(one.type.dynamic) for one in open_inputs if len(one.type.dynamic) > 1}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InvalidDimensions(
            f"dynamic: inputs say different numbers of shapes ({said}); shape k of each is gear k"
        )
    rows = [
        {
            operand: tuple(operand.type.dynamic[min(number, len(operand.type.dynamic) - 1)])
            for operand in open_inputs
        }
        for number in range(max(counts.values(), default=1))
    ]
    distinct: list[Gear] = []
    for row in rows:
        if row not in distinct:
            distinct.append(row)
    return tuple(distinct)


def told_later(model: Model) -> bool:
    """Whether an input has open sizes and no gears, so that only a run tells which shapes to compile for."""
    return any(not operand.type.known and not operand.type.dynamic for operand in model.input_operands)


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
    """Raises InvalidParameter for what does not map names to lists of shapes."""
    if not isinstance(shapes, Mapping) or not all(
        isinstance(name, str) and _are_shapes(rows) for name, rows in shapes.items()
    ):
        raise InvalidParameter(f"dynamic: is {said(shapes)}, must map names of inputs to lists of shapes")


def _are_shapes(rows: object) -> bool:
    return isinstance(rows, Sequence) and all(
        isinstance(row, Sequence) and all(isinstance(size, int) for size in row) for row in rows
    )


def with_gears(model: Model, shapes: Shapes) -> Model:
    """A finished model whose inputs with open sizes may take these shapes, by name.

    Raises InvalidParameter for a name that no such input has, and for shapes that do not fit it.
    """
    inputs = {operand.name: operand for operand in model.input_operands if not operand.type.known}
    for name, rows in shapes.items():
        if name not in inputs:
            near = nearest(str(name), inputs)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(inputs) or 'none'}"
            raise InvalidParameter(f"dynamic shapes: {name}: no input with open sizes has this name, {hint}")
        type_ = inputs[name].type
        asked = replace(type_, dynamic=[list(row) for row in rows])
        type_.dynamic = checked(asked, name).dynamic
    return model


def networks(model: Model) -> tuple[Network, ...]:
    """The model as contexts see it, once per gear. Raises InvalidParameter for one that is not finished."""
    graphs = getattr(model, "graphs", ())
    if graphs:
        return tuple(GraphNetwork(graph) for graph in graphs)
    if not model.finished:
        model.network()  # says so
    return tuple(model.network(gear) for gear in gears(model))
