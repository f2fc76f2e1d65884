"""The layout of the memories: each holds its feature maps first, then constants, then code.

The hardware says which memory holds a tensor (`Hardware.holder`): "io" those of inputs and outputs, "constants" those
of constants, "activations" all other feature maps, operands of the host, and states.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from npusim.isa.base.errors import CompileError
from npusim.isa.base.tensor import Placement
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import FIRST_FURTHER, Space
from npusim.isa.instructions.word import WORD_BYTES
from npusim.isa.program.program import Area, Blank, Image, MemoryImage, Piece
from npusim.kernels.graph.graph import Graph
from npusim.scheduler.fit.allocate import ALIGNMENT_BYTES, Allocator, aligned
from npusim.scheduler.place.sharing import Sharing

_UNLIMITED = 1 << 60


class _Map:
    """The layout of one memory: feature maps from address 0 on, then chunks of constants."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.arena = Allocator(_UNLIMITED)
        self.pieces: list[Piece] = []
        self.chunk_bytes = 0
        self.spared_bytes = 0

    @property
    def chunks_address(self) -> int:
        """Address of the first constant."""
        return aligned(self.arena.peak_bytes, self.alignment)

    @property
    def end(self) -> int:
        """Address after the last constant."""
        return self.chunks_address + self.chunk_bytes

    def add(self, content: Piece, spared_bytes: int) -> int:
        """Append constants and return their address. `spared_bytes` of them have addresses but take no room."""
        self.spared_bytes += spared_bytes
        address = self.end
        self.pieces.append(content)
        self.chunk_bytes += content.size_bytes
        self.pad(-content.size_bytes % self.alignment)
        return address

    def pad(self, size_bytes: int) -> None:
        """Append unused bytes."""
        self.pieces.append(Piece(size_bytes, bytes(size_bytes).__bytes__))
        self.chunk_bytes += size_bytes


class Images(NamedTuple):
    """The contents and sizes of the memories of a program."""

    constants: Image | Blank
    images: tuple[MemoryImage, ...]
    areas: tuple[Area, ...]
    spared: tuple[Area, ...]
    dram_size_bytes: int
    code_space: Space
    code_address: int


