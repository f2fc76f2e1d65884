"""State tensors: kept from one inference of a program object to the next, as an interpreter of LiteRT keeps them."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.tflite import reader as tflite
from npusim.isa.base.errors import GraphError, ProgramError
from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.program.interpreter import interpret
from npusim.isa.program.program import Program
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operators.elementwise.sums_and_products import ADD
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters
from npusim.kernels.operators.movement.slicing import ReverseV2Parameters
from npusim.kernels.table import operator
from npusim.models.writer import ModelWriter, per_tensor
from npusim.session import inputs as held_states
from npusim.session.api import host_functions

from .live import difference, needs_litert
from .rows import CLOSE, ROWS, inputs_of
from .sample import Sample
from .weighted import lstm

DTYPES = ("int8", "float32")


def with_states(seed: int, dtype: str, draw: Callable[[Sample], list[int]] = lstm) -> bytes:
    """A random layer, an LSTM over a sequence if none is given, whose state tensors are outputs of the model, too."""
    sample = Sample("LSTM", dtype, seed)
    outputs = draw(sample)
    states = [state.before for state in tflite.parse(sample.writer.finish(outputs), "lstm").states]
    return sample.writer.finish([*outputs, *states])


def layer(seed: int = 1, dtype: str = "int8") -> tuple[Graph, Program]:
    graph = tflite.parse(with_states(seed, dtype), "lstm")
    return graph, npusim.compile(graph)


def drawn(program: Program, seed: int) -> list[Array]:
    return inputs_of([(place.type.dtype, place.type.shape) for place in program.inputs], seed)


def same(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


class Interpreter:
    """LiteRT's, which keeps states until they are reset."""

    def __init__(self, data: bytes) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self.interpreter: Any = Interpreter(
            model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
        self.interpreter.allocate_tensors()

    def invoke(self, inputs: Sequence[Array]) -> list[Array]:
        for detail, value in zip(self.interpreter.get_input_details(), inputs, strict=True):
            self.interpreter.set_tensor(detail["index"], value)
        self.interpreter.invoke()
        details = self.interpreter.get_output_details()
        return [self.interpreter.get_tensor(detail["index"]) for detail in details]


@needs_litert
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(8))
def test_inferences_go_on_as_in_litert(seed: int, dtype: str) -> None:
    data = with_states(seed, dtype)
    program, expected = npusim.compile(tflite.parse(data, "lstm")), Interpreter(data)
    for step in range(5):
        if step == 3:
            expected.interpreter.reset_all_variables()
            npusim.reset_states(program)
        inputs = drawn(program, step)
        result = npusim.simulate(program, inputs)
        assert (
            difference(result.outputs, expected.invoke(inputs), CLOSE if dtype == "float32" else 0.0) is None
        )
        assert same(list(result.states.values()), result.outputs[1:])
        assert same(list(npusim.states(program).values()), result.outputs[1:])


KEEPERS = {code: row for code, row in ROWS.items() if operator(row.op).states}


@needs_litert
@pytest.mark.parametrize("code", KEEPERS)
@pytest.mark.parametrize("seed", range(3))
def test_every_layer_with_a_state_goes_on_as_in_litert(code: str, seed: int) -> None:
    for dtype in KEEPERS[code].dtypes:
        data = with_states(seed, dtype, KEEPERS[code].draw)
        program, expected = npusim.compile(tflite.parse(data, code)), Interpreter(data)
        for step in range(4):
            inputs = drawn(program, step)
            found = npusim.simulate(program, inputs).outputs
            assert difference(found, expected.invoke(inputs), CLOSE if dtype == "float32" else 0.0) is None


def test_a_state_that_is_an_output_is_the_updated_one() -> None:
    _, program = layer()
    result = npusim.simulate(program, drawn(program, 0))
    assert [place.name for place in program.states] == ["output_state", "cell_state"]
    assert any(state.any() for state in result.outputs[1:])
    last = result.outputs[0]  # of a sequence of one batch the output state is the last step
    assert result.outputs[1].size * last.shape[0] * last.shape[1] >= last.size
    assert set(result.outputs[1].ravel().tolist()) <= set(last.ravel().tolist())


