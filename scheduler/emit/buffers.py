"""The operands of tiles: the scratchpad buffers that hold them, and the loads that fill these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.instructions.region import Space
from npusim.isa.program.program import Piece
from npusim.kernels.lowering.work import Constants, Move, OperandRef, Rows, Tile, Work
from npusim.scheduler.emit.sequence import Buffer, Load, Runs
from npusim.scheduler.fit.costs import block, spared_bytes
from npusim.scheduler.network.network import pieces
from npusim.scheduler.network.storage import Item, Storage, operand_tensor
from npusim.scheduler.place.chains import Chain
from npusim.scheduler.place.layout import MemoryLayout
from npusim.scheduler.place.residency import Residents
from npusim.scheduler.place.sharing import Part


@dataclass(frozen=True, slots=True)
class Place:
    """The placement of an operand: a buffer of the scratchpad, an address in another memory, or both.

    outside: the other memory and the address there; None for an operand in the scratchpad only.
    """

    buffer: Buffer | None
    offset_bytes: int
    outside: tuple[Space, int] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The tiles of an item, and the slots in which they run.

    first, last:     the slots from and to which its operands must live, both included.
    share_constants: tiles of equal channels share one buffer of constants.
    beside:          its slots run in parallel with the slots of other items between them (a fused pair, or a chain
                     with batch entries).
    """

    tiles: list[Tile]
    slots: list[int]
    share_constants: bool
    first: int
    last: int
    beside: bool = False


class Held(NamedTuple):
    """A tile's part of an operand: the buffer that holds it, its offset there, and the stride between rows."""

    buffer: Buffer | None
    offset_bytes: int = 0
    row_bytes: int = 0

    @property
    def address(self) -> int:
        """Scratchpad address, valid once the buffer has been placed; 0 without a buffer."""
        return 0 if self.buffer is None else self.buffer.address + self.offset_bytes


class _Block(NamedTuple):
    """The stored form of constants, and how many of its bytes are packed weights."""

    constants: Constants
    content: Piece
    packed_bytes: int


class _Wanted(NamedTuple):
    """An operand of an item that is loaded from another memory tile by tile."""

    name: str
    item: Item
    rows: Rows
    place: Place
    earliest_slot: int


