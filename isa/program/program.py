"""The program: all that the machine sees. Encoded instructions, memory images, and what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import HostCall, Placement, distinct_names
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import WORKERS
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.word import WORD_BYTES

UNKNOWN = "unknown "
"""In front of the name of an operator that npusim does not have: a host layer that is timed by its bytes alone."""

LAYER_UNITS = (*(kind.name for kind in WORKERS), "none")
"""What does the main work of a layer; "none" is free."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator of the source model. `unit` is one of LAYER_UNITS.

    tensors:       names of the tensors that it computes.
    input_shapes:  of its operands that are no constants, by position.
    output_shapes: of its results.
    kernel, stride: height and width of a window that slides over an image, and its steps; else empty.
    """

    name: str
    op: str
    unit: str
    workload: Workload
    tensors: tuple[str, ...] = ()
    input_shapes: tuple[tuple[int, ...], ...] = ()
    output_shapes: tuple[tuple[int, ...], ...] = ()
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """A part of the scratchpad and the span of instructions during which it is in use."""

    name: str
    address: int
    size_bytes: int
    first_instruction: int
    last_instruction: int


class Piece(NamedTuple):
    """Bytes of an image, made when they are needed; None for bytes that nobody has, of the constant `of`."""

    size_bytes: int
    make: Callable[[], bytes] | None
    of: str = ""


MOST_NAMED = 8
"""Of further constants that are not there, so many are named."""


@dataclass(frozen=True, slots=True)
class Blank:
    """What a program has in the place of constants that are known by their size only: it can be timed, not run.

    of:     which constant that is, or the first of them, such as 'of layer "conv"'.
    others: the further ones.
    """

    size_bytes: int
    of: str
    others: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """What is missing, as messages say it."""
        named = ", ".join(self.others[:MOST_NAMED]) + (", ..." if len(self.others) > MOST_NAMED else "")
        more = f", as {len(self.others)} more ({named})," if self.others else ""
        return f"constant {self.of}{more} is known by its size only"

    def __len__(self) -> int:
        return self.size_bytes

    def __bytes__(self) -> bytes:
        raise self._error()

    def write_to(self, target: NDArray[np.uint8]) -> None:
        """Raises SimulationError: there is nothing to put anywhere."""
        raise self._error()

    def _error(self) -> SimulationError:
        return SimulationError(f"{self.why}: the program can be timed, not run or written as text")


LARGEST_KEPT_BYTES = 1 << 28
"""An image of more bytes takes less time to make again than memory to keep."""


class Image:
    """The bytes of pieces, one after the other, made when they are first read.

    A run without data only asks how many there are, and packing weights takes longer than such a run.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._pieces = tuple(pieces)
        self._size_bytes = sum(piece.size_bytes for piece in self._pieces)
        self._content: bytes | None = None

    def __len__(self) -> int:
        return self._size_bytes

    def __bytes__(self) -> bytes:
        if self._content is None:
            content = b"".join([_made(piece) for piece in self._pieces])
            self._content, self._pieces = content, ()
        return self._content

    def write_to(self, target: NDArray[np.uint8]) -> None:
        """Put the bytes into `target`, which has as many; a large image is made anew each time, not kept beside it."""
        if self._content is None and self._size_bytes > LARGEST_KEPT_BYTES:
            end = 0
            for piece in self._pieces:
                begin, end = end, end + piece.size_bytes
                target[begin:end] = np.frombuffer(_made(piece), np.uint8)
            return
        target[:] = np.frombuffer(bytes(self), np.uint8)

    def __eq__(self, other: object) -> bool:
        return bytes(self) == bytes(other) if isinstance(other, Image | bytes) else NotImplemented

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        return bytes, (bytes(self),)


def _made(piece: Piece) -> bytes:
    if piece.make is None:
        raise ValueError("an image has pieces that nobody can make")
    content = piece.make()
    if len(content) != piece.size_bytes:
        raise ValueError(f"a piece of the image has {len(content)} bytes, it was to have {piece.size_bytes}")
    return content


@dataclass(frozen=True, slots=True)
class MemoryImage:
    """Bytes that a memory, the DRAM if no other is named, holds before a program begins."""

    address: int
    size_bytes: int
    space: int = 1

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.address + self.size_bytes


@dataclass(frozen=True, slots=True)
class Area:
    """What a program uses of a memory: so many bytes from address 0 on."""

    space: int
    size_bytes: int


