"""The compiler: a graph and a hardware description in, a program out, as a visible list of passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.errors import CompileError, GraphError
from npusim.isa.hardware import Hardware
from npusim.isa.instruction import Unit
from npusim.isa.program import Buffer as BufferRecord
from npusim.isa.program import HostCall, Layer, Program
from npusim.isa.table import encode_all
from npusim.kernels import call_of, operator, simplify
from npusim.kernels.graph import Graph
from npusim.kernels.operator import Alias, Call, Operator
from npusim.kernels.work import Move, Work
from npusim.scheduler.chains import plan_chains
from npusim.scheduler.layout import DramLayout, host_placements
from npusim.scheduler.moves import pieces
from npusim.scheduler.residency import Residents
from npusim.scheduler.slots import SlotBuilder
from npusim.scheduler.storage import Aliases, HostStep, Item, find_storages, join_aliases, share_in_place
from npusim.scheduler.synchronise import synchronise
from npusim.scheduler.timeline import DoesNotFit, Timeline, arrange

_ATTEMPTS = 200
_UNIT_OF_LAYER = {Unit.MAC: "mac", Unit.VECTOR: "vector", Unit.HOST: "host"}


def compile_graph(graph: Graph, hardware: Hardware) -> Program:
    """Compile a graph for a machine.

    Raises GraphError for operators that are malformed or unknown, CompileError for a model that does not fit
    the hardware: it names the operator, the bytes it needs and the bytes there are.
    """
    graph = simplify(graph)
    uses = [_checked(graph, node) for node in range(len(graph.nodes))]
    forest, free = join_aliases(graph, _aliases(uses))
    items = [
        Item(node, body)
        for node, (each, call) in enumerate(uses)
        if node not in free
        for body in _lower(each, call, hardware)
    ]
    residents = _fit(graph, forest, items, hardware)
    layout, host_calls, builder, timeline = _schedule(uses, residents, hardware)
    synchronise(timeline.instructions, host_calls)
    inputs, outputs = (
        tuple(layout.placement(tensor) for tensor in ends) for ends in (graph.inputs, graph.outputs)
    )
    constants, dram_size_bytes, code_address = layout.finish(len(timeline.instructions))
    return Program(
        name=graph.name,
        hardware=hardware,
        code=encode_all(timeline.instructions),
        constants=constants,
        dram_size_bytes=dram_size_bytes,
        code_address=code_address,
        inputs=inputs,
        outputs=outputs,
        layers=_layers(graph, uses, timeline),
        layer_of=np.array(timeline.layers, np.uint32),
        host_calls=host_calls,
        buffers=tuple(
            BufferRecord(
                each.name, each.address, each.size_bytes, each.instructions[0], each.instructions[-1]
            )
            for each in builder.buffers
            if each.instructions
        ),
        constants_address=layout.constants_address,
    )


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


def _fit(graph: Graph, forest: Aliases, items: Sequence[Item], hardware: Hardware) -> Residents:
    """What stays in the scratchpad. Results take the place of inputs there only: in DRAM room is cheap, and bytes
    that are written while they are read tie layers together.
    """
    shared = share_in_place(graph, forest, items)
    residents = Residents(graph, items, find_storages(graph, forest, items), forest, hardware)
    residents.fit()
    evicted = [output for output in shared if forest.root(output)[0] not in residents.roots]
    if evicted:
        for output in evicted:
            del forest.parent[output]
        residents = Residents(graph, items, find_storages(graph, forest, items), forest, hardware)
        residents.fit()
    return residents


def _schedule(
    uses: Sequence[tuple[Operator, Call]], residents: Residents, hardware: Hardware
) -> tuple[DramLayout, tuple[HostCall, ...], SlotBuilder, Timeline]:
    """Cut, place and order; where something finds no room, give it less and try again."""
    for _ in range(_ATTEMPTS):
        chains = plan_chains(residents, hardware)
        inside = residents.roots.union(*(chain.links for chain in chains.values()))
        together = [chain.items for chain in chains.values()]
        layout = DramLayout(residents.graph, residents.storages, residents.forest, inside, together, hardware)
        host_calls = _host_calls(uses, residents, layout)
        builder = SlotBuilder(residents, layout, host_calls, chains, hardware)
        try:
            builder.build()
            timeline = arrange(builder.slots, builder.loads, builder.memory, hardware)
        except DoesNotFit as failure:
            residents.shrink(failure.item)
            continue
        return layout, tuple(host_calls.values()), builder, timeline
    raise CompileError(
        f"{residents.graph.name}: no schedule found for {hardware.name} with {residents.capacity_bytes} bytes of "
        f"scratchpad; enlarge scratchpad.size_kib"
    )


def _host_calls(
    uses: Sequence[tuple[Operator, Call]], residents: Residents, layout: DramLayout
) -> dict[int, HostCall]:
    """The host-operator table, by node, in order of execution."""
    graph = residents.graph
    found = {}
    for item in residents.items:
        if isinstance(item.body, HostStep):
            node = graph.nodes[item.node]
            each, call = uses[item.node]
            outputs = [layout.placement(tensor) for tensor in node.outputs]
            found[item.node] = HostCall(
                node.name,
                each.name,
                node.attributes,
                host_placements(layout, node.inputs),
                tuple(outputs),
                each.workload(call),
                item.body.reason,
            )
    return found


def _layers(graph: Graph, uses: Sequence[tuple[Operator, Call]], timeline: Timeline) -> tuple[Layer, ...]:
    """One layer per node, with the unit that does its main work."""
    units: list[set[Unit]] = [set() for _ in graph.nodes]
    for instruction, layer in zip(timeline.instructions, timeline.layers, strict=True):
        units[layer].add(instruction.unit)
    layers = []
    for node, (each, call), used in zip(graph.nodes, uses, units, strict=True):
        named = [name for unit, name in _UNIT_OF_LAYER.items() if unit in used]
        unit = named[0] if named else ("dma" if used else "none")
        tensors = tuple(graph.tensors[index].name for index in node.outputs)
        layers.append(Layer(node.name, each.name, unit, each.workload(call), tensors))
    return tuple(layers)
