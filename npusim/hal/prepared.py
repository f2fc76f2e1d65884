"""Prepared models: a model on a device, compiled as far as it is known, and its executions.

An execution is a sequence of steps (`npusim.hal.walk`). A model without open sizes and decisions is one step, which is
compiled to one program when the model is prepared. If sizes come from the request, or the next step depends on data,
steps are compiled when an execution first reaches them, and cached. A value that another program has left in memory, or
read before, is copied by the DMA. The host reads values that decide.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from npusim.frontends.nn_hal import field_values
from npusim.frontends.nn_hal.checked import CheckedArgument, CheckedModel, CheckedOperand, CheckedRequest
from npusim.frontends.nn_hal.enumerations import ErrorStatus, LoopTimeoutDurationNs
from npusim.frontends.nn_hal.fault import Fault, Refused, Result
from npusim.frontends.nn_hal.model_check import OPERATIONS, faults
from npusim.frontends.nn_hal.operations import operation_table
from npusim.frontends.nn_hal.operations.named_arguments import Known, tensor_type
from npusim.frontends.nn_hal.request import check_request, reader_in_need
from npusim.frontends.nn_hal.structs import OutputShape
from npusim.hal.frames import Frame, Frames, Ground, Value, execution_state, replaced, values_of
from npusim.hal.launches import Execution, Stage, Target, host_access, timing, transfer
from npusim.hal.walk import Counted, Step, Walk, endless
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.numbers.staged import Launch
from npusim.session.host import one_blas_thread

_STEPS = 1024
"""Number of steps of a model that are cached."""

_LAYER = re.compile(r"((?:referenced\[\d+\]\.)?operations\[\d+\])(?:_\d+)?(?=: )")
"""The layer name at the beginning of a message: an operation, with a number if it has several layers."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A step and its compiled graph."""

    step: Step
    stage: Stage | None


