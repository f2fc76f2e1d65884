"""Where an execution stands: a frame per graph that it is in, and the values that are still needed.

Frames lie one inside the other: the main graph, below it the graph of an IF or WHILE at which the one above stands, and
so on. What follows depends on their form alone: where they stand, the types of their values, and the elements that
decide. So it is worked out, compiled and timed once per form (`npusim.hal.walk`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel
from npusim.frontends.nn_hal.operations.call import tensor_type
from npusim.isa.base.tensor import Array, TensorType

Role = Literal["main", "branch", "test", "turn"]
"""What a graph is executed as: a branch of an IF, the condition or the body of a WHILE."""


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of an execution.

    type:    with all sizes; None for an argument that is omitted.
    data:    its elements; None where no data is executed, or as long as it is not computed.
    fixed:   whether it is part of the model.
    learned: whether its elements say what comes next: a condition, a size.
    placed:  whether it lies in a memory of the machine, where a program left it or read it.
    computed: whether a program left it there.
    shared:   whether its bytes there are those of another value too.
    """

    type: TensorType | None
    data: Array | None = None
    fixed: bool = False
    learned: bool = False
    placed: bool = False
    computed: bool = False
    shared: bool = False

    @property
    def known(self) -> bool:
        """Whether what comes next may depend on the elements."""
        return self.fixed or self.learned

    def form(self) -> Any:
        """What of it the next step depends on."""
        if self.fixed:
            return id(self)
        return self.type, self.data.tobytes() if self.learned and self.data is not None else None


@dataclass(slots=True, eq=False)
class Frame:
    """Execution state of one graph.

    graph:    its number in `CheckedModel.graphs`.
    position: the next operation.
    values:   by operand, without the graph's constants.
    carried:  inputs of the graphs of a WHILE at `position`.
    turns:    iterations of that WHILE so far.
    began:    cycle of the execution at which the condition of that WHILE was first evaluated.
    """

    graph: int
    role: Role
    values: dict[int, Value]
    position: int = 0
    carried: list[Value] = field(default_factory=list)
    turns: int = 0
    began: int = 0


Frames = list[Frame]
"""The frames of an execution, the main graph first."""


def values_of(frames: Iterable[Frame]) -> list[Value]:
    """All values that the frames hold, each once, in an order that their form says."""
    found = {
        id(value): value
        for frame in frames
        for value in (*(frame.values[operand] for operand in sorted(frame.values)), *frame.carried)
    }
    return list(found.values())


def form_of(frames: Frames, values: list[Value]) -> Any:
    """What the next step depends on; `values` are those of the frames."""
    number = {id(value): position for position, value in enumerate(values)}
    standing = tuple(
        (
            frame.graph,
            frame.role,
            frame.position,
            tuple((operand, number[id(frame.values[operand])]) for operand in sorted(frame.values)),
            tuple(number[id(value)] for value in frame.carried),
        )
        for frame in frames
    )
    return standing, tuple(value.form() for value in values)


def replaced(frame: Frame, values: dict[int, Value]) -> Frame:
    """The frame with other values, by the identity of those in their place; what is not named stays."""
    return Frame(
        frame.graph,
        frame.role,
        {operand: values.get(id(value), value) for operand, value in frame.values.items()},
        frame.position,
        [values.get(id(value), value) for value in frame.carried],
        frame.turns,
    )


class Ground:
    """What all executions of a model share: its constants as values, and how long operands are needed."""

    def __init__(self, model: CheckedModel) -> None:
        self.model = model
        self._last = [_last_readers(graph) for graph in model.graphs]
        self._constants: dict[tuple[int, int], Value] = {}

    def constant(self, graph: int, operand: int) -> Value:
        """An operand that is part of the model."""
        key = graph, operand
        if key not in self._constants:
            said = self.model.graphs[graph].operands[operand]
            data = said.value()
            self._constants[key] = Value(tensor_type(said, data.shape), data, fixed=True)
        return self._constants[key]

    def prune(self, frames: Frames) -> None:
        """Forget values that nobody reads any more."""
        innermost = len(frames) - 1
        for depth, frame in enumerate(frames):
            # Of a graph that stands at an IF or WHILE the operands of that are in the frames below, or carried.
            first = frame.position + (depth < innermost)
            last = self._last[frame.graph]
            frame.values = {
                operand: value for operand, value in frame.values.items() if last.get(operand, -1) >= first
            }


def _last_readers(graph: CheckedGraph) -> dict[int, int]:
    """The position of the last operation that reads an operand; behind all of them for an output."""
    found = {
        operand: position
        for position, operation in enumerate(graph.operations)
        for operand in operation.inputs
    }
    return found | dict.fromkeys(graph.outputs, len(graph.operations))
