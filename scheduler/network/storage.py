"""Storages: memory that tensors share. Here their tensors, lifetimes, and the origins of their bytes are found."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.instructions.grid import Grid
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import MacInstruction
from npusim.isa.instructions.vector import Lookup
from npusim.kernels.graph.graph import Graph
from npusim.kernels.lowering.work import Move, OperandRef, Pick, Tile, TileAddresses, Work
from npusim.kernels.operator.operator import Alias


@dataclass(frozen=True, slots=True)
class HostStep:
    """A node that the host computes.

    reason: why the NPU does not, in words.
    keys:   hardware keys that would let the NPU compute it if they were set.
    """

    reason: str
    keys: tuple[str, ...] = ()


Body = Work | Move | Pick | HostStep
"""What an item executes."""


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the execution order: a tileable work, a move, a pick, or a host call, of one node."""

    node: int
    body: Body


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that one or more tensors share.

    first, last: items between which the content is live, both included; first is -1 if it is live from the start.
    writes:      the items that write it, in order.
    first_read:  the first work that reads it.
    from_dram:   its content is produced in a memory outside of the scratchpad (model inputs, constants, host outputs).
    to_dram:     its content is used in a memory outside of the scratchpad (model outputs, host inputs).
    constant:    it holds a constant, with or without data.
    from_npu:    the NPU writes it.
    in_npu:      works read or write it, so it may be in the scratchpad.
    pinned:      it stays in the scratchpad during the whole run.
    """

    name: str
    size_bytes: int
    first: int
    last: int
    from_dram: bool = False
    to_dram: bool = False
    from_npu: bool = False
    in_npu: bool = False
    pinned: bool = False
    constant: bool = False
    writes: tuple[int, ...] = ()
    first_read: int | None = None

    @property
    def may_be_resident(self) -> bool:
        """Whether it may stay in the scratchpad: works access it, and its bytes have one origin; or it is pinned.

        A storage from another memory is loaded once, front to back, so it must be complete there before the first
        work reads it.
        """
        if self.pinned:
            return True
        late = self.first_read is not None and bool(self.writes) and self.writes[-1] > self.first_read
        return self.in_npu and not (self.from_dram and (self.from_npu or late))


@dataclass(frozen=True, slots=True)
class Aliases:
    """A forest over tensors: each tensor is a root or lies at an offset inside its parent.

    parent: the parent of each tensor that is no root, and the tensor's offset in it in bytes.
    """

    parent: Mapping[int, tuple[int, int]]

    def root(self, tensor: int) -> tuple[int, int]:
        """Return the root tensor of a tensor's storage, and the tensor's offset in it in bytes."""
        offset = 0
        while tensor in self.parent:
            tensor, step = self.parent[tensor]
            offset += step
        return tensor, offset


def operand_tensor(graph: Graph, node: int, ref: OperandRef) -> int:
    """Return the tensor index of an operand of a node. Raises ValueError for an absent operand."""
    side, position = ref
    reader = graph.nodes[node]
    tensor = reader.inputs[position] if side == "in" else reader.outputs[position]
    if tensor is None:
        raise ValueError(f'operand {ref} of "{reader.name}" is absent')
    return tensor


def join_aliases(graph: Graph, aliases: Mapping[int, tuple[Alias, ...]]) -> tuple[Aliases, set[int]]:
    """Let the operands of operators that move no bytes share memory; return the forest and the nodes that became free.

    The next value of a state shares the memory of the state. A model output never shares memory with a model input or
    a constant, because the output's memory belongs to the caller: such a node remains a copy. So does one that gives
    the old value of a state to a node behind the one that writes the next value.
    """
    parent = {state.after: (state.before, 0) for state in graph.states}
    forest = Aliases(parent)
    free: set[int] = set()
    fixed = frozenset(graph.inputs) | frozenset(
        index for index, tensor in enumerate(graph.tensors) if tensor.constant
    )
    results = frozenset(graph.outputs)
    nexts = {state.after: state.before for state in graph.states}
    written, last_read = {}, {}
    for number, reader in enumerate(graph.nodes) if nexts else ():
        written.update({nexts[tensor]: number for tensor in reader.outputs if tensor in nexts})
        last_read.update(dict.fromkeys(reader.inputs, number))
    whole_only = fixed | {state.before for state in graph.states}
    for node, parts in aliases.items():
        triples = [
            (
                operand_tensor(graph, node, part.part),
                operand_tensor(graph, node, part.whole),
                part.offset_bytes,
            )
            for part in parts
        ]
        if any(part in results and forest.root(whole)[0] in fixed for part, whole, _ in triples):
            continue
        if any(
            node < written.get(forest.root(whole)[0], -1) < last_read.get(part, -1)
            for part, whole, _ in triples
        ):
            continue
        joined = _joined(parent, triples, whole_only)
        if joined is not None:
            parent.update(joined)
            free.add(node)
    return forest, free


def _joined(
    parent: dict[int, tuple[int, int]], parts: Sequence[tuple[int, int, int]], fixed: frozenset[int]
) -> dict[int, tuple[int, int]] | None:
    """Return aliases that place each `part` at an offset in its `whole`; None if one of them is impossible.

    `fixed` tensors cannot become parts.
    """
    joined: dict[int, tuple[int, int]] = {}
    wider = Aliases(ChainMap(joined, parent))
    for part, whole, offset in parts:
        if part in wider.parent or part in fixed or wider.root(whole)[0] == part:
            return None
        joined[part] = whole, offset
    return joined


def share_in_place(
    graph: Graph, aliases: Aliases, items: Sequence[Item], apart: frozenset[int] = frozenset()
) -> Aliases:
    """Return the aliases with which outputs reuse the memory of an input that no later item reads.

    This holds only for tensors that works alone read and write, which may be in the scratchpad. Outputs in `apart`
    keep memory of their own, and so do batches of products and what works make of them: in a chain, stripes of
    neighbouring stages are alive at a time.
    """
    products: set[int] = set()
    parent = dict(aliases.parent)
    forest = Aliases(parent)
    fixed = {*graph.inputs, *graph.outputs, *(state.before for state in graph.states)}
    fixed |= {index for index, tensor in enumerate(graph.tensors) if tensor.constant}
    last_read: dict[int, int] = {}
    writers: Counter[int] = Counter()
    for index, item in enumerate(items):
        reads, writes = operands(graph, item)
        fixed.update(fetched(graph, item))
        last_read.update(dict.fromkeys([forest.root(tensor)[0] for tensor in reads], index))
        writers.update([forest.root(tensor)[0] for tensor in writes])
        if isinstance(item.body, HostStep):
            fixed |= {*reads, *writes}
    kept = {forest.root(tensor)[0] for tensor in fixed}
    for index, item in enumerate(items):
        if not isinstance(item.body, Work):
            continue
        read, written = operands(graph, items[index - 1]) if index else ([], [])
        before = {forest.root(tensor)[0] for tensor in read} - {forest.root(tensor)[0] for tensor in written}
        output = operand_tensor(graph, item.node, item.body.output.operand)
        sources = [operand_tensor(graph, item.node, rows.operand) for rows in item.body.reads]
        if item.body.is_batch_of_products or not products.isdisjoint(sources):
            products.add(output)
            continue
        roots = [forest.root(source)[0] for source in sources]
        # Prefer inputs that the work before does not read: reusing one that it reads would prevent fusing the pair. If
        # it writes in place of what it reads, the pair cannot be fused anyway.
        for position in sorted(item.body.overwrites, key=lambda place: roots[place] in before):
            root, offset = forest.root(sources[position])
            same_size = graph.tensors[root].type.size_bytes == graph.tensors[output].type.size_bytes
            alone = output not in parent and writers.get(output) == 1 and output not in apart
            if (
                root in kept
                or output in kept
                or last_read[root] != index
                or roots.count(root) > 1  # a later tile may still read bytes that this one would overwrite
                or offset
                or not same_size
                or not alone
            ):
                continue
            parent[output] = (root, 0)
            last_read[root] = max(last_read[root], last_read.get(output, index))
            break
    return forest


def operands(graph: Graph, item: Item) -> tuple[list[int], list[int]]:
    """Return the tensors that an item reads, and those that it writes."""
    body = item.body
    if isinstance(body, Work):
        reads = [operand_tensor(graph, item.node, rows.operand) for rows, _ in body.inputs]
        if body.weights is not None:
            reads.append(operand_tensor(graph, item.node, body.weights.operand))
        return reads, [operand_tensor(graph, item.node, rows.operand) for rows in body.outputs]
    if isinstance(body, Move):
        reads = [] if body.source is None else [operand_tensor(graph, item.node, body.source)]
        return reads, [operand_tensor(graph, item.node, body.target)]
    if isinstance(body, Pick):
        reads = [operand_tensor(graph, item.node, operand) for operand in (body.source, body.indices)]
        return reads, [operand_tensor(graph, item.node, body.target)]
    node = graph.nodes[item.node]
    return [tensor for tensor in node.inputs if tensor is not None], list(node.outputs)


def fetched(graph: Graph, item: Item) -> list[int]:
    """Return the tensors whose bytes a work loads together with its constants, from outside of the scratchpad."""
    body = item.body
    return [operand_tensor(graph, item.node, ref) for ref in body.fetched] if isinstance(body, Work) else []


def find_storages(
    graph: Graph, forest: Aliases, items: Sequence[Item], hardware: Hardware, *, brief: bool = False
) -> dict[int, Storage]:
    """Return the storages by root tensor, with lifetimes over `items`.

    brief: outputs leave the scratchpad after their last use; else they stay until the end, as all items may read them.

    On hardware with `dma.views`, storages that only copies access may be in the scratchpad, too. If the scratchpad
    holds the inputs and outputs of the network (`memory.io`), the host reads and writes them there: they are pinned.
    """
    end = len(items)
    states = [state.before for state in graph.states]
    from_dram: set[int] = set()
    to_dram: set[int] = set()
    from_npu: set[int] = set()
    in_npu: set[int] = set()
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    writes: dict[int, list[int]] = {}
    first_reads: dict[int, int] = {}

    def root_of(tensor: int) -> int:
        """Return the root tensor of a tensor's storage. A new storage has an empty lifetime."""
        root, _ = forest.root(tensor)
        if root not in first:
            first[root], last[root] = end, -1
            if graph.tensors[root].constant:
                first[root] = -1
                from_dram.add(root)
        return root

    def used(tensor: int, index: int) -> int:
        """Return the root tensor of a tensor's storage, and extend the storage's lifetime to an item."""
        root = root_of(tensor)
        first[root], last[root] = min(first[root], index), max(last[root], index)
        return root

    for tensor in (*graph.inputs, *states):
        root = root_of(tensor)
        first[root] = -1
        from_dram.add(root)
    for index, item in enumerate(items):
        reads, writes_of_item = operands(graph, item)
        work = isinstance(item.body, Work)
        host = isinstance(item.body, HostStep)
        inside = work or (hardware.dma.views and isinstance(item.body, Move))
        read = [used(tensor, index) for tensor in reads]
        to_dram.update([used(tensor, index) for tensor in fetched(graph, item)])
        written = [used(tensor, index) for tensor in writes_of_item]
        for root in written:
            writes.setdefault(root, []).append(index)
        if inside:
            in_npu.update(read, written)
        if work:
            for root in read:
                first_reads.setdefault(root, index)
        if host:
            to_dram.update(read)
            from_dram.update(written)
        else:
            from_npu.update(written)
    for tensor in (*graph.outputs, *states):
        root = root_of(tensor)
        last[root] = last[root] if brief and last[root] >= 0 else end
        to_dram.add(root)
    ends = (*graph.inputs, *graph.outputs) if hardware.holder("io") == Space.SCRATCHPAD else ()
    pinned = {forest.root(tensor)[0] for tensor in ends}.difference(states)
    pinned = {root for root in pinned if not graph.tensors[root].constant}
    return {
        root: Storage(
            graph.tensors[root].name,
            graph.tensors[root].type.size_bytes,
            first=-1 if root in pinned else first[root],
            last=end if root in pinned else last[root],
            from_dram=root in from_dram and root not in pinned,
            to_dram=root in to_dram and root not in pinned,
            from_npu=root in from_npu,
            in_npu=root in in_npu,
            pinned=root in pinned,
            constant=graph.tensors[root].constant,
            writes=tuple(writes.get(root, ())),
            first_read=first_reads.get(root),
        )
        for root in first
    }