@pytest.mark.slow
def test_states_last_as_long_as_their_program_object() -> None:
    _, program = layer()
    inputs = drawn(program, 0)
    beginning = npusim.states(program)
    first = npusim.simulate(program, inputs)
    second = npusim.simulate(program, inputs)
    assert not same(first.outputs, second.outputs)
    for other in (copy.deepcopy(program), npusim.compile(layer()[0]), replace(program, name="another")):
        assert same(list(npusim.states(other).values()), list(beginning.values()))
        assert same(npusim.simulate(other, inputs).outputs, first.outputs)
        assert same(npusim.simulate(other, inputs).outputs, second.outputs)
    before = len(held_states._HELD)
    del other, program, first, second
    gc.collect()
    assert len(held_states._HELD) < before


def test_a_saved_program_begins_anew(tmp_path: Path) -> None:
    _, program = layer()
    inputs = drawn(program, 0)
    first = npusim.simulate(program, inputs)
    npusim.save_program(program, tmp_path / "p.npu")
    loaded = npusim.load_program(tmp_path / "p.npu")
    assert loaded.states == program.states
    assert loaded.host_calls == program.host_calls
    found = npusim.simulate(loaded, inputs)
    assert same(found.outputs, first.outputs)
    assert found.cycles == first.cycles


def test_states_are_reset_by_name() -> None:
    _, program = layer()
    inputs = drawn(program, 0)
    beginning = npusim.states(program)
    first = npusim.simulate(program, inputs)
    npusim.reset_states(program, "cell_state")
    held = npusim.states(program)
    assert np.array_equal(held["output_state"], first.states["output_state"])
    assert np.array_equal(held["cell_state"], beginning["cell_state"])
    held["output_state"][...] = 1  # a copy
    assert np.array_equal(npusim.states(program)["output_state"], first.states["output_state"])
    npusim.reset_states(program)
    assert same(npusim.simulate(program, inputs).outputs, first.outputs)


def test_given_states_leave_the_held_ones_alone() -> None:
    _, program = layer()
    inputs = drawn(program, 0)
    first = npusim.simulate(program, inputs, states={})
    assert same(npusim.simulate(program, inputs, states={}).outputs, first.outputs)
    second = npusim.simulate(program, inputs, states=first.states)
    assert not same(second.outputs, first.outputs)
    assert same(npusim.simulate(program, inputs).outputs, first.outputs)  # nothing was held yet
    assert same(npusim.simulate(program, inputs).outputs, second.outputs)
    values = [first.states[place.name] for place in program.states]
    assert same(interpret(program, inputs, host_functions(program), values), second.outputs)


def test_timing_only_touches_no_state() -> None:
    _, program = layer()
    timed = npusim.simulate(program, timing_only=True)
    first = npusim.simulate(program, drawn(program, 0), states={})
    assert (timed.states, timed.cycles) == ({}, first.cycles)
    assert same(npusim.simulate(program, drawn(program, 0)).outputs, first.outputs)


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (
            {"cel_state": 0},
            'state "cel_state": lstm has no such state, did you mean "cell_state"? it has "output_state", "cell_state"',
        ),
        ({"cell_state": np.zeros(3)}, 'state "cell_state": is float64[3], must be int16['),
    ],
)
def test_states_that_do_not_fit(states: dict[str, Any], text: str) -> None:
    _, program = layer()
    with pytest.raises(npusim.NpusimError) as fault:
        npusim.simulate(program, states=states)
    assert str(fault.value).startswith(text)
    if "cel_state" in states:
        with pytest.raises(npusim.NpusimError) as fault:
            npusim.reset_states(program, "cel_state")
        assert str(fault.value) == text


def test_a_program_without_states_gives_the_same_every_time() -> None:
    program = npusim.compile(npusim.load("digits_cnn"))
    assert (npusim.states(program), program.states) == ({}, ())
    npusim.reset_states(program)
    results = [npusim.simulate(program) for _ in range(2)]
    assert same(results[0].outputs, results[1].outputs)
    with pytest.raises(npusim.NpusimError, match='state "h": digits_cnn has no such state; it has none'):
        npusim.simulate(program, states={"h": 0})


def test_a_state_has_one_reader() -> None:
    graph, _ = layer()
    state = graph.states[0].before
    shape = graph.tensors[state].type
    other = replace(graph.tensors[state], name="other")
    second = Node("second", "reshape", (state,), (len(graph.tensors),), ReshapeParameters(shape=shape.shape))
    shared = replace(graph, tensors=(*graph.tensors, other), nodes=(*graph.nodes, second))
    with pytest.raises(GraphError) as fault:
        npusim.compile(shared)
    first = f"{graph.nodes[0].name}/step_0/state_sums"  # the NPU takes the layer in parts
    assert shape == other.type
    assert str(fault.value) == (
        f'lstm: state tensor "output_state" is read 2 times, by "{first}", "second"; it may be read once, by the layer '
        "that updates it"
    )
    with pytest.raises(GraphError, match='model input "output_state" is a state too'):
        npusim.compile(replace(graph, inputs=(*graph.inputs, state)))


