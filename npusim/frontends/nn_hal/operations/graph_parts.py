"""Construction of graphs from operations of a model: all operations of a graph, or consecutive ones.

    parts = GraphParts("main", Known(model.main), model.version)
    for operation in model.main.operations:
        parts.add(operation)
    graph = parts.builder.graph([parts.tensor(index) for index in model.main.outputs])

An operand that no operation has written becomes an input of the graph when it is first read (`parts.inputs`), or a
constant if it has a value. So any consecutive operations make a graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel, CheckedOperation
from npusim.frontends.nn_hal.enumerations import ErrorStatus, HalVersion, OperandType, OperationType
from npusim.frontends.nn_hal.fault import Fault, Refused
from npusim.frontends.nn_hal.operations import operation_table
from npusim.frontends.nn_hal.operations.named_arguments import (
    Argument,
    Call,
    Known,
    Needs,
    quantization_of,
    tensor_type,
)
from npusim.frontends.nn_hal.operations.operation_row import Conversion, Row
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import UNRANKED, Node, call_of
from npusim.kernels.graph.inference import fits
from npusim.kernels.table import operator


class GraphParts:
    """A graph under construction from operations of a graph of the model, in their order.

    builder: the graph that gets the nodes.
    known:   sizes and values of operands; those of results are added.
    inputs:  the operands that became inputs of the graph, in its order.
    counts:  output of a `counted` operation -> the tensor of the number of its rows.
    """

    def __init__(
        self,
        name: str,
        known: Known,
        version: HalVersion,
        referenced: Sequence[CheckedGraph] = (),
        builder: GraphBuilder | None = None,
    ) -> None:
        """Start a graph, or go on with a builder that has nodes of other graphs of the model."""
        self.builder = builder or GraphBuilder(name)
        self.known = known
        self.inputs: list[int] = []
        self.counts: dict[int, int] = {}
        self._version = version
        self._referenced = referenced
        self._tensors: dict[int, int] = {}

    def has(self, operand: int) -> bool:
        """Return True if an operand is a tensor of the graph already."""
        return operand in self._tensors

    def tensor(self, operand: int, role: Argument | None = None) -> int:
        """Return the tensor of an operand, added if it has none. Raises Needs if its sizes are not known."""
        if operand not in self._tensors:
            self._tensors[operand] = self.added(operand, role)
        return self._tensors[operand]

    def added(self, operand: int, role: Argument | None) -> int:
        """Return a new tensor for an operand that no operation of the graph has written: an input or a constant."""
        source = self.known.graph.operands[operand]
        name = f"operands[{operand}]"
        sizes = self.known.shape(operand)
        if source.constant:
            return self.builder.constant(name, source.value(), quantization_of(source))
        if sizes is None or None in sizes:
            raise Needs(role or Argument(name, False, source.place, source, self.known))
        self.inputs.append(operand)
        shape = tuple(size for size in sizes if size is not None)
        return self.builder.input(name, tensor_type(source, shape))

    def add(self, operation: CheckedOperation) -> Call:
        """Check an operation by what is known, add its nodes, and record the sizes of its outputs.

        Raises Refused if it breaks a rule or npusim does not compute it, and Needs if a value must be known first.
        The graph is unchanged then.
        """
        call = checked_call(operation, self.known, self._version, self._referenced)
        row = row_of(operation)
        if not row.supported:
            raise Refused(_not_computed(operation))
        before = len(self.builder.tensors), len(self.builder.nodes), len(self.builder.inputs)
        try:
            outputs = self._converted(call, row, before[1])
        except (Refused, Needs):
            self._forget(*before)
            raise
        self._take(call, outputs, row.counted)
        return call

    def open_rows(self, operation: CheckedOperation) -> None:
        """Open the first size of a `counted` operation's outputs, for later operations see the counted rows."""
        for operand in operation.outputs:
            if operand in self.counts:
                _, *others = self.known.shapes[operand] or ()
                self.known.shapes[operand] = (None, *others)
                del self._tensors[operand]

    def _converted(self, call: Call, row: Row, first_node: int) -> Sequence[int]:
        outputs = row.converted(Conversion(call, row, self))
        for node in self.builder.nodes[first_node:]:
            _require_sound(self.builder, node, call)
        for argument, tensor in zip(call.outputs, outputs, strict=False):
            fault = _other_shape(argument, self.builder.shape(tensor), row.counted)
            if fault is not None:
                raise Refused(row.hinted(fault, call))
        return outputs

    def _take(self, call: Call, outputs: Sequence[int], counted: bool) -> None:
        for argument, tensor in zip(call.outputs, outputs, strict=False):
            self._tensors[argument.operand.index] = tensor
            self.known.shapes[argument.operand.index] = self.builder.shape(tensor)
            if counted:
                self.counts[argument.operand.index] = outputs[-1]

    def refusal(self, operation: CheckedOperation) -> Fault | None:
        """Add an operation; return why npusim does not compute it although it keeps all rules, or None."""
        try:
            self.add(operation)
        except Refused as refused:
            return refused.fault if refused.fault.status is ErrorStatus.GENERAL_FAILURE else None
        return None

    def _forget(self, tensors: int, nodes: int, inputs: int) -> None:
        del self.builder.tensors[tensors:], self.builder.nodes[nodes:], self.builder.inputs[inputs:]
        self._tensors = {operand: number for operand, number in self._tensors.items() if number < tensors}
        self.inputs = [operand for operand in self.inputs if operand in self._tensors]


