"""A network made ready for scheduling: everything that depends on the graph and the machine but on no choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from npusim.isa.base.errors import GraphError
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.call import call_of
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.graph.inference import layer_name
from npusim.kernels.graph.rewrite import simplify
from npusim.kernels.graph.unknown import require_known
from npusim.kernels.lowering.work import Move, Work
from npusim.kernels.operator.operator import Alias, Call, Lowering, Operator, Part
from npusim.kernels.table import operator
from npusim.scheduler.network.memo import Memo
from npusim.scheduler.network.moves import pieces
from npusim.scheduler.network.states import check_states
from npusim.scheduler.network.storage import Aliases, HostStep, Item, join_aliases


@dataclass(frozen=True, slots=True)
class Network:
    """A graph, simplified and checked, as items in the order of execution.

    uses:    operator and call of every node.
    aliases: tensors that share memory because their operator moves nothing.
    memo:    what passes have made of it.
    """

    graph: Graph
    hardware: Hardware
    uses: tuple[tuple[Operator, Call], ...]
    items: tuple[Item, ...]
    aliases: Aliases
    memo: Memo = field(default_factory=Memo)


def prepare(graph: Graph, hardware: Hardware) -> Network:
    """Check a graph, simplify it, check the rules of its operators and lower them.

    Raises GraphError for a graph that is not well formed and for operators that are malformed or unknown.
    """
    check_bound(graph)
    _require_straight_line(graph)
    require_known(graph)
    graph = simplify(graph, hardware)
    uses = tuple(_checked(graph, node) for node in range(len(graph.nodes)))
    ways = tuple(_way(node, *use, hardware) for node, use in zip(graph.nodes, uses, strict=True))
    check_states(graph, lambda node: _computes(ways[node]))
    aliases, free = join_aliases(graph, _aliases(uses))
    items = tuple(
        Item(node, body)
        for node, (way, (_, call)) in enumerate(zip(ways, uses, strict=True))
        if node not in free
        for body in _lower(way, call, hardware)
    )
    return Network(graph, hardware, uses, items, aliases)


def _computes(way: Lowering | str) -> bool:
    """Whether a unit of the NPU computes what a node gives; the host does, or it is copied."""
    return not isinstance(way, str) and way.unit != "dma"


def _require_straight_line(graph: Graph) -> None:
    for node in graph.nodes:
        if node.bodies:
            where = f"{graph.name}: {layer_name(node)}"
            raise GraphError(
                f"{where} decides, so the model is several programs; npusim run takes it, this takes one program"
            )


def _checked(graph: Graph, node: int) -> tuple[Operator, Call]:
    """The operator and call of a node. Raises GraphError when a rule of the operator is broken."""
    each = graph.nodes[node]
    try:
        found = operator(each.op)
    except GraphError as error:
        raise GraphError(f'{graph.name}: layer "{each.name}": {error}') from None
    call = call_of(graph, each)
    if broken := found.broken_rule(call):
        raise GraphError(f'{graph.name}: {each.op} "{each.name}" breaks a rule: {broken}')
    return found, call


def _way(node: Node, each: Operator, call: Call, hardware: Hardware) -> Lowering | str:
    """How the NPU computes a node, or why the host does."""
    if node.on_host:
        return node.on_host
    return each.lowering(call, hardware) or each.host_reason(call, hardware)


def _lower(way: Lowering | str, call: Call, hardware: Hardware) -> Sequence[Work | Move | HostStep]:
    if not any(output.elements for output in call.outputs):
        return ()  # no element to compute: there is nothing to do, on whatever unit
    if isinstance(way, str):
        return (HostStep(way),)
    return [body for part in way.lower(call, hardware) for body in _bodies(part)]


def _bodies(part: Part) -> Iterable[Work | Move]:
    if isinstance(part, Move):
        return pieces(part)
    assert isinstance(part, Work)
    return (part,)


def _aliases(uses: Sequence[tuple[Operator, Call]]) -> dict[int, tuple[Alias, ...]]:
    """The nodes that move nothing if their operands share memory."""
    found = {}
    for node, (each, call) in enumerate(uses):
        parts = each.alias(call) if each.alias is not None else None
        if parts:
            found[node] = parts
    return found