_IMAGE_AXES = 4
_FEWEST_OF_BRICKS = 4
"""Least channels of a feature map that is stored in bricks (groups of channels)."""


def on_the_way(graph: Graph, items: Sequence[Item], hardware: Hardware) -> tuple[Item, ...]:
    """Mark what this machine fuses: look-ups in the MAC array's output, views instead of copies, channel bricks."""
    vector, dma = hardware.vector, hardware.dma
    if not vector.fused_lookup and not dma.views and vector.brick_channels == 1:
        return tuple(items)
    users = Users(graph, items)
    looked_up = _looked_up(users, items) if vector.fused_lookup else set()
    executed = []
    for item in items:
        if isinstance(item.body, Move) and not (dma.views and _in_place(users, item, item.body)):
            item = replace(item, body=replace(item.body, view=""))
        if isinstance(item.body, Work):
            item = replace(item, body=_executed(users, item, item.body, looked_up, vector.brick_channels))
        executed.append(item)
    return tuple(executed)


class Users:
    """The items that write each tensor, and the nodes that read it.

    results: tensors that are read outside of the network, and next values of states.
    """

    def __init__(self, graph: Graph, items: Sequence[Item]) -> None:
        self.graph = graph
        self.results = frozenset(graph.outputs) | {state.after for state in graph.states}
        self._givers: dict[int, list[Item]] = {}
        self._items_of: dict[int, list[Item]] = {}
        for item in items:
            self._items_of.setdefault(item.node, []).append(item)
            for tensor in operands(graph, item)[1]:
                self._givers.setdefault(tensor, []).append(item)
        self._takers: dict[int, list[int]] = {}
        for number, node in enumerate(graph.nodes):
            for operand in node.inputs:
                if operand is not None:
                    self._takers.setdefault(operand, []).append(number)

    def for_one(self, tensor: int) -> bool:
        """Return True if a tensor is read by one operand of one node only."""
        return len(self._takers.get(tensor, ())) == 1 and tensor not in self.results

    def given(self, tensor: int, by: Callable[[Work | Move], bool]) -> bool:
        """Return True if only works and copies write a tensor, at least one of them, and `by` holds for each."""
        bodies = [item.body for item in self._givers.get(tensor, ())]
        return bool(bodies) and all(isinstance(body, Work | Move) and by(body) for body in bodies)

    def needed_in_place(self, tensor: int) -> bool:
        """Return True if all readers of a tensor run on the NPU."""
        takers = self._takers.get(tensor, ())
        bodies = [item.body for node in takers for item in self._items_of.get(node, ())]
        moved = tensor not in self.results and all(node in self._items_of for node in takers)
        return moved and all(isinstance(body, Work | Move) for body in bodies)