class Operands:
    """Buffers and loads of the operands of all tiles, for one choice of residents.

    plans:    the tiles of each item, for the items that are cut so far.
    resident: the buffers of the storages that stay in the scratchpad, by root tensor.
    links:    the buffers between the stages of chains, stripe by stripe.
    """

    def __init__(self, residents: Residents, layout: MemoryLayout, chains: Mapping[int, Chain]) -> None:
        self.loads: list[Load] = []
        self.buffers: list[Buffer] = []
        self.plans: list[Plan] = []
        self.resident: dict[int, Buffer] = {}
        self.links: dict[int, list[Buffer]] = {root: [] for chain in chains.values() for root in chain.links}
        self._residents = residents
        self._sharing = residents.sharing
        self._graph = residents.network.graph
        self._layout = layout
        self._hardware = residents.network.hardware
        self._loaded: dict[int, int] = {}

    def written(self, storage: Storage, reader: int) -> int:
        """Return the first slot at which a storage is completely written for the item `reader`."""
        writes = [index for index in storage.writes if index < reader]
        return self.plans[writes[-1]].last + 1 if writes else 0

    def place(self, item: Item, operand: OperandRef) -> Place:
        """Return the placement of an operand of an item."""
        return self.part(self._sharing.forest.root(operand_tensor(self._graph, item.node, operand)))

    def part(self, part: Part) -> Place:
        """Return the placement of a part of a storage."""
        root, offset = part
        buffer = self.resident.get(root)
        storage = self._sharing.storages[root]
        if buffer is not None and not (storage.from_dram or storage.to_dram):
            return Place(buffer, offset, None)
        return Place(buffer, offset, (self._layout.space(root), self._layout.address(root) + offset))

    def new_buffer(self, name: str, size_bytes: int, first: int, last: int) -> Buffer:
        """Add a buffer that lives from slot `first` to slot `last`, both included."""
        buffer = Buffer(name, size_bytes, first, last)
        self.buffers.append(buffer)
        return buffer

    def constants(self, index: int, item: Item, work: Work) -> list[Held]:
        """Return the constants of each tile, which tiles of the same channels share; add their buffers and loads."""
        plan = self.plans[index]
        if work.constant_bytes(0, work.channels) == 0:
            return [_NOTHING] * len(plan.tiles)
        name = f"{self._graph.nodes[item.node].name}: constants"
        pack = self._residents.packs(index)

        def load(tile: Tile, slot: int) -> Held:
            channels = tile.first_channel, tile.last_channel
            buffer = self.new_buffer(name, work.constant_bytes(*channels), slot, slot)
            self.loads.append(self._constant_load(item, work, channels, buffer, slot, pack))
            if work.fetches is not None:
                self._fetch(index, item, work.fetches(*channels), buffer, slot)
            return Held(buffer)

        # If weights change from batch entry to entry, the constants are few, so they stay for all entries.
        share = plan.share_constants or (work.weights is not None and work.entries > 1)
        return _shared(plan, [(tile.first_channel, tile.last_channel) for tile in plan.tiles], load, share)

    def _constant_load(
        self, item: Item, work: Work, channels: tuple[int, int], buffer: Buffer, slot: int, pack: bool
    ) -> Load:
        """Return the load of a channel range's constants, packed if that is shorter and the hardware can unpack."""
        key = (id(work), *channels)
        blocks = self._residents.network.memo.of(_Block)
        if (*key, pack) not in blocks:
            constants = work.constants(*channels)
            packs, skips = pack and self._hardware.packs_weights, self._hardware.dma.decoder_skips
            blocks[*key, pack] = _Block(constants, *block(constants, packs, skips))
        constants, content, packed_bytes = blocks[*key, pack]
        if content.make is None:
            content = content._replace(of=f'of layer "{self._graph.nodes[item.node].name}"')
        spared = spared_bytes(constants, self._hardware)
        address = self._layout.chunk(key, content, spared)
        space = self._hardware.holder("constants")
        load = Load(buffer, slot, 0, item.node, space, address, 0, content.size_bytes)
        if packed_bytes and constants.weights is not None:
            load.packed_bytes, load.weights = packed_bytes, constants.weights.size
            load.zero_point = constants.zero_point
        if spared:
            load.size_bytes -= spared
            load.few_bits = constants.weight_count
            load.plain_bytes = content.size_bytes - load.few_bits
        return load

    def _fetch(self, index: int, item: Item, moves: Sequence[Move], buffer: Buffer, slot: int) -> None:
        """Add the loads of those constants of a tile that other operands hold."""
        for move in [piece for whole in moves for piece in pieces(whole)]:
            assert move.source is not None
            root, offset = self._sharing.forest.root(operand_tensor(self._graph, item.node, move.source))
            place, earliest = self.part((root, offset)), self.written(self._sharing.storages[root], index)
            if place.outside is not None:
                space, start = place.outside
            else:
                assert place.buffer is not None
                space, start = Space.SCRATCHPAD, place.buffer.address + place.offset_bytes
            load = Load(
                buffer, slot, earliest, item.node, space, start + move.source_offset, move.target_offset
            )
            load.size_bytes = prod(move.counts)
            load.runs = Runs(move.counts, move.source_strides, move.target_strides)
            self.loads.append(load)

    def weights(self, index: int, item: Item, work: Work) -> list[Held]:
        """Return each tile's part of non-constant weights. Tiles share buffers as they do for constants."""
        plan = self.plans[index]
        if work.weights is None:
            return [_NOTHING] * len(plan.tiles)
        rows, part = work.weights, self._sharing.inputs[index][-1]
        place = self.part(part)
        if place.buffer is not None:
            self._load_weights_that_stay(index, item, rows, place)
            starts = [rows.begin(tile.entry, tile.first_channel) for tile in plan.tiles]
            return [Held(place.buffer, place.offset_bytes + start, rows.row_bytes) for start in starts]
        wanted = self._wanted(index, item, rows, "weights", part, place)

        def load(tile: Tile, slot: int) -> Held:
            return self._load_rows(wanted, tile.entry, (tile.first_channel, tile.last_channel), slot)

        keys = [(tile.entry, tile.first_channel, tile.last_channel) for tile in plan.tiles]
        return _shared(plan, keys, load, plan.share_constants)

    def _load_weights_that_stay(self, index: int, item: Item, rows: Rows, place: Place) -> None:
        """Add loads that fill a resident storage with the weights that each tile needs, tile by tile.

        If an input reads the same storage, all weights are loaded before the first tile.
        """
        root, _ = self._sharing.inputs[index][-1]
        if not self._sharing.storages[root].from_dram:
            return
        plan = self.plans[index]
        shared = root in [other for other, _ in self._sharing.inputs[index][:-1]]
        ends = [rows.end(tile.entry, tile.last_channel) for tile in plan.tiles]
        for end, slot in zip([max(ends)] if shared else ends, plan.slots, strict=False):
            self._load_up_to(root, item, place, place.offset_bytes + end, slot)

    def inputs(self, index: int, item: Item, work: Work, position: int) -> list[Held]:
        """Return the rows of an input that each tile needs, and add their buffers and loads."""
        plan = self.plans[index]
        rows, needed = work.inputs[position]
        part = self._sharing.inputs[index][position]
        if part[0] in self.links:
            return [Held(buffer, 0, rows.row_bytes) for buffer in self.links[part[0]]]
        place = self.part(part)
        spans = [needed(tile.first_row, tile.last_row) for tile in plan.tiles]
        if place.buffer is not None:
            return [
                self._rows_that_stay(part[0], item, rows, place, span, tile, slot)
                for tile, span, slot in zip(plan.tiles, spans, plan.slots, strict=True)
            ]
        wanted = self._wanted(index, item, rows, "input band", part, place)

        def sliced(tile: Tile) -> bool:
            return work.sliced and tile.channels < work.channels

        def load(tile: Tile, slot: int) -> Held:
            span = needed(tile.first_row, tile.last_row)
            if span[1] <= span[0]:
                return _NOTHING
            if sliced(tile):
                return self._load_slice(wanted, work, tile, span, slot)
            return self._load_rows(wanted, tile.entry, span, slot)

        keys = [
            (rows.begin(tile.entry, first), last, tile.first_channel if sliced(tile) else 0)
            for tile, (first, last) in zip(plan.tiles, spans, strict=True)
        ]
        return _shared(plan, keys, load, share=False)

    def _wanted(self, index: int, item: Item, rows: Rows, what: str, part: Part, place: Place) -> _Wanted:
        earliest = self.written(self._sharing.storages[part[0]], index)
        return _Wanted(f"{self._graph.nodes[item.node].name}: {what}", item, rows, place, earliest)

    def _load_rows(self, wanted: _Wanted, entry: int, span: tuple[int, int], slot: int) -> Held:
        """Load some rows or columns of an operand into a buffer of their own."""
        rows, count = wanted.rows, span[1] - span[0]
        load = self._load(wanted, rows.begin(entry, span[0]), rows.part_bytes(count), slot)
        if not rows.by_columns:
            return Held(load.buffer, 0, rows.row_bytes)
        if count < rows.row_bytes:
            load.runs = _side_by_side(load.size_bytes, count, rows.row_bytes)
        return Held(load.buffer, 0, count)

    def _load_slice(self, wanted: _Wanted, work: Work, tile: Tile, span: tuple[int, int], slot: int) -> Held:
        """Load a tile's channels of some rows of an operand into a buffer of their own."""
        rows = wanted.rows
        row_bytes = rows.row_bytes // work.channels * tile.channels
        offset = rows.begin(tile.entry, span[0]) + tile.first_channel
        load = self._load(wanted, offset, (span[1] - span[0]) * row_bytes, slot)
        load.runs = _side_by_side(load.size_bytes, tile.channels, work.channels)
        return Held(load.buffer, 0, row_bytes)

    def _load(self, wanted: _Wanted, offset_bytes: int, size_bytes: int, slot: int) -> Load:
        """Add a load of contiguous bytes of an operand into a buffer of their own."""
        buffer = self.new_buffer(wanted.name, size_bytes, slot, slot)
        assert wanted.place.outside is not None
        space, start = wanted.place.outside
        load = Load(
            buffer, slot, wanted.earliest_slot, wanted.item.node, space, start + offset_bytes, 0, size_bytes
        )
        self.loads.append(load)
        return load

    def _rows_that_stay(
        self, root: int, item: Item, rows: Rows, place: Place, span: tuple[int, int], tile: Tile, slot: int
    ) -> Held:
        """Return rows of a resident storage. If it comes from another memory, load it up to the last of them."""
        if self._sharing.storages[root].from_dram:
            self._load_up_to(root, item, place, place.offset_bytes + rows.end(tile.entry, span[1]), slot)
        start = place.offset_bytes + rows.begin(tile.entry, max(span[0], 0))
        return Held(place.buffer, start, rows.row_bytes)

    def _load_up_to(self, root: int, item: Item, place: Place, want: int, slot: int) -> None:
        """Add a load so that the first `want` bytes of a storage are in its buffer when a slot begins."""
        have = self._loaded.get(root, 0)
        if want > have:
            assert place.buffer is not None
            space, address = self._layout.space(root), self._layout.address(root) + have
            first = place.buffer.first_slot
            self.loads.append(Load(place.buffer, slot, first, item.node, space, address, have, want - have))
            self._loaded[root] = want


_NOTHING = Held(None)


def _side_by_side(size_bytes: int, run_bytes: int, stride_bytes: int) -> Runs:
    """Return the dimensions of a copy that gathers strided runs of bytes into a dense buffer."""
    return Runs((size_bytes // run_bytes, run_bytes), (stride_bytes,), (run_bytes,))


def _shared(plan: Plan, keys: Sequence[object], load: Callable[[Tile, int], Held], share: bool) -> list[Held]:
    """Return each tile's part of an operand, and let it live up to the slots of all tiles that use it.

    keys:  equal for tiles that need the same bytes. Consecutive ones share a buffer, with `share` all do.
    load:  makes a tile's part, to be loaded for a slot.
    """
    current: dict[object, Held] = {}
    parts: list[Held] = []
    before: object = None
    for key, tile, slot in zip(keys, plan.tiles, plan.slots, strict=True):
        if key not in current or (not share and key != before):
            current[key] = load(tile, slot)
        held, before = current[key], key
        if held.buffer is not None:
            held.buffer.last_slot = slot
        parts.append(held)
    return parts
