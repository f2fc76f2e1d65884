"""The state that instructions read and write: the memories, and the host's functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.instructions.instruction import Space
from npusim.isa.program.program import HostCall, Image, MemoryImage, Placement, Program

Write = tuple[NDArray[Any], NDArray[Any]]
"""A view of memory and the values that go there when the instruction completes."""

HostFunction = Callable[
    [Mapping[str, Any], Sequence[TensorType | None], Sequence[TensorType], Sequence[Array | None]],
    Sequence[Array],
]
"""What the host computes: (attributes, input types, output types, input values) -> output values."""


class Memory:
    """The memories of one execution of one program."""

    def __init__(self, program: Program, host_functions: Mapping[str, HostFunction]) -> None:
        self.spaces = {
            space: np.zeros(program.memory_bytes(space), np.uint8) for space in program.hardware.spaces
        }
        self._put_images(program.images, program.constants)
        self.host_calls = program.host_calls
        self.host_functions = host_functions
        self.places = program.inputs
        self.states = program.states

    def _put_images(self, images: Sequence[MemoryImage], constants: bytes | Image) -> None:
        places = [self.bytes_at(Space(image.space), image.address, image.size_bytes) for image in images]
        if isinstance(constants, Image) and len(places) == 1:
            constants.write_to(places[0])
            return
        begin, content = 0, np.frombuffer(bytes(constants), np.uint8)
        for place in places:
            place[:] = content[begin : begin + len(place)]
            begin += len(place)

    def view(
        self, space: Space, address: int, shape: Sequence[int], strides: Sequence[int], dtype: Any
    ) -> NDArray[Any]:
        """A strided view of memory; `strides` in bytes. Raises ValueError outside the memory."""
        return np.ndarray(shape, dtype, self.spaces[space], address, strides)

    def bytes_at(self, space: Space, address: int, size_bytes: int) -> NDArray[np.uint8]:
        """`size_bytes` contiguous bytes."""
        return self.spaces[space][address : address + size_bytes]

    def load(self, placement: Placement) -> Array:
        """The tensor stored at `placement`, copied."""
        raw = self._bytes_of(placement)
        return raw.copy().view(placement.type.numpy_dtype).reshape(placement.type.shape)

    def load_each(self, placements: Sequence[Placement]) -> tuple[Array, ...]:
        """The tensors stored at `placements`; those of the same bytes share one copy of them, read-only."""
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
        """Put a tensor at `placement`."""
        raw = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
        self._bytes_of(placement)[:] = raw

    def _bytes_of(self, place: Placement) -> NDArray[np.uint8]:
        return self.bytes_at(Space(place.space), place.address, place.type.size_bytes)

    def store_inputs(self, inputs: Sequence[Array] | None) -> None:
        """Put the model's inputs at their places. Raises SimulationError on a wrong number, dtype or shape."""
        given = () if inputs is None else inputs
        if len(given) != len(self.places):
            names = ", ".join(place.name for place in self.places)
            raise SimulationError(f"{len(given)} inputs given, the program takes {len(self.places)}: {names}")
        for place, value in zip(self.places, given, strict=True):
            if value.dtype != place.type.numpy_dtype or value.shape != place.type.shape:
                raise SimulationError(
                    f'input "{place.name}": is {value.dtype}{list(value.shape)}, '
                    f"must be {place.type.dtype}{list(place.type.shape)}"
                )
            self.store(place, value)

    def store_states(self, states: Sequence[Array | None]) -> None:
        """Put values of the program's states at their places; those that are None begin as the program has them.

        Raises SimulationError on a wrong number, dtype or shape.
        """
        if len(states) != len(self.states):
            raise SimulationError(f"{len(states)} states given, the program has {len(self.states)}")
        for place, value in zip(self.states, states, strict=True):
            if value is None:
                continue
            if value.dtype != place.type.numpy_dtype or value.shape != place.type.shape:
                raise SimulationError(
                    f'state "{place.name}": is {value.dtype}{list(value.shape)}, '
                    f"must be {place.type.dtype}{list(place.type.shape)}"
                )
            self.store(place, value)

    def call_host(self, index: int) -> list[Write]:
        """Run one operator on the host with its operands."""
        call: HostCall = self.host_calls[index]
        function = self.host_functions.get(call.op)
        if function is None:
            known = ", ".join(sorted(self.host_functions)) or "none"
            raise SimulationError(
                f'host call "{call.name}": no host function "{call.op}"; there are: {known}'
            )
        values = [None if place is None else self.load(place) for place in call.inputs]
        types = [None if place is None else place.type for place in call.inputs]
        results = function(call.attributes, types, [place.type for place in call.outputs], values)
        writes: list[Write] = []
        for place, value in zip(call.outputs, results, strict=True):
            if value.shape != place.type.shape or value.dtype != place.type.numpy_dtype:
                raise SimulationError(
                    f'host call "{call.name}": {call.op} gave {value.dtype}{list(value.shape)}, '
                    f"the program expects {place.type.dtype}{list(place.type.shape)}"
                )
            raw = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            writes.append((self._bytes_of(place), raw))
        return writes


def commit(writes: Sequence[Write]) -> None:
    """Make the results of an instruction visible."""
    for target, values in writes:
        target[...] = values
