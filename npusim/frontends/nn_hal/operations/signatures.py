"""Signatures of operations as text, and the signature that a call has.

A form is `inputs > outputs`, an argument `name:kind`, with `@1.2` in front if it came after the operation:

    input:T filter:F bias:B stride:i activation:i | nchw:b=0 @1.2 | dilation:i=1 @1.2 > output:T

Kinds are scalars i INT32, f FLOAT32, h FLOAT16, b BOOL, g SUBGRAPH, s (FLOAT16 if T is F16, else FLOAT32), the tensors
of `TENSORS`, `any`, or a variable. `?` behind a kind means that the argument may be omitted, `=` its value in a call
with fewer arguments, `+` one or more arguments, `*` any number. Behind a bar are further arguments that a call may
have, from a version on. The types text names the variables and what they may be together, from a
version on:

    T F B: F32,F32,F32 Q8,Q8,I32 F16,F16,F16@1.2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from npusim.frontends.forms.signatures import Argument, arguments
from npusim.frontends.nn_hal.enumerations import HalVersion, OperandType
from npusim.isa.base.lazy_dataclass import dataclass

TENSORS = {
    "F32": OperandType.TENSOR_FLOAT32,
    "F16": OperandType.TENSOR_FLOAT16,
    "I32": OperandType.TENSOR_INT32,
    "B8": OperandType.TENSOR_BOOL8,
    "Q8": OperandType.TENSOR_QUANT8_ASYMM,
    "Q8S": OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    "Q8SY": OperandType.TENSOR_QUANT8_SYMM,
    "Q8C": OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
    "Q16S": OperandType.TENSOR_QUANT16_SYMM,
    "Q16A": OperandType.TENSOR_QUANT16_ASYMM,
}
"""Tensor types by the names that signatures have for them."""

OLD_TYPES = "F32@1.0 Q8@1.0 F16@1.2 Q8S@1.3"
SINCE_1_1 = "F32@1.1 Q8@1.1 F16@1.2 Q8S@1.3"
FLOATS = "F16@1.2 F32@1.2"
FLOATS_AND_8_BITS = "F16@1.2 F32@1.2 Q8@1.2 Q8S@1.3"
NUMBERS = "F16@1.2 F32@1.2 I32@1.2 Q8@1.2 Q8S@1.3"
"""Tensor types that many operations take, each with the version in which they do."""

SCALARS = ("i", "f", "h", "b", "s")
"""The kinds of scalar arguments."""

_KINDS = {
    "i": OperandType.INT32,
    "f": OperandType.FLOAT32,
    "h": OperandType.FLOAT16,
    "b": OperandType.BOOL,
    "g": OperandType.SUBGRAPH,
    **TENSORS,
}
_VERSIONS = {
    "1.0": HalVersion.V1_0,
    "1.1": HalVersion.V1_1,
    "1.2": HalVersion.V1_2,
    "1.3": HalVersion.V1_3,
    "6": HalVersion.AIDL_V2,
    "7": HalVersion.AIDL_V3,
}

Types = dict[str, OperandType]
"""Variables of a signature -> their types."""


Slot = Argument
"""One argument of a form."""


class Slots(NamedTuple):
    """The inputs or outputs of a form: those of every call, then groups with which a call may go on."""

    first: tuple[Slot, ...]
    further: tuple[tuple[HalVersion, tuple[Slot, ...]], ...]

    @property
    def every(self) -> tuple[Slot, ...]:
        """All arguments that a call may have."""
        return sum((slots for _, slots in self.further), self.first)

    def lists(self, version: HalVersion) -> Iterator[tuple[Slot, ...]]:
        """Yield the lists of arguments that a call may have by a version, the shortest first."""
        slots = self.first
        yield slots
        for since, more in self.further:
            if since <= version:
                slots = (*slots, *more)
                yield slots


class Form(NamedTuple):
    """One way to call an operation."""

    since: HalVersion
    inputs: Slots
    outputs: Slots


class Binding(NamedTuple):
    """The signature of a call: the argument of each operand, and the form with all arguments that it may have."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    form: Form


class Mismatch(NamedTuple):
    """Why a call has no signature: the operand at fault, as side and position; side "" if their number is wrong."""

    side: str
    position: int
    text: str


@cache
def form(text: str) -> Form:
    """Return the form of a text."""
    inputs, _, outputs = text.partition(">")
    since = "1.0"
    if inputs.startswith("@"):
        since, _, inputs = inputs.removeprefix("@").partition(" ")
    return Form(_VERSIONS[since], _slots(inputs), _slots(outputs))


@cache
def assignments(text: str) -> tuple[tuple[HalVersion, Types], ...]:
    """Return the types that the variables may have together, each with the version in which they appeared."""
    names, _, rows = text.partition(":")
    result = []
    for row in rows.split():
        kinds, _, since = row.partition("@")
        types = [_KINDS[kind] for kind in kinds.split(",")]
        result.append((_VERSIONS[since or "1.0"], dict(zip(names.split(), types, strict=True))))
    return tuple(result)


