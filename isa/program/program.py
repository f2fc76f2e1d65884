"""The program: encoded instructions, memory images and tables of layers and tensors, all that the machine sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import SimulationError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import HostCall, Placement, distinct_names
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import WORKERS
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.word import BARRIER, WORD_BYTES

UNKNOWN = "unknown "
"""Prefix of an operator that npusim does not have: a host layer that is timed by its bytes alone."""

LAYER_UNITS = (*(kind.name for kind in WORKERS), "none")
"""The units that do the main work of a layer; "none" takes no time."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator of the source model. `unit` is one of LAYER_UNITS.

    tensors:       names of the tensors that it computes.
    input_shapes:  shapes of its operands that are not constants, by position.
    output_shapes: shapes of its results.
    kernel, stride: (height, width) of a window that slides over an image, and of its steps; else empty.
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
    """A part of an image whose bytes `make` computes when needed.

    `make` is None if the bytes of the constant `of` are not available.
    """

    size_bytes: int
    make: Callable[[], bytes] | None
    of: str = ""


MOST_NAMED = 8
"""Maximum number of further missing constants that a message names."""


@dataclass(frozen=True, slots=True)
class Blank:
    """A placeholder for constants of which only the size is known: the program can be timed, not run.

    of:     the first such constant, such as 'of layer "conv"'.
    others: the further ones.
    """

    size_bytes: int
    of: str
    others: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """Return what is missing, in words for messages."""
        named = ", ".join(self.others[:MOST_NAMED]) + (", ..." if len(self.others) > MOST_NAMED else "")
        more = f", as {len(self.others)} more ({named})," if self.others else ""
        return f"constant {self.of}{more} is known by its size only"

    def __len__(self) -> int:
        return self.size_bytes

    def __bytes__(self) -> bytes:
        raise self._error()

    def write_to(self, target: NDArray[np.uint8]) -> None:
        """Raise SimulationError, because the bytes are not available."""
        raise self._error()

    def _error(self) -> SimulationError:
        return SimulationError(f"{self.why}: the program can be timed, not run or written as text")


LARGEST_KEPT_BYTES = 1 << 26
"""A larger image is computed again at each use, because it would take too much memory to keep."""


