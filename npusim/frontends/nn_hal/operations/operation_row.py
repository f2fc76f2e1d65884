"""One operation of NNAPI as a row: its signatures, its rules, and the operator that computes it.

A row names its operator (`op`). The operator's parameters are arguments of the same name, or those that `words` names.
The reader takes the parameters from the arguments (`Conversion.add`), and the writer takes the arguments from the
parameters (`npusim.frontends.nn_hal.export.nnapi_wording`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from math import inf
from typing import Any, Protocol

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedOperation
from npusim.frontends.nn_hal.enumerations import ErrorStatus, HalVersion, OperandType, OperationType, since
from npusim.frontends.nn_hal.fault import Fault, Refused
from npusim.frontends.nn_hal.operations.named_arguments import (
    Argument,
    Call,
    Known,
    Needs,
    quantization_of,
    tensor_type,
)
from npusim.frontends.nn_hal.operations.signatures import (
    SCALARS,
    Choice,
    Mismatch,
    Slot,
    Words,
    arguments_of,
    bind,
    tensor_types,
)
from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.table import known as known_operator
from npusim.kernels.table import operator

_TO_NHWC, _TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


ACTIVATIONS = Choice("activation", {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6"})
"""The fused activation functions."""

Rule = Callable[[Call], str | None]
"""Returns the name of the argument at fault, or None if the call keeps the rule, as far as sizes and values are known.

