"""Signatures of NNAdapter operations as rows of text, and the operands of a call by the names of its signature.

    input filter bias auto_pad:i=0 pads:I? strides:I=(1,1) fuse_code:i=0 > output=input

An argument `name` is a tensor, and `name:s` a tensor of which only the sizes matter. Other types are parameters, whose
value must be known when the model is built: i an integer, f a float, b a boolean, I and F lists of these, or v any
number. `?` marks an argument that may be omitted, `=` its default in the methods of `Model`, `+` one or more arguments.
A result `name=input` has the precision of that argument, `name:PRECISION` always that precision, `name@argument` the
precision whose number that parameter holds, and `name` alone the precision of its operand. A result `name?(flag)` only
exists if that parameter is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from npusim.frontends.forms.signatures import Argument, arguments, dealt
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, Precision
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operand_type import member

_RESULT = re.compile(r"(?P<name>\w+?)(?P<marks>[?+]*)(?:\((?P<flag>\w+)\))?(?:(?P<mark>[=:@])(?P<of>\w+))?")

_ELEMENT_KINDS = {"i": ("signed", "unsigned"), "f": ("real",), "b": ("truth",)}
_KIND_WORDS = {"i": "a whole number", "f": "a real number", "b": "a BOOL8"}
"""Element kinds, and words for messages, of the parameters i, f and b; I and F are lists of these."""


class Outcome(NamedTuple):
    """How an output of an operation gets its precision.

    like:      the argument whose precision it has.
    precision: its precision if it is always the same.
    named_by:  the parameter that holds the number of its precision.
    asked_by:  the parameter that is true if the output exists.
    """

    name: str
    optional: bool = False
    repeats: str = ""
    like: str = ""
    precision: Precision | None = None
    named_by: str = ""
    asked_by: str = ""


class Signature(NamedTuple):
    """The inputs and outputs of an operation, in the order of its definition."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Outcome, ...]

    @property
    def repeated(self) -> int | None:
        """The place of the repeated input; None if every input stands for one operand."""
        return next((place for place, argument in enumerate(self.inputs) if argument.repeats), None)


@cache
def signature(text: str) -> Signature:
    """Parse the signature of a row."""
    inputs, _, outputs = text.partition(">")
    return Signature(arguments(inputs), tuple(map(_outcome, outputs.split())))


def _outcome(word: str) -> Outcome:
    parts = _RESULT.fullmatch(word)
    if parts is None:
        raise ValueError(f"{word!r} is no result of a signature")
    mark, of, marks = parts["mark"], parts["of"], parts["marks"]
    return Outcome(
        parts["name"],
        "?" in marks,
        marks.strip("?"),
        of if mark == "=" else "",
        Precision[of] if mark == ":" else None,
        of if mark == "@" else "",
        parts["flag"] or "",
    )


class Bound:
    """The operands of an operation by the names of its signature."""

    def __init__(self, operation: Operation, signature: Signature) -> None:
        """Raises InvalidParameter for a wrong number of operands, and for an omitted one that must be there."""
        self.operation, self.signature = operation, signature
        self.inputs: dict[str, list[Operand | None]] = {}
        self.outputs: dict[str, list[Operand]] = {}
        results = signature.outputs
        least = sum(not outcome.optional for outcome in results)
        for argument, taken in self._dealt(signature.inputs, operation.input_operands, len(signature.inputs)):
            if not argument.optional and None in taken:
                raise self._fault(f"{argument.name} is omitted, it must be there")
            self.inputs[argument.name] = list(taken)
        for outcome, given in self._dealt(results, operation.output_operands, least, "outputs"):
            self.outputs[outcome.name] = list(given)

    def _dealt(
        self, slots: Sequence[Any], operands: Sequence[Any], least: int, what: str = "inputs"
    ) -> Iterator[tuple[Any, Sequence[Any]]]:
        return dealt(slots, operands, least, self._fault, ", ".join(slot.name for slot in slots), what)

    def _fault(self, text: str) -> InvalidParameter:
        return InvalidParameter(f"{self.operation.place}: {text}")


def types_of_outputs(bound: Bound) -> None:
    """Set the precision of an operation's outputs as its definition says, and the scale of quantized ones to that of
    the input.

    Raises InvalidParameter for an output that is quantized if nothing says its scale.
    """
    for outcome in bound.signature.outputs:
        for operand in bound.outputs[outcome.name]:
            _type_output(bound, outcome, operand)


def _type_output(bound: Bound, outcome: Outcome, operand: Operand) -> None:
    own = operand.type
    if outcome.precision is not None:
        wanted = outcome.precision
    elif outcome.like:
        model = bound.inputs[outcome.like][0]
        assert model is not None
        wanted = model.type.precision
        if wanted == own.precision or (own.row.dtype == model.type.row.dtype and own.row.scaled):
            return
        if model.type.row.scaled:
            own.take_scaling(model.type)
    elif outcome.named_by:
        named = bound.inputs[outcome.named_by][0]
        if named is None or named.known is None or named.known.size != 1:
            return
        where = f"{bound.operation.place}: {outcome.named_by}"
        wanted = member(Precision, int(named.known.reshape(-1)[0]), where)
    else:
        return
    own.precision = wanted
    if not own.row.scaled:
        own.scale = own.zero_point = own.scales = own.zero_points = own.channel_dim = None


def argument_fault(argument: Argument, operand: Operand) -> str:
    """Return why an operand cannot be a parameter of this kind; "" if it can."""
    kind = argument.kind.lower()
    if kind not in _ELEMENT_KINDS or operand.type.tensor_type().element.kind in _ELEMENT_KINDS[kind]:
        return ""
    some = " or some" if argument.kind.isupper() else ""
    return f"{argument.name} ({operand.name}) is {operand.type.words()}, must be {_KIND_WORDS[kind]}{some}"
