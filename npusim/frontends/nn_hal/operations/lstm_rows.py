"""Long short-term memory: LSTM, its layers over sequences, and the two quantized cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import dimensions
from npusim.frontends.nn_hal.operations.named_arguments import Call
from npusim.frontends.nn_hal.operations.operation_row import Conversion, Row, Rule
from npusim.frontends.nn_hal.operations.signatures import Choice, Words

_T = OperationType
GATES = ("input", "forget", "cell", "output")
PEEPHOLES = ("input", "forget", "output")


class CellArguments(NamedTuple):
    """The names of a cell's arguments; `prefix` tells the two cells of a bidirectional layer apart."""

    prefix: str = ""

    def input_weights(self, gate: str) -> str:
        return f"{self.prefix}input_to_{gate}"

    def recurrent_weights(self, gate: str) -> str:
        return f"{self.prefix}recurrent_to_{gate}"

    def peephole(self, gate: str) -> str:
        return f"{self.prefix}cell_to_{gate}"

    def bias(self, gate: str) -> str:
        return f"{self.prefix}{gate}_bias"

    def norm(self, gate: str) -> str:
        return f"{self.prefix}{gate}_norm"

    def auxiliary(self, gate: str) -> str:
        return f"{self.prefix}auxiliary_to_{gate}"

    @property
    def projection(self) -> tuple[str, str]:
        return f"{self.prefix}projection", f"{self.prefix}projection_bias"

    @property
    def states(self) -> tuple[str, str]:
        return f"{self.prefix}output_state", f"{self.prefix}cell_state"

    @property
    def matrices(self) -> tuple[str, ...]:
        """The input weights and recurrent weights of all gates."""
        return (*map(self.input_weights, GATES), *map(self.recurrent_weights, GATES))

    @property
    def weights(self) -> tuple[str, ...]:
        """All arguments but input, states and layer normalization, in the order of every operation."""
        return (*self.matrices, *map(self.peephole, PEEPHOLES), *map(self.bias, GATES), *self.projection)

    @property
    def norms(self) -> tuple[str, ...]:
        return tuple(map(self.norm, GATES))

    @property
    def auxiliaries(self) -> tuple[str, ...]:
        return tuple(map(self.auxiliary, GATES))

    @property
    def optional(self) -> tuple[str, ...]:
        """Those of `weights` that may be omitted."""
        first = (self.input_weights("input"), self.recurrent_weights("input"), self.bias("input"))
        return (*first, *map(self.peephole, PEEPHOLES), *self.projection)

    def sizes(self) -> dict[str, str]:
        """Return the sizes, by name, of all arguments but input, auxiliary input and its weights."""
        batch, p = "batch", self.prefix
        units, outputs, inputs = f"{p}units", f"{p}outputs", f"{p}inputs"
        sizes = {self.states[0]: f"{batch} {outputs}", self.states[1]: f"{batch} {units}"}
        sizes |= {
            self.input_weights(gate): f"{units} {inputs}" for gate in ("forget", "cell", "output", "input")
        }
        sizes |= {self.recurrent_weights(gate): f"{units} {outputs}" for gate in GATES}
        sizes |= dict.fromkeys((*map(self.peephole, PEEPHOLES), *map(self.bias, GATES), *self.norms), units)
        return sizes | {self.projection[0]: f"{outputs} {units}", self.projection[1]: outputs}


ONE, FORWARD, BACKWARD = CellArguments(), CellArguments("fw_"), CellArguments("bw_")


def listed(names: Iterable[str], kinds: Mapping[str, str], optional: Sequence[str] = ()) -> str:
    """Return arguments as signatures write them; those that `kinds` does not have are of kind T."""
    return " ".join(f"{name}:{kinds.get(name, 'T')}{'?' if name in optional else ''}" for name in names)


# Which arguments are there together


def there(call: Call, names: Iterable[str]) -> set[bool]:
    """Return whether arguments have values: one answer, or both. Arguments that only the request decides give none."""
    arguments = [argument for name in names for argument in call.all(name)]
    return {not argument.omitted for argument in arguments if argument.omitted or not argument.undecided}


def first_omitted(call: Call, names: Iterable[str]) -> str | None:
    """Return the first of the arguments that is omitted; None if all have values."""
    return next((name for name in names for one in call.all(name) if one.omitted), None)


