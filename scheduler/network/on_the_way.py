"""What a machine does on the way: look-ups by who gives their operand, parts of tensors reached in place, bricks.

Items stay as they are, and what they compute; their instructions say that they take no time, or how wide a pixel is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.elementwise import Grid
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import MacInstruction
from npusim.isa.instructions.vector import Lookup
from npusim.kernels.graph.graph import Graph
from npusim.kernels.lowering.work import Move, Tile, TileAddresses, Work
from npusim.scheduler.network.storage import Item, operand_tensor, operands

_IMAGE_AXES = 4
_FEWEST_OF_BRICKS = 4
"""A map of fewer channels is not kept in bricks."""


def on_the_way(graph: Graph, items: Sequence[Item], hardware: Hardware) -> tuple[Item, ...]:
    """The items as this machine executes them."""
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
    """Which items give each tensor, and which nodes need it.

    results: tensors that are read outside.
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
        """Whether one operand of one node is all that a tensor is for."""
        return len(self._takers.get(tensor, ())) == 1 and tensor not in self.results

    def given(self, tensor: int, by: Callable[[Work | Move], bool]) -> bool:
        """Whether all items that give a tensor are computations and copies for which `by` holds; not for none."""
        found = [item.body for item in self._givers.get(tensor, ())]
        return bool(found) and all(isinstance(body, Work | Move) and by(body) for body in found)

    def needed_in_place(self, tensor: int) -> bool:
        """Whether whoever needs a tensor reads it on the NPU."""
        takers = self._takers.get(tensor, ())
        bodies = [item.body for node in takers for item in self._items_of.get(node, ())]
        moved = tensor not in self.results and all(node in self._items_of for node in takers)
        return moved and all(isinstance(body, Work | Move) for body in bodies)


def _looked_up(users: Users, items: Sequence[Item]) -> set[int]:
    """The tensors whose look-up is all that they are for, and that the NPU computes without one."""
    found = set()
    for item in items:
        if isinstance(item.body, Work) and item.body.look_up:
            source = operand_tensor(users.graph, item.node, item.body.inputs[0][0].operand)
            plain = users.given(source, lambda body: isinstance(body, Work) and not body.look_up)
            if users.for_one(source) and plain:
                found.add(source)
    return found


def _in_place(users: Users, item: Item, move: Move) -> bool:
    """Whether a copy can be done without; not where it joins what was only looked at as part of something else."""
    if not move.view or move.source is None:
        return False
    source, target = (operand_tensor(users.graph, item.node, each) for each in (move.source, move.target))
    if move.view == "source":
        return users.needed_in_place(target)
    whole = users.given(source, lambda body: isinstance(body, Work) or body.view != "source")
    return users.for_one(source) and whole


def _executed(users: Users, item: Item, work: Work, looked_up: set[int], brick: int) -> Work:
    """The work with what its instructions are to be told."""
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
    """The work with fields of its instructions of a kind set."""

    def emit(tile: Tile, at: TileAddresses) -> tuple[Instruction, ...]:
        made = work.instructions(tile, at)
        return tuple([replace(each, **fields) if isinstance(each, kind) else each for each in made])

    alike = None if work.alike is None else (*fields.items(), work.alike)
    return replace(work, emit=emit, alike=alike)
