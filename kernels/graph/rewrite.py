"""Rewrites of a graph into a simpler one that computes the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.graph import Graph, Node, Tensor, call_of, unique
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operator.parameters import NONE
from npusim.kernels.table import operator


def simplify(graph: Graph, hardware: Hardware) -> Graph:
    """Return a simpler graph for this machine, with the same outputs byte for byte.

    Pads move into the windows behind them, corrections of negative indices into the gathers and scatters behind them,
    and operators that no unit computes as a whole become several.
    """
    return _rescale_apart(expand(_fold_padding(_fold_indices(graph, hardware), hardware), hardware))


def _fold_indices(graph: Graph, hardware: Hardware) -> Graph:
    """Replace nodes that correct negative indices by bounds="from_end" of the gathers and scatters behind them.

    Exporters write the correction as where(index < 0, index + size, index). The three nodes are removed only together,
    and only if nothing else reads their results.
    """
    if not any(node.op == "select_v2" for node in graph.nodes):
        return graph
    ends = {*graph.outputs, *(state.after for state in graph.states)}
    readers = _readers(graph)
    writers: dict[int | None, int] = {
        output: number for number, node in enumerate(graph.nodes) for output in node.outputs
    }
    nodes: list[Node | None] = list(graph.nodes)
    for number, select in enumerate(graph.nodes):
        parts = _wrapped_index(graph, select, writers)
        alone = all(readers[graph.nodes[part].outputs[0]] == {number} for part in parts)
        takers = readers.get(select.outputs[0])
        removed = [tensor for place in (*parts, number) for tensor in graph.nodes[place].outputs]
        if not parts or not alone or not takers or not ends.isdisjoint(removed):
            continue
        changed = {taker: _from_end(graph, graph.nodes[taker], select, parts, hardware) for taker in takers}
        if None not in changed.values():
            for place, node in {**dict.fromkeys((*parts, number)), **changed}.items():
                nodes[place] = node
    return replace(graph, nodes=tuple([node for node in nodes if node is not None]))


def _readers(graph: Graph) -> dict[int | None, set[int]]:
    """Return the numbers of the nodes that read each tensor."""
    readers: dict[int | None, set[int]] = {}
    for number, node in enumerate(graph.nodes):
        for operand in node.inputs:
            readers.setdefault(operand, set()).add(number)
    return readers


def _wrapped_index(graph: Graph, select: Node, writers: Mapping[int | None, int]) -> tuple[int, ...]:
    """Return the nodes of `index < 0` and `index + size` before a select node; () if the node selects otherwise."""
    if select.op != "select_v2" or select.on_host or len(select.inputs) != 3:
        return ()
    condition, wrapped, index = select.inputs
    less, add = writers.get(condition), writers.get(wrapped)
    if less is None or add is None or graph.nodes[less].op != "less" or graph.nodes[add].op != "add":
        return ()
    if graph.nodes[less].inputs[0] != index or index not in graph.nodes[add].inputs:
        return ()
    nothing = _array(graph, graph.nodes[less].inputs[1])
    return (less, add) if nothing is not None and not nothing.any() else ()


def _from_end(
    graph: Graph, taker: Node, select: Node, parts: Sequence[int], hardware: Hardware
) -> Node | None:
    """Return a gather or scatter that itself counts negative indices from the end; None if it cannot.

    It then reads the index before its correction by `select`. `parts` are as from `_wrapped_index`.
    """
    index, add = select.inputs[2], graph.nodes[parts[1]]
    taking = operator(taker.op)
    if taker.inputs.count(select.outputs[0]) != 1 or taking.index_limits is None or taker.on_host:
        return None
    position = taker.inputs.index(select.outputs[0])
    [size] = [_array(graph, operand) for operand in add.inputs if operand != index] or [None]
    limits = taking.index_limits(call_of(graph, taker))
    if position != 1 or size is None or (size.size > 1 and size.shape[-1] != size.size):
        return None  # sizes along another axis than that of an index's numbers
    if size.size not in (1, len(limits)) or not np.all(size == np.array(limits)):
        return None
    inputs = (*taker.inputs[:1], index, *taker.inputs[2:])
    changed = replace(taker, inputs=inputs, parameters=taker.parameters.changed(bounds="from_end"))
    return changed if _on_npu(graph, changed, hardware) else None


def _array(graph: Graph, tensor: int | None) -> Array | None:
    """Return the values of a constant; None for other tensors."""
    return None if tensor is None else graph.tensors[tensor].array


def _rescale_apart(graph: Graph) -> Graph:
    """Requantize inputs of a concatenation before it, if their rows are scattered in its output.

    Each becomes a concatenation of one input: one look-up of all its values instead of one per row.
    """
    scattered = {id(node): positions for node in graph.nodes if (positions := _scattered(graph, node))}
    if not scattered:
        return graph
    tensors, nodes, names = list(graph.tensors), list[Node](), {node.name: 0 for node in graph.nodes}
    for node in graph.nodes:
        inputs = list(node.inputs)
        for position in scattered.get(id(node), ()):
            source = tensors[inputs[position] or 0]
            kind = replace(source.type, quantization=tensors[node.outputs[0]].type.quantization)
            name = unique(f"{node.name}/rescaled", names)
            tensors.append(Tensor(name, kind))
            nodes.append(replace(node, name=name, inputs=(inputs[position],), outputs=(len(tensors) - 1,)))
            inputs[position] = len(tensors) - 1
        nodes.append(replace(node, inputs=tuple(inputs)))
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def _scattered(graph: Graph, node: Node) -> list[int]:
    """Return the positions of a concatenation's inputs that have another scale, if their rows are scattered."""
    if node.op != "concatenation" or len(node.inputs) < 2 or node.on_host:
        return []
    call = call_of(graph, node)
    if (
        operator(node.op).broken_rule(call) is not None
        or prod(call.outputs[0].shape[: call.parameters.axis]) < 2
    ):
        return []
    from npusim.kernels.operators.movement.joining import rescaling_table  # only where a graph joins tensors

    return [position for position in range(len(call.inputs)) if rescaling_table(call, position) is not None]