class MemoryLayout:
    """The addresses of all tensors in the memories behind ports.

    Feature maps get addresses at once, constants when they are added, and the code at the end.
    together: ranges of items, first to last, that run at the same time. A tensor that one of them touches stays live
              through all of them.
    """

    def __init__(
        self,
        sharing: Sharing,
        resident: Collection[int],
        together: Sequence[tuple[int, ...]],
    ) -> None:
        graph, hardware = sharing.network.graph, sharing.network.hardware
        storages, forest = sharing.storages, sharing.forest
        self._graph = graph
        self._forest = forest
        self._hardware = hardware
        self._addresses: dict[int, int] = {}
        self._chunks: dict[object, int] = {}
        ends_of_graph = {*graph.inputs, *graph.outputs}
        states = {state.before for state in graph.states}
        self._ends = {forest.root(tensor)[0] for tensor in ends_of_graph} - states
        self._maps = {space: _Map(_alignment(hardware, space)) for space in hardware.spaces}
        begins = {item: items[0] for items in together for item in items}
        ends = {item: items[-1] for items in together for item in items}
        final = max((storage.last for storage in storages.values()), default=0)
        wanted = [
            (root, storage)
            for root, storage in storages.items()
            if not storage.constant
            and root not in states
            and (root not in resident or storage.from_dram or storage.to_dram or storage.pinned)
        ]
        # Largest first packs well; ties in graph order keep the layout reproducible.
        for root, storage in sorted(wanted, key=lambda pair: (-pair[1].size_bytes, pair[0])):
            place = self._maps[self.space(root)]
            size = aligned(storage.size_bytes, place.alignment)
            if sharing.network.parts is not None and self.space(root) != Space.SCRATCHPAD:
                size = aligned(size, hardware.port_timing(self.space(root)).stripe_bytes)
            first, last = begins.get(storage.first, storage.first), ends.get(storage.last, storage.last)
            if root in ends_of_graph or storage.pinned:
                first, last = -1, final
            address = place.arena.place(size, first, last)
            assert address is not None
            self._addresses[root] = address
        if (parts := sharing.network.parts) is not None:
            # Constants that several equal parts read come first: within the first part they would displace its own.
            of_item = [(item.node - parts.begin) // parts.size for item in sharing.items]
            for root, storage in storages.items():
                if storage.constant and of_item[storage.first] != of_item[storage.last]:
                    self.address(root)

    def space(self, tensor: int) -> Space:
        """Return the memory that holds a tensor outside of the scratchpad."""
        root, _ = self._forest.root(tensor)
        return home(self._graph, self._ends, root, self._hardware)

    def address(self, tensor: int) -> int:
        """Return the address of a tensor in its memory. A constant is added to the image at the first call."""
        root, offset = self._forest.root(tensor)
        if root not in self._addresses:
            self._addresses[root] = self._chunk(self.space(root), ("tensor", root), self._content(root))
        return self._addresses[root] + offset

    def _content(self, root: int) -> Piece:
        """Return the bytes of a constant, or the initial bytes of a state tensor, which stand for the value 0."""
        tensor = self._graph.tensors[root]
        if tensor.array is not None:
            return Piece(tensor.type.size_bytes, tensor.array.tobytes)
        if tensor.constant:
            return Piece(tensor.type.size_bytes, None, f'"{tensor.name}"')
        if all(root != state.before for state in self._graph.states):
            raise ValueError(f'tensor "{tensor.name}" has no place in a memory')
        zero = (
            tensor.type.quantization.zero_point if tensor.type.quantized and tensor.type.quantization else 0
        )
        start = np.full(tensor.type.shape, zero, tensor.type.numpy_dtype)
        return Piece(start.nbytes, start.tobytes)

    def chunk(self, key: object, content: Piece, spared_bytes: int = 0) -> int:
        """Return the address of constant bytes in the memory of constants. Bytes with the same key are stored once.

        spared_bytes: bytes among them that have addresses but take no room (`Program.spared`).
        """
        return self._chunk(self._hardware.holder("constants"), key, content, spared_bytes)

    def _chunk(self, space: Space, key: object, content: Piece, spared_bytes: int = 0) -> int:
        if key not in self._chunks:
            self._chunks[key] = self._maps[space].add(content, spared_bytes)
        return self._chunks[key]

    def placement(self, tensor: int) -> Placement:
        """Return the placement of a tensor in its memory outside of the scratchpad."""
        held = self._graph.tensors[tensor]
        return Placement(held.name, held.type, self.address(tensor), self.space(tensor), held.from_reals)

    def begin_part(self) -> None:
        """Let the constants that follow begin at the first row of the first bank, as those of each equal part do."""
        space = self._hardware.holder("constants")
        place = self._maps[space]
        place.pad(-place.end % self._hardware.port_timing(space).stripe_bytes)

    def finish(self, instructions: int) -> Images:
        """Place the code and return the images of the memories. Raises CompileError for a memory that is too small."""
        ends = {space: place.end for space, place in self._maps.items()}
        code_space = self._hardware.holder("code")
        code_address = aligned(ends[code_space], self._maps[code_space].alignment)
        ends[code_space] = code_address + instructions * WORD_BYTES
        for space, end in ends.items():
            if space != Space.DRAM:
                self._require_room(space, end - self._maps[space].spared_bytes)
        filled = {space: place for space, place in self._maps.items() if place.pieces}
        pieces = [piece for place in filled.values() for piece in place.pieces]
        absent = tuple(dict.fromkeys([piece.of for piece in pieces if piece.make is None]))
        size_bytes = sum(place.chunk_bytes for place in filled.values())
        return Images(
            Blank(size_bytes, absent[0], absent[1:]) if absent else Image(pieces),
            tuple(
                MemoryImage(place.chunks_address, place.chunk_bytes, space) for space, place in filled.items()
            ),
            tuple(Area(space, end) for space, end in ends.items() if space >= FIRST_FURTHER),
            tuple(Area(space, fill.spared_bytes) for space, fill in filled.items() if fill.spared_bytes),
            ends[Space.DRAM],
            code_space,
            code_address,
        )

    def _require_room(self, space: Space, needed_bytes: int) -> None:
        hardware, size = self._hardware, self._hardware.memory_bytes(space)
        if needed_bytes > size:
            name = hardware.memory_name(space)
            raise CompileError(
                f"{self._graph.name}: needs {needed_bytes} bytes of the memory {name}, {hardware.name} has {size}; "
                f"enlarge {hardware.size_key(space)}, or let another memory hold part of it"
            )


def home(graph: Graph, ends: set[int], root: int, hardware: Hardware) -> Space:
    """Return the memory outside of the scratchpad that holds a storage.

    root: root tensor of the storage; ends: root tensors of the network's inputs and outputs, without states.
    """
    if graph.tensors[root].constant:
        return hardware.holder("constants")
    return hardware.holder("io" if root in ends else "activations")


def _alignment(hardware: Hardware, space: Space) -> int:
    return ALIGNMENT_BYTES if space == Space.SCRATCHPAD else hardware.port(space).burst_bytes


def host_placements(layout: MemoryLayout, tensors: Sequence[int | None]) -> tuple[Placement | None, ...]:
    """Return the placements of the operands of a host call; absent operands stay None."""
    return tuple(None if tensor is None else layout.placement(tensor) for tensor in tensors)
