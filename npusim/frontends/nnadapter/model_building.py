"""Building of models, operand by operand and operation by operation, as NNAdapter's API does.

    model = Model()
    x = model.add_operand(OperandType(Precision.FLOAT32, [1, 3, 32, 32]))
    y = model.relu(x)
    model.identify(inputs=[x], outputs=[y])
    model.finish()

Shapes and types of results are inferred when an operation is added, as far as they are known then, and again by
`finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from npusim.base import files
from npusim.frontends.nnadapter import operation_table
from npusim.frontends.nnadapter.nnadapter_codes import (
    Custom,
    FeatureNotSupported,
    InvalidDimensions,
    InvalidParameter,
    Lifetime,
    NNAdapterError,
    OperationType,
    Precision,
    text_of,
)
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operand_type import (
    OperandType,
    Shape,
    array_of,
    checked,
    converted,
    frozen,
    member,
    precision_of,
    raw_bytes,
)
from npusim.frontends.nnadapter.operation_arguments import Bound, argument_fault
from npusim.frontends.nnadapter.operation_conversion import NotKnown
from npusim.frontends.nnadapter.operation_graphs import GraphNetwork, ModelNetwork, Network, Parts
from npusim.frontends.nnadapter.operation_methods import method
from npusim.frontends.nnadapter.operation_table import custom_type
from npusim.frontends.nnadapter.output_types import give_types, lifetime
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph

MOST_OUTPUTS = 1 << 16
"""Maximum number of outputs of an operation."""


class Model:
    """A network, built by calls or read by another front end.

    operands, operations: in the order in which they were added; empty for a model that was read.
    input_operands, output_operands: as given to `identify`.
    """

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self.operands: list[Operand] = []
        self.operations: list[Operation] = []
        self.input_operands: tuple[Operand, ...] = ()
        self.output_operands: tuple[Operand, ...] = ()
        self.finished = False
        self._graph: Graph | None = None
        self._names: set[str] = set()
        self._writers: dict[Operand, Operation] = {}

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Return the finished model of a graph that another front end read, with all sizes known."""
        model = cls(graph.name)
        model._graph, model.finished = graph, True
        return model

    # Building

    def add_operand(self, type: OperandType, name: str = "") -> Operand:
        """Add an operand and return it. Raises InvalidParameter for an illegal type or a name in use."""
        self._require_open()
        index = len(self.operands)
        return self._added(checked(type, f"operands[{index}].type"), name)

    def add_constant(self, value: Any, type: OperandType | None = None, name: str = "") -> Operand:
        """Add a constant with a copy of the value and return it; its type is that of the array if none is given.

        Raises InvalidParameter, also for a type that cannot hold the numbers.
        """
        self._require_open()
        array = array_of(value, f"operands[{len(self.operands)}]")
        if type is None:
            type = OperandType(precision_of(array), list(array.shape))
        count = len(self.operands)
        operand = self.add_operand(type, name)
        try:
            self.set_operand_value(operand, converted(array, operand.type, operand.name))
        except InvalidParameter:
            self.forget(count)
            raise
        return operand

    def set_operand_value(
        self, operand: Operand, buffer: Any, length: int | None = None, copy: bool = True
    ) -> None:
        """Make an operand a constant.

        buffer: an array of the operand's elements, or their bytes.
        length: the number of bytes to use; all if None.
        copy:   whether to copy them; without a copy the caller must not change the buffer before compilation.

        Raises InvalidParameter if bytes and type do not fit.
        """
        self._require_open()
        self._require_own(operand, "operand")
        where = operand.name
        if operand.type.lifetime in (Lifetime.MODEL_INPUT, Lifetime.MODEL_OUTPUT):
            raise InvalidParameter(f"{where}: is {operand.type.lifetime.name}, so it cannot be a constant")
        if operand in self._writers:
            raise InvalidParameter(f"{where}: an operation writes it, so it cannot be a constant")
        raw = raw_bytes(buffer, where)
        if raw.dtype not in (operand.type.dtype, np.uint8):
            raise InvalidParameter(f"{where}: has {raw.dtype} elements, {operand.type.words()} has others")
        size = raw.nbytes if length is None else length
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= raw.nbytes:
            raise InvalidParameter(f"{where}: length is {text_of(length)}, the buffer has {raw.nbytes} bytes")
        if not operand.type.known:
            raise InvalidParameter(f"{where}: is {operand.type.words()}, a constant must have all its sizes")
        wanted = operand.type.size_bytes
        if size != wanted or (length is not None and not size):
            raise InvalidParameter(f"{where}: length is {size} bytes, {operand.type.words()} has {wanted}")
        data = raw.reshape(-1).view(np.uint8)[:size]
        data = data.copy() if copy else data
        operand.buffer = frozen(data.view(operand.type.dtype).reshape(operand.type.shape))
        operand.type.lifetime = Lifetime.CONSTANT_COPY if copy else Lifetime.CONSTANT_REFERENCE

    def add_operation(
        self,
        type: OperationType | Custom | int | str,
        inputs: Sequence[Operand | None],
        outputs: Sequence[Operand] | None = None,
    ) -> Operand | tuple[Operand, ...]:
        """Add an operation, with its operands in the order of its definition, and return its outputs.

        type:    for a custom operation, the name or number given to `npusim.register_operator`; its outputs must then
                 be given, with their precision.
        inputs:  None for an omitted input.
        outputs: if None, new operands are made for the outputs that every call has; quantized ones get the scale of
                 the input.

        Types and shapes of the outputs are set to those that the operation gives. Raises InvalidParameter if a rule of
        the operation is broken.
        """
        self._require_open()
        count = len(self.operands)
        try:
            operation = self._operation(type, inputs, outputs)
            with unchanged(operation.output_operands):
                give_types(self.name, operation, self._pending)
        except NNAdapterError:
            self.forget(count)
            raise
        self.operations.append(operation)
        self._writers.update(dict.fromkeys(operation.output_operands, operation))
        results = operation.output_operands
        return results[0] if len(results) == 1 else results

    def identify(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
        """Set the inputs and outputs of the model, in the order of an execution's indexes.

        Raises InvalidParameter without outputs, for an input that is a constant, and for one that is named twice.
        """
        self._require_open()
        given, gotten = self._own_list(inputs, "inputs"), self._own_list(outputs, "outputs")
        if not gotten:
            raise InvalidParameter("identify: outputs: are none, a model must have one or more")
        for operand in given:
            if operand.buffer is not None:
                raise InvalidParameter(f"identify: inputs: {operand.name} is a constant")
            if given.count(operand) > 1:
                raise InvalidParameter(
                    f"identify: inputs: {operand.name} is named {given.count(operand)} times"
                )
        for operand in self.input_operands + self.output_operands:
            if operand.buffer is None:
                operand.type.lifetime = lifetime(operand)
        for operand in given:
            operand.type.lifetime = Lifetime.MODEL_INPUT
        for operand in gotten:
            if operand.buffer is None and operand not in given:
                operand.type.lifetime = Lifetime.MODEL_OUTPUT
        self.input_operands, self.output_operands = tuple(given), tuple(gotten)

    def finish(self) -> None:
        """Finish building: sort the operations into an order in which they can run, and check them.

        As upstream, a model without identified inputs and outputs can be finished, but not compiled.

        Raises InvalidParameter for a finished model, an operand that is read and never written, an input that is
        written, and a cycle.
        """
        self._require_open()
        identified = bool(self.output_operands)
        ordered = self._ordered() if identified else list(self.operations)
        with unchanged(self.operands):
            for operation in ordered if identified else ():
                give_types(self.name, operation, lambda operand: False)
        self._sorted = ordered
        self.finished = True

    # Reading

    def network(self, shapes: Mapping[Operand, Shape] | None = None) -> Network:
        """Return the finished model as contexts see it.

        shapes: the shapes, in one gear, of inputs whose types leave sizes open.

        Raises InvalidParameter for a model that is not finished, InvalidDimensions if sizes of inputs stay open,
        FeatureNotSupported if a value that only a run gives decides shapes or parameters.
        """
        if not self.finished:
            raise InvalidParameter(f"{self.name}: is not finished")
        if self._graph is not None:
            return GraphNetwork(self._graph)
        if not self.output_operands:
            raise InvalidParameter(f"{self.name}: its inputs and outputs are not identified")
        known = dict(shapes or {})
        for operand in self.input_operands:
            if min(known.get(operand, operand.type.shape), default=0) < 0:
                raise InvalidDimensions(f"{operand.name}: is {operand.type.words()}, its sizes must be known")
        values = {operand: operand.values[0] for operand in self.operands if len(operand.values) == 1}
        if any(not operand.type.known or len(operand.values) > 1 for operand in self.operands):
            values = self._resolve(known)
        inputs, outputs = (
            tuple(operand.index for operand in ends) for ends in (self.input_operands, self.output_operands)
        )
        return ModelNetwork(self.name, self.operands, self._sorted, inputs, outputs, known, values)

    @property
    def sorted_operations(self) -> Sequence[Operation]:
        """The operations of a finished model in an order in which they can run."""
        return self._sorted if self.finished and self._graph is None else self.operations

    def dot(self, devices: Mapping[int, str] | None = None) -> str:
        """Return the model in the DOT language of graphviz (`npusim.frontends.nnadapter.dot`).

        devices: the device of each operation by number, to colour operations by device.
        """
        from npusim.frontends.nnadapter import dot

        if self._graph is not None:
            return dot.of_graph(self._graph, devices)
        taken = {*self.input_operands, *self.output_operands}
        for operation in self.operations:
            taken.update(operation.output_operands, filter(None, operation.input_operands))
        operands = [operand for operand in self.operands if operand in taken]
        return dot.of_operations(self.name, operands, self.operations, devices)

    def save_dot(self, path: str | Path, devices: Mapping[int, str] | None = None) -> None:
        """Write the text of `dot` to a file. Raises NpusimError if that fails."""
        files.write(Path(path), files.text(self.dot(devices)))

    # Inside

    def _require_open(self) -> None:
        if self.finished:
            raise InvalidParameter(f"{self.name}: is finished, nothing can be added or changed")

    def _require_own(self, operand: object, what: str) -> Operand:
        if not isinstance(operand, Operand):
            raise InvalidParameter(f"{what}: is {text_of(operand)}, must be an operand of the model")
        if operand.model is not self:
            raise InvalidParameter(f"{what}: {operand.name} belongs to another model")
        return operand

    def _own_list(self, operands: object, what: str) -> list[Operand]:
        if not isinstance(operands, Sequence) or isinstance(operands, (str, bytes)):
            raise InvalidParameter(f"{what}: is {text_of(operands)}, must be a list of operands")
        return [self._require_own(operand, f"{what}[{place}]") for place, operand in enumerate(operands)]

    def _added(self, type: OperandType, name: str = "") -> Operand:
        index = len(self.operands)
        if not isinstance(name, str) or name in self._names:
            raise InvalidParameter(
                f"operands[{index}]: name {text_of(name)} must be a text that no other operand has"
            )
        label = name or f"operands[{index}]"
        self._names.add(label)
        self.operands.append(Operand(self, index, type, label))
        return self.operands[-1]

    def forget(self, count: int) -> None:
        """Remove the operands after the first `count`."""
        self._names -= {operand.name for operand in self.operands[count:]}
        del self.operands[count:]

    def _operation(self, type: object, inputs: object, outputs: Sequence[Operand] | None) -> Operation:
        """Make an operation without adding it; outputs that are not given become new operands."""
        place = f"operations[{len(self.operations)}]"
        kind: OperationType | Custom = custom_type(type) or member(OperationType, type, f"{place}.type")
        where = f"{place} ({kind.name})"
        if not isinstance(inputs, Sequence) or isinstance(inputs, (str, bytes)):
            raise InvalidParameter(f"{where}: inputs: is {text_of(inputs)}, must be a list of operands")
        taken = tuple(
            None if operand is None else self._require_own(operand, f"{where}: inputs[{number}]")
            for number, operand in enumerate(inputs)
        )
        if outputs is None:
            results = self._new_outputs(kind, taken, where)
        else:
            results = tuple(self._own_list(outputs, f"{where}: outputs"))
            self._check_outputs(results, where)
        operation = Operation(len(self.operations), kind, taken, results)
        bound = Bound(operation, operation_table.row(kind).signature)
        for argument in bound.signature.inputs:
            for operand in bound.inputs[argument.name]:
                fault = "" if operand is None else argument_fault(argument, operand)
                if fault:
                    raise InvalidParameter(f"{where}: {fault}")
        return operation

    def _check_outputs(self, operands: Sequence[Operand], where: str) -> None:
        if not operands:
            raise InvalidParameter(f"{where}: has no outputs, must have one or more")
        for operand in operands:
            if operand.buffer is not None or operand.type.lifetime is Lifetime.MODEL_INPUT:
                raise InvalidParameter(f"{where}: writes {operand.name}, which is given to the model")
            writer = self._writers.get(operand)
            if writer is not None or operands.count(operand) > 1:
                other = "it" if writer is None else writer.place
                raise InvalidParameter(f"{where}: writes {operand.name}, which {other} writes too")

    def _new_outputs(
        self, kind: OperationType | Custom, inputs: Sequence[Operand | None], where: str
    ) -> tuple[Operand, ...]:
        row = operation_table.row(kind).signature
        given = dict(zip((argument.name for argument in row.inputs), inputs, strict=False))
        count = sum(not outcome.optional or _is_true(given.get(outcome.asked_by)) for outcome in row.outputs)
        repeated = next((outcome for outcome in row.outputs if outcome.repeats), None)
        if repeated is not None:
            count += self._several(kind, inputs, where) - 1
        first = next((operand for operand in inputs if operand is not None), None)
        like = OperandType(Precision.FLOAT32) if first is None else first.type.copy()
        if like.scales is not None:  # per channel: of no shape yet
            like = OperandType(Precision.FLOAT32)
        like.lifetime, like.dimensions, like.dynamic = Lifetime.TEMPORARY_VARIABLE, [], ()
        like.ranked = False
        return tuple(self._added(like.copy()) for _ in range(count))

    def _several(self, kind: OperationType | Custom, inputs: Sequence[Operand | None], where: str) -> int:
        """Return the number of outputs of an operation with a repeated output, from its inputs or a parameter."""
        row = operation_table.row(kind)
        if row.signature.repeated is not None and not isinstance(kind, Custom):
            return len(inputs) - len(row.signature.inputs) + 1
        by_name = dict(zip((argument.name for argument in row.signature.inputs), inputs, strict=False))
        for name, number in (("split", np.size), ("num", np.sum)):
            operand = by_name.get(name)
            if operand is not None and operand.known is not None:
                count = int(number(operand.known))
                if not 1 <= count <= MOST_OUTPUTS:
                    raise InvalidParameter(f"{where}: {name} says {count} outputs, may be 1..{MOST_OUTPUTS}")
                return count
        raise InvalidParameter(f"{where}: outputs must be given, nothing says how many there are")

    def _pending(self, operand: Operand) -> bool:
        """Return whether an operation that is added later may still set the sizes of an operand."""
        fixed = operand.buffer is not None or operand.type.lifetime is Lifetime.MODEL_INPUT
        return not (fixed or operand in self._writers or operand.type.dimensions)

    def _resolve(self, shapes: dict[Operand, Shape]) -> dict[Operand, Array]:
        """Infer all other shapes from those of the inputs into `shapes`, and return the values that follow."""
        parts = Parts(self.name, shapes)
        try:
            for operation in self._sorted:
                parts.add(operation)
                shapes.update({operand: parts.shape(operand) for operand in operation.output_operands})
        except NotKnown as fault:
            raise FeatureNotSupported(str(fault)) from None
        return parts.values

    def _ordered(self) -> list[Operation]:
        """Return the operations in an order in which they can run, as close as possible to that of their addition."""
        written = {operand for operation in self.operations for operand in operation.output_operands}
        ready = set(self.input_operands)
        for operand in self.output_operands:
            if operand not in written and operand not in ready and operand.buffer is None:
                raise InvalidParameter(f"finish: nothing writes the output {operand.name}")
        for operand in self.input_operands:
            if operand in written:
                raise InvalidParameter(f"finish: {operand.name} is an input, and an operation writes it")
        ordered: list[Operation] = []
        waiting = list(self.operations)
        while waiting:
            after = []
            for operation in waiting:
                missing = [
                    operand
                    for operand in operation.input_operands
                    if operand is not None and operand.buffer is None and operand not in ready
                ]
                for operand in missing:
                    if operand not in written:
                        raise InvalidParameter(
                            f"{operation.place}: reads {operand.name}, no input and no constant, which nothing writes"
                        )
                if missing:
                    after.append(operation)
                else:
                    ordered.append(operation)
                    ready.update(operation.output_operands)
            if len(after) == len(waiting):
                names = ", ".join(operation.place for operation in after)
                raise InvalidParameter(f"finish: operations wait for each other: {names}")
            waiting = after
        return ordered

    _sorted: Sequence[Operation] = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """Return the method of an operation, by its name in lower case."""


def _is_true(operand: Operand | None) -> bool:
    """Return whether a flag is known to be true."""
    return operand is not None and operand.known is not None and bool(operand.known.all())


@contextmanager
def unchanged(operands: Sequence[Operand]) -> Iterator[None]:
    """Restore types and values of operands if the block raises an NNAdapterError."""
    before = [(operand, operand.type.copy(), operand.values) for operand in operands]
    try:
        yield
    except NNAdapterError:
        for operand, kind, values in before:
            operand.type.become(kind)
            operand.values = values
        raise


for _row in operation_table.OPERATIONS:
    setattr(Model, _row.type.name.lower(), method(_row.type))
