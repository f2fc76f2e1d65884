"""The check of a whole graph: every tensor is sound, written once, and before it is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from npusim.isa.base.elements import is_element, names
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.control import body_names, check_control, shown
from npusim.kernels.graph.graph import UNKNOWN, UNRANKED, Graph, Node, Tensor, quoted
from npusim.kernels.graph.inference import completed, has_its_parameters, inferred_shapes, layer_name
from npusim.kernels.table import operator

MOST_BYTES = (1 << 63) - 1
"""Maximum number of bytes of a tensor, which is what numpy can address."""


def check(graph: Graph) -> Graph:
    """Return the graph itself, if it is well formed; the rules of its operators are not looked at.

    Raises GraphError, naming the node or tensor, for an index of no tensor, a negative size, an element type that is
    not in the table, data of another type than its tensor, a node without outputs, a tensor that is read before it is
    written or never written, one that is written twice, a name that two layers have, parameters of another operator, a
    result of another shape than its operands say, and bodies that do not fit their node. Sizes may be unknown
    (`npusim.kernels.graph.bind`).
    """
    for number, tensor in enumerate(graph.tensors):
        _check_tensor(number, tensor)
    _check_ends(graph)
    _check_order(graph)
    _check_names(graph)
    for node in graph.nodes:
        _check_bodies(graph, node)
        _check_parameters(node)
        _check_shapes(graph, node)
    return graph


def check_bound(graph: Graph) -> Graph:
    """Return the graph itself, if it passes the check and all its sizes are known: what can be compiled.

    Raises GraphError, with the name of the graph in front.
    """
    try:
        check(graph)
        _check_sizes(graph)
    except GraphError as error:
        raise GraphError(f"{graph.name}: {error}") from None
    return graph


def _check_sizes(graph: Graph) -> None:
    """Check that tensors have known sizes, except those that nothing reads or writes any more.

    Shapes that were computed while a model was read leave such tensors behind.
    """
    used: set[int | None] = {
        *graph.inputs,
        *graph.outputs,
        *(tensor_number for state in graph.states for tensor_number in state),
    }
    for node in graph.nodes:
        used |= {*node.inputs, *node.outputs}
    for number, tensor in enumerate(graph.tensors):
        if number in used and not tensor.bound:
            raise GraphError(
                f"{graph.origin(number).value} {quoted(tensor.name)}: shape {shape_text(tensor)} has an unknown size; "
                "bind the graph to sizes (npusim.kernels.graph.bind), or convert the model with a fixed shape"
            )


def shape_text(tensor: Tensor) -> str:
    """Return a shape for a message: names for the sizes that have one, "?" for a shape of which nothing is known."""
    if tensor.type.shape == UNRANKED:
        return "?"
    names = iter(tensor.size_names)
    return f"[{', '.join((next(names, '') or '-1') if size == UNKNOWN else str(size) for size in tensor.type.shape)}]"


def _check_tensor(number: int, tensor: Tensor) -> None:
    if (fault := _tensor_fault(tensor.type, tensor)) is not None:
        raise GraphError(f"tensor {number} {quoted(tensor.name)}: {fault}")


def _tensor_fault(kind: TensorType, tensor: Tensor) -> str | None:
    """Return what is wrong with a tensor, or None."""
    for size in kind.shape:
        if type(size) is not int and not isinstance(size, int | np.integer):
            return f"shape {list(kind.shape)}, sizes must be whole numbers"
    if not is_element(kind.dtype):
        return f"element type {kind.dtype!r}, may be {', '.join(names())}"
    if kind.shape == UNRANKED and not tensor.constant:
        return None
    if min(kind.shape, default=0) < (0 if tensor.constant else UNKNOWN):
        return f"shape {list(kind.shape)}, sizes are 0 or more"
    if kind.spanned_bytes > MOST_BYTES:
        return f"shape {list(kind.shape)} spans {kind.spanned_bytes} bytes, may be {MOST_BYTES}"
    data = tensor.array
    if data is not None and (data.shape != kind.shape or data.dtype != kind.numpy_dtype):
        return f"is {kind.dtype}{list(kind.shape)}, its data {data.dtype}{list(data.shape)}"
    return None


def _check_ends(graph: Graph) -> None:
    befores = tuple(state.before for state in graph.states)
    afters = tuple(state.after for state in graph.states)
    ends = (("inputs", graph.inputs), ("outputs", graph.outputs), ("states", befores + afters))
    for what, numbers in ends:
        _check_numbers(graph, numbers, f"model {what}")
    if not graph.outputs:
        raise GraphError("the model has no output")
    for what, numbers in (("inputs", graph.inputs), ("states", befores)):
        if len(set(numbers)) != len(numbers):
            raise GraphError(f"model {what} {list(numbers)}: a tensor is named twice")
    for what, numbers in (("input", graph.inputs), ("state", befores)):
        for number in numbers:
            if graph.tensors[number].constant:
                raise GraphError(f"model {what} {quoted(graph.tensors[number].name)} is a constant")
    for number in set(graph.inputs) & set(befores):
        raise GraphError(f"model input {quoted(graph.tensors[number].name)} is a state too")
    for before, after in graph.states:
        _check_state(graph.tensors[before], graph.tensors[after])


def _check_state(before: Tensor, after: Tensor) -> None:
    if before is after:
        raise GraphError(f"model state {quoted(before.name)} is its own next value; make it a constant")
    if before.type != after.type:
        raise GraphError(
            f"model state {quoted(before.name)} is {shown(before.type)}, its next value {shown(after.type)}"
        )


def _check_parameters(node: Node) -> None:
    """Raise GraphError if the parameters are not of the type that the operator has."""
    if has_its_parameters(node):
        return
    kinds = (type(node.parameters), operator(node.op).parameters)
    own, wanted = [f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}" for kind in kinds]
    raise GraphError(f"{layer_name(node)}: has {own}, must have {wanted}")


def _check_numbers(graph: Graph, numbers: Iterable[int | None], where: str) -> None:
    """Raise GraphError unless `numbers` number tensors."""
    for number in numbers:
        if number is not None and not 0 <= number < len(graph.tensors):
            raise GraphError(f"{where}: tensor {number}, the model has {len(graph.tensors)}")


def _check_order(graph: Graph) -> None:
    constants = (number for number, tensor in enumerate(graph.tensors) if tensor.constant)
    ready = {*graph.inputs, *(state.before for state in graph.states), *constants}
    for node in graph.nodes:
        where = layer_name(node)
        _check_numbers(graph, (*node.inputs, *node.outputs), where)
        if not node.outputs:
            raise GraphError(f"{where}: has no output")
        for operand in node.inputs:
            if operand is not None and operand not in ready:
                raise GraphError(f"{where}: reads {_unready(graph, operand, node)}")
        for output in node.outputs:
            if output in ready:
                what = f"tensor {output} {quoted(graph.tensors[output].name)}"
                raise GraphError(f"{where}: writes {what}, which is an input, has data or is written already")
            ready.add(output)
    ends = (("output", graph.outputs), ("next value of state", [state.after for state in graph.states]))
    for what, numbers in ends:
        for number in numbers:
            if number not in ready:
                raise GraphError(f"model {what} {quoted(graph.tensors[number].name)}: no operator writes it")


def _check_names(graph: Graph) -> None:
    uses = Counter(node.name for node in graph.nodes)
    for name, count in uses.items():
        if count > 1:
            raise GraphError(f"{count} layers are named {quoted(name)}; every layer has a name of its own")


def _check_bodies(graph: Graph, node: Node) -> None:
    check_control(graph, node, layer_name(node))
    for name, body in zip(body_names(node.op), node.bodies, strict=False):  # without bodies: unknown
        try:
            check(body)
        except GraphError as error:
            raise GraphError(f"{layer_name(node)}, {name}: {error}") from None


def _check_shapes(graph: Graph, node: Node) -> None:
    for number, shape in zip(node.outputs, inferred_shapes(graph, node) or (), strict=False):
        if graph.tensors[number].bound:
            completed(graph.tensors[number], shape, node)


def _unready(graph: Graph, tensor: int, reader: Node) -> str:
    """Return a tensor that is read too early, and who writes it too late."""
    what = f"tensor {tensor} {quoted(graph.tensors[tensor].name)}, which has no data and nothing before it writes"
    later = [node.name for node in graph.nodes if tensor in node.outputs and node is not reader]
    return f"{what}; layer {quoted(later[0])} writes it later" if later else what
