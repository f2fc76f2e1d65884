"""Executions: a compiled model with its inputs and outputs, and what a run of it gives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, text_of
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.nnadapter.compilation import Compilation
from npusim.nnadapter.device_result import Result
from npusim.nnadapter.hal import events
from npusim.nnadapter.hal.caller_memory import Access, Slot, array_of, of_array, read, write


class _Bound(NamedTuple):
    """Memory of the caller that stands for an input or output."""

    memory: Any
    access: Access


class Execution:
    """An execution of a compilation: synchronous and repeatable. Several executions may share a compilation."""

    def __init__(self, compilation: Compilation) -> None:
        """Raises InvalidParameter for a compilation that is not finished."""
        if not isinstance(compilation, Compilation):
            raise InvalidParameter(f"compilation: is {text_of(compilation)}, must be a Compilation")
        self._types = compilation.query_inputs_and_outputs()
        self._compilation = compilation
        self._inputs: dict[int, _Bound] = {}
        self._outputs: dict[int, _Bound] = {}
        self._destroyed = False

    def set_input(
        self, index: int, array: Any = None, *, memory: Any = None, access: Access | None = None
    ) -> None:
        """Set input `index` for the next runs; a later call replaces its value.

        array:  its elements, in the operand's element type. If the model has open sizes and no gears, the next run
                compiles it for a shape that is new.
        memory: instead of an array, any object of the caller, with
        access: (memory, type) -> buffer, which writes the real dimensions into `type`.

        Raises InvalidParameter.
        """
        self._inputs[self._index(index, self._types.inputs, "input")] = self._bound(
            array, memory, access, self._types.inputs, index, "input"
        )

    def set_output(
        self, index: int, array: Any = None, *, memory: Any = None, access: Access | None = None
    ) -> None:
        """Set where output `index` is written; without a call each run allocates a new array.

        array:  of its type and shape, or a flat array that is large enough.
        memory: instead of an array, any object of the caller, with
        access: (memory, type) -> buffer; `type` has type and dimensions of the output.

        Raises InvalidParameter.
        """
        place = self._index(index, self._types.outputs, "output")
        if array is None and access is None and memory is None:
            slot = Slot()
            self._outputs[place] = _Bound(slot, slot.access)
            return
        bound = self._bound(array, memory, access, self._types.outputs, index, "output")
        if isinstance(bound.memory, np.ndarray) and not bound.memory.flags.writeable:
            raise InvalidParameter(f"output {index}: the array cannot be written")
        self._outputs[place] = bound

    def compute(self) -> Result:
        """Run the model and write the outputs.

        Raises InvalidParameter for inputs that are not set or whose memory has no elements, InvalidDimensions for
        shapes that the model was not compiled for, and what a device raises.
        """
        self._require_open()
        for index in range(len(self._types.inputs)):
            if index not in self._inputs:
                raise InvalidParameter(f"input {index}: is not set")
        arrays = [
            read(bound.memory, bound.access, self._types.inputs[index], f"input {index}")
            for index, bound in sorted(self._inputs.items())
        ]
        gear = self._compilation.gear_for(tuple(array.shape for array in arrays))
        result = self._compilation.run(gear, arrays)
        events.log(events.RUNS, lambda: f"run: {result}")
        for index, array in enumerate(result.outputs):
            bound = self._outputs.get(index)
            if bound is not None:
                write(bound.memory, bound.access, self._types.outputs[index], array, f"output {index}")
        return result

    def require_outputs(self) -> None:
        """Raise InvalidParameter for an output without memory, which the C interface demands."""
        self._require_open()
        for index in range(len(self._types.outputs)):
            if index not in self._outputs:
                raise InvalidParameter(f"output {index}: is not set")

    @property
    def destroyed(self) -> bool:
        """Whether `destroy` was called."""
        return self._destroyed

    def destroy(self) -> None:
        """Release inputs and outputs; the execution cannot be used afterwards."""
        self._destroyed = True
        self._inputs, self._outputs = {}, {}

    def _require_open(self) -> None:
        if self._destroyed:
            raise InvalidParameter("execution: is destroyed")
        self._compilation.query_inputs_and_outputs()

    def _index(self, index: object, types: list[OperandType], what: str) -> int:
        self._require_open()
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise InvalidParameter(f"{what} {text_of(index)}: must be a whole number")
        if not 0 <= index < len(types):
            may = f"must be 0..{len(types) - 1}" if types else f"the model has no {what}s"
            raise InvalidParameter(f"{what} {index}: {may}")
        return int(index)

    def _bound(
        self,
        array: Any,
        memory_: Any,
        access: Access | None,
        types: list[OperandType],
        index: int,
        what: str,
    ) -> _Bound:
        if access is not None:
            if not callable(access):
                raise InvalidParameter(f"{what} {index}: access is {text_of(access)}, must be a function")
            if array is not None:
                raise InvalidParameter(f"{what} {index}: an array and access are given, may be one of them")
            return _Bound(memory_, access)
        if memory_ is not None:
            raise InvalidParameter(f"{what} {index}: access is missing, memory needs it")
        if array is None:
            raise InvalidParameter(f"{what} {index}: neither an array nor memory is given")
        if what == "output" and not isinstance(array, np.ndarray):
            raise InvalidParameter(f"{what} {index}: is {type(array).__name__}, must be an array")
        return _Bound(array_of(array, types[index], f"{what} {index}"), of_array)