@pytest.mark.parametrize("axes", [(), (0,)])
def test_a_layer_that_the_npu_could_compute_updates_a_state_on_the_host(axes: tuple[int, ...]) -> None:
    """It reads all of the old value before it writes the new one in its place: a running sum, one that turns round."""
    builder = GraphBuilder("sum")
    kind = TensorType("float32", (3,)) if axes else TensorType("int8", (3,), per_tensor(1.0, 0))
    state = builder.state("state", kind)
    if axes:
        [after] = builder.node("reverse_v2", [state], [kind], ReverseV2Parameters(axes=axes))
    else:
        after = builder.node("add", [state, builder.input("x", kind)], [kind], ADD.parameters())[0]
    builder.keep(state, after)
    program = npusim.compile(builder.graph([after]))
    [call] = program.host_calls
    assert call.reason.startswith("gives the next value of a state, in its place")
    given = {"state": np.array([1, 2, 3], kind.dtype)}
    inputs = [] if axes else [np.array([1, 10, 100], np.int8)]
    first = npusim.simulate(program, inputs, states=given).outputs
    assert first is not None
    assert first[0].tolist() == ([3, 2, 1] if axes else [2, 12, 103])


def test_what_a_program_file_says_of_states_is_checked() -> None:
    _, program = layer(dtype="float32")
    [call] = program.host_calls
    wrong = replace(program, host_calls=(replace(call, outputs=call.outputs[:2]),))
    with pytest.raises(ProgramError, match="gives 1 output, or the next values of both states beside it"):
        npusim.simulate(wrong)


STEPS = [[27, -60], [60, 81], [-90, 35], [12, -3], [44, 70]]
BY_TFLITE_MICRO = [-84, -101, -128, -18, -68]
"""What tflite-micro 0.dev20261023182759 gives for the model below, step by step."""


def test_svdf_with_a_state_of_8_bits_has_the_bytes_of_tflite_micro() -> None:
    writer = ModelWriter("svdf")
    step = writer.input("x", TensorType("int8", (1, 2), per_tensor(0.0625, -3)))
    constants = [
        writer.constant("features", np.array([[90, -40], [-17, 64]], np.int8), per_tensor(0.015625, 0)),
        writer.constant("times", np.array([[3, -50, 100], [70, -8, 41]], np.int8), per_tensor(0.03125, 0)),
        writer.constant("bias", np.array([200], np.int32), per_tensor(0.125 * 0.03125, 0)),
    ]
    memory = writer.state("memory", TensorType("int8", (1, 6), per_tensor(0.125, -9)))
    result = writer.operator(
        "SVDF",
        [step, *constants, memory],
        TensorType("int8", (1, 1), per_tensor(0.25, -128)),
        version=3,
        options="SVDFOptions",
        fields={"Rank": 2, "FusedActivationFunction": 1},
    )
    program = npusim.compile(tflite.parse(writer.finish([result]), "svdf"))
    runs = [npusim.simulate(program, [np.array([values], np.int8)]) for values in STEPS]
    assert [int(run.outputs[0].item()) for run in runs] == BY_TFLITE_MICRO
    # 30 * 90 + 57 * 40 = 4980, and -30 * 17 - 57 * 64 = -4158; each / 128, with the zero point -9.
    [state] = runs[0].states.values()
    assert state.ravel().tolist() == [-9, -9, 30, -9, -9, -41]
    edge = npusim.simulate(
        program, [np.array([[127, -128]], np.int8)], states={"memory": np.zeros((1, 6), np.int8)}
    )
    # 130 * 90 + 125 * 40 = 16700, / 128 = 130: with the zero point 121; and -130 * 17 - 125 * 64 is -80 / -89.
    [state] = edge.states.values()
    assert state.ravel().tolist() == [0, 0, 121, 0, 0, -89]


def test_a_public_keyword_model_with_states_of_8_bits_runs(shared: Path) -> None:
    result = npusim.run(
        shared / "corpus" / "keyword_scrambled_8bit.tflite", inputs=[np.ones((1, 96), np.int16)]
    )
    assert result.outputs[0].tolist() == [[0, 32767]]  # by tflite-micro, too
