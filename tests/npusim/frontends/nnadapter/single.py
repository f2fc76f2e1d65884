"""Models of one operation of NNAdapter, and what they give on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import npusim
from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import Precision
from npusim.frontends.nnadapter.operand_type import PRECISIONS, OperandType
from npusim.frontends.nnadapter.operation_graphs import PieceGraph
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware

LANES = npusim.hardware("edge-128", ["vector.float16_lanes=4", "vector.float32_lanes=2"])
"""A machine that computes on real numbers itself."""

_PLAIN = {row.dtype: row.precision for row in PRECISIONS if not row.scaled}


def plain(dtype: str, shape: Sequence[int] = ()) -> OperandType:
    """The type of elements that stand for themselves."""
    return OperandType(_PLAIN[dtype], list(shape))


def coded(
    scale: float, shape: Sequence[int] = (), zero_point: int | None = None, bits: int = 8
) -> OperandType:
    """The type of codes: signed ones, or with a zero point unsigned ones."""
    kind = f"QUANT_INT{bits}_SYMM_PER_LAYER" if zero_point is None else f"QUANT_UINT{bits}_ASYMM_PER_LAYER"
    return OperandType(Precision[kind], list(shape), scale=scale, zero_point=zero_point)


def piece(
    name: str,
    values: Sequence[Array],
    *arguments: Any,
    types: Sequence[OperandType | None] = (),
    outputs: Sequence[OperandType] | None = None,
    all_in_float: bool = False,
    listed: bool = False,
) -> PieceGraph:
    """The graph of an operation, by its method's name, whose inputs have values' shapes.

    arguments: of the method, behind the inputs; `listed`: it takes the inputs as a list.
    types: of the inputs, None (or absent) for elements that stand for themselves.
    """
    model = Model(name)
    kinds = [*types, *[None] * (len(values) - len(types))]
    inputs = [
        model.add_operand(plain(value.dtype.name, value.shape) if kind is None else kind)
        for value, kind in zip(values, kinds, strict=True)
    ]
    given = None if outputs is None else [model.add_operand(kind) for kind in outputs]
    results = getattr(model, name)(*([inputs] if listed else inputs), *arguments, outputs=given)
    model.identify(inputs, results if isinstance(results, tuple) else (results,))
    model.finish()
    network = model.network()
    return network.piece(range(len(network.steps)), all_in_float=all_in_float)


def run(
    name: str, values: Sequence[Array], *arguments: Any, hardware: Hardware | None = None, **options: Any
) -> list[Array]:
    """The outputs of an operation; see `piece`."""
    graph = piece(name, values, *arguments, **options).graph
    program = npusim.compile(graph) if hardware is None else npusim.compile(graph, hardware)
    return [np.asarray(output) for output in npusim.simulate(program, list(values)).outputs]