Its docstring is the text of the rule, of its message and of the manual.
"""

Convert = Callable[["Conversion"], Sequence[int]]
"""Adds the nodes of a call to a graph and returns the tensors of its outputs."""


def text(rule: Rule) -> str:
    """Return the text of a rule for messages and the manual."""
    return " ".join((rule.__doc__ or "").split()).rstrip(".")


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of NNAPI.

    type:         its code and name.
    forms, types: its signatures (`npusim.frontends.nn_hal.operations.signatures`).
    op:           the operator that computes it; "" if none does (control flow) or if `convert` makes constants only.
    parameters:   rules of its parameters.
    shapes:       rules of sizes.
    quantization: rules of scales and zero points.
    words:        parameter of the operator -> the arguments that say it, where these have other names.
    fixed:        parameter of the operator -> its value in every call.
    images:       the inputs that are images in the layout that the argument `nchw` says.
    order:        the position of each output among the operator's results, where they are in another order.
    convert:      adds the nodes, if arguments are not simply parameters.
    more:         further operators of these nodes.
    other:        (call) -> a hint for a call that fits only another reading of the texts (docs/hal.md, departures),
                  or "".
    counted:      the operator has one result more than there are outputs: the int32 number of valid rows. The outputs
                  themselves have as many rows as there can be.
    """

    type: OperationType
    forms: tuple[str, ...]
    types: str = ""
    op: str = ""
    parameters: tuple[Rule, ...] = ()
    shapes: tuple[Rule, ...] = ()
    quantization: tuple[Rule, ...] = ()
    words: Mapping[str, Words] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    images: tuple[str, ...] = ("input",)
    order: tuple[int, ...] = ()
    convert: Convert | None = None
    more: tuple[str, ...] = ()
    counted: bool = False
    other: Callable[[Call], str] | None = None

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of its nodes. Images with channels in front are transposed."""
        has_layout = any(" nchw:" in text for text in self.forms)
        return (*((self.op,) if self.op else ()), *self.more, *(("transpose",) if has_layout else ()))

    @property
    def since(self) -> HalVersion:
        """The version in which the operation appeared."""
        return since(self.type)

    @property
    def supported(self) -> bool:
        """Whether npusim has all operators of its nodes."""
        return bool(self.op or self.convert) and all(map(known_operator, self.operators))

    def tensor_types(self, version: HalVersion = HalVersion.AIDL_V3) -> tuple[OperandType, ...]:
        """Return the tensor types that the operation takes in a version."""
        return tensor_types(self.types, version)

    def call(
        self,
        operation: CheckedOperation,
        known: Known,
        version: HalVersion,
        referenced: Sequence[CheckedGraph] = (),
    ) -> Call | Fault:
        """Return an operation with its arguments named, or the fault: no signature fits (O3, O4), no value (L6)."""
        operands = known.graph.operands
        inputs = [operands[index].type for index in operation.inputs]
        outputs = [operands[index].type for index in operation.outputs]
        binding = bind(self.forms, self.types, version, inputs, outputs)
        if isinstance(binding, Mismatch):
            return self._mismatch(operation, known, binding)
        return _omissions(Call(operation, known, version, binding, referenced))

    def _mismatch(self, operation: CheckedOperation, known: Known, fault: Mismatch) -> Fault:
        if not fault.side:
            return Fault(operation.place, f"{self.type.name} {fault.text}", "O3")
        index = getattr(operation, fault.side)[fault.position]
        is_ = known.graph.operands[index].type.name
        place = f"{operation.place}.{fault.side}[{fault.position}]"
        return Fault(
            place, f"operands[{index}] is {is_}, must be {fault.text} here for {self.type.name}", "O4"
        )

    def fault(self, call: Call) -> Fault | None:
        """Return the fault of the first rule that a call breaks, as far as sizes and values are known."""
        for name, rules, shown in (
            ("O5", self.parameters, _value),
            ("O6", self.shapes, _sizes),
            ("O7", self.quantization, _scaling),
        ):
            for rule in rules:
                guilty = rule(call)
                if guilty is not None:
                    return self.hinted(_fault(call, guilty, text(rule), name, shown), call)
        return None

    def hinted(self, fault: Fault, call: Call) -> Fault:
        """Return a fault, with a hint added if the call fits another reading of the texts."""
        hint = self.other(call) if self.other is not None and fault.rule in ("O6", "R8") else ""
        return fault._replace(text=f"{fault.text}; {hint}") if hint else fault

    def converted(self, c: Conversion) -> Sequence[int]:
        """Add the nodes of a call to a graph, and return the tensors of its outputs."""
        return c.add() if self.convert is None else self.convert(c)


def _omissions(call: Call) -> Call | Fault:
    for argument in call.inputs:
        if argument.omitted and not argument.optional:
            where = f"operands[{argument.operand.index}] ({argument.name})"
            return Fault(argument.place, f"{where} has no value, which this argument must have", "L6")
    return call


def _fault(call: Call, guilty: str, rule: str, name: str, shown: Callable[[Argument], str]) -> Fault:
    argument = next(iter(call.all(guilty)), None)
    if argument is None:
        return Fault(call.place, f"{call.operation.type.name}: {rule}", name)
    where = f"operands[{argument.operand.index}] ({guilty})"
    return Fault(argument.place, f"{where} {shown(argument)}; {rule}", name)


def _value(argument: Argument) -> str:
    value = argument.value
    if value is None:
        return "has another value"
    return f"is {value.tolist()}" if value.size <= 16 else f"has shape {list(value.shape)}"


def _sizes(argument: Argument) -> str:
    sizes = argument.shape
    if sizes is None:
        return "has dimensions that are not known"
    return f"has dimensions [{', '.join('?' if size is None else str(size) for size in sizes)}]"


def _scaling(argument: Argument) -> str:
    operand = argument.operand
    if operand.channels is not None:
        return f"has {len(operand.channels.scales)} scales along dimension {operand.channels.axis}"
    return f"has scale {operand.scale:.9g} and zero point {operand.zero_point}"


@cache
def parameters_of(op: str) -> Mapping[str, Any]:
    """Return the names of an operator's parameters, each with its default, or None if it has none."""
    kind = operator(op).parameters
    return {
        name: getattr(kind, name, None)
        for base in kind.__mro__
        for name in vars(base).get("__annotations__", ())
    }


class Operands(Protocol):
    """Where a conversion finds the tensors of operands."""

    @property
    def builder(self) -> GraphBuilder:
        """The graph that gets the nodes."""

    def tensor(self, operand: int, role: Argument | None = None) -> int:
        """Return the tensor of an operand. Raises Needs if its sizes are not known."""


