"""Plans the next step of an execution: a graph to compute, and the frames after it.

A walk goes through the operations from the position of the frames, also into the graphs of IF and WHILE, and collects
their nodes in one graph. It ends at the end of the model, where a value must be known that the graph computes, and
after an operation that counts its own rows. If a value must be known that exists already, the step asks for it
(`Step.learn`), and the next walk begins with its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedOperand, CheckedOperation
from npusim.frontends.nn_hal.enumerations import ErrorStatus, OperationType
from npusim.frontends.nn_hal.fault import Fault, Refused
from npusim.frontends.nn_hal.operations import operation_table
from npusim.frontends.nn_hal.operations.graph_parts import GraphParts
from npusim.frontends.nn_hal.operations.named_arguments import Argument, Call, Known, Needs
from npusim.hal.frames import Frame, Frames, Ground, Role, Value, replaced, values_of
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph


class Counted(NamedTuple):
    """Values of which only the first rows are valid, and the value that holds their number."""

    rows: Value
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """The next step of an execution.

    before:  the values of the frames before the step.
    frames:  the frames after the step, with values of `before` and `outputs`, and constants.
    origins: for each frame the earlier frame whose iterations of a WHILE it goes on counting, or None.
    graph:   the graph to compute; None if there is nothing to compute.
    inputs:  the values of `before` that the graph reads.
    outputs: the values that the graph computes.
    counted: the outputs to cut to their number of rows.
    learn:   the value whose elements the step after this one depends on.
    place:   the operation that asks for it.
    decides: whether it is a condition.
    results: the outputs of the model, if it ends with this step.
    """

    before: tuple[Value, ...]
    frames: tuple[Frame, ...]
    origins: tuple[int | None, ...]
    graph: Graph | None = None
    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()
    counted: tuple[Counted, ...] = ()
    learn: Value | None = None
    place: str = ""
    decides: bool = False
    results: tuple[Value, ...] | None = None


class _Stop(Exception):
    """Ends a walk that cannot go on before the elements of `learn` are known."""

    def __init__(self, learn: Value, place: str, decides: bool = False) -> None:
        super().__init__()
        self.learn = learn
        self.place = place
        self.decides = decides


class _Parts(GraphParts):
    """Nodes of one frame in the graph of a walk; operands are values of the frame."""

    def __init__(self, walk: Walk, frame: Frame, known: Known) -> None:
        model = walk.ground.model
        super().__init__(walk.builder.name, known, model.version, model.referenced, walk.builder)
        self._walk, self._frame = walk, frame

    def added(self, operand: int, role: Argument | None) -> int:
        """Return a new tensor for a value of the frame, or for a constant of its graph."""
        value = self._frame.values.get(operand)
        return super().added(operand, role) if value is None else self._walk.tensor(value, operand)

    def add(self, operation: CheckedOperation) -> Call:
        """Add an operation as `GraphParts.add` does; if it raises, the walk forgets its tensors too."""
        before = len(self.builder.tensors)
        try:
            return super().add(operation)
        except (Needs, Refused):
            self._walk.forget(before)
            raise


@dataclass(slots=True, eq=False)
class _Open:
    """A frame of a walk.

    origin: the earlier frame whose iterations it goes on counting.
    """

    frame: Frame
    graph: CheckedGraph
    parts: _Parts
    origin: int | None = None


class Walk:
    """One walk; `step` is called once."""

    def __init__(self, ground: Ground, frames: Frames, name: str, most_turns: int) -> None:
        self.ground = ground
        self.builder = GraphBuilder(name)
        self._most_turns = most_turns
        given = values_of(frames)
        mine = {id(value): _without_data(value) for value in given}
        self._before = tuple(mine[id(value)] for value in given)
        self._origin = tuple(replaced(frame, mine) for frame in frames)
        for frame in self._origin:
            frame.turns = 0  # a step counts those that come
        self._tensors: dict[int, int] = {}
        self._values: dict[int, Value] = {}
        self._inputs: list[Value] = []
        self._counted: tuple[Counted, ...] = ()
        self._stack: list[_Open] = []
        for number, frame in enumerate(self._origin):
            self._open(replaced(frame, {}), number)

    def step(self) -> Step:
        """Collect operations into one graph until a value must be known. Raises Refused for a broken rule."""
        results = None
        try:
            while results is None:
                results = self._advance()
        except _Stop as stop:
            return self._stopped(stop)
        return self._made(results=results)

    # Values and tensors of the graph.

    def tensor(self, value: Value, operand: int) -> int:
        """Return the tensor of a value, a new input or constant if it has none."""
        number = self._tensors.get(id(value))
        if number is None:
            assert value.type is not None
            name = f"operands[{operand}]"
            if value.known and value.data is not None:
                number = self.builder.constant(name, value.data, value.type.quantization)
            else:
                number = self.builder.input(name, value.type)
                self._inputs.append(value)
            self._remember(value, number)
        return number

    def forget(self, tensors: int) -> None:
        """Forget tensors from this number on."""
        for number in [number for number in self._values if number >= tensors]:
            del self._tensors[id(self._values.pop(number))]
        self._inputs = [value for value in self._inputs if id(value) in self._tensors]

    def _remember(self, value: Value, number: int) -> None:
        self._tensors[id(value)] = number
        self._values[number] = value

    def _computed(self, number: int) -> Value:
        """Return the value of a tensor of the graph."""
        if number not in self._values:
            tensor = self.builder.tensors[number]
            self._remember(Value(tensor.type, tensor.array, fixed=tensor.array is not None), number)
        return self._values[number]

    def _value(self, at: _Open, operand: int) -> Value:
        if operand in at.frame.values:
            return at.frame.values[operand]
        return self.ground.constant(at.frame.graph, operand)

    # Operations.

    def _open(self, frame: Frame, origin: int | None = None) -> _Open:
        graph = self.ground.model.graphs[frame.graph]
        known = Known(graph)
        for operand, value in frame.values.items():
            _tell(known, operand, value)
        opened = _Open(frame, graph, _Parts(self, frame, known), origin)
        self._stack.append(opened)
        return opened

    def _advance(self) -> tuple[Value, ...] | None:
        """Handle the next operation or the end of a graph; return the outputs at the end of the model."""
        at = self._stack[-1]
        if at.frame.position == len(at.graph.operations):
            return self._end(at)
        operation = at.graph.operations[at.frame.position]
        if operation.type is OperationType.IF:
            self._branch(at, operation)
        elif operation.type is OperationType.WHILE:
            at.frame.carried = [self._value(at, operand) for operand in operation.inputs[2:]]
            at.frame.turns, at.origin = 0, None
            self._enter(at, operation.inputs[0], "test", at.frame.carried)
        else:
            self._add(at, operation)
        return None

    def _add(self, at: _Open, operation: CheckedOperation) -> None:
        try:
            at.parts.add(operation)
        except Needs as needs:
            raise _Stop(self._value(at, needs.operand), operation.place) from None
        for operand in operation.outputs:
            self._write(at, operand, self._computed(at.parts.tensor(operand)))
        at.frame.position += 1
        row = operation_table.row(operation.type)
        if row is not None and row.counted:
            count = self._computed(at.parts.counts[operation.outputs[0]])
            values = tuple(at.frame.values[operand] for operand in operation.outputs)
            self._counted = (Counted(count, values),)
            raise _Stop(count, operation.place)

    def _write(self, at: _Open, operand: int, value: Value) -> None:
        at.frame.values[operand] = value
        _tell(at.parts.known, operand, value)

    # Graphs.

    def _branch(self, at: _Open, operation: CheckedOperation) -> None:
        condition, then, otherwise, *operands = operation.inputs
        holds = self._holds(self._value(at, condition), f"{operation.place}.inputs[0]")
        values = [self._value(at, operand) for operand in operands]
        self._enter(at, then if holds else otherwise, "branch", values)

    def _enter(self, at: _Open, reference: int, role: Role, values: Sequence[Value]) -> None:
        number = at.graph.operands[reference].graph + 1
        graph = self.ground.model.graphs[number]
        for operand, value in zip(graph.inputs, values, strict=True):
            _require_fit(graph.operands[operand], value)
        self._open(Frame(number, role, dict(zip(graph.inputs, values, strict=True))))

    def _end(self, at: _Open) -> tuple[Value, ...] | None:
        outputs = [self._value(at, operand) for operand in at.graph.outputs]
        if at.frame.role == "main":
            return tuple(outputs)
        above = self._stack[-2]
        operation = above.graph.operations[above.frame.position]
        if at.frame.role == "branch":
            self._leave(above, operation, outputs)
        elif at.frame.role == "turn":
            above.frame.carried[: len(outputs)] = outputs
            self._stack.pop()
            self._enter(above, operation.inputs[0], "test", above.frame.carried)
        elif self._holds(outputs[0], f"{operation.place}.inputs[0]"):
            above.frame.turns += 1
            self._require_end(above.frame.turns, operation)
            self._stack.pop()
            self._enter(above, operation.inputs[1], "turn", above.frame.carried)
        else:
            self._leave(above, operation, above.frame.carried)
        return None

    def _leave(self, above: _Open, operation: CheckedOperation, values: Sequence[Value]) -> None:
        """Leave the innermost graph, and write the outputs of its IF or WHILE."""
        self._stack.pop()
        for operand, value in zip(operation.outputs, values, strict=False):
            _require_fit(above.graph.operands[operand], value)
            self._write(above, operand, value)
        above.frame.carried, above.frame.turns, above.origin = [], 0, None
        above.frame.position += 1

    def _holds(self, condition: Value, place: str) -> bool:
        if not condition.known:
            raise _Stop(condition, place, decides=True)
        assert condition.data is not None
        if condition.data.size != 1:
            shape = list(condition.data.shape)
            raise Refused(Fault(place, f"the condition has dimensions {shape}, must be one element", "S5"))
        return bool(condition.data.any())

    def _require_end(self, turns: int, operation: CheckedOperation) -> None:
        if turns > self._most_turns:
            raise Refused(endless(operation, self._most_turns))

    # The step.

    def _stopped(self, stop: _Stop) -> Step:
        if stop.learn in self._before:  # at hand: the walk begins anew with it
            origins = tuple(range(len(self._origin)))
            step = Step(self._before, self._origin, origins)
        else:
            step = self._made(learn=stop.learn)
        return replace(step, learn=stop.learn, place=stop.place, decides=stop.decides)

    def _made(self, results: tuple[Value, ...] | None = None, learn: Value | None = None) -> Step:
        frames = [opened.frame for opened in self._stack] if results is None else []
        self.ground.prune(frames)
        wanted = [*values_of(frames), *(results or ()), *([] if learn is None else [learn])]
        given = {id(value) for value in self._before}
        outputs = {id(value): value for value in wanted if not value.fixed and id(value) not in given}
        graph = None
        if outputs:
            graph = self.builder.graph([self._tensors[number] for number in outputs])
        return Step(
            self._before,
            tuple(frames),
            tuple(opened.origin for opened in self._stack) if frames else (),
            graph,
            tuple(self._inputs) if graph else (),
            tuple(outputs.values()),
            self._counted,
            results=results,
        )


def endless(operation: CheckedOperation, turns: int, most_ns: int | None = None) -> Fault:
    """Return the fault of a WHILE that has not ended after `turns` iterations, or within `most_ns` nanoseconds."""
    text = f"the condition of WHILE still holds after {turns} iterations (max_loop_iterations)"
    if most_ns is not None:
        text = f"WHILE has not ended within {most_ns / 1e9:g} s of simulated time (loopTimeoutDuration)"
    return Fault(operation.place, text, status=ErrorStatus.MISSED_DEADLINE_TRANSIENT)


def _without_data(value: Value) -> Value:
    """Return a value as cached steps hold it: without data, which differs from request to request."""
    return (
        value
        if value.fixed
        else Value(value.type, value.data if value.learned else None, learned=value.learned)
    )


def _tell(known: Known, operand: int, value: Value) -> None:
    """Record what is known of an operand by its value."""
    known.undecided.discard(operand)
    if value.type is None:
        known.omitted.add(operand)
        return
    known.shapes[operand] = value.type.shape
    if value.known and value.data is not None:
        known.values[operand] = value.data


def _require_fit(operand: CheckedOperand, value: Value) -> None:
    """Raise Refused for an input or output of a graph whose sizes differ from those in the model."""
    sizes = operand.dimensions
    if sizes is None or value.type is None:
        return
    shape = value.type.shape
    if len(shape) != len(sizes) or any(one and one != other for one, other in zip(sizes, shape, strict=True)):
        text = f"has dimensions {list(sizes)}, gets a value of {list(shape)}"
        raise Refused(Fault(f"{operand.place}.dimensions", text, "S5"))