def bind(
    forms: Sequence[str],
    types: str,
    version: HalVersion,
    inputs: Sequence[OperandType],
    outputs: Sequence[OperandType],
) -> Binding | Mismatch:
    """Return the signature that operands of these types have in a version, or the misfit of the nearest one."""
    known_forms = [known for known in map(form, forms) if known.since <= version]
    candidates = [
        Binding(taken, given, known)
        for known in known_forms
        for taken in _stretched(known.inputs, version, len(inputs))
        for given in _stretched(known.outputs, version, len(outputs))
    ]
    if not candidates:
        return Mismatch("", 0, _counts(known_forms, version, len(inputs), len(outputs)))
    nearest = Mismatch("", -1, "")
    for candidate in candidates:
        fault = _first_misfit(candidate, _known(types, version), inputs, outputs)
        if fault is None:
            return candidate
        nearest = max(nearest, fault, key=lambda one: (one.side == "outputs", one.position))
    return nearest


def tensor_types(types: str, version: HalVersion = HalVersion.AIDL_V3) -> tuple[OperandType, ...]:
    """Return the types that the first variable may have."""
    first = types.split(":")[0].split()[:1]
    return tuple(dict.fromkeys(row[name] for row in _known(types, version) for name in first))


def _known(types: str, version: HalVersion) -> list[Types]:
    return [row for since, row in assignments(types) if since <= version]


def _slots(text: str) -> Slots:
    first, *further = text.split("|")
    groups = []
    for group in further:
        *words, since = group.split()
        groups.append((_VERSIONS[since.removeprefix("@")], arguments(" ".join(words))))
    return Slots(arguments(first), tuple(groups))


def _stretched(slots: Slots, version: HalVersion, count: int) -> Iterator[tuple[Slot, ...]]:
    """Yield the lists of arguments of a form that `count` operands fill."""
    for listed in slots.lists(version):
        repeated = next((index for index, slot in enumerate(listed) if slot.repeats), None)
        if repeated is None:
            if len(listed) == count:
                yield listed
        elif (times := count - len(listed) + 1) >= (listed[repeated].repeats == "+"):
            yield (*listed[:repeated], *[listed[repeated]] * times, *listed[repeated + 1 :])


def _first_misfit(
    binding: Binding, known: Sequence[Types], inputs: Sequence[OperandType], outputs: Sequence[OperandType]
) -> Mismatch | None:
    """Return the misfit of the assignment that fits most operands; None if one fits all."""
    nearest = Mismatch("", -1, "")
    for types in known or [{}]:
        for side, slots, operands in (
            ("inputs", binding.inputs, inputs),
            ("outputs", binding.outputs, outputs),
        ):
            wrong = next((i for i, slot in enumerate(slots) if not _fits(slot, types, operands[i])), None)
            if wrong is not None:
                fault = Mismatch(side, wrong, _wanted(slots[wrong], types))
                nearest = max(nearest, fault, key=lambda one: (one.side == "outputs", one.position))
                break
        else:
            return None
    if nearest.side == "inputs":
        wanted = [_wanted(binding.inputs[nearest.position], types) for types in known or [{}]]
        return nearest._replace(text=" or ".join(dict.fromkeys(wanted)))
    return nearest


def _kind(slot: Slot, types: Types) -> OperandType | None:
    """Return the type that an argument must have; None for any."""
    if slot.kind == "any":
        return None
    if slot.kind == "s":
        return OperandType.FLOAT16 if types["T"] is OperandType.TENSOR_FLOAT16 else OperandType.FLOAT32
    return types[slot.kind] if slot.kind in types else _KINDS[slot.kind]


def _fits(slot: Slot, types: Types, operand: OperandType) -> bool:
    return _kind(slot, types) in (None, operand)


def _wanted(slot: Slot, types: Types) -> str:
    kind = _kind(slot, types)
    return "anything" if kind is None else kind.name


def _counts(known: Sequence[Form], version: HalVersion, inputs: int, outputs: int) -> str:
    """Return the message for a wrong number of operands: what the call has, and the numbers that it may have."""
    taken = _numbers([listed for one in known for listed in one.inputs.lists(version)])
    given = _numbers([listed for one in known for listed in one.outputs.lists(version)])
    return f"has {inputs} inputs and {outputs} outputs, takes {taken} and gives {given}"


def _numbers(lists: Sequence[Sequence[Slot]]) -> str:
    words = []
    for listed in sorted(lists, key=len):
        repeated = next((slot for slot in listed if slot.repeats), None)
        least = len(listed) - (1 if repeated and repeated.repeats == "*" else 0)
        words.append(f"{least} or more" if repeated else str(least))
    return " or ".join(dict.fromkeys(words))


@dataclass(frozen=True, slots=True)
class Choice:
    """An argument that numbers the values of a parameter, such as 0 for "reflect" and 1 for "symmetric"."""

    argument: str
    values: Mapping[int, str]


Words = str | Choice | tuple["Words", ...]
"""The argument that says a parameter, or a tuple of these for a parameter that is a tuple."""


def arguments_from(words: Words, value: Any) -> dict[str, Any]:
    """Return the arguments that say a value of a parameter, the reverse of reading them."""
    if isinstance(words, str):
        return {words: value}
    if isinstance(words, Choice):
        numbers = {name: number for number, name in words.values.items()}
        return {words.argument: numbers[value]}
    parts = [arguments_from(word, part) for word, part in zip(words, value, strict=True)]
    return {name: argument for part in parts for name, argument in part.items()}


def arguments_of(words: Words) -> Iterator[str]:
    """Yield the names of the arguments that say a parameter."""
    if isinstance(words, str):
        yield words
    elif isinstance(words, Choice):
        yield words.argument
    else:
        for word in words:
            yield from arguments_of(word)
