"""From items to slots: tiles with their buffers, loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from npusim.isa.control import Call
from npusim.isa.hardware import Hardware
from npusim.isa.instruction import Instruction, Space
from npusim.isa.program import HostCall
from npusim.kernels.work import Move, OperandRef, Rows, Tile, TileAddresses, Work
from npusim.scheduler.allocate import Allocator
from npusim.scheduler.layout import DramLayout
from npusim.scheduler.packed import packed
from npusim.scheduler.residency import Residents
from npusim.scheduler.storage import Item, operand_tensor
from npusim.scheduler.tiling import Cut, TileSearch, band_bytes, output_bytes, tile_cycles
from npusim.scheduler.timeline import Buffer, DoesNotFit, Load, Slot, dram_copy, strided_copy

_LEAD_SLOTS = 8
"""How many slots before its first use a storage that comes from DRAM may claim its bytes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operand's bytes are: in a buffer, or at a DRAM address."""

    buffer: Buffer | None
    offset_bytes: int
    dram_address: int


class SlotBuilder:
    """Builds the slots and loads of a whole network for one choice of residents and cuts."""

    def __init__(
        self,
        residents: Residents,
        layout: DramLayout,
        host_calls: dict[int, HostCall],
        hardware: Hardware,
    ) -> None:
        self.residents = residents
        self.graph = residents.graph
        self.layout = layout
        self.host_calls = host_calls
        self.hardware = hardware
        self.slots: list[Slot] = []
        self.loads: list[Load] = []
        self.buffers: list[Buffer] = []
        self.item_of_slot: list[int] = []
        self.memory = Allocator(residents.capacity_bytes)
        self._store_channel = min(1, hardware.dma.channels - 1)
        self._loaded: dict[int, int] = {}
        self._cuts: list[Cut | None] = []
        self._tiles: list[list[Tile]] = []
        self._first_slot: list[int] = []
        self._resident_buffers: dict[int, Buffer] = {}

    def build(self) -> None:
        """Cut all items, place the residents, and make slots and loads. Raises DoesNotFit."""
        for index, item in enumerate(self.residents.items):
            self._first_slot.append(len(self.item_of_slot))
            tiles = self._cut(index, item)
            self._tiles.append(tiles)
            self.item_of_slot += [index] * len(tiles)
        self._first_slot.append(len(self.item_of_slot))
        self._place_residents()
        for index, item in enumerate(self.residents.items):
            if isinstance(item.body, Work):
                self._add_work(index, item, item.body)
            elif isinstance(item.body, Move):
                self._add_move(index, item, item.body)
            else:
                self._add_host(index, item)

    def _cut(self, index: int, item: Item) -> list[Tile]:
        if not isinstance(item.body, Work):
            self._cuts.append(None)
            return [Tile(0, 1, 0, 1)]
        residency = self.residents.residency(item, item.body)
        cut = TileSearch(item.body, residency, self.hardware).choose(self.residents.budget(index))
        if cut is None:
            raise DoesNotFit(index)
        self._cuts.append(cut)
        return cut.tiles(item.body)

    def _place_residents(self) -> None:
        """Give the resident storages addresses, largest first; they keep them from first to last slot."""
        storages = self.residents.storages
        for root in sorted(self.residents.roots, key=lambda r: (-storages[r].size_bytes, r)):
            each = storages[root]
            first = self._first_slot[max(each.first, 0)]
            if each.from_dram:
                start = self._first_slot[each.last_write + 1] if each.last_write >= 0 else 0
                first = max(start, self._first_slot[self._first_work_use(root)] - _LEAD_SLOTS)
            last_item = min(each.last, len(self.residents.items) - 1)
            last = self._first_slot[last_item + 1] - 1
            address = self.memory.place(each.size_bytes, first, max(last, first))
            buffer = Buffer(each.name, each.size_bytes, first, max(last, first), address or 0, True)
            if address is None:
                raise DoesNotFit(self.item_of_slot[first])
            self._resident_buffers[root] = buffer
            self.buffers.append(buffer)

    def _first_work_use(self, root: int) -> int:
        for index, item in enumerate(self.residents.items):
            if isinstance(item.body, Work):
                refs = [rows.operand for rows, _ in item.body.inputs]
                if root in {
                    self.residents.forest.root(operand_tensor(self.graph, item.node, r))[0] for r in refs
                }:
                    return index
        return max(self.residents.storages[root].first, 0)

    def _place(self, item: Item, operand: OperandRef) -> Place:
        tensor = operand_tensor(self.graph, item.node, operand)
        root, offset = self.residents.forest.root(tensor)
        buffer = self._resident_buffers.get(root)
        storage = self.residents.storages[root]
        in_dram = buffer is None or storage.from_dram or storage.to_dram
        return Place(buffer, offset, self.layout.address(tensor) if in_dram else -1)

    def _new_buffer(self, name: str, size_bytes: int, first: int, last: int) -> Buffer:
        buffer = Buffer(name, size_bytes, first, last)
        self.buffers.append(buffer)
        return buffer

    # Works.

    def _add_work(self, index: int, item: Item, work: Work) -> None:
        tiles, cut = self._tiles[index], self._cuts[index]
        assert cut is not None
        base = self._first_slot[index]
        name = self.graph.nodes[item.node].name
        constants = self._constant_buffers(item, work, tiles, cut, base)
        inputs = [
            self._input_buffers(item, work, position, tiles, cut, base)
            for position in range(len(work.inputs))
        ]
        output = self._place(item, work.output.operand)
        cycles: dict[tuple[int, int], int] = {}
        for number, tile in enumerate(tiles):
            key = (tile.rows, tile.channels)
            if key not in cycles:
                cycles[key] = tile_cycles(work, tile, self.hardware)
            target = output.buffer
            if target is None:
                size = output_bytes(work, tile.rows, tile.channels)
                target = self._new_buffer(f"{name}: output", size, base + number, base + number)
                self.loads.append(Load(target, base + number, base, item.node))
            chosen = [each[number] for each in inputs]
            used = [buffer for buffer, _ in chosen if buffer is not None]
            constant = constants[number]
            if constant is not None:
                used.append(constant)
            emit = partial(self._emit, work, tile, chosen, constant, target, output)
            after = None
            if output.dram_address >= 0:
                after = partial(self._store, work, tile, target, output)
            self.slots.append(Slot(index, item.node, cycles[key], (*used, target), emit, after))

    def _constant_buffers(
        self, item: Item, work: Work, tiles: Sequence[Tile], cut: Cut, base: int
    ) -> list[Buffer | None]:
        """The buffer with the constants of each tile; consecutive uses share one, kept ones all."""
        if work.constant_bytes(0, work.channels) == 0:
            return [None] * len(tiles)
        name = f"{self.graph.nodes[item.node].name}: constants"
        share = cut.keep_constants or cut.channels_outside
        current: dict[tuple[int, int], Buffer] = {}
        found: list[Buffer | None] = []
        before: tuple[int, int] | None = None
        for number, tile in enumerate(tiles):
            key = (tile.first_channel, tile.last_channel)
            if key not in current or (not share and key != before):
                current[key] = self._new_buffer(name, work.constant_bytes(*key), base + number, base + number)
                self.loads.append(self._constant_load(item, work, key, current[key], base + number))
            current[key].last_slot = base + number
            before = key
            found.append(current[key])
        return found

    def _constant_load(
        self, item: Item, work: Work, channels: tuple[int, int], buffer: Buffer, slot: int
    ) -> Load:
        """The load of the constants of some channels, packed where that is shorter and the hardware can."""
        constants = work.constants(*channels)
        key, weights = (id(work), *channels), constants.weights
        if weights is None:
            address = self.layout.chunk(key, constants.plain)
            return Load(buffer, slot, 0, item.node, address, 0, len(constants.plain))
        if self.hardware.dma.decoder_bytes_per_cycle:
            block = packed(weights, constants.zero_point)
            if len(block) < weights.size:
                content = constants.plain + block
                return Load(
                    buffer,
                    slot,
                    0,
                    item.node,
                    self.layout.chunk(key, content),
                    0,
                    len(content),
                    len(block),
                    weights.size,
                    constants.zero_point,
                )
        content = constants.plain + weights.tobytes()
        return Load(buffer, slot, 0, item.node, self.layout.chunk(key, content), 0, len(content))

    def _input_buffers(
        self, item: Item, work: Work, position: int, tiles: Sequence[Tile], cut: Cut, base: int
    ) -> list[tuple[Buffer | None, int]]:
        """For each tile: the buffer with its rows of an input, and the offset of the first row needed in it."""
        rows, needed = work.inputs[position]
        place = self._place(item, rows.operand)
        if place.buffer is not None:
            return [
                (
                    place.buffer,
                    self._resident_rows(item, rows, needed(t.first_row, t.last_row), place, base + number),
                )
                for number, t in enumerate(tiles)
            ]
        name = f"{self.graph.nodes[item.node].name}: input band"
        root = self.residents.forest.root(operand_tensor(self.graph, item.node, rows.operand))[0]
        earliest = self._first_slot[self.residents.storages[root].last_write + 1]
        found: list[tuple[Buffer | None, int]] = []
        before: tuple[int, int] | None = None
        for number, tile in enumerate(tiles):
            first, last = needed(tile.first_row, tile.last_row)
            if (first, last) != before or not found:
                size = band_bytes(work, position, tile.first_row, tile.last_row)
                if size <= 0:
                    found.append((None, 0))
                    before = None
                    continue
                buffer = self._new_buffer(name, size, base + number, base + number)
                address = place.dram_address + rows.offset_bytes + first * rows.row_bytes
                self.loads.append(Load(buffer, base + number, earliest, item.node, address, 0, size))
                found.append((buffer, 0))
                before = (first, last)
            else:
                found.append(found[-1])
            current = found[-1][0]
            assert current is not None
            current.last_slot = base + number
        return found

    def _resident_rows(self, item: Item, rows: Rows, needed: tuple[int, int], place: Place, slot: int) -> int:
        """The offset of the first needed row in its storage; rows that come from DRAM are loaded up to the last."""
        first, last = needed
        assert place.buffer is not None
        start = place.offset_bytes + rows.offset_bytes
        root = self.residents.forest.root(operand_tensor(self.graph, item.node, rows.operand))[0]
        storage = self.residents.storages[root]
        if storage.from_dram:
            have, want = self._loaded.get(root, 0), start + last * rows.row_bytes
            if want > have:
                address = self.layout.address(root) + have
                self.loads.append(
                    Load(place.buffer, slot, place.buffer.first_slot, item.node, address, have, want - have)
                )
                self._loaded[root] = want
        return start + max(first, 0) * rows.row_bytes

    def _emit(
        self,
        work: Work,
        tile: Tile,
        inputs: Sequence[tuple[Buffer | None, int]],
        constants: Buffer | None,
        target: Buffer,
        output: Place,
    ) -> Instruction:
        addresses = tuple(0 if buffer is None else buffer.address + offset for buffer, offset in inputs)
        address, row_stride, pixel_stride = self._target(work, tile, target, output)
        constant = 0 if constants is None else constants.address
        return work.emit(tile, TileAddresses(addresses, constant, address, row_stride, pixel_stride))

    def _target(self, work: Work, tile: Tile, target: Buffer, output: Place) -> tuple[int, int, int]:
        """Address, row stride and pixel stride of a tile's output in the scratchpad."""
        rows = work.output
        if output.buffer is None:
            return target.address, rows.row_bytes // work.channels * tile.channels, tile.channels
        start = output.offset_bytes + rows.offset_bytes + tile.first_row * rows.row_bytes + tile.first_channel
        return target.address + start, rows.row_bytes, work.channels

    def _store(self, work: Work, tile: Tile, target: Buffer, output: Place) -> list[Instruction]:
        """The copies that take a tile's output to DRAM."""
        rows = work.output
        address, row_stride, pixel_stride = self._target(work, tile, target, output)
        dram = output.dram_address + rows.offset_bytes + tile.first_row * rows.row_bytes + tile.first_channel
        if tile.channels == work.channels:
            counts, inside, outside = (tile.rows * rows.row_bytes,), (), ()
            return [dram_copy(self._store_channel, True, address, dram, counts, inside, outside)]
        pixels = rows.row_bytes // work.channels
        return [
            dram_copy(
                self._store_channel,
                True,
                address,
                dram,
                (tile.rows, pixels, tile.channels),
                (row_stride, pixel_stride),
                (rows.row_bytes, work.channels),
            )
        ]

    # Moves and host calls.

    def _add_move(self, index: int, item: Item, move: Move) -> None:
        target = self._place(item, move.target)
        source = None if move.source is None else self._place(item, move.source)
        used = tuple(p.buffer for p in (target, source) if p is not None and p.buffer is not None)
        emits = []
        if target.buffer is not None:
            emits.append(partial(self._emit_move, item, move, source, target, Space.SCRATCHPAD))
        if target.dram_address >= 0:
            emits.append(partial(self._emit_move, item, move, source, target, Space.DRAM))
        second = None if len(emits) == 1 else (lambda: [emits[1]()])
        size = 1
        for count in move.counts:
            size *= count
        cycles = self.hardware.dma.setup_cycles + size // self.hardware.dma.port_bytes_per_cycle
        self.slots.append(Slot(index, item.node, cycles, used, emits[0], second))

    def _emit_move(
        self, item: Item, move: Move, source: Place | None, target: Place, space: Space
    ) -> Instruction:
        if space is Space.DRAM:
            address = target.dram_address + move.target_offset
        else:
            assert target.buffer is not None
            address = target.buffer.address + target.offset_bytes + move.target_offset
        if source is None:
            strides = ((0,) * (len(move.counts) - 1), move.target_strides)
            copy = strided_copy(
                self._store_channel, (Space.SCRATCHPAD, space), (0, address), move.counts, strides
            )
            copy.fill, copy.value = 1, move.value
            return copy
        assert move.source is not None
        root = self.residents.forest.root(operand_tensor(self.graph, item.node, move.source))[0]
        # What came from DRAM is whole there; in the scratchpad it may not have arrived yet.
        from_dram = source.buffer is None or self.residents.storages[root].from_dram
        if from_dram:
            origin, start = Space.DRAM, source.dram_address + move.source_offset
        else:
            assert source.buffer is not None
            origin = Space.SCRATCHPAD
            start = source.buffer.address + source.offset_bytes + move.source_offset
        strides = (move.source_strides, move.target_strides)
        return strided_copy(self._store_channel, (origin, space), (start, address), move.counts, strides)

    def _add_host(self, index: int, item: Item) -> None:
        instruction = Call(index=list(self.host_calls).index(item.node))
        cycles = instruction.cost(self.hardware, tuple(self.host_calls.values())).cycles
        self.slots.append(Slot(index, item.node, cycles, (), lambda: instruction))