def together(names: CellArguments) -> tuple[Rule, ...]:
    """Return the rules of which optional arguments of a cell have values together."""

    def gate(call: Call) -> str | None:
        group = (names.input_weights("input"), names.recurrent_weights("input"), names.bias("input"))
        return first_omitted(call, group) if len(there(call, group)) > 1 else None

    def peepholes(call: Call) -> str | None:
        group = (names.peephole("forget"), names.peephole("output"))
        if len(there(call, group)) > 1:
            return first_omitted(call, group)
        given, coupled = there(call, group), there(call, [names.input_weights("input")]) == {False}
        first = there(call, [names.peephole("input")])
        wanted = given if not coupled else {False}
        return names.peephole("input") if first and wanted and first != wanted else None

    def projection(call: Call) -> str | None:
        weights, bias = names.projection
        return bias if there(call, [bias]) == {True} and there(call, [weights]) == {False} else None

    def norms(call: Call) -> str | None:
        group = names.norms[1:]
        if len(there(call, group)) > 1:
            return first_omitted(call, group)
        first, given = there(call, names.norms[:1]), there(call, group)
        coupled = there(call, [names.input_weights("input")]) == {False}
        wanted = {False} if coupled else given
        return names.norms[0] if first and wanted and first != wanted else None

    gate.__doc__ = (
        "input weights, recurrent weights and bias of the input gate all have values or none of them has"
    )
    peepholes.__doc__ = (
        "all cell_to weights have values or none has; cell_to_input only beside input gate weights"
    )
    projection.__doc__ = "a projection bias has a value only beside projection weights"
    norms.__doc__ = "all norm weights have values or none has; input_norm only beside input gate weights"
    return gate, peepholes, projection, norms


# Rules of operations

_FUNCTIONS = {0: "none", 1: "relu", 3: "relu6", 4: "tanh", 6: "sigmoid"}
_WORDS: dict[str, Words] = {"activation": Choice("activation", _FUNCTIONS)}
_STATE_SCALE = 2.0**-11
_CODES = {OperandType.TENSOR_QUANT8_ASYMM: (1 / 128, 128)}
_STATES = {OperandType.TENSOR_QUANT16_SYMM: (_STATE_SCALE, 0)}


def _function(call: Call) -> str | None:
    """the activation is 0 (none), 1 (relu), 3 (relu6), 4 (tanh) or 6 (sigmoid)"""
    return None if call.whole("activation") in (None, *_FUNCTIONS) else "activation"


# Two directions


def merged(call: Call) -> str | None:
    """there is a backward output if and only if merge_outputs is false"""
    merge = call.whole("merge_outputs")
    return None if merge is None or bool(merge) != bool(call.all("backward")) else "merge_outputs"


def _linked(call: Call) -> str | None:
    """weights of the auxiliary input have values all together, beside an auxiliary input, or none of them has"""
    first = [names.auxiliary("input") for names in (FORWARD, BACKWARD)]
    others = [name for names in (FORWARD, BACKWARD) for name in names.auxiliaries[1:]]
    given = there(call, others)
    if len(given) > 1:
        return first_omitted(call, others)
    if given == {True} and there(call, ["auxiliary"]) == {False}:
        return "auxiliary"
    for names, name in zip((FORWARD, BACKWARD), first, strict=True):
        coupled = there(call, [names.input_weights("input")]) == {False}
        present = there(call, [name])
        if present and given and not coupled and present != given:
            return name
    return None


def _backward_inputs(call: Call) -> str | None:
    """the backward cell reads input, or the auxiliary input where that has no weights"""
    auxiliary, weights = there(call, ["auxiliary"]), there(call, [FORWARD.auxiliary("forget")])
    depth = call.size(BACKWARD.input_weights("forget"), 1)
    source = "input" if weights == {True} or auxiliary == {False} else None
    if auxiliary == {True} and weights == {False}:
        source = "auxiliary"
    if source is None:
        return None
    return None if constraints.may_be_same(depth, call.size(source, 2)) else BACKWARD.input_weights("forget")


