"""The compiler: the list of passes that turn a graph and a hardware description into a program."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import CompileError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import SIZE_ONLY, HostCall
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.table import encode_all
from npusim.isa.program.program import Buffer as BufferRecord
from npusim.isa.program.program import Layer, Program
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operator.operands import move
from npusim.kernels.operator.operator import Call, Operator
from npusim.scheduler.emit.sequence import Buffer, DoesNotFit, Timeline, arrange
from npusim.scheduler.emit.slots import SlotBuilder
from npusim.scheduler.emit.synchronise import ordered
from npusim.scheduler.fit.cuts import FAST, Choices
from npusim.scheduler.network.network import Network, prepare
from npusim.scheduler.network.storage import HostStep, operands, share_in_place
from npusim.scheduler.place.chains import Chain, plan_chains
from npusim.scheduler.place.fused_pairs import FusedPair, plan_fused_pairs
from npusim.scheduler.place.layout import MemoryLayout, host_placements
from npusim.scheduler.place.residency import Residents, fit, most_attempts, shrink

_LARGE = (2, 4)
"""Divisors of the scratchpad size: two policies send storages to DRAM that are larger than 1/2 or 1/4 of it."""

_LEAST_GAIN = 0.01
"""Least share of the estimated cycles that another policy must save; the estimates are not more accurate."""


def estimated(network: Network) -> Residents:
    """Return the residents of effort "fast": evict storages item by item, unless another policy is faster by estimate.

    Raises CompileError for a network that does not fit.
    """
    best = plain = fit(network, FAST)
    if not plain.evicted:
        return plain
    least = _cycles(plain) * (1 - _LEAST_GAIN)
    for choices in _policies(plain):
        try:
            residents = fit(network, choices)
        except CompileError:
            continue
        cycles = _cycles(residents)
        if cycles < least:
            best, least = residents, cycles
    return best


def _policies(residents: Residents) -> Iterator[Choices]:
    for part in _LARGE:
        yield replace(FAST, evicted=residents.sharing.larger_than(residents.capacity_bytes // part))
    yield replace(FAST, readmit=True)
    if kept := _replaced(residents.network):
        yield replace(FAST, readmit=True, kept=kept)


def _replaced(network: Network) -> frozenset[int]:
    """Return the storages in which three or more results replace each other in place, each read by the next only.

    Such as a gate, its activation, and their product with another factor. In DRAM, each of them would be written and
    read again, so it is better to evict a storage of the same size with one result, such as that factor.
    """
    shared = share_in_place(network.graph, network.aliases, network.items)
    results = shared.parent.keys() - network.aliases.parent.keys()
    replacing = Counter([shared.root(result)[0] for result in results])
    reads = Counter(
        [shared.root(tensor)[0] for item in network.items for tensor in operands(network.graph, item)[0]]
    )
    return frozenset([root for root, count in replacing.items() if reads[root] == count + 1 > 2])


def _cycles(residents: Residents) -> float:
    """Return the estimated cycles of all layers, fused into stripes where that is planned."""
    chains = plan_chains(residents)
    inside = {index for chain in chains.values() for index in chain.items}
    alone = sum(
        residents.cycles(index) for index in range(len(residents.network.items)) if index not in inside
    )
    return alone + sum(chain.cycles for chain in chains.values())


@dataclass(frozen=True, slots=True)
class Schedule:
    """A compiled program with the choices that were prescribed and the decisions that the compiler took."""

    program: Program
    choices: Choices
    residents: Residents
    chains: Mapping[int, Chain]
    fused_pairs: Mapping[int, FusedPair]


def compile_graph(graph: Graph, hardware: Hardware) -> Program:
    """Compile a graph for a machine, with all decisions by estimates.

    Raises GraphError for operators that are malformed or unknown, CompileError for a model that does not fit
    the hardware. That message names the operator, the bytes it needs and the bytes available.
    """
    with _no_collections():
        return _repeated(graph, hardware) or _by_estimates(prepare(graph, hardware))


_MANY_NODES = 64
"""Fewest nodes of a graph whose equal layers are worth a search."""


def _repeated(graph: Graph, hardware: Hardware) -> Program | None:
    """Return the program of a graph with many equal layers, from that of a few if it can; None for any other graph."""
    if len(graph.nodes) < _MANY_NODES or all(tensor.data is not SIZE_ONLY for tensor in graph.tensors):
        return None
    # Few graphs are large and have sized constants.
    from npusim.isa.program.repeat import remember_difference
    from npusim.scheduler.lengthening import Different, lengthened, shortened_network

    try:
        network = shortened_network(graph, hardware)
        if network is None or network.parts is None:
            return None
        return lengthened(_by_estimates(network), network.parts, graph)
    except Different as different:
        why = str(different)
    return remember_difference(_by_estimates(prepare(graph, hardware)), why)


def _by_estimates(network: Network) -> Program:
    """Return the program of effort "fast". All intermediate values are freed when this function returns."""
    return _schedule(estimated(network)).program


@contextmanager
def _no_collections() -> Iterator[None]:
    """Switch off cyclic garbage collection: compiling leaves no cycles, but many small values to search through."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def schedule(network: Network, choices: Choices) -> Schedule:
    """Compile a network with some decisions prescribed. Raises CompileError if it does not fit."""
    with _no_collections():
        return _schedule(fit(network, choices))