@dataclass(frozen=True)
class Program:
    """An executable image.

    code:          uint8 [instructions, WORD_BYTES], in program order; fetched from `code_address` of the memory
                   `code_space`.
    constants:     weights and parameters: the bytes of `images`, one image after the other; `Blank` if it can only be
                   timed.
    images:        where `constants` lie before the program begins.
    layer_of:      uint32 [instructions], index into `layers` of the layer each instruction works for.
    dram_size_bytes: DRAM that the program uses: constants, activations, inputs, outputs, code.
    areas:         what it uses of further memories; all of one that is not listed.
    spared:        of constants in a memory, bytes with addresses that take no room: the bits of weights beyond
                   `mac_array.weight_bits`, which the model has and the hardware has not.
    states:        tensors that keep their values from one inference to the next; they begin with those in `constants`.
    notes:         what the reader of the model had to say, a line each.
    """

    name: str
    hardware: Hardware
    code: NDArray[np.uint8]
    constants: bytes | Image | Blank
    dram_size_bytes: int
    code_address: int
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    layers: tuple[Layer, ...]
    layer_of: NDArray[np.uint32]
    host_calls: tuple[HostCall, ...] = ()
    buffers: tuple[Buffer, ...] = field(default=())
    images: tuple[MemoryImage, ...] = ()
    states: tuple[Placement, ...] = ()
    code_space: int = 1
    areas: tuple[Area, ...] = ()
    spared: tuple[Area, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def context(self) -> Context:
        """What the rows of its instructions are told, on its own hardware."""
        return Context(self.hardware, self.host_calls)

    def layer_name(self, instruction: int) -> str:
        """The name of the layer that an instruction works for."""
        return self.layers[int(self.layer_of[instruction])].name

    @property
    def timing_only(self) -> bool:
        """Whether it can be timed, not run: some constants are known by their size only."""
        return isinstance(self.constants, Blank)

    @property
    def instructions(self) -> int:
        """Number of instructions."""
        return len(self.code)

    def memory_bytes(self, space: Space) -> int:
        """Bytes of a memory of its machine that the program may touch."""
        if space == Space.DRAM:
            return self.dram_size_bytes
        used = [area.size_bytes for area in self.areas if area.space == space]
        return used[0] if used else self.hardware.memory_bytes(space)

    def spared_bytes(self, space: Space | None = None) -> int:
        """Bytes of `spared`, of one memory or all."""
        return sum([area.size_bytes for area in self.spared if space in (None, area.space)])

    @property
    def constants_bytes(self) -> int:
        """Room that the constants take in their memories."""
        return len(self.constants) - self.spared_bytes()

    @property
    def dram_room_bytes(self) -> int:
        """Room that the program takes in the DRAM."""
        return self.dram_size_bytes - self.spared_bytes(Space.DRAM)

    def constants_at(self, space: int, address: int, size_bytes: int) -> bytes:
        """Bytes that a memory holds before the program begins. Raises ValueError where no image has them all."""
        begin = 0
        for image in self.images:
            start = address - image.address
            if image.space == space and 0 <= start <= image.size_bytes - size_bytes:
                return bytes(self.constants)[begin + start : begin + start + size_bytes]
            begin += image.size_bytes
        raise ValueError(f"no image holds bytes {address}..{address + size_bytes - 1} of memory {space}")

    def is_constant(self, space: int, address: int) -> bool:
        """Whether a byte is one of `constants`."""
        return any(image.space == space and image.address <= address < image.end for image in self.images)

    @property
    def unknown_operators(self) -> dict[str, int]:
        """Operators that npusim does not have, with their counts: they are timed, nothing is computed."""
        found = Counter(
            layer.op.removeprefix(UNKNOWN) for layer in self.layers if layer.op.startswith(UNKNOWN)
        )
        return dict(sorted(found.items()))

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the states, all different."""
        return distinct_names(self.states)

    @property
    def code_size_bytes(self) -> int:
        """Bytes of all instructions."""
        return len(self.code) * WORD_BYTES

    @property
    def scratchpad_peak_bytes(self) -> int:
        """Most scratchpad bytes in use at one time."""
        changes: dict[int, int] = {}
        for buffer in self.buffers:
            for position, size in (
                (buffer.first_instruction, buffer.size_bytes),
                (buffer.last_instruction + 1, -buffer.size_bytes),
            ):
                changes[position] = changes.get(position, 0) + size
        return max(accumulate(changes[position] for position in sorted(changes)), default=0)