def _merged_depth(call: Call) -> str | None:
    """merged outputs are as deep as both together"""
    depths = [call.size(names.states[0], 1) for names in (FORWARD, BACKWARD)]
    if not call.whole("merge_outputs") or None in depths:
        return None
    return None if call.size("output", 2) in (None, sum(depth or 0 for depth in depths)) else "output"


def _forward_depth(call: Call) -> str | None:
    """outputs that are not merged are as deep as the forward output state"""
    merge = call.whole("merge_outputs")
    if merge is None or merge:
        return None
    depth = call.size(FORWARD.states[0], 1)
    return None if constraints.may_be_same(depth, call.size("output", 2)) else "output"


_BIDIRECTIONAL_SIZES = {
    **FORWARD.sizes(),
    **BACKWARD.sizes(),
    "input": "steps batch fw_inputs",
    "auxiliary": "steps batch auxiliary_inputs",
    **dict.fromkeys(FORWARD.auxiliaries, "fw_units auxiliary_inputs"),
    **dict.fromkeys(BACKWARD.auxiliaries, "bw_units auxiliary_inputs"),
    "output": "steps batch depth",
    "backward": "steps batch bw_outputs",
    "fw_output_state_out": "batch fw_outputs",
    "fw_cell_state_out": "batch fw_units",
    "bw_output_state_out": "batch bw_outputs",
    "bw_cell_state_out": "batch bw_units",
}
_STATES_OUT = "fw_output_state_out:T fw_cell_state_out:T bw_output_state_out:T bw_cell_state_out:T"


def _bidirectional_inputs() -> str:
    optional = (*FORWARD.optional, *BACKWARD.optional)
    auxiliaries = ("auxiliary", *FORWARD.auxiliaries, *BACKWARD.auxiliaries)
    norms = (*FORWARD.norms, *BACKWARD.norms)
    weights = (*FORWARD.weights, *BACKWARD.weights)
    return " ".join(
        (
            "input:T",
            listed(weights, {}, optional),
            listed((*FORWARD.states, *BACKWARD.states), {}),
            listed(auxiliaries, {}, auxiliaries),
            "activation:i cell_clip:s proj_clip:s merge_outputs:b time_major:b",
            listed(norms, {}, norms),
        )
    )


# Rows

_LSTM_INPUTS = f"input:T {listed(ONE.weights, {}, ONE.optional)} {listed(ONE.states, {})}"
_CELL = "activation:i cell_clip:s proj_clip:s"
_NORMS = listed(ONE.norms, {}, ONE.norms)


def _scratch(call: Call) -> str | None:
    """scratch has dimensions [batch, 4 * units], or 3 * units without an input gate"""
    sizes, batch = call.shape("scratch"), call.size("cell_state", 0)
    units = call.size("cell_state", 1)
    gates = there(call, [ONE.input_weights("input")])
    if sizes is None or len(gates) != 1:
        return None
    wanted = (batch, None if units is None else units * (4 if gates == {True} else 3))
    return None if constraints.may_equal(wanted, sizes) else "scratch"


def _exchanged(call: Call) -> str:
    """Return a hint if the scratch is as wide as an earlier types.hal says, which exchanges the factors 3 and 4."""
    units, wide = call.size("cell_state", 1), call.size("scratch", 1)
    gates = there(call, [ONE.input_weights("input")])
    if units is None or len(gates) != 1 or wide != units * (3 if gates == {True} else 4):
        return ""
    return "an earlier types.hal exchanges 3 and 4, drivers do not"


def _one_state_scale(call: Call) -> str | None:
    """the cell states have one scale"""
    before, after = call["cell_state"].operand, call["cell_state_out"].operand
    return None if before.scale == after.scale else "cell_state_out"


def _one_weight_scale(call: Call) -> str | None:
    """all weights have one scale and zero point"""
    names = ONE.matrices
    first = call[names[0]].operand
    for name in names:
        operand = call[name].operand
        if (operand.scale, operand.zero_point) != (first.scale, first.zero_point):
            return name
    return None


_16BIT_BIASES = tuple(map(ONE.bias, GATES))
_QUANTIZED_KINDS = {
    **dict.fromkeys(map(ONE.peephole, PEEPHOLES), "Q16S"),
    **dict.fromkeys(map(ONE.bias, GATES), "I32"),
    **dict.fromkeys(ONE.matrices, "Q8SY"),
    **dict.fromkeys(ONE.norms, "Q16S"),
    "projection": "Q8SY",
    "projection_bias": "I32",
    "cell_state": "Q16S",
}
_STEP_SIZES = {
    **ONE.sizes(),
    "input": "batch inputs",
    "output_state_out": "batch outputs",
    "cell_state_out": "batch units",
    "output": "batch outputs",
}


