"""An operator as one value: parameters, rules, shape inference, reference, workload and lowerings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Data, TensorType
from npusim.kernels.operator.element_types import alike, dequantize_values, fits, in_words, quantize_results
from npusim.kernels.operator.parameters import Parameters, Rescale

if TYPE_CHECKING:
    # Only type checkers know the default before Python 3.13.
    from typing_extensions import TypeVar

    from npusim.isa.hardware.hardware import Hardware
    from npusim.kernels.operator.expansion import Expansion

    P = TypeVar("P", bound=Parameters, covariant=True, default=Any)
else:
    from typing import TypeVar

    P = TypeVar("P", bound=Parameters, covariant=True)


@dataclass(frozen=True)  # no slots: caches refer to calls weakly
class Call(Generic[P]):
    """One use of an operator: parameters and the types of its operands (None: optional input absent).

    `constants` holds the data of constant inputs by position, or SIZE_ONLY (absent positions are not constant).
    """

    parameters: P
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    constants: Mapping[int, Data]

    @property
    def output_shapes(self) -> Shapes:
        """The shapes of the outputs."""
        return tuple(output.shape for output in self.outputs)


Shapes = tuple[tuple[int, ...], ...]
"""The shapes of the outputs of a call."""

Values = Sequence[Array | None]
"""The values of a call's inputs; None for one that is absent."""

Reference = Callable[[Call, Values], list[Array]]
"""Computes the outputs of a call from the values of its inputs, in numpy."""

Rule = Callable[[Call], bool]
"""Returns True if a call keeps the rule. Its docstring is the rule, the error message and the manual."""


class Need(NamedTuple):
    """A unit or a memory that a machine must have for a call.

    words: what is needed, as messages print it after "needs", with the key of a unit: "float lanes (KEY)".
    key:   the hardware key to change where it is lacking, with {dtype} for the element type of the call.
    holds: True if a machine has what a call needs.
    """

    words: str
    key: str
    holds: Callable[[Call, Hardware], bool]

    def key_of(self, call: Call) -> str:
        """Return the hardware key that a call needs."""
        return self.key.format(dtype=next(kind.dtype for kind in call.inputs if kind is not None))


ROOM = "scratchpad.size_kib"
"""The key of needs that machines have too little of; other needs are units that they have or have not."""


def need(key: str) -> Callable[[Callable[[Call, Hardware], bool]], Need]:
    """Make a need from a function with its words as docstring; `key` as in `Need`."""
    return lambda holds: Need(text(holds), key, holds)


def text(rule: Callable[..., bool]) -> str:
    """Return a rule's words as messages and the manual print them."""
    return " ".join((rule.__doc__ or "").split()).rstrip(".")


class Refusal(NamedTuple):
    """Why the NPU does not compute a call: words, and the hardware keys that would change that."""

    words: str
    keys: tuple[str, ...] = ()


class SlidingWindow(NamedTuple):
    """A window that slides over an image: its height and width, and the steps down and right."""

    kernel: tuple[int, int]
    stride: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Alias:
    """An input or output that is a contiguous part of another tensor: nothing needs to move.

    `part` lies `offset_bytes` into `whole`; both index the node's operands as ("in", i) or ("out", i).
    """

    part: tuple[str, int]
    whole: tuple[str, int]
    offset_bytes: int


class Part:
    """A step of the NPU's execution of a call.

    `npusim.kernels.lowering.work` defines its kinds: `Work` computes, `Move` and `Pick` copy.
    """

    __slots__ = ()


LACKS = "{} lacks the operator (lacks_operators)"
"""Reason why the host computes an operator that the hardware file excludes for this machine."""


FIXED_POINT: tuple[Rescale, ...] = ("fixed_point",)

_REQUANTIZED: Mapping[Rescale, str] = {
    "fixed_point": "in fixed point (as TFLite does)",
    "float32": "in float32 (as ONNX does)",
    "fused": "after one fused float32 computation (as operators of com.microsoft do)",
    "power_of_two": "by a shift of one int16 operand (as TFLite does with PotScaleInt16)",
    "dynamic": "in float32 after symmetric quantization of the rows at run time (as TFLite does)",
    "dynamic_asymmetric": "in float32 after asymmetric quantization of the rows at run time (as TFLite does)",
}


def requantized(rescales: Sequence[Rescale]) -> str:
    """Say how results become quantized values."""
    return f"results are requantized {' or '.join(_REQUANTIZED[rescale] for rescale in rescales)}"


