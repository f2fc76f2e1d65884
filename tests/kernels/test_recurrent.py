"""Layers that keep a state: each against loops over single numbers or against another of them, states, links, rules."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt, tanh
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from .calls import given

Values = dict[int, Array]

GATES = ("input", "forget", "cell", "output")


def call_on(name: str, values: Values, count: int, outputs: int, **parameters: Any) -> Call:
    """A call of float32 operands, absent where there is no value, whose outputs have the shapes that it infers."""
    entry = operator(name)
    inputs = tuple(TensorType("float32", values[i].shape) if i in values else None for i in range(count))
    unshaped = Call(given(name, **parameters), inputs, (TensorType("float32", ()),) * outputs, {})
    shapes = entry.infer(unshaped)
    return replace(unshaped, outputs=tuple(TensorType("float32", shape) for shape in shapes))


def results(name: str, values: Values, count: int, outputs: int, **parameters: Any) -> list[Any]:
    call = call_on(name, values, count, outputs, **parameters)
    entry = operator(name)
    assert entry.broken_rule(call) is None
    found = entry.reference(call, [values.get(i) for i in range(count)])
    assert [(array.dtype, array.shape) for array in found] == [
        (tensor.numpy_dtype, tensor.shape) for tensor in call.outputs
    ]
    return list(found)


def cell(rng: np.random.Generator, inputs: int, cells: int, outputs: int, batch: int, *extras: str) -> Values:
    """Operands of an LSTM cell by position, without the input; extras: cifg, peephole, projection, norm."""

    def some(*shape: int) -> Array:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    gates = range(1 if "cifg" in extras else 0, 4)
    values = {1 + gate: some(cells, inputs) for gate in gates}
    values |= {5 + gate: some(cells, outputs) for gate in gates}
    values |= {12 + gate: some(cells) for gate in gates}
    if "peephole" in extras:
        values |= {position: some(cells) for position in (9, 10, 11) if position > 9 or "cifg" not in extras}
    if "projection" in extras:
        values |= {16: some(outputs, cells), 17: some(outputs)}
    if "norm" in extras:
        values |= {20 + gate: some(cells) for gate in gates}
    return values | {18: some(batch, outputs), 19: some(batch, cells)}


FUNCTIONS = {
    "none": lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0),
    "tanh": tanh,
    "sigmoid": lambda x: 1 / (1 + exp(-x)),
}


def lstm_by_hand(x: Any, values: Values, g: str, cell_clip: float, proj_clip: float) -> tuple[Any, Any]:
    """One step, number by number in Python's arithmetic."""
    outputs, states = [], []
    for row, h, c in zip(x.tolist(), values[18].tolist(), values[19].tolist(), strict=True):
        cells = len(c)

        def sums(
            gate: int, state: list[float], row: Any = row, h: Any = h, cells: int = cells
        ) -> list[float]:
            peephole = {0: 9, 1: 10, 3: 11}.get(gate, -1)
            total = []
            for unit in range(cells):
                number = sum(w * v for w, v in zip(values[1 + gate][unit].tolist(), row, strict=True))
                number += sum(w * v for w, v in zip(values[5 + gate][unit].tolist(), h, strict=True))
                if peephole in values:
                    number += float(values[peephole][unit]) * state[unit]
                total.append(number)
            if 20 + gate in values:
                mean = sum(total) / cells
                deviation = sqrt(sum((number - mean) ** 2 for number in total) / cells + 1e-8)
                total = [
                    (number - mean) / deviation * float(w)
                    for number, w in zip(total, values[20 + gate], strict=True)
                ]
            return [number + float(b) for number, b in zip(total, values[12 + gate], strict=True)]

        sigmoid = FUNCTIONS["sigmoid"]
        kept = [sigmoid(number) for number in sums(1, c)]
        admitted = [sigmoid(number) for number in sums(0, c)] if 1 in values else [1 - one for one in kept]
        candidate = [FUNCTIONS[g](number) for number in sums(2, c)]
        state = [f * old + i * new for f, old, i, new in zip(kept, c, admitted, candidate, strict=True)]
        if cell_clip:
            state = [min(max(number, -cell_clip), cell_clip) for number in state]
        shown = [sigmoid(number) for number in sums(3, state)]
        output = [o * FUNCTIONS[g](number) for o, number in zip(shown, state, strict=True)]
        if 16 in values:
            output = [
                sum(float(w) * v for w, v in zip(line, output, strict=True)) + float(b)
                for line, b in zip(values[16], values[17], strict=True)
            ]
            if proj_clip:
                output = [min(max(number, -proj_clip), proj_clip) for number in output]
        outputs.append(output)
        states.append(state)
    return outputs, states