class PreparedModel:
    """A model on a device. It caches compiled programs, but no data of executions."""

    def __init__(
        self,
        model: CheckedModel,
        target: Target,
        most_turns: int,
        unavailable: Callable[[], str],
        working: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Check the operations of a model, and compile it as far as its shapes are known without a request.

        model:       one that passed the checks that do not depend on the meaning of operations.
        unavailable: returns why the device cannot be used, or "".
        working:     makes the device BUSY within a `with` block.

        Raises Refused for operations that break a rule, or that npusim does not have, and NpusimError.
        """
        self._model, self._target, self._most_turns = model, target, most_turns
        self._unavailable, self._working = unavailable, working
        self._ground = Ground(model)
        self._steps: OrderedDict[Any, _Compiled] = OrderedDict()
        self._prepare()

    def _prepare(self) -> None:
        """Compile the first step, if the model gives all sizes of its inputs.

        Compiling it checks all operations if it is the only step and no branch can be skipped.
        """
        values = {
            operand: _unbound(self._model.main.operands[operand]) for operand in self._model.main.inputs
        }
        known = {operand: value for operand, value in values.items() if value is not None}
        step = None
        try:
            if len(known) == len(values):
                step = self._walked(frames := [Frame(0, "main", known)])
        except Refused as refused:
            if refused.fault.status is not ErrorStatus.INVALID_ARGUMENT or self._may_omit():
                self._check_operations()
            if not self._may_omit():
                raise
        if step is None or step.results is None or self._model.referenced:
            self._check_operations()
        if step is not None:
            self._steps[execution_state(frames, values_of(frames))] = self._compiled(step)

    def _may_omit(self) -> bool:
        """Return True if a request may omit inputs; such a request may be valid although one with all inputs is not."""
        operands = self._model.main.operands
        return not all(reader_in_need(operands[index], self._model) for index in self._model.main.inputs)

    def _check_operations(self) -> None:
        for fault in faults(self._model, OPERATIONS):
            raise Refused(fault)

    def execute(self, request: object, loopTimeoutDuration: object = None) -> Result[Execution | None]:
        """Run the model on a `Request`: read inputs from its pools and write outputs into them.

        loopTimeoutDuration: nanoseconds of simulated time that a WHILE may take from the first evaluation of its
                             condition. `LoopTimeoutDurationNs` has the default, and the maximum that caps it.
        """
        if text := self._unavailable():
            return Result(ErrorStatus.DEVICE_UNAVAILABLE, None, text)
        with self._working():
            return refusing(lambda: self._execute(request, loopTimeoutDuration))

    def _execute(self, request: object, loop_timeout: object) -> Result[Execution | None]:
        checked = check_request(request, self._model)
        if isinstance(checked, Fault):
            raise Refused(checked)
        run = _Run(self, checked, _nanoseconds(loop_timeout))
        with one_blas_thread(self._target.timing_only):
            results = run.results()
        shapes, short = [], ""
        for argument, value in zip(checked.outputs, results, strict=True):
            try:
                text = _too_short(argument, value)
            except Refused as refused:
                raise Refused(self._hinted(refused.fault, argument)) from None
            shapes.append(OutputShape(list(_shape(value)), not text))
            short = short or text
        outputs = None if self._target.timing_only else [_data(value) for value in results]
        done = Execution(
            shapes,
            timing(run.launches, self._target.hardware),
            "model",
            tuple(run.launches),
            None if outputs is None else tuple(outputs),
        )
        if short:
            return Result(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, done, short)
        for argument, data in zip(checked.outputs, outputs or (), strict=False):
            raw = np.frombuffer(data.tobytes(), np.uint8)
            assert argument.bytes is not None
            argument.bytes[: raw.size] = raw
        return Result(ErrorStatus.NONE, done)

    def _hinted(self, fault: Fault, argument: CheckedArgument) -> Fault:
        """Return the fault of an output, with the hint of the operation that writes it, if it has one."""
        graph, operand = self._model.main, argument.operand.index
        for operation in graph.operations:
            row = operation_table.row(operation.type)
            if operand in operation.outputs and row is not None:
                known = Known(graph)
                known.shapes[operand] = argument.dimensions
                call = row.call(operation, known, self._model.version, self._model.referenced)
                return fault if isinstance(call, Fault) else row.hinted(fault, call)
        return fault

    # Steps.

    @property
    def target(self) -> Target:
        """The hardware and options that it is compiled with."""
        return self._target

    def first(self, request: CheckedRequest) -> Frames:
        """Return the frames of an execution before its first step."""
        values = {argument.operand.index: _given(argument) for argument in request.inputs}
        return [Frame(0, "main", values)]

    def follow(self, frames: Frames, values: list[Value]) -> _Compiled:
        """Return the next step of an execution, from the cache or compiled; values: those of the frames."""
        state = execution_state(frames, values)
        step = self._steps.get(state)
        if step is None:
            step = self._steps[state] = self._compiled(self._walked(frames))
            if len(self._steps) > _STEPS:
                self._steps.popitem(last=False)
        else:
            self._steps.move_to_end(state)
        return step

    def _walked(self, frames: Frames) -> Step:
        return Walk(self._ground, frames, "model", self._most_turns).step()

    def _compiled(self, step: Step) -> _Compiled:
        return _Compiled(step, None if step.graph is None else Stage(step.graph, self._target))

    def check_loops(self, frames: Frames, cycles: int, most_ns: int) -> None:
        """Raise Refused if a WHILE has had too many iterations, or has taken too much time at this cycle."""
        us_of_cycles = self._target.hardware.us_of_cycles
        for frame in frames:
            late = frame.carried and us_of_cycles(cycles - frame.began) * 1000 > most_ns
            if late or frame.turns > self._most_turns:
                operation = self._model.graphs[frame.graph].operations[frame.position]
                raise Refused(endless(operation, self._most_turns, most_ns if late else None))

    ended = check_loops
    """The name of `check_loops` in 0.2.0."""


class _Run:
    """One execution, step by step; `launches` are the programs that ran."""

    def __init__(self, model: PreparedModel, request: CheckedRequest, loop_timeout_ns: int) -> None:
        self.launches: list[Launch] = []
        self._loop_timeout_ns = loop_timeout_ns
        self._counted, self._cycles = 0, 0
        self._model = model
        self._hardware = model.target.hardware
        self._frames = model.first(request)

    def results(self) -> list[Value]:
        """Run all steps, and return the outputs of the model."""
        while True:
            values = values_of(self._frames)
            step, stage = (compiled := self._model.follow(self._frames, values)).step, compiled.stage
            now = {id(before): value for before, value in zip(step.before, values, strict=True)}
            if stage is not None:
                self._launch(step, stage, now)
            if step.results is not None:
                return self._written([now.get(id(value), value) for value in step.results])
            if step.learn is not None:
                self._learn(step, now[id(step.learn)])
            self._frames = [
                self._moved(frame, origin, now)
                for frame, origin in zip(step.frames, step.origins, strict=True)
            ]
            self._model.check_loops(self._frames, self._now(), self._loop_timeout_ns)

    def _now(self) -> int:
        """Return the cycles of all launches so far."""
        self._cycles += sum(launch.execution.cycles for launch in self.launches[self._counted :])
        self._counted = len(self.launches)
        return self._cycles

    def _written(self, results: list[Value]) -> list[Value]:
        """Write constant outputs by the host, copy outputs that are in another place, and return all outputs."""
        for value in results:
            if value.fixed and value.type is not None:
                self.launches.append(host_access(self._hardware, value.type.size_bytes, "write"))
        self._copy([value for value in results if not value.fixed and (value.shared or not value.computed)])
        return results

    def _copy(self, values: list[Value]) -> None:
        sizes = [value.type.size_bytes for value in values if value.type is not None]
        if any(sizes):
            self.launches.append(transfer(self._hardware, tuple(size for size in sizes if size)))

    def _moved(self, frame: Frame, origin: int | None, now: dict[int, Value]) -> Frame:
        moved = replaced(frame, now)
        moved.began = self._now()
        if origin is not None:
            moved.turns += self._frames[origin].turns
            moved.began = self._frames[origin].began
        return moved

    def _launch(self, step: Step, stage: Stage, now: dict[int, Value]) -> None:
        inputs = [now[id(value)] for value in step.inputs]
        self._copy([value for value in inputs if value.placed])
        given = None if self._model.target.timing_only else [_data(value) for value in inputs]
        launch, arrays = stage.run(given)
        self.launches.append(launch)
        for value in inputs:
            value.placed = True
        for position, output in enumerate(step.outputs):
            data = None if arrays is None else arrays[position]
            now[id(output)] = Value(
                output.type, data, placed=True, computed=True, shared=stage.shared[position]
            )
        for counted in step.counted:
            _cut(counted, now)

    def _learn(self, step: Step, value: Value) -> None:
        if value.data is None:
            text = "depends on data, and a device that only times computes none"
            raise Refused(Fault(step.place, text, status=ErrorStatus.GENERAL_FAILURE))
        value.learned = True
        if value.computed or step.decides:
            what = "decide" if step.decides else "read"
            self.launches.append(host_access(self._hardware, value.data.nbytes, what))


def _cut(counted: Counted, now: dict[int, Value]) -> None:
    """Cut values to the number of rows that an operation has counted."""
    count = now[id(counted.rows)].data
    if count is None:
        return
    for value in counted.values:
        cut = now.get(id(value))
        if cut is not None and cut.data is not None and cut.type is not None:
            cut.data = cut.data[: int(count.reshape(-1)[0])]
            cut.type = type(cut.type)(cut.type.dtype, cut.data.shape, cut.type.quantization)


def refusing(call: Callable[[], Result[Any]]) -> Result[Any]:
    """Return the result of a call, or a status with a message for the exception that it raises."""
    try:
        return call()
    except Refused as refused:
        return Result(refused.fault.status, None, refused.fault.message)
    except NpusimError as error:
        place = _LAYER.match(str(error))
        text = f"{place[1]}{str(error)[place.end() :]}" if place else f"model: {error}"
        return Result(ErrorStatus.GENERAL_FAILURE, None, text)
    except Exception as error:  # a fault of npusim, which a caller of the HAL gets as a status too
        text = f"model: npusim itself fails: {type(error).__name__}: {error}; please report it"
        return Result(ErrorStatus.GENERAL_FAILURE, None, text)


# Values and memory.


def _nanoseconds(loop_timeout: object) -> int:
    """Return the loop timeout of an execution in nanoseconds, at most the maximum. Raises Refused if it is invalid."""
    if loop_timeout is None:
        return LoopTimeoutDurationNs.DEFAULT
    try:
        given = field_values.integer("loopTimeoutDuration", loop_timeout, 0, (1 << 64) - 1)
    except field_values.Broken as broken:
        raise Refused(broken.fault) from None
    return min(given, LoopTimeoutDurationNs.MAXIMUM)


def _unbound(operand: CheckedOperand) -> Value | None:
    """Return the value of an input whose sizes the model states; None if it leaves one open."""
    if not operand.known or operand.dimensions is None:
        return None
    return Value(tensor_type(operand, operand.dimensions))


def _given(argument: CheckedArgument) -> Value:
    """Return the value of an input of a request."""
    if argument.bytes is None:
        return Value(None)
    assert argument.dimensions is not None
    kind = tensor_type(argument.operand, argument.dimensions)
    raw = np.frombuffer(argument.bytes.tobytes(), np.uint8)
    if kind.dtype == "bool":
        return Value(kind, (raw != 0).reshape(kind.shape))
    return Value(kind, raw.view(kind.numpy_dtype).reshape(kind.shape))


def _data(value: Value) -> Array:
    assert value.data is not None
    return value.data


def _shape(value: Value) -> tuple[int, ...]:
    assert value.type is not None
    return value.type.shape


def _too_short(argument: CheckedArgument, value: Value) -> str:
    """Return the message for an output buffer that is too short, or "". Raises Refused for other sizes."""
    dimensions, shape = argument.dimensions, _shape(value)
    if dimensions is not None and not (
        len(dimensions) == len(shape)
        and all(stated in (0, size) for stated, size in zip(dimensions, shape, strict=True))
    ):
        text = f"are {list(dimensions)}, the output has {list(shape)}"
        raise Refused(Fault(f"{argument.place}.dimensions", text, "R8"))
    assert value.type is not None
    assert argument.bytes is not None
    needed = value.type.size_bytes
    if argument.bytes.size >= needed:
        return ""
    return f"{argument.place}.location.length: is {argument.bytes.size}, the output {list(shape)} has {needed} bytes"