class Lowering(NamedTuple):
    """One way in which the NPU computes an operator.

    unit:  which kind of unit of the NPU does the main work, such as "mac" or "dma".
    rules: which calls it can do; an operator that has several ways takes the first whose rules and needs hold.
    lower: the call in parts, in the order of their execution.
    needs: what the hardware must have for it, beside what every machine has.
    """

    unit: str
    rules: tuple[Rule, ...]
    lower: Callable[[Call, Hardware], Sequence[Part]]
    needs: tuple[Need, ...] = ()

    @property
    def conditions(self) -> list[str]:
        """Its rules and needs in words."""
        rules = [text(rule).removeprefix("on the NPU ") for rule in self.rules]
        return rules + [f"needs {requirement.words}" for requirement in self.needs]

    def refusal(self, call: Call, hardware: Hardware) -> Refusal | None:
        """Return the first rule that a call breaks or need that a machine lacks; None if there is none."""
        broken = next((text(rule) for rule in self.rules if not rule(call)), None)
        if broken is not None:  # needs count on the rules
            return Refusal(broken)
        lacking = (requirement for requirement in self.needs if not requirement.holds(call, hardware))
        lacked = next(lacking, None)
        if lacked is None:
            return None
        amount = "too little" if lacked.key == ROOM else "none"
        return Refusal(f"needs {lacked.words}; {hardware.name} has {amount}", (lacked.key_of(call),))


class Arithmetic(NamedTuple):
    """One arithmetic of an operator: how calls whose results are requantized in certain ways are computed.

    rescales:  the requantizations that it is for.
    types, rules, reference: as those of the operator, which stand in for None.
    lowerings: how the NPU computes it.
    on_host:   why the host computes such a call where no lowering takes it; "" where the lowerings say it.
    expand:    such a call as simpler ones; None where it has to stay whole.
    in_float:  quantized operands become float32 first and results are quantized after, as ONNX defines it. Types and
               rules are those of the call in float32.
    """

    rescales: tuple[Rescale, ...]
    types: tuple[str, ...] | None = None
    rules: tuple[Rule, ...] | None = None
    reference: Reference | None = None
    lowerings: tuple[Lowering, ...] = ()
    on_host: str = ""
    expand: Callable[[Call], Expansion | None] | None = None
    in_float: bool = False


def literal(*lowerings: Lowering, reference: Reference | None = None) -> Arithmetic:
    """Return the arithmetic of ONNX: by way of float32.

    reference: what computes float32 operands, where it is not the operator's: functions and sums that are computed in
               float64 and rounded to float32 once.
    """
    types = None if reference is None else alike("float32")
    return Arithmetic(("float32",), types, None, reference, lowerings, in_float=True)


