"""The layout of DRAM: activations that live there, then constants, then code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from npusim.isa.base.errors import SimulationError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import WORD_BYTES
from npusim.isa.program.program import Image, Piece, Placement
from npusim.kernels.graph.graph import Graph
from npusim.scheduler.fit.allocate import Allocator, aligned
from npusim.scheduler.network.storage import Aliases, Storage

_UNLIMITED = 1 << 60


class DramLayout:
    """Addresses in DRAM. Activations get theirs at once, constants as they are added, the code comes last.

    `together` are items that run at the same time, first to last: what one of them touches lives through all.
    """

    def __init__(
        self,
        graph: Graph,
        storages: Mapping[int, Storage],
        forest: Aliases,
        resident: set[int],
        together: Sequence[tuple[int, ...]],
        hardware: Hardware,
    ) -> None:
        self._graph = graph
        self._forest = forest
        self._alignment = hardware.dram.burst_bytes
        self._addresses: dict[int, int] = {}
        self._chunks: dict[object, int] = {}
        self._constants: list[Piece] = []
        self._constant_bytes = 0
        begins = {item: items[0] for items in together for item in items}
        ends = {item: items[-1] for items in together for item in items}
        arena = Allocator(_UNLIMITED)
        ends_of_graph = {*graph.inputs, *graph.outputs}
        states = set(graph.variables)
        final = max((each.last for each in storages.values()), default=0)
        wanted = [
            (root, each)
            for root, each in storages.items()
            if not each.constant
            and root not in states
            and (root not in resident or each.from_dram or each.to_dram)
        ]
        # Largest first packs well; ties in graph order keep the layout reproducible.
        for root, each in sorted(wanted, key=lambda pair: (-pair[1].size_bytes, pair[0])):
            size = aligned(each.size_bytes, self._alignment)
            first, last = begins.get(each.first, each.first), ends.get(each.last, each.last)
            if root in ends_of_graph:
                first, last = -1, final
            address = arena.place(size, first, last)
            assert address is not None
            self._addresses[root] = address
        self.constants_address = aligned(arena.peak_bytes, self._alignment)

    def address(self, tensor: int) -> int:
        """The DRAM address of a tensor; a constant is added to the image when first asked for."""
        root, offset = self._forest.root(tensor)
        if root not in self._addresses:
            self._addresses[root] = self.chunk(("tensor", root), self._content(root))
        return self._addresses[root] + offset

    def _content(self, root: int) -> Piece:
        """The bytes of a constant, or those with which a state tensor starts: real zero."""
        each = self._graph.tensors[root]
        if each.array is not None:
            return Piece(each.type.size_bytes, each.array.tobytes)
        if each.constant:
            return Piece(each.type.size_bytes, partial(no_data, each.name))
        if root not in self._graph.variables:
            raise ValueError(f'tensor "{each.name}" has no place in DRAM')
        zero = each.type.quantization.zero_point if each.type.quantized and each.type.quantization else 0
        start = np.full(each.type.shape, zero, each.type.numpy_dtype)
        return Piece(start.nbytes, start.tobytes)

    def chunk(self, key: object, content: Piece) -> int:
        """The DRAM address of some constant bytes; one copy per key."""
        if key not in self._chunks:
            self._chunks[key] = self.constants_address + self._constant_bytes
            padding = -content.size_bytes % self._alignment
            self._constants += (content, Piece(padding, bytes(padding).__bytes__))
            self._constant_bytes += content.size_bytes + padding
        return self._chunks[key]

    def placement(self, tensor: int) -> Placement:
        """A tensor with its place in DRAM."""
        each = self._graph.tensors[tensor]
        return Placement(each.name, each.type, self.address(tensor))

    def finish(self, instructions: int) -> tuple[Image, int, int]:
        """The constants, the size of the whole image, and the address of the code."""
        code_address = aligned(self.constants_address + self._constant_bytes, self._alignment)
        return Image(self._constants), code_address + instructions * WORD_BYTES, code_address


def no_data(name: str) -> bytes:
    """For a constant known by its size only. Raises SimulationError: bytes that nobody has cannot be read."""
    raise SimulationError(
        f'constant "{name}" is known by its size only: it can be timed, not computed or written'
    )


def host_placements(layout: DramLayout, tensors: Sequence[int | None]) -> tuple[Placement | None, ...]:
    """The operands of a host call in DRAM; absent ones stay None."""
    return tuple(None if tensor is None else layout.placement(tensor) for tensor in tensors)
