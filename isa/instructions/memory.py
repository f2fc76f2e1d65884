"""The state that instructions read and write: memory contents and host functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import OperandFault, SimulationError
from npusim.isa.base.tensor import Array, HostCall, Placement, TensorType
from npusim.isa.instructions.region import Space

Write = tuple[NDArray[Any], NDArray[Any]]
"""A view of memory and the values that go there when the instruction completes."""

HostFunction = Callable[
    [Mapping[str, Any], Sequence[TensorType | None], Sequence[TensorType], Sequence[Array | None]],
    Sequence[Array],
]
"""A function that the host computes: (parameters, input types, output types, input values) -> output values."""


class Spaces:
    """The contents of memories, by number, with access to tensors in them."""

    def __init__(self, spaces: dict[Space, NDArray[np.uint8]]) -> None:
        self.spaces = spaces

    def view(
        self, space: Space, address: int, shape: Sequence[int], strides: Sequence[int], dtype: Any
    ) -> NDArray[Any]:
        """Return a strided view of memory; `strides` in bytes. Raises ValueError outside the memory."""
        return np.ndarray(shape, dtype, self.spaces[space], address, strides)

    def bytes_at(self, space: Space, address: int, size_bytes: int) -> NDArray[np.uint8]:
        """Return a view of `size_bytes` contiguous bytes."""
        return self.spaces[space][address : address + size_bytes]

    def bytes_of(self, place: Placement) -> NDArray[np.uint8]:
        """Return a view of the bytes of a tensor."""
        return self.bytes_at(Space(place.space), place.address, place.type.size_bytes)

    def load(self, placement: Placement) -> Array:
        """Return a copy of the tensor stored at `placement`."""
        raw = self.bytes_of(placement)
        return raw.copy().view(placement.type.numpy_dtype).reshape(placement.type.shape)

    def load_each(self, placements: Sequence[Placement]) -> tuple[Array, ...]:
        """Return copies of the tensors stored at `placements`. Tensors of the same bytes share one read-only copy."""
        ranges = [(Space(place.space), place.address, place.type.size_bytes) for place in placements]
        copies = {span: self.bytes_at(*span).copy() for span in dict.fromkeys(ranges)}
        if len(copies) < len(ranges):
            times = Counter(ranges)
            for span, copy in copies.items():
                copy.flags.writeable = times[span] == 1
        return tuple(
            copies[span].view(place.type.numpy_dtype).reshape(place.type.shape)
            for span, place in zip(ranges, placements, strict=True)
        )

    def store(self, placement: Placement, value: Array) -> None:
        """Store a tensor at `placement`."""
        raw = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
        self.bytes_of(placement)[:] = raw


class Memory(Spaces):
    """The memories as a program sees them.

    They are its own arrays or, in a system, the scratchpad of a core and windows into the shared memories.
    """

    def __init__(
        self,
        spaces: dict[Space, NDArray[np.uint8]],
        *,
        inputs: Sequence[Placement] = (),
        states: Sequence[Placement] = (),
        host_calls: Sequence[HostCall] = (),
        host_functions: Mapping[str, HostFunction] | None = None,
    ) -> None:
        super().__init__(spaces)
        self.inputs, self.states = inputs, states
        self.host_calls, self.host_functions = host_calls, host_functions or {}

    def store_inputs(self, inputs: Sequence[Array] | None) -> None:
        """Store the model's inputs. Raises SimulationError for a wrong number, dtype or shape."""
        values = () if inputs is None else inputs
        check_values("input", self.inputs, values)
        for place, value in zip(self.inputs, values, strict=True):
            self.store(place, value)

    def store_states(self, states: Sequence[Array | None]) -> None:
        """Store values of the program's states. A state whose value is None keeps the program's initial value.

        Raises SimulationError for a wrong number, dtype or shape.
        """
        check_values("state", self.states, states)
        for place, value in zip(self.states, states, strict=True):
            if value is not None:
                self.store(place, value)

    def call_host(self, index: int) -> list[Write]:
        """Run one operator on the host and return its writes. Raises OperandFault for values that it rejects.

        index: row of the program's host-call table.
        """
        call: HostCall = self.host_calls[index]
        function = self.host_functions.get(call.op)
        if function is None:
            known = ", ".join(sorted(self.host_functions)) or "none"
            raise SimulationError(
                f'host call "{call.name}": no host function "{call.op}"; there are: {known}'
            )
        values = [None if place is None else self.load(place) for place in call.inputs]
        types = [None if place is None else place.type for place in call.inputs]
        try:
            results = function(call.parameters, types, [place.type for place in call.outputs], values)
        except SimulationError as fault:
            raise OperandFault(str(fault)) from None
        writes: list[Write] = []
        for place, value in zip(call.outputs, results, strict=True):
            if value.shape != place.type.shape or value.dtype != place.type.numpy_dtype:
                raise SimulationError(
                    f'host call "{call.name}": {call.op} gave {value.dtype}{list(value.shape)}, '
                    f"the program expects {place.type.dtype}{list(place.type.shape)}"
                )
            raw = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            writes.append((self.bytes_of(place), raw))
        return writes


def commit(writes: Sequence[Write]) -> None:
    """Make the results of an instruction visible."""
    for target, values in writes:
        target[...] = values


def check_values(what: str, places: Sequence[Placement], values: Sequence[Array | None]) -> None:
    """Raise SimulationError for a wrong number, dtype or shape of values for tensors; None stands for no value.

    what: "input" or "state", for the message.
    """
    if len(values) != len(places):
        names = f": {', '.join(place.name for place in places)}" if what == "input" else ""
        verb = "takes" if what == "input" else "has"
        raise SimulationError(f"{len(values)} {what}s given, the program {verb} {len(places)}{names}")
    for place, value in zip(places, values, strict=True):
        if value is not None and (value.dtype != place.type.numpy_dtype or value.shape != place.type.shape):
            raise SimulationError(
                f'{what} "{place.name}": is {value.dtype}{list(value.shape)}, '
                f"must be {place.type.dtype}{list(place.type.shape)}"
            )
