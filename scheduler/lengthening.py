"""Networks of equal layers: a shortened network is compiled, and the instructions of a layer are repeated.

Of many equal layers the compiler schedules a few. If the instructions of neighbouring layers come out equal, the
program of the whole network has those of one layer as often as needed, with other addresses. Placements are chosen so
that they do: outputs leave the scratchpad after their last use, and in memory each layer's tensors, constants and code
begin at the first row of the first bank.

Only networks whose constants are known by their sizes are compiled in this way: data of constants decides how they are
stored, and how the layers are scheduled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npusim.isa.base.tensor import HostCall, Placement
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import CONTENTS, Space
from npusim.isa.instructions.control import Call
from npusim.isa.program.program import Blank, Layer, Program
from npusim.isa.program.repeat import Range, Repeat, remember
from npusim.kernels.graph.graph import Graph
from npusim.scheduler.emit.equal_parts import (
    FEWEST,
    Parts,
    aligned,
    equal_parts,
    ranges_of,
    whole_program,
    with_fewer_parts,
)
from npusim.scheduler.network.network import Network, check_whole, prepare
from npusim.scheduler.network.periods import Shortened, origins, shortened

KEPT = 8
"""Equal layers of the shortened network. A large scratchpad needs up to 4 until its placements recur, the machine 3 to
compare its states, and 2 more differ at the end, where nothing is left to be loaded ahead."""


class Different(Exception):
    """Raised for equal layers that cannot be scheduled once; its text says why."""


def shortened_network(graph: Graph, hardware: Hardware) -> Network | None:
    """Return the network of a graph with fewer equal layers; None if it has too few of them.

    Raises Different, and GraphError and CompileError for the whole graph, as `prepare` does.
    """
    parts = shortened(graph, KEPT)
    if parts is None:
        return None
    for what in CONTENTS:
        if hardware.holder(what) != Space.DRAM:
            raise Different(f"{hardware.memory_name(hardware.holder(what))} holds {what} instead of the DRAM")
    check_whole(graph, hardware)
    network = prepare(parts.graph, hardware)
    if len(network.graph.nodes) != len(parts.graph.nodes):
        raise Different("the compiler simplifies the network")  # so its layers have other numbers
    return replace(network, parts=parts)


def lengthened(program: Program, parts: Shortened, graph: Graph) -> Program:
    """Return the program of the whole graph from that of the shortened one.

    Feature maps of neighbouring layers may take turns with two addresses. Then two layers are one part.

    Raises Different if the instructions of its layers do.
    """
    if not isinstance(program.constants, Blank):
        raise Different("the data of all constants is known")
    if program.spared:
        raise Different("mac_array.weight_bits leaves out a part of the constants")
    different = Different("their instructions differ")
    for grouped in (1, 2):
        of_group = parts.grouped(grouped)
        parts_found = None if of_group is None else equal_parts(program, of_group.size)
        if of_group is not None and parts_found is not None:
            try:
                return _lengthened(program, of_group, graph, parts_found, grouped)
            except Different as apart:
                different = apart
    raise different


def _lengthened(program: Program, parts: Shortened, graph: Graph, alike: Parts, grouped: int) -> Program:
    """Return the whole program from equal parts. Raises Different if what these access is not apart in memory."""
    short, equal = aligned(program, alike, program.hardware.port_timing(Space.DRAM).stripe_bytes)
    ranges = ranges_of(short, equal)
    if ranges is None:
        raise Different("their data is not in separate DRAM rows, whole stripes apart")
    repeat = Repeat(short, *equal, parts.removed, parts.size, grouped, ranges)
    places = _Places(parts, graph, repeat)
    whole = replace(
        whole_program(repeat),
        inputs=tuple(map(places.of, graph.inputs)),
        outputs=tuple(map(places.of, graph.outputs)),
        states=tuple(places.of(state.before) for state in graph.states),
        layers=tuple(_layers(short, parts, graph)),
    )
    whole = replace(whole, host_calls=tuple(_named_calls(whole, graph)))
    if repeat.number > FEWEST:
        return remember(whole, with_fewer_parts(repeat), repeat)
    return remember(whole, repeat)


def _layers(short: Program, parts: Shortened, graph: Graph) -> list[Layer]:
    """Return the layers of the whole program: those of the short one, with the names of the graph's nodes."""
    layers = []
    for number, node in enumerate(graph.nodes):
        layer = short.layers[parts.shortened_node(number)]
        tensors = tuple(graph.tensors[tensor].name for tensor in node.outputs)
        layers.append(replace(layer, name=node.name, tensors=tensors))
    return layers


def _named_calls(whole: Program, graph: Graph) -> Iterator[HostCall]:
    """Yield the host calls of the whole program with the names of the graph's nodes and tensors."""
    layers = whole.layer_of[whole.code[:, 0] == Call.opcode].tolist()
    for layer, call in zip(layers, whole.host_calls, strict=True):
        node = graph.nodes[layer]
        inputs = tuple(
            None if place is None or tensor is None else replace(place, name=graph.tensors[tensor].name)
            for place, tensor in zip(call.inputs, node.inputs, strict=True)
        )
        outputs = tuple(
            replace(place, name=graph.tensors[tensor].name)
            for place, tensor in zip(call.outputs, node.outputs, strict=True)
        )
        yield replace(call, name=node.name, inputs=inputs, outputs=outputs)


class _Places:
    """The placements of inputs, outputs and states in the whole program."""

    def __init__(self, parts: Shortened, graph: Graph, repeat: Repeat) -> None:
        short = repeat.short
        self._parts, self._graph, self._repeat = parts, graph, repeat
        last_layer = int(short.layer_of[repeat.end - 1])
        self._behind = parts.kept - (last_layer + 1 - parts.begin) // parts.size
        ends = (*parts.graph.inputs, *parts.graph.outputs, *(state.before for state in parts.graph.states))
        self._known = dict(zip(ends, (*short.inputs, *short.outputs, *short.states), strict=True))
        self._origins = origins(graph)

    def of(self, tensor: int) -> Placement:
        """Return the placement of a tensor of the whole graph."""
        parts, graph = self._parts, self._graph
        like, later = tensor, 0
        if tensor in self._origins:
            number, position = self._origins[tensor]
            short = parts.shortened_node(number)
            later = (number - short) // parts.size
            if tensor not in self._known:
                node = graph.nodes[short]
                tensor_number = node.outputs[position] if position >= 0 else node.inputs[~position]
                assert tensor_number is not None
                like = tensor_number
        place, own = self._known[like], graph.tensors[tensor]
        address = place.address
        for one in self._repeat.ranges:
            if one.space == place.space and one.first <= place.address < self._end(one):
                address += one.step * later
            elif one.space == place.space and place.address >= self._end(one):
                address += one.step * self._repeat.copies
        return Placement(own.name, own.type, address, place.space, own.from_reals)

    def _end(self, one: Range) -> int:
        """Return the end of a range with the parts behind the equal ones."""
        return one.end + one.step * self._behind
