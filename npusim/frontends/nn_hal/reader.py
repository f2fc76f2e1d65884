"""Reads a HAL model file as one graph, which is compiled and executed like a graph of any other format.

Some models cannot be one graph: those with sizes or parameters that only a request gives, and loops that change the
shapes of their values. `npusim.hal` executes them step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel, CheckedOperation
from npusim.frontends.nn_hal.enumerations import OperandLifeTime, OperationType
from npusim.frontends.nn_hal.fault import Fault, Refused
from npusim.frontends.nn_hal.hal_file import MAGIC, loads
from npusim.frontends.nn_hal.model_check import check_model
from npusim.frontends.nn_hal.operations.graph_parts import GraphParts
from npusim.frontends.nn_hal.operations.named_arguments import Argument, Known, Needs, tensor_type
from npusim.frontends.nn_hal.request import reader_in_need
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph import folding
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.control import IF, WHILE, body_names
from npusim.kernels.graph.graph import UNKNOWN, UNRANKED, Graph
from npusim.kernels.graph.limits import Budget

MOST_BODIES = 4096
"""Most bodies of a file; one graph may be that of several operations."""


def recognises(path: Path, head: bytes) -> bool:
    """Return True if the file begins as HAL model files do."""
    return head.startswith(MAGIC)


def read(path: Path, builder: GraphBuilder) -> Graph:
    """Return the graph of a HAL model file, not yet checked as a whole; raises FormatError or GraphError."""
    return graph_of(loads(user_file.mapped(path, user_file.MODEL, FormatError, "")), builder)


def graph_of(model: object, builder: GraphBuilder) -> Graph:
    """Return the graph of a HAL model, not yet checked as a whole. Inputs and outputs are named after their operands.

    Raises GraphError for a model that breaks a rule, or that cannot be one graph.
    """
    checked = check_model(model)
    if isinstance(checked, Fault):
        raise GraphError(checked.message)
    try:
        return _Reading(checked).graph(checked.main, builder)
    except Refused as refused:
        raise GraphError(refused.fault.message) from None
    except Needs as needs:
        raise GraphError(f"{needs} before it is compiled; npusim.hal takes it from the request") from None


class _Reading:
    """Reads the graphs of one model, and counts the bodies that they become."""

    def __init__(self, model: CheckedModel) -> None:
        self._model = model
        self._bodies = 0
        self._budget = Budget()

    def graph(
        self, graph: CheckedGraph, builder: GraphBuilder, shapes: Sequence[tuple[int, ...]] = ()
    ) -> Graph:
        """Return a graph of the model; shapes: those of its inputs, if an IF or WHILE executes it."""
        known = Known(graph)
        known.undecided.clear()  # all inputs of a graph have values
        known.shapes.update(zip(graph.inputs, shapes, strict=False))
        builder.read_with(folding.MOST_ELEMENTS, self._budget)
        parts = _Parts(builder.name, known, self._model.version, self._model.referenced, builder)
        for index in graph.inputs:
            self._input(parts, index)
        most: dict[int, int] = {}  # results of as many rows as there can be: they may only leave the graph
        for operation in graph.operations:
            if operation.type is OperationType.IF:
                self._if(parts, operation)
            elif operation.type is OperationType.WHILE:
                self._while(parts, operation)
            else:
                parts.add(operation)
                parts.learn(operation)
                most |= {index: parts.tensor(index) for index in operation.outputs if index in parts.counts}
                parts.open_rows(operation)
        return builder.graph(
            [most[index] if index in most else parts.tensor(index) for index in graph.outputs]
        )

    def _input(self, parts: _Parts, index: int) -> None:
        """Add an input. An optional input of the model whose sizes nobody gives counts as omitted."""
        main, name, builder = self._model.main, f"operands[{index}]", parts.builder
        known = parts.known.graph is not main or parts.known.bound(index)
        keys = () if known else (name, f"in{main.inputs.index(index)}")
        offered = name in builder.sizes or not builder.offered.shapes.keys().isdisjoint(keys)
        if known or offered or reader_in_need(main.operands[index], self._model):
            parts.tensor(index)
        else:
            parts.known.omitted.add(index)

    def _if(self, parts: _Parts, operation: CheckedOperation) -> None:
        condition, *graphs = operation.inputs[:3]
        operands = [parts.tensor(index) for index in operation.inputs[3:]]
        bodies = self._bodies_of(IF, parts, graphs, operands)
        results = [tensor_type(parts.known.graph.operands[index]) for index in operation.outputs]
        numbers = parts.builder.node(IF, [parts.tensor(condition), *operands], results, bodies=bodies)
        parts.take(operation.outputs, numbers)

    def _while(self, parts: _Parts, operation: CheckedOperation) -> None:
        operands = [parts.tensor(index) for index in operation.inputs[2:]]
        test, turn = self._bodies_of(WHILE, parts, operation.inputs[:2], operands)
        turn = _carrying_on(turn)
        results = [_unshaped(parts.builder.type(tensor)) for tensor in operands]
        numbers = parts.builder.node(WHILE, operands, results, bodies=[test, turn])
        parts.take(operation.outputs, numbers)

    def _bodies_of(
        self, op: str, parts: _Parts, graphs: Sequence[int], operands: Sequence[int]
    ) -> list[Graph]:
        shapes = [parts.builder.shape(tensor) for tensor in operands]
        bodies = []
        for name, index in zip(body_names(op), graphs, strict=True):
            self._bodies += 1
            if self._bodies > MOST_BODIES:
                raise GraphError(f"has more than {MOST_BODIES} branches and bodies of loops")
            graph = self._model.referenced[parts.known.graph.operands[index].graph]
            bodies.append(self.graph(graph, GraphBuilder(name), shapes))
        return bodies


class _Parts(GraphParts):
    """A graph under construction whose inputs may get their sizes from the caller."""

    def added(self, operand: int, role: Argument | None) -> int:
        """Return a new tensor for an operand; an input with open sizes gets those that the caller gives."""
        source = self.known.graph.operands[operand]
        if source.lifetime is not OperandLifeTime.MODEL_INPUT or self.known.bound(operand):
            return super().added(operand, role)
        sizes = self.known.shape(operand)
        shape = UNRANKED if sizes is None else tuple(UNKNOWN if size is None else size for size in sizes)
        tensor = self.builder.input(f"operands[{operand}]", tensor_type(source, shape))
        self.known.shapes[operand] = self.builder.shape(tensor)
        self.inputs.append(operand)
        return tensor

    def learn(self, operation: CheckedOperation) -> None:
        """Record the values of results that were folded into constants, which later operations may need."""
        for operand in operation.outputs:
            value = self.builder.tensors[self.tensor(operand)].array if self.has(operand) else None
            if value is not None:
                self.known.values[operand] = value

    def take(self, operands: Sequence[int], tensors: Sequence[int]) -> None:
        """Let operands stand for these tensors from now on."""
        for operand, tensor in zip(operands, tensors, strict=False):
            self.known.shapes[operand] = self.builder.shape(tensor)
            self._tensors[operand] = tensor


def _unshaped(kind: TensorType) -> TensorType:
    return TensorType(kind.dtype, UNRANKED, kind.quantization)


def _carrying_on(turn: Graph) -> Graph:
    """Return the body of a loop with an output per input: values that it only reads are passed on."""
    return replace(turn, outputs=(*turn.outputs, *turn.inputs[len(turn.outputs) :]))
