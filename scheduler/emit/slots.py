"""The slots of a network: its tiles with their buffers, loads and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import NamedTuple

from npusim.isa.base.tensor import HostCall
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.region import Space
from npusim.kernels.lowering.work import Move, OperandRef, Pick, Rows, Tile, TileAddresses, Work, Written
from npusim.scheduler.emit.buffers import Held, Operands, Place, Plan
from npusim.scheduler.emit.moves import Piece, plan_copy, plan_move
from npusim.scheduler.emit.sequence import Buffer, DoesNotFit, Load, Slot, strided_copy
from npusim.scheduler.fit.allocate import Allocator
from npusim.scheduler.fit.cuts import output_bytes
from npusim.scheduler.network.network import part_of
from npusim.scheduler.network.storage import Item, Storage, operand_tensor
from npusim.scheduler.place.chains import Chain, batch_of
from npusim.scheduler.place.fused_pairs import FusedPair
from npusim.scheduler.place.layout import MemoryLayout
from npusim.scheduler.place.residency import Residents
from npusim.scheduler.place.sharing import item_before, loads_alone


def _address(place: Place, space: Space) -> int:
    """Return the address of an operand in a memory that holds it."""
    if space != Space.SCRATCHPAD:
        assert place.outside is not None
        return place.outside[1]
    assert place.buffer is not None
    return place.buffer.address + place.offset_bytes


class _Target(NamedTuple):
    """The destination of a tile of an output: a buffer of its own, or its part of the whole output's buffer."""

    rows: Rows
    buffer: Buffer
    place: Place

    def written(self, work: Work, tile: Tile) -> Written:
        """Return where a tile's bytes are written in the scratchpad, once the buffer has an address."""
        rows, place = self.rows, self.place
        if place.buffer is None:
            row_bytes = rows.row_bytes // work.channels * tile.channels
            return Written(self.buffer.address, row_bytes, tile.channels)
        start = place.offset_bytes + rows.begin(tile.entry, tile.first_row) + tile.first_channel
        return Written(self.buffer.address + start, rows.row_bytes, work.channels)


