"""Graphs as TFLite models: what comes back when they are read again, and what TFLite cannot express."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.frontends.targets import TARGETS
from npusim.frontends.tflite import reader
from npusim.frontends.tflite.export import written
from npusim.frontends.tflite.export.tflite_rewrites import REWRITES
from npusim.frontends.tflite.operators import OPERATORS
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.table import operator

from ....graphs import Sketch
from ....litert.rows import ROWS as SAMPLES
from ....litert.rows import model
from ....scheduler.growing import ROWS as GROWING
from ....scheduler.growing import graph as growing
from ....scheduler.growing import types_of

CODES = Quantization((1 / 16,), (3,))
IMAGE = (1, 6, 8, 4)


def graph_of(op: str, extents: tuple[int, ...], dtype: str = "int8", /, **parameters: Any) -> Graph:
    """A graph of one operator with one operand."""
    builder = GraphBuilder("net")
    codes = CODES if dtype == "int8" else None
    x = builder.input("x", TensorType(dtype, extents, codes))
    return builder.graph(
        builder.node(op, [x], [unshaped(dtype, codes)], operator(op).parameters(**parameters), name="y")
    )


def convolution(padding: Any, dtype: str = "int8") -> Graph:
    """A graph of a convolution without bias."""
    builder = GraphBuilder("net")
    codes = CODES if dtype == "int8" else None
    x = builder.input("x", TensorType(dtype, IMAGE, codes))
    data = np.random.default_rng(2).integers(-127, 128, (5, 3, 3, 4)).astype(dtype)
    weights = builder.constant("w", data, Quantization((1 / 128,), (0,)) if codes else None)
    how = operator("conv_2d").parameters(padding=padding, strides=(2, 1))
    return builder.graph(builder.node("conv_2d", [x, weights], [unshaped(dtype, codes)], how, name="y"))


def outputs(graph: Graph) -> Sequence[Any]:
    found = npusim.simulate(npusim.compile(graph), seed=5).outputs
    assert found is not None
    return found


def shown(graph: Graph, node: Node) -> tuple[Any, ...]:
    """All of a node but the numbers of its tensors."""
    kinds = [None if n is None else graph.tensors[n].type for n in (*node.inputs, *node.outputs)]
    return node.op, node.parameters, kinds


@pytest.mark.parametrize("code", SAMPLES)
def test_models_come_back_as_they_were(code: str) -> None:
    for dtype in SAMPLES[code].dtypes:
        graph = reader.parse(model(code, dtype, 1), "m")
        again = reader.parse(written(graph), "m")
        if not (code == "STRIDED_SLICE" and len(again.nodes) == 2):  # a new axis is a reshape of its own
            for ours, theirs in zip(graph.nodes, again.nodes, strict=True):
                assert shown(graph, ours) == shown(again, theirs)
        assert [graph.tensors[n] for n in graph.inputs] == [again.tensors[n] for n in again.inputs]
        assert len(graph.states) == len(again.states)


STATES_APART = ("lstm", "rnn", "svdf", "unidirectional_sequence_lstm", "bidirectional_sequence_lstm",
                "unidirectional_sequence_rnn", "bidirectional_sequence_rnn")  # fmt: skip
"""Recurrent operators whose states are inputs in `growing`, as they are in NNAPI."""
REAL_ONLY = ("ceil", "cos", "floor", "round", "sign", "sin", "square", "sum")
"""Operators whose codes LiteRT's kernels do not take."""
IN_TFLITE = {row.op for row in OPERATORS.values()}
REFUSED = {
    *(op for op in GROWING if op not in IN_TFLITE and op not in REWRITES),
    *STATES_APART,
    *("clip", "local_response_normalization"),
    *((op, "int8") for op in REAL_ONLY),
}


@pytest.mark.parametrize("op", GROWING)
def test_every_operator_is_written_or_refused_with_its_layer(op: str) -> None:
    for dtype in types_of(op):
        graph = growing(op, dtype, 2)
        if op in REFUSED or (op, dtype) in REFUSED:
            with pytest.raises(GraphError, match=f'^layer "{op}_0": [^\n]+$'):
                written(graph)
            continue
        again = reader.parse(written(graph), op)
        for ours, theirs in zip(graph.outputs, again.outputs, strict=True):
            assert graph.tensors[ours].type == again.tensors[theirs].type