def _fold_padding(graph: Graph, hardware: Hardware) -> Graph:
    """Move a pad into the windows that follow it.

    A pad disappears when all its readers are windows whose own border has the pad's value, and it pads height and width
    only.
    """
    nodes: list[Node | None] = list(graph.nodes)
    readers, outputs = _readers(graph), set(graph.outputs)
    # The last pad first: what read it reads the pad before it then.
    for index, pad in reversed(list(enumerate(graph.nodes))):
        own_readers = readers.get(pad.outputs[0]) if pad.op == "pad" and not pad.on_host else None
        if not own_readers or pad.outputs[0] in outputs:
            continue
        folded = {
            reader: _with_padding(graph, pad, window, hardware)
            for reader in own_readers
            if (window := nodes[reader]) is not None
        }
        if None not in folded.values():
            nodes[index] = None
            for reader, changed in folded.items():
                nodes[reader] = changed
            readers[pad.inputs[0]] = readers[pad.inputs[0]] - {index} | own_readers
    return replace(graph, nodes=tuple([node for node in nodes if node is not None]))


def _with_padding(graph: Graph, pad: Node, reader: Node, hardware: Hardware) -> Node | None:
    """Return the reader with the pad's borders in its own padding; None if it cannot have them."""
    reading, pad_call, reader_call = operator(reader.op), call_of(graph, pad), call_of(graph, reader)
    borders = pad_call.parameters.paddings
    source, padded = pad_call.inputs[0], pad_call.outputs[0]
    if reader.on_host or reading.border is None:
        return None
    if reader.inputs.count(pad.outputs[0]) != 1 or reader.inputs[0] != pad.outputs[0]:
        return None
    if len(borders) != 4 or any(borders[0]) or any(borders[3]):
        return None
    if source is None or not padded.quantized8 or source.quantization != padded.quantization:
        return None
    from npusim.kernels.operators.movement.padding import pad_value  # only where a graph pads

    if pad_value(pad_call) != reading.border(reader_call):
        return None
    own = reader_call.parameters.padding
    padding = [[own[axis][side] + borders[axis + 1][side] for side in (0, 1)] for axis in (0, 1)]
    changed = replace(
        reader,
        inputs=(pad.inputs[0], *reader.inputs[1:]),
        parameters=reader_call.parameters.changed(padding=padding),
    )
    return changed if _on_npu(graph, changed, hardware) else None


def expand(graph: Graph, hardware: Hardware) -> Graph:
    """Return the graph with calls replaced by simpler ones where the NPU computes these.

    A call is replaced only if each of its parts runs on the NPU or is one that the host may compute (`on_host` of its
    expansion). Otherwise it stays whole.
    """
    whole, nodes = graph, list[Node]()
    states = frozenset(state.after for state in graph.states)
    for node in graph.nodes:
        added = _in_parts(whole, node, hardware, states)
        if added is None:
            nodes.append(node)
            continue
        whole = replace(whole, tensors=(*whole.tensors, *added[0]))
        nodes += added[1]
    return graph if whole is graph else replace(whole, nodes=tuple(nodes))


def _in_parts(
    graph: Graph, node: Node, hardware: Hardware, states: frozenset[int]
) -> tuple[list[Tensor], list[Node]] | None:
    """Return the nodes that a node expands to, and the tensors between them; None if it has to stay whole.

    The NPU computes each, or the host may. A part that does not run on the NPU is expanded again.
    """
    expansion = _parts(graph, node, hardware)
    if expansion is None:
        return None
    added, parts = _nodes(len(graph.tensors), graph, node, expansion, states)
    beside = {f"{node.name}/{name}" for name in expansion.on_host}
    nodes: list[Node] = []
    for part in parts:
        whole = replace(graph, tensors=(*graph.tensors, *added))
        if part.name in beside or _on_npu(whole, part, hardware):
            nodes.append(part)
            continue
        smaller = _in_parts(whole, part, hardware, states)
        if smaller is None:
            return None
        added += smaller[0]
        nodes += smaller[1]
    return added, nodes