def estimated_schedule(network: Network) -> Schedule:
    """Compile a network with all decisions by estimates. Raises CompileError if it does not fit."""
    with _no_collections():
        return _schedule(estimated(network))


def _schedule(residents: Residents) -> Schedule:
    """Place, order, synchronize and encode the instructions of a network."""
    network, choices = residents.network, residents.choices
    graph, uses = network.graph, network.uses
    placed = _arranged(residents)
    layout, host_calls, timeline = placed.layout, placed.host_calls, placed.timeline
    order = ordered(timeline, Context(network.hardware, host_calls))
    inputs, outputs = (
        tuple(layout.placement(tensor) for tensor in ends) for ends in (graph.inputs, graph.outputs)
    )
    memory = layout.finish(len(order.instructions))
    program = Program(
        name=graph.name,
        hardware=network.hardware,
        code=encode_all(order.instructions, order.waits),
        constants=memory.constants,
        dram_size_bytes=memory.dram_size_bytes,
        code_address=memory.code_address,
        inputs=inputs,
        outputs=outputs,
        layers=_layers(graph, uses, timeline),
        layer_of=np.array(order.layers, np.uint32),
        host_calls=host_calls,
        buffers=tuple(
            BufferRecord(
                buffer.name,
                buffer.address,
                buffer.size_bytes,
                order.position(buffer.instructions[0]),
                order.position(buffer.instructions[-1]),
            )
            for buffer in placed.buffers
            if buffer.instructions
        ),
        images=memory.images,
        code_space=memory.code_space,
        areas=memory.areas,
        spared=memory.spared,
        states=tuple(layout.placement(tensor) for tensor, _ in graph.states),
        notes=graph.notes,
    )
    return Schedule(program, choices, placed.residents, placed.chains, placed.fused_pairs)


@dataclass(frozen=True, slots=True)
class _Arranged:
    """A schedule before encoding: the placement of every tensor and buffer, and the instructions in order."""

    residents: Residents
    layout: MemoryLayout
    host_calls: tuple[HostCall, ...]
    chains: Mapping[int, Chain]
    fused_pairs: Mapping[int, FusedPair]
    buffers: Sequence[Buffer]
    timeline: Timeline