def _looked_up(users: Users, items: Sequence[Item]) -> set[int]:
    """Return the tensors that only a look-up reads, and whose producers have no look-up of their own."""
    looked_up = set()
    for item in items:
        if isinstance(item.body, Work) and item.body.look_up:
            source = operand_tensor(users.graph, item.node, item.body.inputs[0][0].operand)
            plain = users.given(source, lambda body: isinstance(body, Work) and not body.look_up)
            if users.for_one(source) and plain:
                looked_up.add(source)
    return looked_up


def _in_place(users: Users, item: Item, move: Move) -> bool:
    """Return True if a copy can be a view; not if it joins tensors that are themselves views of another one."""
    if not move.view or move.source is None:
        return False
    source, target = (operand_tensor(users.graph, item.node, ref) for ref in (move.source, move.target))
    if move.view == "source":
        return users.needed_in_place(target)
    whole = users.given(source, lambda body: isinstance(body, Work) or body.view != "source")
    return users.for_one(source) and whole


def _executed(users: Users, item: Item, work: Work, looked_up: set[int], brick: int) -> Work:
    """Return a work whose instructions have the fields set for fused look-ups or bricks."""
    tensors = users.graph.tensors
    source = operand_tensor(users.graph, item.node, work.inputs[0][0].operand) if work.inputs else None
    output = operand_tensor(users.graph, item.node, work.output.operand)
    shape = tensors[output].type.shape
    if work.look_up and source in looked_up:
        return _marked(work, Lookup, {"fused": 1})
    if output in looked_up:
        return _marked(work, MacInstruction, {"looked_up": 1})
    bricks = len(shape) == _IMAGE_AXES and shape[-1] >= _FEWEST_OF_BRICKS and output not in users.results
    return _marked(work, Grid, {"pixel": shape[-1]}) if brick > 1 and bricks else work


def _marked(work: Work, kind: type[Instruction], fields: Mapping[str, Any]) -> Work:
    """Return a work that sets `fields` of its instructions of type `kind`."""

    def emit(tile: Tile, at: TileAddresses) -> tuple[Instruction, ...]:
        rows = work.instructions(tile, at)
        return tuple([replace(row, **fields) if isinstance(row, kind) else row for row in rows])

    alike = None if work.alike is None else (*fields.items(), work.alike)
    return replace(work, emit=emit, alike=alike)