def without(graph: Graph, op: str) -> Graph:
    """Return the graph with every call of an operator expanded, even those that the NPU computes as a whole."""
    tensors, nodes = list(graph.tensors), []
    states = frozenset(state.after for state in graph.states)
    for node in graph.nodes:
        call = call_of(graph, node) if node.op == op else None
        expand = None if call is None else operator(op).expander(call)
        expansion = None if call is None or expand is None else expand(call)
        if expansion is None:
            nodes.append(replace(node, bodies=tuple(without(body, op) for body in node.bodies)))
            continue
        added, parts = _nodes(len(tensors), graph, node, expansion, states)
        tensors += added
        nodes += parts
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def _parts(graph: Graph, node: Node, hardware: Hardware) -> Expansion | None:
    """Return the expansion of a node; None if there is none, or the NPU computes the node as a whole."""
    entry = operator(node.op)
    in_float32 = node.parameters.rescale == "float32" and hardware.vector.float32_lanes > 0
    if node.on_host or hardware.lacks(node.op) or not (entry.expand or entry.arithmetics or in_float32):
        return None
    call = call_of(graph, node)
    expand = entry.expander(call)
    if expand is None and not in_float32:  # rules and lowerings cost more to ask
        return None
    if entry.broken_rule(call) is not None or entry.lowering(call, hardware) is not None:
        return None
    expansion = None if expand is None else expand(call)
    return _by_way_of_float32(node.op, entry, call) if expansion is None and in_float32 else expansion


def _by_way_of_float32(name: str, entry: Operator, call: Call) -> Expansion | None:
    """Expand a call with rescale "float32" as its definition says: dequantize, compute in float32, quantize.

    None for an operator that computes such calls in another way, and for results that are not quantized.
    """
    row, output = entry.arithmetic(call), call.outputs[0]
    if row is None or not row.in_float or row.reference is not None:
        return None
    if len(call.outputs) != 1 or not output.quantized:
        return None
    parts = Expansion(len(call.inputs))
    inputs: list[int | None] = []
    for number, kind in enumerate(call.inputs):
        if kind is None or not kind.quantized:
            inputs.append(None if kind is None else number)
            continue
        floats = [TensorType("float32", kind.shape)]
        inputs += parts.call(f"dequantize_{number}", "dequantize", [number], floats, NONE)
    parameters = call.parameters.changed(rescale="fixed_point")
    [result] = parts.call(name, name, inputs, [TensorType("float32", output.shape)], parameters)
    literally = operator("quantize").parameters(rescale="float32")
    parts.results = list(parts.call("quantize", "quantize", [result], [output], literally))
    return parts


def _on_npu(graph: Graph, node: Node, hardware: Hardware) -> bool:
    entry, call = operator(node.op), call_of(graph, node)
    return entry.broken_rule(call) is None and entry.lowering(call, hardware) is not None


def _nodes(
    first: int, graph: Graph, node: Node, expansion: Expansion, states: frozenset[int]
) -> tuple[list[Tensor], list[Node]]:
    """Return the simpler calls as nodes, and the tensors between them, which get numbers from `first` on.

    A result that is an output twice, or the next value of a state, is copied there.
    """
    number: dict[int, int | None] = dict(enumerate(node.inputs))
    copies: list[tuple[int, int]] = []
    for value, output in zip(expansion.results, node.outputs, strict=False):
        if value in number or output in states or expansion.values[value] != graph.tensors[output].type:
            copies.append((value, output))
        else:
            number[value] = output
    added: list[Tensor] = []
    for value in sorted({**expansion.constants, **expansion.values}):
        if value in number:
            continue
        number[value] = first + len(added)
        constant = expansion.constants.get(value)
        name = f"{node.name}/{value}"
        added.append(
            Tensor(name, expansion.values[value])
            if constant is None
            else Tensor(name, constant.type, constant.data)
        )
    nodes = [
        Node(
            f"{node.name}/{part.name}",
            part.op,
            tuple([None if value_number is None else number[value_number] for value_number in part.inputs]),
            tuple([_given(number, value_number) for value_number in part.outputs]),
            part.parameters,
        )
        for part in expansion.parts
    ]
    for position, (value, output) in enumerate(copies):
        shape = operator("reshape").parameters(shape=graph.tensors[output].type.shape)
        nodes.append(Node(f"{node.name}/copy_{position}", "reshape", (number[value],), (output,), shape))
    return added, nodes


def _given(number: dict[int, int | None], value: int) -> int:
    known = number[value]
    assert known is not None
    return known