def _arranged(residents: Residents) -> _Arranged:
    """Cut, place and order all items. If the buffers of one find no place, shrink that item and start again.

    Whether buffers find a place depends on all items together, so only an attempt can tell. `shrink` takes a step that
    is never undone, and raises CompileError after the last one, so the attempts end.
    """
    for _ in range(most_attempts(residents)):
        chains = plan_chains(residents)
        fused_pairs = (
            plan_fused_pairs(residents, chains) if residents.network.hardware.overlap == "all" else {}
        )
        try:
            return _attempt(residents, chains, fused_pairs)
        except DoesNotFit as failure:
            fused = any(failure.item in fused_pair.items for fused_pair in fused_pairs.values())
            before, residents = residents, shrink(residents, failure.item, fused)
            if residents.roots == before.roots:
                # Those of equal parts would fail for the same reason, one attempt later each.
                allowance = residents.allowance(failure.item)
                for item in residents.network.equal_items(failure.item):
                    residents = residents.allowing(item, allowance)
    raise AssertionError("more attempts than steps")


def _attempt(
    residents: Residents, chains: Mapping[int, Chain], fused_pairs: Mapping[int, FusedPair]
) -> _Arranged:
    """Cut, place and order all items. Raises DoesNotFit for an item whose buffers find no place."""
    network, choices, sharing = residents.network, residents.choices, residents.sharing
    inside = residents.roots.union(*(chain.links for chain in chains.values()))
    together = [chain.items for chain in chains.values()] + [
        fused_pair.items for fused_pair in fused_pairs.values()
    ]
    layout = MemoryLayout(sharing, inside, together)
    host_calls = _host_calls(network, layout)
    builder = SlotBuilder(residents, layout, host_calls, chains, fused_pairs)
    slots = builder.build()
    timeline = arrange(
        slots,
        builder.loads,
        builder.memory,
        network.hardware,
        spare_results=choices.depth.results > 1,
        queue_share=choices.queue_share,
    )
    calls = tuple(host_calls.values())
    return _Arranged(residents, layout, calls, chains, fused_pairs, builder.buffers, timeline)


def _host_calls(network: Network, layout: MemoryLayout) -> dict[int, HostCall]:
    """Return the calls of host operators by node, in the order of execution."""
    calls = {}
    parts, latest = network.parts, -1
    for item in network.items:
        if isinstance(item.body, HostStep):
            if parts is not None and (part := (item.node - parts.begin) // parts.size) > latest:
                layout.begin_part()  # for constants that the host reads
                latest = part
            node = network.graph.nodes[item.node]
            operator, call = network.uses[item.node]
            outputs = [layout.placement(tensor) for tensor in node.outputs]
            calls[item.node] = HostCall(
                node.name,
                operator.name,
                node.parameters.plain(),
                host_placements(layout, node.inputs),
                tuple(outputs),
                _host_work(operator, call),
                item.body.reason,
            )
    if parts is not None and calls:
        layout.begin_part()  # for the other constants, in other rows than those of the last part
    return calls


def _host_work(operator: Operator, call: Call) -> Workload:
    """Return the work of a host call; a call that only renames bytes is a copy, if they could not be shared."""
    work = operator.workload(call)
    return move(call) if work.kind == "free" else work


def _layers(graph: Graph, uses: Sequence[tuple[Operator, Call]], timeline: Timeline) -> tuple[Layer, ...]:
    """Return one layer per node, with the unit that does most of its work."""
    units: list[set[Unit]] = [set() for _ in graph.nodes]
    for instruction, layer in zip(timeline.instructions, timeline.layers, strict=True):
        units[layer].add(instruction.unit)
    layers = []
    for node, (operator, call), used in zip(graph.nodes, uses, units, strict=True):
        working = sorted(used, key=lambda unit: (not unit.kind.advances, unit))
        unit = working[0].kind.name if working else "none"
        tensors = tuple(graph.tensors[index].name for index in node.outputs)
        window = operator.window(call) if operator.window else None
        layers.append(
            Layer(
                node.name,
                operator.name,
                unit,
                operator.workload(call),
                tensors,
                input_shapes=tuple(
                    operand.shape
                    for position, operand in enumerate(call.inputs)
                    if operand is not None and position not in call.constants
                ),
                output_shapes=call.output_shapes,
                kernel=window.kernel if window else (),
                stride=window.stride if window else (),
            )
        )
    return tuple(layers)
