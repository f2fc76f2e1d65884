"""The LSTM layer: a model's bytes from LiteRT, one step by hand, variants against each other, rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.frontends.frontend import read
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import call_of
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.sequence.lstm_cell import Operand
from npusim.kernels.table import operator

from .calls import codes, given, reals

LSTM = operator("unidirectional_sequence_lstm")

Operands = dict[int, tuple[TensorType, Array | None]]


def run(call: Call, operands: Operands) -> Any:
    """The output of a call that keeps all rules."""
    assert LSTM.broken_rule(call) is None
    [found] = LSTM.reference(call, [operands[i][1] if i in operands else None for i in range(24)])
    assert (found.dtype, found.shape) == (call.outputs[0].numpy_dtype, call.outputs[0].shape)
    return found


def call_of_operands(operands: Operands, output: TensorType, **parameters: Any) -> Call:
    inputs = tuple(operands[i][0] if i in operands else None for i in range(24))
    return Call(given(LSTM.name, **parameters), inputs, (output,), {})


# A trained model


@pytest.fixture(scope="module")
def handwriting(shared: Path) -> tuple[Call, list[Array | None], Path]:
    """The LSTM of a handwriting model with its constants, the input left out."""
    graph = read(shared / "models" / "tflm_mnist_lstm_int8.tflite")
    [node] = [node for node in graph.nodes if node.op == LSTM.name]
    values = [None if index is None else graph.tensors[index].data for index in node.inputs]
    return call_of(graph, node), values, shared / "golden"


def test_a_trained_layer_gives_the_bytes_of_litert(
    handwriting: tuple[Call, list[Array | None], Path],
) -> None:
    call, values, golden = handwriting
    assert LSTM.broken_rule(call) is None
    with (
        np.load(golden / "tflm_mnist_lstm_int8.npz") as ends,
        np.load(golden / "tflm_mnist_lstm_int8.mid.npz") as between,
    ):
        found, *_ = LSTM.reference(call, [ends["in0_0"], *values[1:]])
        assert np.array_equal(found, between["t23"])


@pytest.mark.parametrize("sample", [0, 1, 2])
def test_a_trained_model_gives_the_bytes_of_litert(shared: Path, sample: int) -> None:
    graph = read(shared / "models" / "tflm_mnist_lstm_int8.tflite")
    with np.load(shared / "golden" / "tflm_mnist_lstm_int8.npz") as golden:
        values: dict[int | None, Array | None] = {i: t.data for i, t in enumerate(graph.tensors)}
        values |= {graph.inputs[0]: golden[f"in{sample}_0"]}
        for node in graph.nodes:
            inputs = [values.get(index) for index in node.inputs]
            outputs = operator(node.op).reference(call_of(graph, node), inputs)
            values |= dict(zip(node.outputs, outputs, strict=True))
        assert np.array_equal(np.asarray(values[graph.outputs[0]]), golden[f"out{sample}_0"])


def test_work_of_a_trained_layer(handwriting: tuple[Call, list[Array | None], Path]) -> None:
    work = LSTM.workload(handwriting[0])
    # 28 steps, 4 gates of 20 cells, 28 inputs and 20 outputs
    assert (work.kind, work.macs, work.inner_k) == ("gemm", 28 * 4 * 20 * (28 + 20), 48)
    assert work.weight_bytes == 4 * 20 * (28 + 20) + 4 * 20 * 4


# One cell with one input, in integers


def one_cell(code: int = 0, state: int = 0) -> Operands:
    """A cell whose candidate sees the input code as a real number; the sums of its three gates are 0.

    `state` is the code of its cell state in 1/2048.
    """
    weights, bias = codes(1, 1, scale=2.0**-6), TensorType("int32", (1,))
    operands: dict[int, tuple[TensorType, Any]] = {Operand.INPUT: (codes(1, 1, 1), [[[code]]])}
    for gate in range(4):
        operands[Operand.INPUT_WEIGHTS + gate] = weights, [[64 if gate == 2 else 0]]
        operands[Operand.RECURRENT_WEIGHTS + gate] = weights, [[0]]
        operands[Operand.BIAS + gate] = bias, [0]
    operands[Operand.OUTPUT_STATE] = codes(1, 1, scale=1 / 128), [[0]]
    operands[Operand.CELL_STATE] = TensorType("int16", (1, 1), Quantization((1 / 2048,), (0,))), [[state]]
    return {i: (tensor, np.array(value, tensor.dtype)) for i, (tensor, value) in operands.items()}


def cell_output(operands: Operands, **parameters: Any) -> int:
    """The output code of the only step, in 1/128."""
    intermediates = [None, None, None, None, [1 / 128, 0]]
    output = codes(1, 1, 1, scale=1 / 128)
    found = run(call_of_operands(operands, output, intermediates=intermediates, **parameters), operands)
    return int(found[0, 0, 0])


def test_one_step_by_hand() -> None:
    # candidate tanh(1) = 0.7616, cell 0.5 * 0.7616 = 0.3808, output 0.5 * tanh(0.3808) = 0.1817 = 23.3 / 128
    assert cell_output(one_cell(1)) == 23
    assert cell_output(one_cell(-1)) == -23


def test_the_cell_state_is_kept_and_clipped() -> None:
    # cell 0.5 * 1 + 0 = 0.5, output 0.5 * tanh(0.5) = 0.2311 = 29.6 / 128
    assert cell_output(one_cell(state=2048)) == 30
    # clipped to 0.25: 0.5 * tanh(0.25) = 0.1225 = 15.7 / 128
    assert cell_output(one_cell(state=2048), cell_clip=0.25) == 16


def test_without_an_input_gate_what_is_forgotten_is_admitted() -> None:
    operands = one_cell(1)
    for position in (Operand.INPUT_WEIGHTS, Operand.RECURRENT_WEIGHTS, Operand.BIAS):
        del operands[position]
    assert cell_output(operands) == 23
    # forget gate logistic(8) = 1: nothing is admitted
    operands[Operand.BIAS + 1] = TensorType("int32", (1,)), np.array([1 << 20], np.int32)
    assert cell_output(operands) == 0


def test_peephole_weights_open_the_output_gate() -> None:
    operands = one_cell(1)
    peephole = TensorType("int16", (1,), Quantization((2.0**-8,), (0,)))
    for position in (Operand.CELL_TO_INPUT, Operand.CELL_TO_FORGET):
        operands[position] = peephole, np.array([0], np.int16)
    operands[Operand.CELL_TO_OUTPUT] = peephole, np.array([32767], np.int16)
    # 128 * 0.3808 opens the gate: tanh(0.3808) = 0.3634 = 46.5 / 128
    assert cell_output(operands) == 46


def test_a_projection_mixes_hidden_codes() -> None:
    operands = one_cell(1)
    operands[Operand.PROJECTION_WEIGHTS] = codes(1, 1, scale=0.5), np.array([[-4]], np.int8)
    operands[Operand.PROJECTION_BIAS] = TensorType("int32", (1,)), np.array([10], np.int32)
    assert cell_output(operands) == -41  # (23 * -4 + 10) / 2
    assert cell_output(operands, proj_clip=0.25) == -32


# Variants in floating point


def random_layer(rng: np.random.Generator, batch: int, steps: int) -> Operands:
    inputs, cells = 3, 4
    shapes: dict[int, tuple[int, ...]] = {Operand.INPUT: (batch, steps, inputs)}
    for gate in range(4):
        shapes[Operand.INPUT_WEIGHTS + gate] = (cells, inputs)
        shapes[Operand.RECURRENT_WEIGHTS + gate] = (cells, cells)
        shapes[Operand.BIAS + gate] = (cells,)
    shapes |= {Operand.OUTPUT_STATE: (batch, cells), Operand.CELL_STATE: (batch, cells)}
    return {
        position: (reals(*shape), rng.normal(0, 0.5, shape).astype(np.float32))
        for position, shape in shapes.items()
    }


def test_a_float_layer_follows_its_equations() -> None:
    operands = random_layer(np.random.default_rng(0), batch=2, steps=3)
    v: Any = {position: value for position, (_, value) in operands.items()}
    h, c, expected = v[Operand.OUTPUT_STATE], v[Operand.CELL_STATE], []
    for t in range(3):
        i, f, g, o = (
            v[Operand.INPUT][:, t] @ v[Operand.INPUT_WEIGHTS + gate].T
            + h @ v[Operand.RECURRENT_WEIGHTS + gate].T
            + v[Operand.BIAS + gate]
            for gate in range(4)
        )
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        expected.append(h)
    found = run(call_of_operands(operands, reals(2, 3, 4)), operands)
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-5)


def test_time_may_be_the_first_axis() -> None:
    operands = random_layer(np.random.default_rng(1), batch=2, steps=5)
    expected = run(call_of_operands(operands, reals(2, 5, 4)), operands)
    swapped = np.ascontiguousarray(np.swapaxes(operands[Operand.INPUT][1], 0, 1))  # type: ignore[type-var]
    operands[Operand.INPUT] = reals(5, 2, 3), swapped
    found = run(call_of_operands(operands, reals(5, 2, 4), time_major=True), operands)
    np.testing.assert_allclose(found.swapaxes(0, 1), expected, rtol=1e-6)


def test_states_that_are_not_given_are_zero() -> None:
    operands = random_layer(np.random.default_rng(2), batch=1, steps=2)
    call = call_of_operands(operands, reals(1, 2, 4))
    for state in (Operand.OUTPUT_STATE, Operand.CELL_STATE):
        operands[state] = operands[state][0], np.zeros((1, 4), np.float32)
    zeros = run(call, operands)
    for state in (Operand.OUTPUT_STATE, Operand.CELL_STATE):
        operands[state] = operands[state][0], None
    assert np.array_equal(run(call, operands), zeros)


# Rules


def without(position: int) -> Call:
    operands = random_layer(np.random.default_rng(0), batch=1, steps=1)
    del operands[position]
    return call_of_operands(operands, reals(1, 1, 4))


def with_type(position: int, tensor: TensorType) -> Call:
    operands = random_layer(np.random.default_rng(0), batch=1, steps=1)
    operands[position] = tensor, None
    return call_of_operands(operands, reals(1, 1, 4))


def integer_with(position: int, tensor: TensorType) -> Call:
    operands = one_cell() | {position: (tensor, None)}
    return call_of_operands(operands, codes(1, 1, 1), intermediates=[None] * 4 + [[1 / 128, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            Call(given(LSTM.name), (reals(1, 1, 1),) * 5, (reals(1, 1, 1),), {}),
            "takes 20 or 24 operands and gives 1 output, or the next values of both states beside it",
        ),
        (
            without(Operand.BIAS + 1),
            "input, states, and weights and bias of the forget, cell and output gates are there",
        ),
        (
            without(Operand.INPUT_WEIGHTS),
            "weights and bias of the input gate are all there or all absent",
        ),
        (with_type(Operand.CELL_TO_FORGET, reals(4)), "the gates have peephole weights or none has"),
        (
            with_type(Operand.PROJECTION_BIAS, reals(4)),
            "a projection bias comes with projection weights",
        ),
        (
            with_type(Operand.LAYER_NORM + 1, reals(4)),
            "the gates have weights of layer normalization or none has",
        ),
        (
            with_type(Operand.INPUT_WEIGHTS + 1, codes(4, 3)),
            "element types are (int8*9, int16*3, int32*4, int8, int32, int8, int16*5 -> int8*2, int16)"
            ", (float32 -> float32) or (float16 -> float16)",
        ),
        (
            with_type(Operand.BIAS + 3, reals(5)),
            "weights, biases, states and output have the sizes that input, cells and outputs ask for",
        ),
        (
            integer_with(Operand.INPUT_WEIGHTS + 1, codes(1, 1, zero_point=3)),
            "in integers every operand but the biases has one scale, and weights have no zero point",
        ),
        (
            integer_with(Operand.LAYER_NORM + 3, TensorType("int16", (1,), Quantization((2.0**-15,), (0,)))),
            "the gates have weights of layer normalization or none has",
        ),
        (
            call_of_operands(one_cell(), codes(1, 1, 1), activation="relu"),
            "in integers the activation is tanh",
        ),
        (
            integer_with(Operand.CELL_STATE, TensorType("int16", (1, 1), Quantization((0.001,), (0,)))),
            "in integers the scale of the cell state is a power of two from 2**-15 to 2**-9, without zero point",
        ),
        (
            call_of_operands(one_cell(), codes(1, 1, 1)),
            "in integers the fifth of the intermediates is the [scale, zero point] of o tanh(c)",
        ),
    ],
)
def test_rules(call: Call, message: str) -> None:
    assert LSTM.broken_rule(call) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": "sine"}, 'activation: "sine" is not one of tanh, none, relu, relu6, sigmoid'),
        ({"cell_clip": -1.0}, "cell_clip: -1.0 is not a number from 0.0 on"),
        ({"time_major": None}, "time_major: null is not true or false"),
        ({"intermediates": [[1.0]]}, "intermediates[0]: 1 entries; there must be 2"),
    ],
)
def test_parameters(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        given(LSTM.name, **change)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("position", "largest"), [(Operand.INPUT_WEIGHTS + 2, 2.0**19), (Operand.RECURRENT_WEIGHTS, 2.0**26)]
)
def test_scales_whose_shift_c_leaves_undefined(position: int, largest: float) -> None:
    # a weight's scale times 1 (the input's) or 1/128 (the output state's), over 2**-12, is less than 2**31
    rule = "in integers products of scales are less than 2**31 times the scale of their sum"
    for scale, refused in ((largest * 0.999, False), (largest, True), (2.0**120, True)):
        operands = one_cell(1)
        operands[position] = codes(1, 1, scale=scale), operands[position][1]
        output = codes(1, 1, 1, scale=1 / 128)
        call = call_of_operands(operands, output, intermediates=[None, None, None, None, [1 / 128, 0]])
        found = LSTM.broken_rule(call)
        assert (found is not None and found.startswith(rule)) == refused
