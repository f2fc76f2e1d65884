"""The shape of a row of the operation table, and how a call is checked against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedOperation
from npusim.frontends.nn_hal.enumerations import HalVersion, OperandType, OperationType, since
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.operations.call import Argument, Call, Known
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.signature import Mismatch, bind, tensor_types
from npusim.kernels.table import known as known_operator

Rule = Callable[[Call], str | None]
"""None when a call keeps the rule, or what is not known yet may keep it; else the name of the argument at fault.

Its docstring is the rule, the message and the manual.
"""

Convert = Callable[[Conversion], Sequence[int]]
"""Adds the nodes of a call to a graph and returns the tensors of its outputs."""


def text(rule: Rule) -> str:
    """A rule as messages and the manual say it."""
    return " ".join((rule.__doc__ or "").split()).rstrip(".")


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of NNAPI.

    type:         its code and name.
    forms, types: its signatures (`npusim.frontends.nn_hal.operations.signature`).
    parameters:   what its parameters may be.
    shapes:       how sizes must fit.
    quantization: how scales and zero points must fit.
    convert:      adds its nodes; None if no operator computes it (OEM_OPERATION and control flow).
    operators:    the operators of these nodes.
    other:        (call) -> a hint for a call that fits only another reading of the texts (docs/hal.md, departures),
                  or "".
    counted:      `convert` gives one tensor more than there are outputs: the int32 number of valid rows. The outputs
                  themselves have as many rows as there can be.
    """

    type: OperationType
    forms: tuple[str, ...]
    types: str = ""
    parameters: tuple[Rule, ...] = ()
    shapes: tuple[Rule, ...] = ()
    quantization: tuple[Rule, ...] = ()
    convert: Convert | None = None
    operators: tuple[str, ...] = ()
    counted: bool = False
    other: Callable[[Call], str] | None = None

    @property
    def since(self) -> HalVersion:
        """The version in which it appeared."""
        return since(self.type)

    @property
    def supported(self) -> bool:
        """Whether npusim has what it needs."""
        return self.convert is not None and all(map(known_operator, self.operators))

    def tensor_types(self, version: HalVersion = HalVersion.AIDL_V3) -> tuple[OperandType, ...]:
        """The tensor types that it takes by a version."""
        return tensor_types(self.types, version)

    def call(
        self,
        operation: CheckedOperation,
        known: Known,
        version: HalVersion,
        referenced: Sequence[CheckedGraph] = (),
    ) -> Call | Fault:
        """An operation with its arguments named, or why no signature of the row is its (O3, O4), or L6."""
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
        """The first rule that a call breaks, of those that what is known can decide."""
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
