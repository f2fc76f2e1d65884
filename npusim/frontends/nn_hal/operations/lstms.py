"""Long short-term memory: LSTM, its layers over sequences, and the two quantized cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.cell_arguments import (
    BACKWARD,
    FORWARD,
    GATES,
    ONE,
    PEEPHOLES,
    first_omitted,
    listed,
    there,
    together,
)
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.dimensions import dimensions
from npusim.frontends.nn_hal.operations.row import Row

_FUNCTIONS = {0: "none", 1: "relu", 3: "relu6", 4: "tanh", 6: "sigmoid"}
_STATE_SCALE = 2.0**-11
_CODES = {OperandType.TENSOR_QUANT8_ASYMM: (1 / 128, 128)}
_STATES = {OperandType.TENSOR_QUANT16_SYMM: (_STATE_SCALE, 0)}


# Parameters


def _function(call: Call) -> str | None:
    """the activation is 0 (none), 1 (relu), 3 (relu6), 4 (tanh) or 6 (sigmoid)"""
    return None if call.whole("activation") in (None, *_FUNCTIONS) else "activation"


def _clips(c: Conversion) -> dict[str, float]:
    """The largest values; 0 for none, as for what is no limit."""
    clips = {name: c.real(name) if c.has(name) else 0.0 for name in ("cell_clip", "proj_clip")}
    return {name: clip if 0 < clip < inf else 0.0 for name, clip in clips.items()}


def _of_cell(c: Conversion) -> dict[str, object]:
    return {"activation": _FUNCTIONS[c.whole("activation")], **_clips(c)}


def _tensors(c: Conversion, *names: Iterable[str]) -> list[int | None]:
    return [c.tensor(name) for group in names for name in group]


# Conversions


def _lstm(c: Conversion) -> Sequence[int]:
    inputs = _tensors(c, ("input",), ONE.weights, ONE.states, ONE.norms)
    results = [c.result(name) for name in ("output", "output_state_out", "cell_state_out", "scratch")]
    output, output_state, cell_state, scratch = c.node("lstm", inputs, *results, **_of_cell(c))
    return [scratch, output_state, cell_state, output]


def _sequence_lstm(c: Conversion) -> Sequence[int]:
    inputs = _tensors(c, ("input",), ONE.weights, ONE.states, ONE.norms)
    results = [c.result_of(output) for output in c.call.outputs]
    parameters = _of_cell(c) | {"time_major": c.flag("time_major")}
    return c.node("unidirectional_sequence_lstm", inputs, *results, **parameters)


def _bidirectional_lstm(c: Conversion) -> Sequence[int]:
    inputs = _tensors(
        c,
        ("input",),
        FORWARD.weights,
        BACKWARD.weights,
        FORWARD.states,
        BACKWARD.states,
        ("auxiliary",),
        FORWARD.auxiliaries,
        BACKWARD.auxiliaries,
        FORWARD.norms,
        BACKWARD.norms,
    )
    results = [c.result_of(output) for output in c.call.outputs]
    flags = {name: c.flag(name) for name in ("time_major", "merge_outputs")}
    return c.node("bidirectional_sequence_lstm", inputs, *results, **_of_cell(c), **flags)


def _quantized_lstm(c: Conversion) -> Sequence[int]:
    inputs = _tensors(c, ("input",), ONE.weights, ONE.states, ONE.norms)
    sums = [(c.real(f"{gate}_scale"), 0) for gate in GATES]
    results = [c.result(name) for name in ("output_state_out", "cell_state_out", "output")]
    return c.node(
        "quantized_lstm",
        inputs,
        *results,
        intermediates=[*sums, (c.real("hidden_scale"), c.whole("hidden_zero_point"))],
        **_clips(c),
    )


def _quantized_16bit_lstm(c: Conversion) -> Sequence[int]:
    return c.node(
        "quantized_16bit_lstm",
        [c.tensor(argument.name) for argument in c.call.inputs],
        c.result("cell_state_out"),
        c.result("output"),
    )


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
        found = there(call, [name])
        if found and given and not coupled and found != given:
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

ROWS: tuple[Row, ...] = (
    Row(
        OperationType.LSTM,
        (f"{_LSTM_INPUTS} {_CELL} | {_NORMS} @1.2 > scratch:T output_state_out:T cell_state_out:T output:T",),
        "T: F32@1.0 F16@1.2",
        (_function,),
        (*dimensions(_STEP_SIZES), *together(ONE), _scratch),
        (),
        _lstm,
        ("lstm",),
        other=_exchanged,
    ),
    Row(
        OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM,
        (
            f"{_LSTM_INPUTS} {_CELL} time_major:b {_NORMS} > "
            "output:T | output_state_out:T cell_state_out:T @1.3",
        ),
        "T: F32@1.2 F16@1.2",
        (_function,),
        (
            *dimensions(
                _STEP_SIZES | {"input": "steps batch inputs", "output": "steps batch outputs"},
                ("input", "output"),
            ),
            *together(ONE),
        ),
        (),
        _sequence_lstm,
        ("unidirectional_sequence_lstm",),
    ),
    Row(
        OperationType.BIDIRECTIONAL_SEQUENCE_LSTM,
        (
            f"{_bidirectional_inputs()} > output:T | backward:T @1.2 | {_STATES_OUT} @1.3",
            f"@1.3 {_bidirectional_inputs()} > output:T {_STATES_OUT}",
        ),
        "T: F32@1.2 F16@1.2",
        (_function, merged),
        (
            *dimensions(_BIDIRECTIONAL_SIZES, ("input", "auxiliary", "output", "backward")),
            *together(FORWARD),
            *together(BACKWARD),
            _linked,
            _backward_inputs,
            _merged_depth,
            _forward_depth,
        ),
        (),
        _bidirectional_lstm,
        ("bidirectional_sequence_lstm",),
    ),
    Row(
        OperationType.QUANTIZED_16BIT_LSTM,
        (
            f"input:T {listed(ONE.matrices, {})} {listed(_16BIT_BIASES, dict.fromkeys(_16BIT_BIASES, 'I32'))} "
            "cell_state:Q16S output_state:T > cell_state_out:Q16S output:T",
        ),
        "T: Q8@1.2",
        (),
        dimensions({name: sizes for name, sizes in _STEP_SIZES.items() if "projection" not in name}),
        (
            *(constraints.prescribed(name, _CODES) for name in ("input", "output_state", "output")),
            *(constraints.prescribed(name, _STATES) for name in ("cell_state", "cell_state_out")),
            _one_weight_scale,
        ),
        _quantized_16bit_lstm,
        ("quantized_16bit_lstm",),
    ),
    Row(
        OperationType.QUANTIZED_LSTM,
        (
            f"input:T {listed(ONE.weights, _QUANTIZED_KINDS, ONE.optional)} "
            f"{listed(ONE.states, _QUANTIZED_KINDS)} {listed(ONE.norms, _QUANTIZED_KINDS, ONE.norms)} "
            "cell_clip:f? proj_clip:f? "
            f"{' '.join(f'{gate}_scale:f' for gate in GATES)} hidden_zero_point:i hidden_scale:f > "
            "output_state_out:T cell_state_out:Q16S output:T",
        ),
        "T: Q8S@1.3",
        (
            constraints.positive(*(f"{gate}_scale" for gate in GATES), "hidden_scale"),
            constraints.finite(*(f"{gate}_scale" for gate in GATES), "hidden_scale"),
        ),
        (*dimensions(_STEP_SIZES), *together(ONE)),
        (_one_state_scale,),
        _quantized_lstm,
        ("quantized_lstm",),
    ),
)