@pytest.mark.parametrize(
    ("extras", "parameters"),
    [
        ((), {}),
        (("cifg",), {"activation": "relu", "cell_clip": 0.3}),
        (("peephole",), {"activation": "relu6"}),
        (("cifg", "peephole", "norm"), {"activation": "none"}),
        (("peephole", "projection", "norm"), {"proj_clip": 0.2, "activation": "sigmoid"}),
        (("projection",), {"proj_clip": 0.05}),
    ],
)
def test_an_lstm_step_is_its_equations(extras: tuple[str, ...], parameters: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    outputs = 3 if "projection" in extras else 4
    values = cell(rng, 2, 4, outputs, 3, *extras)
    values[0] = rng.uniform(-2, 2, (3, 2)).astype(np.float32)
    output, state, cells, scratch = results("lstm", values, 24, 4, **parameters)
    wanted = lstm_by_hand(
        values[0],
        values,
        parameters.get("activation", "tanh"),
        parameters.get("cell_clip", 0),
        parameters.get("proj_clip", 0),
    )
    assert np.allclose(output, wanted[0], atol=1e-5)
    assert np.array_equal(output, state)
    assert np.allclose(cells, wanted[1], atol=1e-5)
    assert scratch.shape == (3, 12 if "cifg" in extras else 16)


@pytest.mark.parametrize("time_major", [False, True])
def test_a_sequence_is_steps_that_hand_on_their_states(time_major: bool) -> None:
    rng = np.random.default_rng(1)
    values = cell(rng, 2, 4, 4, 3, "norm", "peephole")
    sequence = rng.uniform(-2, 2, (5, 3, 2)).astype(np.float32)
    states = values[18], values[19]
    outputs = []
    for x in sequence:
        output, *states = results("lstm", values | {0: x, 18: states[0], 19: states[1]}, 24, 3)
        outputs.append(output)
    values[0] = sequence if time_major else np.ascontiguousarray(sequence.swapaxes(0, 1))
    found, *after = results("unidirectional_sequence_lstm", values, 24, 3, time_major=time_major)
    assert np.array_equal(found, np.stack(outputs, axis=0 if time_major else 1))
    assert all(np.array_equal(one, other) for one, other in zip(after, states, strict=True))


def two_cells(
    rng: np.random.Generator, auxiliary: int = 0, weights: bool = False
) -> tuple[Values, Values, Values]:
    """Operands of a bidirectional LSTM on 4 steps of 2 sequences, and those of its cells alone."""
    forward, backward = cell(rng, 3, 4, 4, 2), cell(rng, 3 if weights else auxiliary or 3, 5, 5, 2)
    values = {position: value for position, value in forward.items() if position < 18}
    values |= {position + 17: value for position, value in backward.items() if position < 18}
    values |= {35: forward[18], 36: forward[19], 37: backward[18], 38: backward[19]}
    values[0] = rng.uniform(-1, 1, (2, 4, 3)).astype(np.float32)
    if auxiliary:
        values[39] = rng.uniform(-1, 1, (2, 4, auxiliary)).astype(np.float32)
    if weights:
        for first, cells in ((40, 4), (44, 5)):
            values |= {
                first + gate: rng.uniform(-1, 1, (cells, auxiliary)).astype(np.float32) for gate in range(4)
            }
    return values, forward, backward


def reversed_in_time(x: Array) -> Array:
    return np.ascontiguousarray(x[:, ::-1])


def one_way(operands: Values, sequence: Array) -> list[Any]:
    return results("unidirectional_sequence_lstm", operands | {0: sequence}, 24, 3)


@pytest.mark.parametrize("parallel", [False, True])
def test_a_bidirectional_lstm_is_one_each_way(parallel: bool) -> None:
    values, forward, backward = two_cells(np.random.default_rng(3), auxiliary=6 if parallel else 0)
    there, back, *states = results("bidirectional_sequence_lstm", values, 56, 6)
    [merged] = results("bidirectional_sequence_lstm", values, 56, 1, merge_outputs=True)
    wanted_there, *forward_states = one_way(forward, values[0])
    wanted_back, *backward_states = one_way(backward, reversed_in_time(values[39 if parallel else 0]))
    assert np.array_equal(there, wanted_there)
    assert np.array_equal(back, reversed_in_time(wanted_back))
    assert np.array_equal(merged, np.concatenate([there, back], axis=2))
    for one, other in zip(states, [*forward_states, *backward_states], strict=True):
        assert np.array_equal(one, other)


def test_an_auxiliary_input_with_weights_is_more_input() -> None:
    values, forward, backward = two_cells(np.random.default_rng(4), auxiliary=2, weights=True)
    there, back = results("bidirectional_sequence_lstm", values, 56, 2)
    both = np.concatenate([values[0], values[39]], axis=2)
    for first, operands in ((40, forward), (44, backward)):
        for gate in range(4):
            operands[1 + gate] = np.concatenate([operands[1 + gate], values[first + gate]], axis=1)
    assert np.allclose(there, one_way(forward, both)[0], atol=1e-6)
    assert np.allclose(back, reversed_in_time(one_way(backward, reversed_in_time(both))[0]), atol=1e-6)


def rnn_operands(rng: np.random.Generator, inputs: int, units: int, batch: int) -> list[Array]:
    shapes = (units, inputs), (units, units), (units,), (batch, units)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


def test_an_rnn_step_is_its_equation() -> None:
    weights, recurrent, bias, state = rnn_operands(rng := np.random.default_rng(5), 3, 4, 2)
    x = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
    operands = dict(enumerate([x, weights, recurrent, bias, state]))
    output, after = results("rnn", operands, 5, 2, activation="relu_n1_to_1")
    sums = np.einsum("bi,ui->bu", x, weights) + np.einsum("bv,uv->bu", state, recurrent) + bias
    assert np.allclose(output, np.clip(sums, -1, 1), atol=1e-6)
    assert np.array_equal(output, after)


@pytest.mark.parametrize("link", ["none", "parallel", "crossed"])
def test_a_bidirectional_rnn_is_one_each_way(link: str) -> None:
    rng = np.random.default_rng(6)
    forward = rnn_operands(rng, 3, 4, 2)
    backward = rnn_operands(rng, 6 if link == "parallel" else 3, 5, 2)
    x = rng.uniform(-1, 1, (2, 4, 3)).astype(np.float32)
    values = dict(enumerate([x, *forward, *backward]))
    sources = [x, x]
    if link != "none":
        values[9] = sources[1] = rng.uniform(-1, 1, (2, 4, 6)).astype(np.float32)
    if link == "crossed":
        values |= {10 + way: rng.uniform(-1, 1, (4 + way, 6)).astype(np.float32) for way in (0, 1)}
        sources = [np.concatenate([x, values[9]], axis=2)] * 2
        forward[0], backward[0] = (
            np.concatenate([operands[0], values[10 + way]], axis=1)
            for way, operands in enumerate((forward, backward))
        )
    found = results("bidirectional_sequence_rnn", values, 12, 4, activation="tanh")
    one = dict(enumerate([sources[0], *forward])), dict(enumerate([reversed_in_time(sources[1]), *backward]))
    there, back = (results("unidirectional_sequence_rnn", each, 5, 2, activation="tanh") for each in one)
    wanted = [there[0], reversed_in_time(back[0]), there[1], back[1]]
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted, strict=True))