class Conversion:
    """The conversion of one NNAPI operation into nodes of a graph.

    Reading a value that is not known yet raises Needs. Values that the operator does not take raise Refused.
    """

    def __init__(self, call: Call, row: Row, operands: Operands) -> None:
        self.call, self.row = call, row
        self._operands = operands
        self.builder = operands.builder

    # Values of arguments

    def has(self, name: str) -> bool:
        """Return True if an argument is present and not omitted."""
        argument = self.call.get(name)
        if argument is not None and argument.undecided:
            raise Needs(argument)
        return argument is not None

    def number(self, name: str) -> float | int:
        """Return a scalar, or its default."""
        value: float | int = self._known(self.call.number(name), name)
        return value

    def whole(self, name: str) -> int:
        """Return an INT32 scalar, or its default."""
        return int(self.number(name))

    def real(self, name: str) -> float:
        """Return a FLOAT32 or FLOAT16 scalar, or its default."""
        return float(self.number(name))

    def flag(self, name: str) -> bool:
        """Return a BOOL scalar, or its default; for an INT32, whether it is above 0."""
        return self.whole(name) > 0

    def wholes(self, name: str) -> list[int]:
        """Return the flattened elements of a TENSOR_INT32."""
        values: list[int] = self._known(self.call.wholes(name), name)
        return values

    def pairs(self, name: str) -> list[tuple[int, int]]:
        """Return the elements of a TENSOR_INT32 of shape [n, 2]."""
        values = self.wholes(name)
        return list(zip(values[::2], values[1::2], strict=True))

    def axis(self, name: str, of: str, more: int = 0) -> int:
        """Return an axis of the argument `of`, with `more` dimensions, counted from the front."""
        return self.whole(name) % (len(self.shape(of)) + more)

    def clip(self, name: str) -> float:
        """Return a clipping limit; 0, which means no limit, if it is omitted, infinite or not positive."""
        limit = self.real(name) if self.has(name) else 0.0
        return limit if 0 < limit < inf else 0.0

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the sizes of an argument."""
        sizes = self.call.shape(name)
        if sizes is None or None in sizes:
            raise Needs(self.call[name])
        return tuple(size for size in sizes if size is not None)

    def require(self, *names: str) -> None:
        """Raise Needs for the first of these arguments whose elements are not known."""
        for name in names:
            self._known(self.call[name].value, name)

    def _known(self, value: Any, name: str) -> Any:
        if value is None:
            raise Needs(self.call[name])
        return value

    # The node of a row

    def add(self, op: str = "", inputs: Sequence[int | None] = (), **given: Any) -> Sequence[int]:
        """Add the node that the row describes, and return the tensors of the outputs.

        op, inputs: in place of the row's operator and of the tensors among the arguments.
        given:      parameters that do not come from the arguments as the row says.
        """
        op = op or self.row.op
        inputs = inputs or list(self.tensors())
        kinds = [tensor_type(output.operand) for output in self.call.outputs]
        places = self.row.order or range(len(kinds))
        kinds = [kinds[list(places).index(place)] for place in range(len(kinds))]
        if self.row.counted:
            kinds.append(unshaped("int32"))
        values = {**self._parameters(op, given), **self.row.fixed, **given}
        results = self.node(op, inputs, *kinds, **values)
        outputs = [self._as_output(results[place]) for place in places]
        return [*outputs, results[-1]] if self.row.counted else outputs

    def _as_output(self, tensor: int) -> int:
        """Return a result as the HAL has it: reduced tensors keep one axis, and images have the layout of the call."""
        if "reshape" in self.row.more and not self.builder.shape(tensor):
            return self.reshaped(tensor, (1,))
        is_image = self._has_layout and self.call.outputs[0].name == "output"
        return self._transposed(tensor, _TO_NCHW) if is_image and self.flag("nchw") else tensor

    @property
    def _has_layout(self) -> bool:
        return any(slot.name == "nchw" for slot in self.call.slots)

    def tensors(self) -> Iterator[int | None]:
        """Yield the operands of the node: the tensors among the arguments in their order, None for omitted ones."""
        taken = parameters_of(self.row.op)
        worded = {name for words in self.row.words.values() for name in arguments_of(words)}
        for slot in self.call.slots:
            if slot.name in worded or (slot.kind == "I32" and slot.name in taken) or slot.kind in SCALARS:
                continue
            if slot.repeats:
                for argument in self.call.all(slot.name):
                    yield self.given(argument)
            elif slot.name in self.row.images and self._has_layout:
                yield self.image(slot.name)
            else:
                yield self.tensor(slot.name)

    def _parameters(self, op: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of an operator that arguments determine, without those that are given or fixed."""
        slots = {slot.name: slot for slot in self.call.slots}
        values: dict[str, Any] = {}
        for name, default in parameters_of(op).items():
            if name in given or name in self.row.fixed:
                continue
            words = self.row.words.get(name, name)
            if all(argument in slots for argument in arguments_of(words)):
                values[name] = self._value(name, words, slots, isinstance(default, bool))
        return values

    def _value(self, name: str, words: Words, slots: Mapping[str, Slot], truth: bool) -> Any:
        """Return the value of the parameter `name` from the arguments in `words`; truth: it is True or False."""
        if isinstance(words, Choice):
            return words.values[self.whole(words.argument)]
        if isinstance(words, tuple):
            return tuple(self._value(name, word, slots, truth) for word in words)
        if words == "activation":
            return ACTIVATIONS.values[self.whole(words)]
        if name.endswith("_clip"):
            return self.clip(words)
        if slots[words].kind == "I32":
            return self._list(name, words)
        if name == "axis":
            return self.axis(words, self.call.inputs[0].name)
        value = self.whole(words) if slots[words].kind == "i" else self.number(words)
        return value > 0 if truth else value

    def _list(self, name: str, argument: str) -> tuple[Any, ...]:
        if name == "axes":
            rank = len(self.shape(self.call.inputs[0].name))
            return tuple(sorted({axis % rank for axis in self.wholes(argument)}))
        return tuple(self.pairs(argument) if self.call.rank(argument) == 2 else self.wholes(argument))

    # Tensors and nodes

    def tensor(self, name: str) -> int | None:
        """Return the tensor of an argument; None if it is missing or omitted."""
        argument = self.call.get(name)
        return None if argument is None else self.given(argument)

    def given(self, argument: Argument) -> int | None:
        """Return the tensor of an argument; None if it is omitted."""
        if argument.undecided:
            raise Needs(argument)
        return None if argument.omitted else self._operands.tensor(argument.operand.index, argument)

    def node(
        self, op: str, inputs: Sequence[int | None], *results: TensorType, **parameters: Any
    ) -> tuple[int, ...]:
        """Add a node with results of these types and return them.

        The node is named after the operation in the model, with a number behind if the operation has several nodes.
        """
        if not known_operator(op):
            raise Refused(self._unsupported(f"npusim has no operator {op}"))
        try:
            values = operator(op).parameters(**parameters)
            return self.builder.node(op, inputs, results, values, name=self.call.place)
        except GraphError as fault:
            raise Refused(self._unsupported(str(fault))) from fault

    def image(self, name: str = "input") -> int:
        """Return the tensor of an image as [batch, height, width, channels]."""
        tensor = self.tensor(name)
        assert tensor is not None, name
        return self._transposed(tensor, _TO_NHWC) if self.flag("nchw") else tensor

    def sizes(self, name: str = "input") -> tuple[int, int, int, int]:
        """Return batch, height, width and channels of an image."""
        sizes = self.shape(name)
        batch, height, width, channels = (sizes[axis] for axis in _TO_NHWC) if self.flag("nchw") else sizes
        return batch, height, width, channels

    def reshaped(self, tensor: int, shape: Sequence[int]) -> int:
        """Return a tensor with another shape."""
        kind = self.builder.type(tensor)
        return self.node("reshape", [tensor], unshaped(kind.dtype, kind.quantization), shape=tuple(shape))[0]

    def constant(self, name: str, data: Array) -> int:
        """Return a new constant with the quantization of an output."""
        return self.builder.constant(name, data, quantization_of(self.call[name].operand))

    def _transposed(self, tensor: int, perm: tuple[int, ...]) -> int:
        kind = self.builder.type(tensor)
        return self.node("transpose", [tensor], unshaped(kind.dtype, kind.quantization), perm=perm)[0]

    def _unsupported(self, text: str) -> Fault:
        where = f"{self.call.operation.type.name}: {text}"
        return Fault(self.call.place, where, status=ErrorStatus.GENERAL_FAILURE)