@dataclass(frozen=True, slots=True)
class Operator:
    """All that npusim knows of one operator.

    parameters: the type of its parameters.
    types:     which element types its operands may have together (`npusim.kernels.operator.element_types`).
    rules:     must hold for any execution (else GraphError: the model is malformed or not supported).
    infer:     the shapes that parameters and inputs give the outputs of a call that keeps the rules.
    reference: (call, values) -> outputs in numpy; bit-exact for integers.
    workload:  the amount of work of a call.
    lowerings: how the NPU computes it; the first whose rules hold is taken. Where none holds the operator runs on the
               host and the report says what each lacks.
    expand:    a call that no lowering takes as simpler ones; None where it has to stay whole.
    on_host:   for operators without lowerings: why there are none.
    alias:     for operators that move nothing when their operands share memory.
    updates:   the output is the first input with new values in some places. The lowering copies this input first; the
               compiler leaves the copy out if nothing else needs the old values.
    index_limits: for operators with indices at input 1 that can count from the end: the sizes along the indexed axes.
    border:    for windows over images: the quantized value that they read outside the first input.
    states:    positions of inputs that may be states. A call with as many outputs more gives their next values there.
    window:    for windows over images: their size and stride.
    defined:   outputs -> what of them the operator gives, for one that need not fill them; otherwise all.
    arithmetics: others than fixed point, which types, rules, reference, lowerings and expand describe. The first that
               fits a call is taken. Every operator also computes calls with rescale "float32" by way of float32.
    """

    name: str
    types: tuple[str, ...]
    rules: tuple[Rule, ...]
    infer: Callable[[Call], Shapes]
    reference: Reference
    workload: Callable[[Call], Workload]
    lowerings: tuple[Lowering, ...] = ()
    expand: Callable[[Call], Expansion | None] | None = None
    parameters: type[Parameters] = Parameters
    on_host: str = ""
    alias: Callable[[Call], tuple[Alias, ...] | None] | None = None
    updates: bool = False
    index_limits: Callable[[Call], tuple[int, ...]] | None = None
    border: Callable[[Call], int] | None = None
    states: tuple[int, ...] = ()
    window: Callable[[Call], SlidingWindow] | None = None
    defined: Callable[[Sequence[Array]], list[Array]] | None = None
    arithmetics: tuple[Arithmetic, ...] = ()

    @property
    def every_arithmetic(self) -> tuple[Arithmetic, ...]:
        """The arithmetics in the order in which they are tried."""
        fixed = Arithmetic(
            FIXED_POINT, self.types, self.rules, self.reference, self.lowerings, self.on_host, self.expand
        )
        return (*self.arithmetics, fixed, _LITERAL)

    @property
    def every_lowering(self) -> tuple[tuple[tuple[Rescale, ...], Lowering], ...]:
        """All lowerings, those of fixed point first, each with the requantizations that it is for."""
        others = [(row.rescales, lowering) for row in self.arithmetics for lowering in row.lowerings]
        return (*((FIXED_POINT, lowering) for lowering in self.lowerings), *others)

    def arithmetic(self, call: Call) -> Arithmetic | None:
        """Return the first arithmetic that computes a call, by its requantization and element types."""
        for row in self.every_arithmetic:
            if call.parameters.rescale in row.rescales:
                types = self.types if row.types is None else row.types
                if fits(types, *(_float_kinds(call) if row.in_float else (call.inputs, call.outputs))):
                    return row
        return None

    def expander(self, call: Call) -> Callable[[Call], Expansion | None] | None:
        """Return the function that expands a call which no lowering takes into simpler ones; None if there is none."""
        row = self.arithmetic(call)
        return self.expand if row is None or row.rules is None else row.expand

    def compute(self, call: Call, values: Values) -> list[Array]:
        """Return what a call that keeps the rules gives, in numpy."""
        row = self.arithmetic(call)
        if row is None:  # operators without types, which a user registers, take all
            return self.reference(call, values)
        reference = row.reference or self.reference
        return compute_in_float32(reference, call, values) if row.in_float else reference(call, values)

    def broken_rule(self, call: Call) -> str | None:
        """Return the first rule that a call breaks, its element types included; None if it can be executed.

        The element types of operands that the rules would miss do not count: those rules say it better.
        """
        row = self.arithmetic(call)
        if row is None:
            known = {
                rescale: None
                for arithmetic in self.arithmetics
                if arithmetic.types is None
                for rescale in arithmetic.rescales
            }
            known = {"fixed_point": None, **known} | {"float32": known.pop("float32", None)}
            if (rescale := call.parameters.rescale) in known:
                return in_words(self.types)
            return f"{requantized(list(known))}, not {_REQUANTIZED[rescale]}"
        seen = call_in_float32(call) if row.in_float else call
        rules = self.rules if row.rules is None else row.rules
        return next((text(rule) for rule in rules if not rule(seen)), None)

    def lowering(self, call: Call, hardware: Hardware) -> Lowering | None:
        """Return the first lowering whose rules a call keeps and that the machine can do; None if there is none."""
        if hardware.lacks(self.name):
            return None
        return next((row for row in self._lowerings(call) if row.refusal(call, hardware) is None), None)

    def _lowerings(self, call: Call) -> list[Lowering]:
        """Return the lowerings for the requantization of a call."""
        rescale = call.parameters.rescale
        others = [way for row in self.arithmetics if rescale in row.rescales for way in row.lowerings]
        return [*self.lowerings, *others] if rescale == "fixed_point" else others

    def host_reason(self, call: Call, hardware: Hardware) -> Refusal:
        """Return why the host computes a call that no lowering takes: what each of them lacks.

        The first rule of a lowering says which element types it is for; where some are for those of the call, the
        others have nothing to say.
        """
        if hardware.lacks(self.name):
            return Refusal(LACKS.format(hardware.name))
        if (row := self.arithmetic(call)) is not None and row.on_host:
            return Refusal(f"runs on the host: {row.on_host}")
        rows = self._lowerings(call)
        apt = [row for row in rows if row.rules and row.rules[0](call)]
        reasons = [reason for row in apt or rows if (reason := row.refusal(call, hardware))]
        if not rows:
            asked = _REQUANTIZED[call.parameters.rescale]
            others = dict.fromkeys(rescales for rescales, _ in self.every_lowering)
            reasons = [Refusal(f"{requantized(rescales)}, not {asked}") for rescales in others]
        words = "; ".join(dict.fromkeys(refusal.words for refusal in reasons))
        keys = dict.fromkeys(key for refusal in reasons for key in refusal.keys)
        return Refusal(words or f"runs on the host: {self.on_host}", tuple(keys))


_LITERAL = literal()


def _float_kinds(call: Call) -> tuple[list[TensorType | None], list[TensorType]]:
    """Return the types of a call's operands with float32 in the place of quantized ones."""
    return [None if kind is None else _real(kind) for kind in call.inputs], [
        _real(kind) for kind in call.outputs
    ]


def call_in_float32(call: Call) -> Call:
    """Return the call with float32 operands in place of quantized ones."""
    inputs, outputs = _float_kinds(call)
    return replace(
        call,
        parameters=call.parameters.changed(rescale="fixed_point"),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        constants={
            position: dequantize_values(data, kind)
            if isinstance(data, np.ndarray) and kind is not None
            else data
            for position, data in call.constants.items()
            for kind in [call.inputs[position]]
        },
    )


def compute_in_float32(reference: Reference, call: Call, values: Sequence[Array | None]) -> list[Array]:
    """Dequantize values, compute a reference on floats, and quantize its results."""
    floats = [
        value if value is None or kind is None else dequantize_values(value, kind)
        for value, kind in zip(values, call.inputs, strict=True)
    ]
    results = reference(call_in_float32(call), floats)
    return [
        quantize_results(np.asarray(result), kind) if kind.quantized else np.asarray(result)
        for result, kind in zip(results, call.outputs, strict=True)
    ]


def _real(kind: TensorType) -> TensorType:
    return replace(kind, dtype="float32", quantization=None) if kind.quantized else kind
