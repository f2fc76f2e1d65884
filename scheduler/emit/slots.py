"""From items to slots: tiles with their buffers, loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.instruction import Instruction, Space
from npusim.isa.program.program import HostCall
from npusim.kernels.lowering.work import Move, OperandRef, Rows, Tile, TileAddresses, Work
from npusim.scheduler.emit.moves import Piece, plan_copy, plan_move
from npusim.scheduler.emit.sequence import Buffer, DoesNotFit, Load, Slot, strided_copy
from npusim.scheduler.fit.allocate import Allocator
from npusim.scheduler.fit.cuts import output_bytes
from npusim.scheduler.fit.packed import block
from npusim.scheduler.network.storage import Item, Storage, operand_tensor
from npusim.scheduler.place.chains import Chain
from npusim.scheduler.place.layout import MemoryLayout
from npusim.scheduler.place.residency import Part, Residents
from npusim.scheduler.place.weaves import Weave


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operand's bytes are: in a buffer of the scratchpad, at an address of another memory, or in both.

    outside: that memory, and the address there; None if they are in the scratchpad only.
    """

    buffer: Buffer | None
    offset_bytes: int
    outside: tuple[Space, int] | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """The tiles of an item and their slots; `first`..`last` are all slots in which its operands must live.

    `beside` ones run while the slots of another item between theirs do.
    """

    tiles: list[Tile]
    slots: list[int]
    share_constants: bool
    first: int
    last: int
    beside: bool = False


def _address(place: Place, space: Space) -> int:
    """Where an operand begins in a memory that holds it."""
    if space != Space.SCRATCHPAD:
        assert place.outside is not None
        return place.outside[1]
    assert place.buffer is not None
    return place.buffer.address + place.offset_bytes


