"""Residency: which storages stay in the scratchpad from the layer that makes them to the last that reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.isa.errors import CompileError
from npusim.isa.hardware import Hardware
from npusim.kernels.graph import Graph
from npusim.kernels.work import Work
from npusim.scheduler.allocate import aligned
from npusim.scheduler.storage import Aliases, Item, Storage, operand_tensor
from npusim.scheduler.tiling import Residency, TileSearch


class Residents:
    """The resident storages (by root tensor) and what is left of the scratchpad at each item.

    `unhurried` items load nothing ahead of the tile that needs it: what waits may split the room of a larger
    buffer.
    """

    def __init__(
        self,
        graph: Graph,
        items: Sequence[Item],
        storages: Mapping[int, Storage],
        forest: Aliases,
        hardware: Hardware,
    ) -> None:
        self.graph = graph
        self.items = items
        self.storages = storages
        self.forest = forest
        self.hardware = hardware
        self.capacity_bytes = hardware.scratchpad.size_kib * 1024
        self.roots = {root for root, storage in storages.items() if storage.may_be_resident}
        self.unhurried: set[int] = set()
        self._limits: list[int | None] = [None] * len(items)
        self._first_uses = self._find_first_uses()
        self._searches: dict[tuple[int, Residency], TileSearch] = {}

    def resident(self, item: Item, operand: tuple[str, int]) -> bool:
        """Whether an operand of an item lives in the scratchpad."""
        return self.forest.root(operand_tensor(self.graph, item.node, operand))[0] in self.roots

    def residency(self, item: Item, work: Work) -> Residency:
        """Where the operands of a work are."""
        roots = [
            self.forest.root(operand_tensor(self.graph, item.node, rows.operand))[0]
            for rows, _ in work.inputs
        ]
        inside = tuple(root in self.roots for root in roots)
        loaded = tuple(
            root in self.roots and self.storages[root].from_dram and self._first_uses[root] is item
            for root in roots
        )
        return Residency(inside, self.resident(item, work.output.operand), loaded)

    def _find_first_uses(self) -> dict[int, Item]:
        """The first work that reads each storage."""
        found: dict[int, Item] = {}
        for item in self.items:
            if isinstance(item.body, Work):
                for rows, _ in item.body.inputs:
                    tensor = operand_tensor(self.graph, item.node, rows.operand)
                    found.setdefault(self.forest.root(tensor)[0], item)
        return found

    def search(self, index: int) -> TileSearch:
        """The tile search of a work as its operands lie now; remembered from one attempt to the next."""
        item = self.items[index]
        if not isinstance(item.body, Work):
            raise ValueError(f"item {index} is no work")
        key = (index, self.residency(item, item.body))
        if key not in self._searches:
            self._searches[key] = TileSearch(item.body, key[1], self.hardware)
        return self._searches[key]

    def _live(self, index: int) -> list[int]:
        """The residents that are live at an item."""
        return [root for root in self.roots if self.storages[root].first <= index <= self.storages[root].last]

    def live_bytes(self, index: int) -> int:
        """Bytes of the residents that are live at an item."""
        return sum(aligned(self.storages[root].size_bytes) for root in self._live(index))

    def budget(self, index: int) -> int:
        """Bytes that the streaming buffers of an item may take."""
        room, limit = self.capacity_bytes - self.live_bytes(index), self._limits[index]
        return room if limit is None else min(room, limit)

    def fit(self) -> None:
        """Evict until every item has room for its smallest buffers. Raises CompileError when it cannot."""
        for index in range(len(self.items)):
            while self._smallest(index) > self.capacity_bytes - self.live_bytes(index):
                self.evict(index)

    def _smallest(self, index: int) -> int:
        """Bytes that the streaming buffers of an item need at least; moves and host calls have none."""
        return self.search(index).smallest_buffers() if isinstance(self.items[index].body, Work) else 0

    def shrink(self, index: int) -> None:
        """Give an item less room, after its buffers found no place; when that leads nowhere, evict; then slow down.

        Raises CompileError when nothing helps.
        """
        item = self.items[index]
        smallest, budget = self._smallest(index), self.budget(index)
        if isinstance(item.body, Work) and budget > smallest:
            self._limits[index] = max(budget * 3 // 5, smallest)
        elif index not in self.unhurried and not self._live(index):
            self.unhurried.add(index)
        else:
            self._limits[index] = None
            self.evict(index)

    def evict(self, index: int) -> None:
        """Send one storage that is live at an item to DRAM: the one that costs least traffic per byte of need."""
        item, live = self.items[index], self._live(index)
        if not live:
            raise CompileError(self._message(index))
        used = set()
        if isinstance(item.body, Work):
            operands = [rows.operand for rows, _ in item.body.inputs] + [item.body.output.operand]
            used = {self.forest.root(operand_tensor(self.graph, item.node, ref))[0] for ref in operands}
        # Bystanders first (their eviction needs no buffers here), then the largest.
        live.sort(key=lambda root: (root in used, -self.storages[root].size_bytes, root))
        self.roots.discard(live[0])

    def _message(self, index: int) -> str:
        item = self.items[index]
        node = self.graph.nodes[item.node]
        return (
            f'{self.graph.name}: {node.op} "{node.name}" needs {self._smallest(index)} bytes of scratchpad for its '
            f"smallest tile, {self.hardware.name} has {self.capacity_bytes}; enlarge scratchpad.size_kib"
        )