def test_svdf_filters_in_two_stages() -> None:
    batch, inputs, units, rank, columns = 2, 3, 4, 2, 5
    rng = np.random.default_rng(8)
    filters = units * rank
    shapes = (batch, inputs), (filters, inputs), (filters, columns), (units,), (batch, filters * columns)
    values = {i: rng.uniform(-1, 1, shape).astype(np.float32) for i, shape in enumerate(shapes)}
    output, state = results("svdf", values, 5, 2, rank=rank, activation="relu")
    memory = values[4].reshape(batch, filters, columns)
    wanted = np.zeros((batch, units))
    after = np.zeros((batch, filters, columns))
    for row in range(batch):
        for number in range(filters):
            newest = float(values[0][row] @ values[1][number])
            after[row, number] = [*memory[row, number, 1:], newest]
            wanted[row, number // rank] += float(after[row, number] @ values[2][number])
    assert np.allclose(output, np.maximum(wanted + values[3], 0), atol=1e-5)
    assert np.allclose(state, after.reshape(batch, -1), atol=1e-6)


def test_svdf_that_shifts_after_is_one_that_shifts_before_on_the_shifted_memory() -> None:
    rng = np.random.default_rng(9)
    shapes = (1, 3), (4, 3), (4, 5), (4,), (1, 20)
    values = {i: rng.uniform(-1, 1, shape).astype(np.float32) for i, shape in enumerate(shapes) if i != 3}
    moved = np.roll(values[4].reshape(4, 5), 1, axis=1).reshape(1, 20)
    output, state = results("svdf", values, 5, 2, shift="after")
    same, before = results("svdf", values | {4: moved}, 5, 2)
    assert np.array_equal(output, same)
    columns = before.reshape(4, 5)
    assert np.array_equal(state.reshape(4, 5), np.concatenate([columns[:, 1:], np.zeros((4, 1))], axis=1))


# Integers


def code(dtype: str, scale: float, *shape: int, zero_point: int = 0) -> TensorType:
    return TensorType(dtype, shape, Quantization((float(np.float32(scale)),), (zero_point,)))


def integer_cell(rng: np.random.Generator, norm: bool) -> tuple[list[TensorType | None], list[Array | None]]:
    """A QUANTIZED_LSTM of 6 inputs, 8 cells, 5 outputs, on 3 rows."""
    types: list[TensorType | None] = [None] * 24
    values: list[Array | None] = [None] * 24

    def put(position: int, tensor: TensorType, most: int) -> None:
        types[position] = tensor
        values[position] = rng.integers(-most, most + 1, tensor.shape).astype(tensor.dtype)

    put(0, code("int8", 1 / 64, 3, 6, zero_point=3), 100)
    for gate in range(4):
        put(1 + gate, code("int8", 1 / 100, 8, 6), 127)
        put(5 + gate, code("int8", 1 / 90, 8, 5), 127)
        put(12 + gate, TensorType("int32", (8,)), 30000 if norm else 4000)
        if norm:
            put(20 + gate, code("int16", 2.0**-15, 8), 32767)
    put(16, code("int8", 1 / 120, 5, 8), 127)
    put(17, TensorType("int32", (5,)), 500)
    put(18, code("int8", 1 / 50, 3, 5, zero_point=-4), 100)
    put(19, code("int16", 2.0**-11, 3, 8), 2000)
    return types, values


INTERMEDIATES = [[1 / 300, 0]] * 4 + [[1 / 128, 0]]


def integer_results(name: str, types: list[Any], values: list[Any], **parameters: Any) -> list[Any]:
    entry = operator(name)
    outputs = (types[18], types[19], types[18])
    if name == "unidirectional_sequence_lstm":
        types, values = [replace(types[0], shape=(3, 1, 6)), *types[1:]], [values[0][:, None], *values[1:]]
        outputs = (replace(types[18], shape=(3, 1, 5)), types[18], types[19])
    call = Call(given(name, intermediates=INTERMEDIATES, **parameters), tuple(types), outputs, {})
    assert entry.broken_rule(call) is None
    return list(entry.reference(call, values))


def test_quantized_lstm_is_a_step_of_the_integer_layer_over_sequences() -> None:
    types, values = integer_cell(np.random.default_rng(10), norm=False)
    state, cells, output = integer_results("quantized_lstm", types, values, cell_clip=3.0)
    sequence, same_state, same_cells = integer_results(
        "unidirectional_sequence_lstm", types, values, cell_clip=3.0
    )
    assert np.array_equal(state, same_state)
    assert np.array_equal(output, sequence[:, 0])
    assert np.array_equal(cells, same_cells)


def test_normalized_integer_sums_stay_near_those_of_reals() -> None:
    types, values = integer_cell(np.random.default_rng(11), norm=True)
    state, cells, _ = integer_results("quantized_lstm", types, values)
    reals: Values = {}
    for position, (tensor, value) in enumerate(zip(types, values, strict=True)):
        if tensor is None or value is None:
            continue
        scale, zero = (1.0, 0)
        if tensor.quantization is not None:
            scale, zero = tensor.quantization.scale, tensor.quantization.zero_point
        elif position in range(12, 16):
            scale = 2.0**-15 / 1024  # of the weights of layer normalization
        else:
            scale = 1 / 120 / 128
        reals[position] = ((value.astype(np.float64) - zero) * scale).astype(np.float32)
    output, _, wanted = results("lstm", reals, 24, 3)
    assert np.abs(cells * 2.0**-11 - wanted).max() < 0.02
    assert np.abs((state + 4.0) / 50 - output).max() < 0.05


def test_a_cell_with_16_bits_of_state_computes_its_equations() -> None:
    rng = np.random.default_rng(12)
    inputs, outputs, batch = 5, 4, 2
    weight = code("uint8", 1 / 60, 1, zero_point=120)
    shapes = (
        [(batch, inputs)]
        + [(outputs, inputs)] * 4
        + [(outputs, outputs)] * 4
        + [(outputs,)] * 4
        + [(batch, outputs)] * 2
    )
    types = [
        *[code("uint8", 1 / 128, *shapes[0], zero_point=128)],
        *[replace(weight, shape=shape) for shape in shapes[1:9]],
        *[TensorType("int32", shape) for shape in shapes[9:13]],
        code("int16", 2.0**-11, *shapes[13]),
        code("uint8", 1 / 128, *shapes[14], zero_point=128),
    ]
    limits = [(0, 256)] * 9 + [(-3000, 3000)] * 4 + [(-4000, 4000), (0, 256)]
    values = [rng.integers(*limit, t.shape).astype(t.dtype) for t, limit in zip(types, limits, strict=True)]
    entry = operator("quantized_16bit_lstm")
    call = Call(given(entry.name), tuple(types), (types[13], types[14]), {})
    assert entry.broken_rule(call) is None
    state, output = entry.reference(call, values)
    # the columns are [input, output], the rows that they meet [recurrent, input]
    columns = (np.concatenate([values[0], values[14]], axis=1) - 128.0) / 128
    sums = [
        columns @ ((np.concatenate([values[5 + gate], values[1 + gate]], axis=1) - 120.0) / 60).T
        + values[9 + gate] / 60 / 128
        for gate in range(4)
    ]
    admitted, kept, shown = (1 / (1 + np.exp(-sums[gate])) for gate in (0, 1, 3))
    wanted = kept * values[13] / 2048 + admitted * np.tanh(sums[2])
    assert np.abs(state / 2048 - wanted).max() < 0.002
    assert np.abs((output - 128.0) / 128 - shown * np.tanh(wanted)).max() <= 0.51 / 128 + 0.002


# Types, sizes, rules


def test_halves_are_computed_in_float32_and_rounded() -> None:
    operands = dict(
        enumerate([np.ones((1, 3), np.float32), *rnn_operands(np.random.default_rng(0), 3, 2, 1)])
    )
    halves = {position: value.astype(np.float16) for position, value in operands.items()}
    wide = {position: value.astype(np.float32) for position, value in halves.items()}
    entry = operator("rnn")
    call = call_on("rnn", wide, 5, 2)
    of_halves = replace(
        call,
        inputs=tuple(replace(tensor, dtype="float16") for tensor in call.inputs if tensor is not None),
        outputs=tuple(replace(tensor, dtype="float16") for tensor in call.outputs),
    )
    assert entry.broken_rule(of_halves) is None
    found = entry.reference(of_halves, [halves[i] for i in range(5)])
    assert [array.tolist() for array in found] == [
        array.astype(np.float16).tolist() for array in results("rnn", wide, 5, 2)
    ]


@pytest.mark.parametrize(("batch", "steps"), [(0, 3), (2, 0)])
def test_a_sequence_may_be_empty(batch: int, steps: int) -> None:
    values = cell(np.random.default_rng(0), 2, 4, 4, batch, "norm") | {
        0: np.zeros((batch, steps, 2), np.float32)
    }
    output, h, c = results("unidirectional_sequence_lstm", values, 24, 3)
    assert output.shape == (batch, steps, 4)
    assert np.array_equal(h, values[18])
    assert np.array_equal(c, values[19])


@pytest.mark.parametrize(
    ("name", "without", "message"),
    [
        ("lstm", 14, "input, states, and weights and bias of the forget, cell and output gates are there"),
        ("lstm", 1, "weights and bias of the input gate are all there or all absent"),
        ("lstm", 10, "the gates have peephole weights or none has"),
        ("lstm", 16, "a projection bias comes with projection weights"),
        ("lstm", 21, "the gates have weights of layer normalization or none has"),
    ],
)
def test_what_a_cell_needs(name: str, without: int, message: str) -> None:
    values = cell(np.random.default_rng(0), 2, 4, 3, 1, "peephole", "projection", "norm")
    values[0] = np.zeros((1, 2), np.float32)
    call = call_on(name, values, 24, 4)
    lacking = replace(call, inputs=tuple(None if i == without else t for i, t in enumerate(call.inputs)))
    assert operator(name).broken_rule(lacking) == message


@pytest.mark.parametrize(
    ("name", "positions", "message"),
    [
        ("rnn", (2,), "takes 5 inputs and gives the output, or the next state beside it"),
        (
            "svdf",
            (4,),
            "takes 5 inputs, of which the bias may be absent, and gives the output, or the next state beside it",
        ),
    ],
)
def test_operands_that_must_be_there(name: str, positions: tuple[int, ...], message: str) -> None:
    inputs = tuple(None if i in positions else TensorType("float32", (1, 1)) for i in range(5))
    call = Call(given(name), inputs, (TensorType("float32", (1, 1)),), {})
    assert operator(name).broken_rule(call) == message


def test_work_grows_with_every_size() -> None:
    def macs(inputs: int, cells: int, batch: int) -> int:
        values = cell(np.random.default_rng(0), inputs, cells, cells, batch)
        values[0] = np.zeros((batch, inputs), np.float32)
        return operator("lstm").workload(call_on("lstm", values, 24, 3)).macs

    assert macs(3, 4, 1) == 4 * 4 * (3 + 4)
    assert macs(3, 4, 1) < min(macs(4, 4, 1), macs(3, 5, 1), macs(3, 4, 2))