class SlotBuilder:
    """Builds the slots and loads of a whole network for one choice of residents and cuts."""

    def __init__(
        self,
        residents: Residents,
        layout: MemoryLayout,
        host_calls: dict[int, HostCall],
        chains: dict[int, Chain],
        weaves: dict[int, Weave],
        hardware: Hardware,
    ) -> None:
        self.residents = residents
        self.graph = residents.graph
        self.layout = layout
        self._context = Context(hardware, tuple(host_calls.values()))
        self._call_numbers = {node: number for number, node in enumerate(host_calls)}
        self.hardware = hardware
        self.loads: list[Load] = []
        self.buffers: list[Buffer] = []
        self.item_of_slot: list[int] = []
        self.memory = Allocator.of_scratchpad(residents.capacity_bytes, hardware)
        self._lead_slots = residents.choices.lead_slots
        self._store_channel = min(1, hardware.dma.channels - 1)
        self._loaded: dict[int, int] = {}
        self._plans: list[_Plan] = []
        self._resident_buffers: dict[int, Buffer] = {}
        self._chains = chains
        self._weaves = weaves
        self._links: dict[int, list[Buffer]] = {root: [] for chain in chains.values() for root in chain.links}

    def build(self) -> list[Slot]:
        """Cut all items, place the residents, and make slots and loads. Raises DoesNotFit.

        The builder keeps no slots: they know it, and all of an attempt that failed can go at once.
        """
        items = self.residents.items
        while len(self._plans) < len(items):
            index = len(self._plans)
            if index in self._chains:
                self._plan_chain(self._chains[index])
            elif index in self._weaves:
                self._plan_weave(self._weaves[index])
            else:
                self._plan_alone(index, items[index])
        self._place_residents()
        slots: dict[int, Slot] = {}
        for index, (item, plan) in enumerate(zip(items, self._plans, strict=True)):
            if isinstance(item.body, Work):
                slots.update(zip(plan.slots, self._unhurried(index, item, item.body, plan), strict=True))
            elif isinstance(item.body, Move):
                slots[plan.first] = self._move_slot(index, item, item.body)
            else:
                slots[plan.first] = self._host_slot(index, item)
        return [slots[number] for number in range(len(slots))]

    def _plan_alone(self, index: int, item: Item) -> None:
        first = len(self.item_of_slot)
        tiles, share = [Tile(0, 1, 0, 1)], True
        if isinstance(item.body, Work):
            cut = self.residents.cut(index)
            if cut is None:
                raise DoesNotFit(index)
            tiles, share = cut.tiles(item.body), cut.keep_constants or cut.channels_outside
        self.item_of_slot += [index] * len(tiles)
        slots = list(range(first, len(self.item_of_slot)))
        self._plans.append(_Plan(tiles, slots, share, first, slots[-1]))

    def _plan_chain(self, chain: Chain) -> None:
        works = [self.residents.items[index].body for index in chain.items]
        bands = chain.bands([work for work in works if isinstance(work, Work)])
        first, stages = len(self.item_of_slot), len(chain.items)
        last = first + stages * len(bands) - 1
        for stage in range(stages):
            tiles = [band[stage] for band in bands]
            slots = list(range(first + stage, last + 1, stages))
            self._plans.append(_Plan(tiles, slots, True, first, last))
        self.item_of_slot += list(chain.items) * len(bands)

    def _plan_weave(self, weave: Weave) -> None:
        first = len(self.item_of_slot)
        tiles: tuple[list[Tile], list[Tile]] = ([], [])
        slots: tuple[list[int], list[int]] = ([], [])
        for row, follows in weave.tiles:
            for stage, found in enumerate((row, () if follows is None else (follows,))):
                tiles[stage].extend(found)
                slots[stage].extend(range(len(self.item_of_slot), len(self.item_of_slot) + len(found)))
                self.item_of_slot += [weave.items[stage]] * len(found)
        last = len(self.item_of_slot) - 1
        self._plans += [
            _Plan(tiles[stage], slots[stage], True, first, last, beside=stage == 0) for stage in (0, 1)
        ]

    def _place_residents(self) -> None:
        """Give the resident storages addresses, largest first; they keep them from first to last slot. Pinned ones
        have theirs.
        """
        storages, plans = self.residents.storages, self._plans
        for root in self.residents.roots:
            if storages[root].pinned:
                size_bytes = storages[root].size_bytes
                self.memory.take(self.layout.address(root), size_bytes, 0, plans[-1].last)
        for root in sorted(self.residents.roots, key=lambda r: (-storages[r].size_bytes, r)):
            each = storages[root]
            first = plans[max(each.first, 0)].first
            if each.from_dram:
                reader = self.residents.first_use(root)
                if reader is None:
                    reader = max(each.first, 0)
                first = max(self._written(each, reader), plans[reader].first - self._lead_slots)
            last = plans[min(each.last, len(plans) - 1)].last
            address = None if each.pinned else self.memory.place(each.size_bytes, first, max(last, first))
            if each.pinned:
                address = self.layout.address(root)
            buffer = Buffer(each.name, each.size_bytes, first, max(last, first), address or 0, True)
            if address is None:
                raise DoesNotFit(self.item_of_slot[first])
            self._resident_buffers[root] = buffer
            self.buffers.append(buffer)

    def _written(self, storage: Storage, reader: int) -> int:
        """The first slot at which the content of a storage is complete for an item that reads it."""
        writes = [index for index in storage.writes if index < reader]
        return self._plans[writes[-1]].last + 1 if writes else 0

    def _place(self, item: Item, operand: OperandRef) -> Place:
        return self._part(self.residents.forest.root(operand_tensor(self.graph, item.node, operand)))

    def _part(self, part: Part) -> Place:
        root, offset = part
        buffer = self._resident_buffers.get(root)
        storage = self.residents.storages[root]
        if buffer is not None and not (storage.from_dram or storage.to_dram):
            return Place(buffer, offset, None)
        return Place(buffer, offset, (self.layout.space(root), self.layout.address(root) + offset))

    def _new_buffer(self, name: str, size_bytes: int, first: int, last: int) -> Buffer:
        buffer = Buffer(name, size_bytes, first, last)
        self.buffers.append(buffer)
        return buffer

    # Works.

    def _unhurried(self, index: int, item: Item, work: Work, plan: _Plan) -> list[Slot]:
        """The slots of a work; loads of one that must not hurry wait for the slot that needs them."""
        before = len(self.loads)
        made = self._work_slots(index, item, work, plan)
        if index in self.residents.unhurried:
            for load in self.loads[before:]:
                load.earliest_slot = load.needed_slot
        return made

    def _work_slots(self, index: int, item: Item, work: Work, plan: _Plan) -> list[Slot]:
        name = self.graph.nodes[item.node].name
        constants = self._constant_buffers(index, item, work, plan)
        inputs = [
            self._input_buffers(index, item, work, position, plan) for position in range(len(work.inputs))
        ]
        root, _ = self.residents.output(index)
        linked = root in self._links
        output = Place(None, 0, None) if linked else self._part(self.residents.output(index))
        search = self.residents.search(index)
        made = []
        for number, (tile, slot) in enumerate(zip(plan.tiles, plan.slots, strict=True)):
            target = output.buffer
            if target is None:
                size = output_bytes(work, tile.rows, tile.channels)
                # The next stage of a chain reads in the next slot.
                target = self._new_buffer(f"{name}: output", size, slot, slot + linked)
                self.loads.append(Load(target, slot, plan.first, item.node))
                if linked:
                    self._links[root].append(target)
            chosen = [each[number] for each in inputs]
            used = [buffer for buffer, _ in chosen if buffer is not None]
            constant = constants[number]
            if constant is not None:
                used.append(constant)
            emit = partial(self._emit, work, tile, chosen, constant, target, output)
            after = None
            if output.outside is not None:
                after = partial(self._store, work, tile, target, output)
            made.append(
                Slot(
                    index,
                    item.node,
                    search.tile_cycles(tile.rows, tile.channels),
                    (*used, target),
                    emit,
                    after,
                    plan.beside and number > 0,
                )
            )
        return made

    def _constant_buffers(self, index: int, item: Item, work: Work, plan: _Plan) -> list[Buffer | None]:
        """The buffer with the constants of each tile; consecutive uses share one, kept ones all."""
        if work.constant_bytes(0, work.channels) == 0:
            return [None] * len(plan.tiles)
        name = f"{self.graph.nodes[item.node].name}: constants"
        pack = self.residents.packs(index)
        current: dict[tuple[int, int], Buffer] = {}
        found: list[Buffer | None] = []
        before: tuple[int, int] | None = None
        for tile, slot in zip(plan.tiles, plan.slots, strict=True):
            key = (tile.first_channel, tile.last_channel)
            if key not in current or (not plan.share_constants and key != before):
                current[key] = self._new_buffer(name, work.constant_bytes(*key), slot, slot)
                self.loads.append(self._constant_load(item, work, key, current[key], slot, pack))
            current[key].last_slot = slot
            before = key
            found.append(current[key])
        return found

    def _constant_load(
        self, item: Item, work: Work, channels: tuple[int, int], buffer: Buffer, slot: int, pack: bool
    ) -> Load:
        """The load of the constants of some channels, packed where that is shorter and the hardware can."""
        key = (id(work), *channels)
        blocks = self.residents.network.blocks
        if (*key, pack) not in blocks:
            constants = work.constants(*channels)
            packs = pack and bool(self.hardware.dma.decoder_bytes_per_cycle)
            blocks[*key, pack] = (constants, *block(constants, packs))
        constants, content, packed_bytes = blocks[*key, pack]
        address = self.layout.chunk(key, content)
        space = self.hardware.holder("constants")
        load = Load(buffer, slot, 0, item.node, space, address, 0, content.size_bytes)
        if packed_bytes and constants.weights is not None:
            load.packed_bytes, load.weights = packed_bytes, constants.weights.size
            load.zero_point = constants.zero_point
        return load

    def _input_buffers(
        self, index: int, item: Item, work: Work, position: int, plan: _Plan
    ) -> list[tuple[Buffer | None, int]]:
        """For each tile: the buffer with its rows of an input, and the offset of the first row needed in it."""
        rows, needed = work.inputs[position]
        root, _ = self.residents.inputs(index)[position]
        if root in self._links:
            return [(buffer, 0) for buffer in self._links[root]]
        place = self._part(self.residents.inputs(index)[position])
        if place.buffer is not None:
            return [
                (
                    place.buffer,
                    self._resident_rows(root, item, rows, needed(t.first_row, t.last_row), place, slot),
                )
                for t, slot in zip(plan.tiles, plan.slots, strict=True)
            ]
        name = f"{self.graph.nodes[item.node].name}: input band"
        earliest = self._written(self.residents.storages[root], index)
        found: list[tuple[Buffer | None, int]] = []
        before: tuple[int, int, int] | None = None
        for tile, slot in zip(plan.tiles, plan.slots, strict=True):
            first, last = needed(tile.first_row, tile.last_row)
            sliced = work.sliced and tile.channels < work.channels
            begin = tile.first_channel if sliced else 0
            if last <= first:
                found.append((None, 0))
                before = None
                continue
            if (first, last, begin) != before:
                size = (last - first) * rows.row_bytes
                size = size // work.channels * tile.channels if sliced else size
                buffer = self._new_buffer(name, size, slot, slot)
                assert place.outside is not None
                space, start = place.outside
                address = start + rows.offset_bytes + first * rows.row_bytes + begin
                load = Load(buffer, slot, earliest, item.node, space, address, 0, size)
                if sliced:
                    load.run_bytes, load.stride_bytes = tile.channels, work.channels
                self.loads.append(load)
                found.append((buffer, 0))
                before = (first, last, begin)
            else:
                found.append(found[-1])
            current = found[-1][0]
            if current is not None:
                current.last_slot = slot
        return found

    def _resident_rows(
        self, root: int, item: Item, rows: Rows, needed: tuple[int, int], place: Place, slot: int
    ) -> int:
        """The offset of the first needed row in its storage; rows that come from DRAM are loaded up to the last."""
        first, last = needed
        assert place.buffer is not None
        start = place.offset_bytes + rows.offset_bytes
        storage = self.residents.storages[root]
        if storage.from_dram:
            have, want = self._loaded.get(root, 0), start + last * rows.row_bytes
            if want > have:
                space, address = self.layout.space(root), self.layout.address(root) + have
                earliest = place.buffer.first_slot
                self.loads.append(
                    Load(place.buffer, slot, earliest, item.node, space, address, have, want - have)
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
        sliced = work.sliced and tile.channels < work.channels
        return work.emit(tile, TileAddresses(addresses, constant, address, row_stride, pixel_stride, sliced))

    def _target(self, work: Work, tile: Tile, target: Buffer, output: Place) -> tuple[int, int, int]:
        """Address, row stride and pixel stride of a tile's output in the scratchpad."""
        rows = work.output
        if output.buffer is None:
            return target.address, rows.row_bytes // work.channels * tile.channels, tile.channels
        start = output.offset_bytes + rows.offset_bytes + tile.first_row * rows.row_bytes + tile.first_channel
        return target.address + start, rows.row_bytes, work.channels

    def _store(self, work: Work, tile: Tile, target: Buffer, output: Place) -> list[Instruction]:
        """The copies that take a tile's output to the memory that it belongs in."""
        assert output.outside is not None
        rows = work.output
        address, row_stride, pixel_stride = self._target(work, tile, target, output)
        space, start = output.outside
        start += rows.offset_bytes + tile.first_row * rows.row_bytes + tile.first_channel
        spaces, ends = (Space.SCRATCHPAD, space), (address, start)
        if tile.channels == work.channels:
            size = tile.rows * rows.row_bytes
            return [strided_copy(self._store_channel, spaces, ends, (size,), ((), ()))]
        counts = tile.rows, rows.row_bytes // work.channels, tile.channels
        strides = (row_stride, pixel_stride), (rows.row_bytes, work.channels)
        pieces: tuple[Piece, ...] = (Piece((0, 0), counts, strides),)
        if tile.channels < self.hardware.dma.port_bytes_per_cycle:  # a beat takes more than one of these runs
            pieces = plan_copy(counts, strides, spaces, self.hardware).pieces
        return [each.copy(self._store_channel, spaces, ends) for each in pieces]

    # Moves and host calls.

    def _move_slot(self, index: int, item: Item, move: Move) -> Slot:
        target = self._place(item, move.target)
        source = None if move.source is None else self._place(item, move.source)
        used = tuple(p.buffer for p in (target, source) if p is not None and p.buffer is not None)
        ends = [] if target.buffer is None else [Space.SCRATCHPAD]
        if target.outside is not None:
            ends.append(target.outside[0])
        origin = self._origin(item, move, source)
        plans = [(end, plan_move(move, (origin, end), self.hardware)) for end in ends]
        copies = (
            self._emit_move(move, source, target, (origin, end), piece)
            for end, found in plans
            for piece in found.pieces
        )
        # Its time at a memory's port hides no loads: they pass the same port.
        dma = self.hardware.dma
        cycles = dma.setup_cycles + prod(move.counts) // dma.port_bytes_per_cycle
        return Slot(index, item.node, cycles, used, lambda: next(copies), lambda: list(copies))

    def _origin(self, item: Item, move: Move, source: Place | None) -> Space:
        """The memory that a move reads. What came from another memory is whole there; in the scratchpad it may not be
        yet.
        """
        if source is None or move.source is None:
            return Space.SCRATCHPAD
        root = self.residents.forest.root(operand_tensor(self.graph, item.node, move.source))[0]
        if source.outside is not None and (source.buffer is None or self.residents.storages[root].from_dram):
            return source.outside[0]
        return Space.SCRATCHPAD

    def _emit_move(
        self, move: Move, source: Place | None, target: Place, spaces: tuple[Space, Space], piece: Piece
    ) -> Instruction:
        """One copy of a move, when its buffers have addresses."""
        start = 0 if source is None else _address(source, spaces[0]) + move.source_offset
        end = _address(target, spaces[1]) + move.target_offset
        copy = piece.copy(self._store_channel, spaces, (start, end))
        return replace(copy, fill=1, value=move.value) if source is None else copy

    def _host_slot(self, index: int, item: Item) -> Slot:
        instruction = Call(index=self._call_numbers[item.node])
        cycles = instruction.cost(self._context).cycles
        return Slot(index, item.node, cycles, (), lambda: instruction)
