"""A network made ready for scheduling: everything that depends on the graph and the machine but on no choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npusim.isa.base.errors import GraphError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Piece
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph
from npusim.kernels.lowering.work import Constants, Move, Work
from npusim.kernels.operator.operator import Alias, Call, Operator
from npusim.kernels.table import call_of, operator, require_known, simplify
from npusim.scheduler.emit.moves import pieces
from npusim.scheduler.fit.cuts import Depth, Residency
from npusim.scheduler.fit.tiling import TileCosts, TileSearch
from npusim.scheduler.network.states import check_states
from npusim.scheduler.network.storage import Aliases, HostStep, Item, join_aliases

if TYPE_CHECKING:
    from npusim.scheduler.place.chains import Bands
    from npusim.scheduler.place.weaves import Woven

SearchKey = tuple[int, Residency, Depth, bool, bool]
"""Item, where its operands are, buffers per operand, weights packed, whether any cut will do."""


@dataclass(frozen=True, slots=True)
class Network:
    """A graph, simplified and checked, as items in the order of execution.

    uses:     operator and call of every node.
    aliases:  tensors that share memory because their operator moves nothing.
    searches: the tile searches so far; one schedule after another asks for the same.
    costs:    what tiles of each item need and cost; shared by its searches.
    chains:   the chains measured so far: by works as they lie, links and depth, then by row step.
    weaves:   the weaves measured so far: by works as they lie and the map between, then by parts.
    blocks:   constants as they lie in DRAM and their packed bytes: by work (identity), channels, and whether packed.
    """

    graph: Graph
    hardware: Hardware
    uses: tuple[tuple[Operator, Call], ...]
    items: tuple[Item, ...]
    aliases: Aliases
    searches: dict[SearchKey, TileSearch] = field(default_factory=dict)
    costs: dict[int, TileCosts] = field(default_factory=dict)
    chains: dict[tuple[object, ...], dict[int, Bands]] = field(default_factory=dict)
    weaves: dict[tuple[object, ...], dict[int, Woven]] = field(default_factory=dict)
    blocks: dict[tuple[int, int, int, bool], tuple[Constants, Piece, int]] = field(default_factory=dict)


def prepare(graph: Graph, hardware: Hardware) -> Network:
    """Check a graph, simplify it, check the rules of its operators and lower them.

    Raises GraphError for a graph that is not well formed and for operators that are malformed or unknown.
    """
    graph = _well_formed(graph)
    require_known(graph)
    graph = simplify(graph)
    uses = tuple(_checked(graph, node) for node in range(len(graph.nodes)))
    check_states(graph, lambda node: host_reason(*uses[node]) is not None)
    aliases, free = join_aliases(graph, _aliases(uses))
    items = tuple(
        Item(node, body)
        for node, (each, call) in enumerate(uses)
        if node not in free
        for body in _lower(each, call, hardware)
    )
    return Network(graph, hardware, uses, items, aliases)


def _well_formed(graph: Graph) -> Graph:
    try:
        return check(graph)
    except GraphError as error:
        raise GraphError(f"{graph.name}: {error}") from None


def _checked(graph: Graph, node: int) -> tuple[Operator, Call]:
    """The operator and call of a node. Raises GraphError when a rule of the operator is broken."""
    each = graph.nodes[node]
    try:
        found = operator(each.op)
    except GraphError as error:
        raise GraphError(f'{graph.name}: layer "{each.name}": {error}') from None
    call = call_of(graph, each)
    for rule in found.rules:
        if not rule(call):
            raise GraphError(f'{graph.name}: {each.op} "{each.name}" breaks a rule: {_text(rule.__doc__)}')
    return found, call


def _text(docstring: str | None) -> str:
    return " ".join((docstring or "").split()).rstrip(".")


def _lower(each: Operator, call: Call, hardware: Hardware) -> Sequence[Work | Move | HostStep]:
    if not any(output.elements for output in call.outputs):
        return ()  # no element to compute: there is nothing to do, on whatever unit
    reason = host_reason(each, call)
    if reason is None and each.lower is not None:
        bodies = each.lower(call, hardware)
        return [part for body in bodies for part in (pieces(body) if isinstance(body, Move) else (body,))]
    return (HostStep(reason or ""),)


def host_reason(each: Operator, call: Call) -> str | None:
    """Why a call runs on the host; None if the NPU computes it."""
    for rule in each.npu_rules:
        if not rule(call):
            return _text(rule.__doc__)
    return None if each.lower is not None else f"the NPU has no {each.name}"


def _aliases(uses: Sequence[tuple[Operator, Call]]) -> dict[int, tuple[Alias, ...]]:
    """The nodes that move nothing if their operands share memory."""
    found = {}
    for node, (each, call) in enumerate(uses):
        parts = each.alias(call) if each.alias is not None else None
        if parts:
            found[node] = parts
    return found