class SlotBuilder:
    """Builds the slots and loads of a whole network for one choice of residents and cuts."""

    def __init__(
        self,
        residents: Residents,
        layout: MemoryLayout,
        host_calls: dict[int, HostCall],
        chains: Mapping[int, Chain],
        fused_pairs: Mapping[int, FusedPair],
    ) -> None:
        hardware = residents.network.hardware
        self.residents = residents
        self._sharing = residents.sharing
        self.graph = residents.network.graph
        self.layout = layout
        self._context = Context(hardware, tuple(host_calls.values()))
        self._call_numbers = {node: number for number, node in enumerate(host_calls)}
        self.hardware = hardware
        self._operands = Operands(residents, layout, chains)
        self._plans = self._operands.plans
        self.loads, self.buffers = self._operands.loads, self._operands.buffers
        self.item_of_slot: list[int] = []
        self.memory = Allocator.of_scratchpad(residents.capacity_bytes, hardware)
        self._lead_slots = residents.choices.lead_slots
        self._store_channel = min(1, hardware.dma.channels - 1)
        self._chains = chains
        self._fused_pairs = fused_pairs

    def build(self) -> list[Slot]:
        """Cut all items, place the resident storages, and return the slots in order. Raises DoesNotFit.

        The builder keeps no slots. They refer to it, so without a cycle a failed attempt is freed at once.
        """
        items = self._sharing.items
        while len(self._plans) < len(items):
            index = len(self._plans)
            if index in self._chains:
                self._plan_chain(self._chains[index])
            elif index in self._fused_pairs:
                self._plan_fused_pair(self._fused_pairs[index])
            else:
                self._plan_alone(index, items[index])
        self._place_residents()
        slots: dict[int, Slot] = {}
        parts, begun = self.residents.network.parts, -1
        for index, (item, plan) in enumerate(zip(items, self._plans, strict=True)):
            if parts is not None and item.node > begun and parts.starts_part(begun := item.node):
                self.layout.begin_part()
            if isinstance(item.body, Work):
                slots.update(zip(plan.slots, self._unhurried(index, item, item.body, plan), strict=True))
            elif isinstance(item.body, Move):
                slots[plan.first] = self._move_slot(index, item, item.body)
            elif isinstance(item.body, Pick):
                slots[plan.first] = self._pick_slot(index, item, item.body)
            else:
                slots[plan.first] = self._host_slot(index, item)
        if self.hardware.overlap != "all":
            for load in self.loads:
                load.earliest_slot = max(load.earliest_slot, self._earliest(load.needed_slot))
        return [slots[number] for number in range(len(slots))]

    def _earliest(self, slot: int) -> int:
        """Return the first slot beside which a load for `slot` may run, on hardware that limits prefetching.

        It is the first slot of the item that needs the load, or of the nearest item before that takes time.
        """
        index = self.item_of_slot[slot]
        network, packs = self.residents.network, self.residents.packs(index)
        return self._plans[index if loads_alone(network, index, packs) else item_before(network, index)].first

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
        self._plans.append(Plan(tiles, slots, share, first, slots[-1]))

    def _plan_chain(self, chain: Chain) -> None:
        works = [body for index in chain.items if isinstance(body := self._sharing.items[index].body, Work)]
        bands, first, stages = chain.bands(works), len(self.item_of_slot), len(chain.items)
        beside = batch_of(works)[0] > 1
        units = [self.residents.searches[index].unit for index in chain.items]
        # With batch entries each unit is a stripe ahead of the unit behind it, so that none waits for another.
        behind = [beside * sum(a != b for a, b in pairwise(units[: stage + 1])) for stage in range(stages)]
        order = sorted(
            (number + behind[stage], -behind[stage], stage, number)
            for stage in range(stages)
            for number in range(len(bands))
        )
        slots: list[list[int]] = [[] for _ in chain.items]
        for slot, (_, _, stage, _) in enumerate(order, first):
            slots[stage].append(slot)
            self.item_of_slot.append(chain.items[stage])
        last = len(self.item_of_slot) - 1
        for stage in range(stages):
            self._plans.append(Plan([band[stage] for band in bands], slots[stage], True, first, last, beside))

    def _plan_fused_pair(self, fused_pair: FusedPair) -> None:
        first = len(self.item_of_slot)
        tiles: tuple[list[Tile], list[Tile]] = ([], [])
        slots: tuple[list[int], list[int]] = ([], [])
        for row, follows in fused_pair.tiles:
            for stage, stage_tiles in enumerate((row, () if follows is None else (follows,))):
                tiles[stage].extend(stage_tiles)
                slots[stage].extend(range(len(self.item_of_slot), len(self.item_of_slot) + len(stage_tiles)))
                self.item_of_slot += [fused_pair.items[stage]] * len(stage_tiles)
        last = len(self.item_of_slot) - 1
        self._plans += [
            Plan(tiles[stage], slots[stage], True, first, last, beside=stage == 0) for stage in (0, 1)
        ]

    def _place_residents(self) -> None:
        """Give the resident storages their addresses, largest first. Pinned storages have theirs already."""
        storages, plans = self._sharing.storages, self._plans
        for root in self.residents.roots:
            if storages[root].pinned:
                self.memory.take(self.layout.address(root), storages[root].size_bytes, 0, plans[-1].last)
        roots = self.residents.roots.difference(self._operands.links)
        for root in sorted(roots, key=lambda r: (-storages[r].size_bytes, r)):
            storage = storages[root]
            first = plans[max(storage.first, 0)].first
            if storage.from_dram:
                reader = self._sharing.first_uses.get(root, max(storage.first, 0))
                first = max(self._operands.written(storage, reader), plans[reader].first - self._lead_slots)
            last = max(plans[min(storage.last, len(plans) - 1)].last, first)
            address = (
                self.layout.address(root) if storage.pinned else self._place_resident(storage, first, last)
            )
            buffer = Buffer(storage.name, storage.size_bytes, first, last, address or 0, True)
            if address is None:
                raise DoesNotFit(self.item_of_slot[first])
            self._operands.resident[root] = buffer
            self.buffers.append(buffer)

    def _place_resident(self, storage: Storage, first: int, last: int) -> int | None:
        """Return the address of a storage that stays from slot `first` to `last`; None if there is no room.

        The result of a work behind a move avoids the bytes that the move reads, if there is room elsewhere, and so does
        that of a move behind a work. The DMA and the other unit would else wait for each other.
        """
        before = storage.first - 1
        pair = [type(item.body) for item in self._sharing.items[max(before, 0) : storage.first + 1]]
        address = None
        if set(pair) == {Move, Work}:
            address = self.memory.find(storage.size_bytes, self._plans[before].first, last)
        if address is None:
            return self.memory.place(storage.size_bytes, first, last)
        self.memory.take(address, storage.size_bytes, first, last)
        return address

    # Works.

    def _unhurried(self, index: int, item: Item, work: Work, plan: Plan) -> list[Slot]:
        """Return the slots of a work. If the work may not prefetch, issue each load with the tile that needs it."""
        before = len(self.loads)
        slots = self._work_slots(index, item, work, plan)
        if not self.residents.prefetches(index):
            for load in self.loads[before:]:
                load.earliest_slot = load.needed_slot
        return slots

    def _work_slots(self, index: int, item: Item, work: Work, plan: Plan) -> list[Slot]:
        name = self.graph.nodes[item.node].name
        operands = self._operands
        constants = operands.constants(index, item, work)
        weights = operands.weights(index, item, work)
        inputs = [operands.inputs(index, item, work, position) for position in range(len(work.inputs))]
        parts = self._sharing.outputs[index]
        linked = parts[0][0] in operands.links
        places = [Place(None, 0, None) if linked else operands.part(part) for part in parts]
        search = self.residents.searches[index]
        slots = []
        for number, (tile, slot) in enumerate(zip(plan.tiles, plan.slots, strict=True)):
            targets = []
            for position, place in enumerate(places):
                target = place.buffer
                if target is None:
                    size = output_bytes(work, tile.rows, tile.channels, position)
                    # The next stage of a chain reads it.
                    last = self._plans[index + 1].slots[number] if linked else slot
                    target = operands.new_buffer(f"{name}: output", size, slot, last)
                    self.loads.append(Load(target, slot, plan.first, item.node))
                    if linked:
                        operands.links[parts[0][0]].append(target)
                targets.append(_Target(work.outputs[position], target, place))
            chosen = [of_operand[number] for of_operand in inputs]
            fixed = (constants[number], weights[number])
            used = [held.buffer for held in (*chosen, *fixed) if held.buffer is not None]
            emit = partial(self._emit, work, tile, chosen, fixed, targets)
            stored = [target for target in targets if target.place.outside is not None]
            after = partial(self._store, work, tile, stored) if stored else None
            slots.append(
                Slot(
                    index,
                    item.node,
                    search.tile_cycles(tile.rows, tile.channels),
                    (*used, *[target.buffer for target in targets]),
                    emit,
                    after,
                    plan.beside and number > 0,
                )
            )
        return slots

    def _emit(
        self,
        work: Work,
        tile: Tile,
        inputs: Sequence[Held],
        fixed: tuple[Held, Held],
        targets: Sequence[_Target],
    ) -> tuple[Instruction, ...]:
        """Return the instructions of a tile. fixed: its constants, and its non-constant weights."""
        constants, weights = fixed
        where = TileAddresses(
            tuple([held.address for held in inputs]),
            tuple([held.row_bytes for held in inputs]),
            constants.address,
            tuple([target.written(work, tile) for target in targets]),
            work.sliced and tile.channels < work.channels,
            weights.address,
            weights.row_bytes,
        )
        return work.instructions(tile, where)

    def _store(self, work: Work, tile: Tile, targets: Sequence[_Target]) -> list[Instruction]:
        """Return the copies that store a tile's outputs to the memories that hold them."""
        return [copy for target in targets for copy in self._store_one(work, tile, target)]

    def _store_one(self, work: Work, tile: Tile, target: _Target) -> list[Instruction]:
        assert target.place.outside is not None
        rows = target.rows
        address, row_stride, pixel_stride = target.written(work, tile)
        space, start = target.place.outside
        spaces = (Space.SCRATCHPAD, space)
        ends = (address, start + rows.begin(tile.entry, tile.first_row) + tile.first_channel)
        if tile.channels == work.channels:
            size = tile.rows * rows.row_bytes
            return [strided_copy(self._store_channel, spaces, ends, (size,), ((), ()))]
        counts = tile.rows, rows.row_bytes // work.channels, tile.channels
        strides = (row_stride, pixel_stride), (rows.row_bytes, work.channels)
        pieces: tuple[Piece, ...] = (Piece((0, 0), counts, strides),)
        # Runs shorter than the port waste transfer cycles, so blocks of them may be faster.
        if tile.channels < self.hardware.dma.port_bytes_per_cycle:
            pieces = plan_copy(counts, strides, spaces, self.hardware).pieces
        return [piece.copy(self._store_channel, spaces, ends) for piece in pieces]

    # Moves and host calls.

    def _move_slot(self, index: int, item: Item, move: Move) -> Slot:
        target = self._operands.place(item, move.target)
        source = None if move.source is None else self._operands.place(item, move.source)
        used = tuple(p.buffer for p in (target, source) if p is not None and p.buffer is not None)
        ends = [] if target.buffer is None else [Space.SCRATCHPAD]
        if target.outside is not None:
            ends.append(target.outside[0])
        origin = Space.SCRATCHPAD if move.source is None else self._origin(item, move.source, source)
        copies = (
            self._emit_move(part, source, target, (origin, end), piece)
            for end in ends
            for part in self._parts(index, move)
            for piece in plan_move(part, (origin, end), self.hardware).pieces
        )
        # Cycles at a memory's port do not count: they hide no loads, which pass the same port.
        dma = self.hardware.dma
        cycles = dma.setup_cycles + prod(move.counts) // dma.port_bytes_per_cycle
        return Slot(index, item.node, cycles, used, lambda: (next(copies),), lambda: list(copies))

    def _parts(self, index: int, move: Move) -> list[Move]:
        """Return a move of what a chain with batch entries computes in two parts, any other move as it is.

        The second part is the last entry's. While the chain computes it, the DMA copies the entries before.
        """
        ends = [chain.items[-1] for chain in self._chains.values()]
        work = self._sharing.items[index - 1].body
        if index - 1 not in ends or not isinstance(work, Work) or not move.source_strides:
            return [move]
        stride = max(move.source_strides)
        axis = move.source_strides.index(stride)
        count, last = move.counts[axis], work.output.entry_bytes // max(stride, 1)
        if not 0 < last < count:
            return [move]
        return [part_of(move, axis, 0, count - last), part_of(move, axis, count - last, last)]

    def _origin(self, item: Item, operand: OperandRef, place: Place | None) -> Space:
        """Return the memory that an operand is read from.

        An operand that comes from another memory is read there, because its copy in the scratchpad may be incomplete.
        """
        assert place is not None
        root = self._sharing.forest.root(operand_tensor(self.graph, item.node, operand))[0]
        if place.outside is not None and (place.buffer is None or self._sharing.storages[root].from_dram):
            return place.outside[0]
        return Space.SCRATCHPAD

    def _pick_slot(self, index: int, item: Item, pick: Pick) -> Slot:
        from npusim.scheduler.network.picks import gather  # only where a network picks rows

        operands = pick.target, pick.source, pick.indices
        target, source, indices = places = [self._operands.place(item, operand) for operand in operands]
        origins = self._origin(item, pick.source, source), self._origin(item, pick.indices, indices)
        ends = [] if target.buffer is None else [Space.SCRATCHPAD]
        if target.outside is not None:
            ends.append(target.outside[0])
        gathers = (
            gather(
                pick,
                self._store_channel,
                (*origins, end),
                (_address(source, origins[0]), _address(indices, origins[1]), _address(target, end)),
            )
            for end in ends
        )
        dma = self.hardware.dma
        run_beats = -(-pick.run_bytes // dma.port_bytes_per_cycle)
        cycles = 2 * dma.setup_cycles + pick.size_bytes // pick.run_bytes * run_beats
        used = tuple([place.buffer for place in places if place.buffer is not None])
        return Slot(index, item.node, cycles, used, lambda: (next(gathers),), lambda: list(gathers))

    def _emit_move(
        self, move: Move, source: Place | None, target: Place, spaces: tuple[Space, Space], piece: Piece
    ) -> Instruction:
        """Build the copy instruction of a move from the addresses of its buffers."""
        start = 0 if source is None else _address(source, spaces[0]) + move.source_offset
        end = _address(target, spaces[1]) + move.target_offset
        copy = piece.copy(self._store_channel, spaces, (start, end))
        inside = self.hardware.dma.views and set(spaces) == {Space.SCRATCHPAD}
        copy = replace(copy, view=1) if move.view and inside else copy
        return replace(copy, fill=1, value=move.value) if source is None else copy

    def _host_slot(self, index: int, item: Item) -> Slot:
        instruction = Call(index=self._call_numbers[item.node])
        cycles = instruction.cost(self._context).cycles
        return Slot(index, item.node, cycles, (), lambda: (instruction,))