class Image:
    """The concatenated bytes of pieces, computed when they are first read.

    A timing-only run needs only their number, and packing weights takes longer than such a run.
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
        """Write the bytes to `target`, which must have the size of the image.

        A large image is computed anew each time and not kept beside `target`.
        """
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
    """A range of bytes that a memory (the DRAM by default) holds before a program begins."""

    address: int
    size_bytes: int
    space: int = 1

    @property
    def end(self) -> int:
        """Return the address after the last byte."""
        return self.address + self.size_bytes


@dataclass(frozen=True, slots=True)
class Area:
    """The part of a memory that a program uses: `size_bytes` from address 0 on."""

    space: int
    size_bytes: int


@dataclass(frozen=True)
class Program:
    """An executable image.

    code:          uint8 [instructions, WORD_BYTES], in program order; fetched from `code_address` of the memory
                   `code_space`.
    constants:     weights and parameters: the bytes of `images`, one image after the other; `Blank` if the program
                   can only be timed.
    images:        where `constants` are placed before the program begins.
    layer_of:      uint32 [instructions], index into `layers` of the layer that each instruction works for.
    dram_size_bytes: DRAM that the program uses: constants, activations, inputs, outputs, code.
    areas:         what it uses of further memories; a memory that is not listed is used entirely.
    spared:        bytes of constants in a memory that have addresses but take no space. These are the bits of weights
                   beyond `mac_array.weight_bits`, which the model has and the hardware does not store.
    states:        tensors that keep their values from one inference to the next; initial values are in `constants`.
    notes:         notes of the model reader, one line each.
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
        """Return the context in which its instructions are checked and timed: its hardware and host calls."""
        return Context(self.hardware, self.host_calls)

    def layer_name(self, instruction: int) -> str:
        """Return the name of the layer that an instruction works for."""
        return self.layers[int(self.layer_of[instruction])].name

    @property
    def timing_only(self) -> bool:
        """Return whether it can be timed but not run, because only the size of some constants is known."""
        return isinstance(self.constants, Blank)

    @property
    def instructions(self) -> int:
        """Return the number of instructions."""
        return len(self.code)

    def memory_bytes(self, space: Space) -> int:
        """Return the bytes of a memory of its machine that the program may touch."""
        if space == Space.DRAM:
            return self.dram_size_bytes
        used = [area.size_bytes for area in self.areas if area.space == space]
        return used[0] if used else self.hardware.memory_bytes(space)

    def spared_bytes(self, space: Space | None = None) -> int:
        """Return the bytes of `spared` in one memory, or in all."""
        return sum([area.size_bytes for area in self.spared if space in (None, area.space)])

    @property
    def constants_bytes(self) -> int:
        """Return the bytes that the constants occupy in their memories, without `spared`."""
        return len(self.constants) - self.spared_bytes()

    @property
    def dram_room_bytes(self) -> int:
        """Return the bytes that the program occupies in the DRAM, without `spared`."""
        return self.dram_size_bytes - self.spared_bytes(Space.DRAM)

    def constants_at(self, space: int, address: int, size_bytes: int) -> bytes:
        """Return bytes that a memory holds before the program begins.

        Raises ValueError if no single image holds them all.
        """
        begin = 0
        for image in self.images:
            start = address - image.address
            if image.space == space and 0 <= start <= image.size_bytes - size_bytes:
                return bytes(self.constants)[begin + start : begin + start + size_bytes]
            begin += image.size_bytes
        raise ValueError(f"no image holds bytes {address}..{address + size_bytes - 1} of memory {space}")

    def is_constant(self, space: int, address: int) -> bool:
        """Return whether a byte is one of `constants`."""
        return any(image.space == space and image.address <= address < image.end for image in self.images)

    @property
    def unknown_operators(self) -> dict[str, int]:
        """Return the operators that npusim does not have, with their counts; they are timed but not computed."""
        counts = Counter(
            layer.op.removeprefix(UNKNOWN) for layer in self.layers if layer.op.startswith(UNKNOWN)
        )
        return dict(sorted(counts.items()))

    @property
    def state_names(self) -> tuple[str, ...]:
        """Return the names of the states, made unique."""
        return distinct_names(self.states)

    @property
    def code_gaps(self) -> Mapping[int, int]:
        """Return the multiples of bytes at which the code continues behind barriers with `align`, by instruction."""
        if not (self.code[:, 0] == BARRIER).any():
            return {}
        from npusim.isa.program.gaps import gaps  # most programs have no barriers

        return gaps(self.code)

    @property
    def code_segments(self) -> Mapping[int, int]:
        """Return the addresses of the first instruction and of each behind a gap, by its position, in rising order."""
        begin, address = 0, self.code_address
        segments = {begin: address}
        for position, multiple in self.code_gaps.items():
            end = address + (position + 1 - begin) * WORD_BYTES
            begin, address = position + 1, -(-end // multiple) * multiple
            segments[begin] = address
        return segments

    @property
    def code_size_bytes(self) -> int:
        """Return the bytes from the first instruction to the end of the last, with the gaps between them."""
        *_, (begin, address) = self.code_segments.items()
        return address - self.code_address + (len(self.code) - begin) * WORD_BYTES

    @property
    def scratchpad_peak_bytes(self) -> int:
        """Return the most scratchpad bytes in use at one time."""
        changes: dict[int, int] = {}
        for buffer in self.buffers:
            for position, size in (
                (buffer.first_instruction, buffer.size_bytes),
                (buffer.last_instruction + 1, -buffer.size_bytes),
            ):
                changes[position] = changes.get(position, 0) + size
        return max(accumulate(changes[position] for position in sorted(changes)), default=0)