@pytest.mark.parametrize(
    "graph",
    [
        convolution(((2, 0), (1, 1))),
        convolution(((2, 0), (1, 1)), "float32"),
        graph_of("max_pool_2d", IMAGE, filter=(3, 2), strides=(2, 1), padding=((2, 1), (0, 1))),
        graph_of("max_pool_2d", IMAGE, "float32", filter=(3, 2), strides=(2, 1), padding=((2, 1), (0, 1))),
        graph_of("average_pool_2d", IMAGE, filter=(3, 3), padding=((2, 1), (1, 1)), counted=((2, 1), (1, 1))),
        graph_of("channel_shuffle", IMAGE, groups=2, axis=3),
        graph_of("slice", IMAGE, begin=(0, 1, 0, 1), size=(1, 2, 3, 2), strides=(1, 2, 2, 1)),
        graph_of("strided_slice", IMAGE, begin=(0, 5, 0, 0), size=(1, 3, 8, 4), strides=(1, -2, 1, 1)),
        graph_of("strided_slice", IMAGE, begin=(0, 5, 0, 0), size=(1, 1, 8, 4), shape=(8, 4)),
        graph_of("fill", (1,), shape=(3, 4)),
        graph_of("clip", IMAGE, least=0.0, most=6.0),
        graph_of("clip", IMAGE, "float32", least=-0.5, most=0.25),
        graph_of("clip", IMAGE, "float32", most=0.25),
        graph_of("concatenation", IMAGE, axis=3),
        graph_of("softmax", IMAGE, "float32", axis=1),
        graph_of("l2_normalization", IMAGE, "float32", axis=2),
        graph_of("leaky_relu", IMAGE, alpha=0.1),
    ],
)
def test_other_words_give_the_same_bytes(graph: Graph) -> None:
    """Codes have the same bytes; sums of reals along another axis of memory differ in their last bit."""
    again = reader.parse(written(graph), "net")
    for ours, theirs in zip(outputs(graph), outputs(again), strict=True):
        if ours.dtype == np.float32:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=0, strict=True)
        else:
            np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize("name", ["digits_cnn", "ds_cnn"])
def test_built_in_models_come_back_with_their_cycles(name: str) -> None:
    graph = npusim.load(name)
    again = reader.parse(written(graph), name)
    before, after = (npusim.simulate(npusim.compile(each), seed=3) for each in (graph, again))
    assert before.outputs is not None
    assert after.outputs is not None
    np.testing.assert_array_equal(before.outputs[0], after.outputs[0], strict=True)
    assert before.cycles == after.cycles


def test_a_scale_for_the_only_channel_scales_all() -> None:
    """A file says no axis of a single scale; what it means is the same."""
    net = Sketch()
    graph = net.graph([net.depthwise(net.input(1, 4, 4, 1), (1, 2), per_channel=True)])
    back = reader.parse(written(graph), "back")
    axes = [each.tensors[each.nodes[0].inputs[1] or 0].type.quantization for each in (graph, back)]
    assert [each.axis for each in axes if each] == [3, None]


def test_equal_graphs_give_equal_bytes() -> None:
    assert written(convolution(((0, 0), (0, 0)))) == written(convolution(((0, 0), (0, 0))))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (graph_of("tan", (3, 4), "float32"), 'layer "y": TFLite has no operator for tan'),
        (graph_of("elu", (3, 4), "float32", alpha=0.5), 'layer "y": TFLite\'s elu has no alpha = 0.5'),
        (
            graph_of("average_pool_2d", IMAGE, filter=(3, 3), padding=((2, 1), (1, 1))),
            'layer "y": TFLite\'s windows have SAME padding or none, not [[2, 1], [1, 1]]',
        ),
        (graph_of("floor", (3, 4)), 'layer "y": LiteRT\'s FLOOR takes float32, not int8'),
        (graph_of("relu", (3, 4), "float16"), "LiteRT's RELU takes int8, uint8, float32, int16, not float16"),
    ],
)
def test_what_tflite_does_not_express_is_refused(graph: Graph, message: str) -> None:
    with pytest.raises(GraphError) as refusal:
        written(graph)
    assert message in str(refusal.value)


def test_all_layers_are_named_in_one_line() -> None:
    builder = GraphBuilder("net")
    x = builder.input("x", TensorType("float32", (2, 3)))
    for name in "abcde":
        (x,) = builder.node("tan", [x], [unshaped("float32")], name=name)
    how = operator("clip").parameters()
    (x,) = builder.node("clip", [x], [unshaped("float32")], how, name="s")
    with pytest.raises(GraphError) as refusal:
        written(builder.graph([x]))
    assert str(refusal.value) == (
        'layer "s": TFLite has no limits None and None of float32; '
        'layers "a", "b", "c" and 2 more: TFLite has no operator for tan'
    )


def test_a_constant_without_data_is_refused() -> None:
    builder = GraphBuilder("net")
    x = builder.input("x", TensorType("float32", (2, 3)))
    y = builder.sized("big", TensorType("float32", (2, 3)))
    graph = builder.graph(builder.node("add", [x, y], [unshaped("float32")], operator("add").parameters()))
    with pytest.raises(GraphError, match='layer "add_0": constant "big" is known by its size only'):
        written(graph)


def test_the_command_takes_the_format_of_the_suffix(tmp_path: Path) -> None:
    file = tmp_path / "m.tflite"
    done = CliRunner().invoke(app, ["convert", "digits_cnn", "-o", str(file)])
    assert done.exit_code == 0, done.output
    assert "digits_cnn as TensorFlow Lite, " in done.output
    assert npusim.run(file, timing_only=True).cycles == npusim.run("digits_cnn", timing_only=True).cycles
    refused = CliRunner().invoke(app, ["convert", "digits_cnn", "--to", "caffe", "-o", str(file)])
    assert refused.exit_code == 2
    assert f"--to caffe: may be {', '.join(row.name for row in TARGETS)}" in refused.output