def unsupported(model: CheckedModel, graph: CheckedGraph) -> dict[int, Fault]:
    """Return, by index, why npusim does not compute operations of a graph that keep all rules.

    IF and WHILE are not computed if an operation in their graphs is not.
    """
    parts, faults = GraphParts(graph.place, Known(graph), model.version, model.referenced), {}
    for operation in graph.operations:
        referred = [graph.operands[index].graph for index in operation.inputs if _refers(graph, index)]
        below = [fault for at in referred for fault in unsupported(model, model.referenced[at]).values()]
        try:
            fault = None if referred else parts.refusal(operation)
        except Needs:
            continue
        for reason in [*below, *([] if fault is None else [fault])][:1]:
            faults[operation.index] = reason
    return faults


def _refers(graph: CheckedGraph, operand: int) -> bool:
    return graph.operands[operand].type is OperandType.SUBGRAPH


def checked_call(
    operation: CheckedOperation, known: Known, version: HalVersion, referenced: Sequence[CheckedGraph] = ()
) -> Call:
    """Return an operation with its arguments named. Raises Refused for a rule that it breaks by what is known."""
    row = row_of(operation)
    call = row.call(operation, known, version, referenced)
    fault = call if isinstance(call, Fault) else row.fault(call)
    if fault is not None:
        raise Refused(fault)
    assert isinstance(call, Call)
    return call


def row_of(operation: CheckedOperation) -> Row:
    """Return the row of an operation. Raises Refused for one that npusim does not have."""
    row = operation_table.row(operation.type)
    if row is None:
        raise Refused(_not_computed(operation))
    return row


def _not_computed(operation: CheckedOperation) -> Fault:
    text = f"npusim does not compute {operation.type.name}"
    if operation.type >= OperationType.OEM_OPERATION:
        text += "; npusim.register_operator makes it known"
    return Fault(operation.place, text, status=ErrorStatus.GENERAL_FAILURE)


def _require_sound(builder: GraphBuilder, node: Node, call: Call) -> None:
    """Raise Refused for a node that its operator does not take, although the operation keeps all rules."""
    try:
        broken = operator(node.op).broken_rule(call_of(builder, node))
    except (LookupError, TypeError, ValueError, ArithmeticError):
        broken = "its sizes do not fit"
    if broken is not None:
        where = f"{call.operation.type.name}: {node.op}: {broken}"
        raise Refused(Fault(call.place, where, status=ErrorStatus.GENERAL_FAILURE))


def _other_shape(argument: Argument, computed: tuple[int, ...], counted: bool) -> Fault | None:
    """Return the fault of an output whose stated sizes differ from those that follow from its operands.

    The first size of a counted output is not compared, because only the run counts its rows.
    """
    stated = (
        UNRANKED if argument.shape is None else tuple(-1 if size is None else size for size in argument.shape)
    )
    if counted and argument.shape:
        stated = (-1, *stated[1:])
    if fits(stated, computed):
        return None
    where = f"operands[{argument.operand.index}] ({argument.name})"
    shown = ["?" if size < 0 else size for size in stated]
    text = f"{where} has dimensions {_list(shown)}, {_list(computed)} by its operands and parameters"
    return Fault(argument.place, text, "O6")


def _list(sizes: Sequence[object]) -> str:
    return f"[{', '.join(map(str, sizes))}]"
