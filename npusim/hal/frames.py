"""Execution state of a HAL model: a stack of frames, one per graph that is being executed, and their live values.

The main graph is the first frame. A frame that has reached an IF or WHILE is followed by the frame of its branch,
condition or body. The next step depends only on the positions of the frames, the types of their values, and the
elements that decide. These make up the cache key (`execution_state`): a step is compiled and timed once per key
(`npusim.hal.walk`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, Literal

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel
from npusim.frontends.nn_hal.operations.named_arguments import tensor_type
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, TensorType

Role = Literal["main", "branch", "test", "turn"]
"""The role of a graph: the main graph, a branch of an IF, or the condition ("test") or body ("turn") of a WHILE."""


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of an execution.

    type:     its type with all sizes; None for an omitted argument.
    data:     its elements; None before they are computed, and on devices that only compute timing.
    fixed:    whether it is part of the model.
    learned:  whether the next step depends on its elements, such as a condition or a size.
    placed:   whether it is in a memory of the machine, because a program has written or read it.
    computed: whether a program has written it there.
    shared:   whether another value has the same bytes there.
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
        """Whether the next step may depend on the elements."""
        return self.fixed or self.learned

    def key_part(self) -> Any:
        """Return the part of the cache key that this value contributes."""
        if self.fixed:
            return id(self)
        return self.type, self.data.tobytes() if self.learned and self.data is not None else None


@dataclass(slots=True, eq=False)
class Frame:
    """Execution state of one graph.

    graph:    its number in `CheckedModel.graphs`.
    position: the next operation.
    values:   by operand, without the graph's constants.
    carried:  current inputs of the condition and body of a WHILE at `position`.
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
    """Return all values of the frames, each once, in an order that depends only on the cache key."""
    values = {
        id(value): value
        for frame in frames
        for value in (*(frame.values[operand] for operand in sorted(frame.values)), *frame.carried)
    }
    return list(values.values())


def execution_state(frames: Frames, values: list[Value]) -> Any:
    """Return the cache key of the next step; values: those of the frames."""
    number = {id(value): position for position, value in enumerate(values)}
    positions = tuple(
        (
            frame.graph,
            frame.role,
            frame.position,
            tuple((operand, number[id(frame.values[operand])]) for operand in sorted(frame.values)),
            tuple(number[id(value)] for value in frame.carried),
        )
        for frame in frames
    )
    return positions, tuple(value.key_part() for value in values)


def replaced(frame: Frame, values: dict[int, Value]) -> Frame:
    """Return a frame with values replaced; values: identity of a value -> the value in its place."""
    return Frame(
        frame.graph,
        frame.role,
        {operand: values.get(id(value), value) for operand, value in frame.values.items()},
        frame.position,
        [values.get(id(value), value) for value in frame.carried],
        frame.turns,
    )


class Ground:
    """Data that all executions of a model share: its constants as values, and the lifetimes of operands."""

    def __init__(self, model: CheckedModel) -> None:
        self.model = model
        self._last = [_last_readers(graph) for graph in model.graphs]
        self._constants: dict[tuple[int, int], Value] = {}

    def constant(self, graph: int, operand: int) -> Value:
        """Return the value of a constant operand."""
        key = graph, operand
        if key not in self._constants:
            source = self.model.graphs[graph].operands[operand]
            data = source.value()
            self._constants[key] = Value(tensor_type(source, data.shape), data, fixed=True)
        return self._constants[key]

    def prune(self, frames: Frames) -> None:
        """Drop values that no later operation reads."""
        innermost = len(frames) - 1
        for depth, frame in enumerate(frames):
            # The operands of an IF or WHILE in execution are in the frames below, or carried.
            first = frame.position + (depth < innermost)
            last = self._last[frame.graph]
            frame.values = {
                operand: value for operand, value in frame.values.items() if last.get(operand, -1) >= first
            }


def _last_readers(graph: CheckedGraph) -> dict[int, int]:
    """Return, by operand, the position of the last operation that reads it; for outputs the number of operations."""
    readers = {
        operand: position
        for position, operation in enumerate(graph.operations)
        for operand in operation.inputs
    }
    return readers | dict.fromkeys(graph.outputs, len(graph.operations))