def _quantized_lstm(c: Conversion) -> Sequence[int]:
    """Add the cell with the scales of its sums, and the scale and zero point of the hidden state."""
    sums = [(c.real(f"{gate}_scale"), 0) for gate in GATES]
    return c.add(intermediates=[*sums, (c.real("hidden_scale"), c.whole("hidden_zero_point"))])


_SCALES = (*(f"{gate}_scale" for gate in GATES), "hidden_scale")
_FLOATS = "T: F32@1.2 F16@1.2"

ROWS: tuple[Row, ...] = (
    Row(
        _T.LSTM,
        (f"{_LSTM_INPUTS} {_CELL} | {_NORMS} @1.2 > scratch:T output_state_out:T cell_state_out:T output:T",),
        "T: F32@1.0 F16@1.2",
        "lstm",
        (_function,),
        (*dimensions(_STEP_SIZES), *together(ONE), _scratch),
        words=_WORDS,
        order=(3, 1, 2, 0),
        other=_exchanged,
    ),
    Row(
        _T.UNIDIRECTIONAL_SEQUENCE_LSTM,
        (
            f"{_LSTM_INPUTS} {_CELL} time_major:b {_NORMS} > "
            "output:T | output_state_out:T cell_state_out:T @1.3",
        ),
        _FLOATS,
        "unidirectional_sequence_lstm",
        (_function,),
        (
            *dimensions(
                _STEP_SIZES | {"input": "steps batch inputs", "output": "steps batch outputs"},
                ("input", "output"),
            ),
            *together(ONE),
        ),
        words=_WORDS,
    ),
    Row(
        _T.BIDIRECTIONAL_SEQUENCE_LSTM,
        (
            f"{_bidirectional_inputs()} > output:T | backward:T @1.2 | {_STATES_OUT} @1.3",
            f"@1.3 {_bidirectional_inputs()} > output:T {_STATES_OUT}",
        ),
        _FLOATS,
        "bidirectional_sequence_lstm",
        (_function, merged),
        (
            *dimensions(_BIDIRECTIONAL_SIZES, ("input", "auxiliary", "output", "backward")),
            *(*together(FORWARD), *together(BACKWARD)),
            *(_linked, _backward_inputs, _merged_depth, _forward_depth),
        ),
        words=_WORDS,
    ),
    Row(
        _T.QUANTIZED_16BIT_LSTM,
        (
            f"input:T {listed(ONE.matrices, {})} {listed(_16BIT_BIASES, dict.fromkeys(_16BIT_BIASES, 'I32'))} "
            "cell_state:Q16S output_state:T > cell_state_out:Q16S output:T",
        ),
        "T: Q8@1.2",
        "quantized_16bit_lstm",
        (),
        dimensions({name: sizes for name, sizes in _STEP_SIZES.items() if "projection" not in name}),
        (
            *(constraints.prescribed(name, _CODES) for name in ("input", "output_state", "output")),
            *(constraints.prescribed(name, _STATES) for name in ("cell_state", "cell_state_out")),
            _one_weight_scale,
        ),
    ),
    Row(
        _T.QUANTIZED_LSTM,
        (
            f"input:T {listed(ONE.weights, _QUANTIZED_KINDS, ONE.optional)} "
            f"{listed(ONE.states, _QUANTIZED_KINDS)} {listed(ONE.norms, _QUANTIZED_KINDS, ONE.norms)} "
            "cell_clip:f? proj_clip:f? "
            f"{' '.join(f'{gate}_scale:f' for gate in GATES)} hidden_zero_point:i hidden_scale:f > "
            "output_state_out:T cell_state_out:Q16S output:T",
        ),
        "T: Q8S@1.3",
        "quantized_lstm",
        (constraints.positive(*_SCALES), constraints.finite(*_SCALES)),
        (*dimensions(_STEP_SIZES), *together(ONE)),
        (_one_state_scale,),
        convert=_quantized_lstm,
    ),
)
