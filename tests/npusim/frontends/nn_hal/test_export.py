"""Graphs as models of the NN HAL: they keep its rules, and read again they give the same bytes in the same cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.frontends.nn_hal.export import model, operators, written
from npusim.frontends.nn_hal.hal_file import loads
from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS
from npusim.frontends.nn_hal.reader import graph_of
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph import reference
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import operator

from ....litert.sample import values
from ....scheduler.growing import ROWS as GROWING
from ....scheduler.growing import graph as growing
from ....scheduler.growing import types_of
from .examples import FOLDER, examples, model_of

CODES = Quantization((1 / 16,), (3,))
IMAGE = (1, 6, 8, 4)
REALS_ONLY = (
    *("abs", "ceil", "div", "elu", "exp", "floor", "leaky_relu", "log", "log_softmax", "neg", "quantize"),
    *("reduce_prod", "relu_0_to_1", "sin", "sqrt", "square", "squared_difference", "sum", "cast"),
)
"""Operators whose codes NNAPI does not have, or not all of them."""
REFUSED = {
    *(op for op in GROWING if op not in operators()),
    *((op, "int8") for op in (*REALS_ONLY, "unidirectional_sequence_lstm")),
    *("topk_v2", "hashtable_lookup", "svdf", "floor_div", ("cast", "float32"), "clip"),
    "box_with_nms_limit",  # `growing` has the number of rows as a result, too
}
"""What NNAPI does not have, or not as `growing` has it."""
OF_REGIONS = (
    "axis_aligned_bbox_transform",
    "box_with_nms_limit",
    "heatmap_max_keypoint",
    "roi_align",
    "roi_pooling",
)
"""Operators that compute nothing of numbers at random."""


def read(data: bytes) -> Graph:
    """The graph of a file."""
    return graph_of(loads(data), GraphBuilder("m"))


def results(graph: Graph, seed: int = 3) -> list[Any]:
    """The outputs for inputs at random."""
    rng = np.random.default_rng(seed)
    kinds = [graph.tensors[number].type for number in graph.inputs]
    inputs = [
        rng.uniform(-1, 1, kind.shape).astype(kind.dtype)
        if kind.real
        else values(rng, kind.dtype, kind.shape)
        for kind in kinds
    ]
    if graph.nodes[0].op == "embedding_lookup":
        inputs[0] %= 30
    computed = reference.evaluate(graph, inputs)
    return [computed[number] for number in graph.outputs]


def same(graph: Graph) -> None:
    """Asserts that a graph comes back with its bytes; sums of reals may differ in their last bits."""
    for ours, theirs in zip(results(graph), results(read(written(graph))), strict=True):
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6, strict=True)
        else:
            np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.cases(60)
@pytest.mark.parametrize("op", GROWING)
def test_every_operator_comes_back_or_is_refused_with_its_layer(op: str) -> None:
    for dtype in types_of(op):
        graph = growing(op, dtype, 2)
        try:
            data = written(graph)
        except GraphError as refusal:
            text = str(refusal)
        else:
            assert len(read(data).nodes) >= 1
            if op not in OF_REGIONS:
                same(graph)
            continue
        assert op in REFUSED or (op, dtype) in REFUSED, text
        assert text.startswith(f'layer "{op}_0": ')
        assert "\n" not in text


def one(op: str, dtype: str = "float32", results: int = 1, **parameters: Any) -> Graph:
    builder = GraphBuilder("net")
    codes = CODES if dtype == "int8" else None
    x = builder.input("x", TensorType(dtype, IMAGE, codes))
    how = operator(op).parameters(**parameters)
    return builder.graph(builder.node(op, [x], [unshaped(dtype, codes)] * results, how, name="y"))


def weighted(op: str, dtype: str, weights: tuple[int, ...], **parameters: Any) -> Graph:
    """A graph of a weighted sum without bias."""
    builder = GraphBuilder("net")
    codes = CODES if dtype == "int8" else None
    x = builder.input("x", TensorType(dtype, IMAGE, codes))
    data = np.random.default_rng(2).integers(-127, 128, weights).astype(dtype)
    w = builder.constant("w", data, Quantization((1 / 128,), (0,)) if codes else None)
    how = operator(op).parameters(**parameters)
    return builder.graph(builder.node(op, [x, w], [unshaped(dtype, codes)], how, name="y"))


AROUND = ((2, 0), (1, 1))


@pytest.mark.parametrize(
    "graph",
    [
        *(weighted("conv_2d", dtype, (5, 3, 3, 4), padding=AROUND) for dtype in ("int8", "float32")),
        weighted("conv_2d", "int8", (6, 3, 3, 2)),
        weighted("depthwise_conv_2d", "int8", (1, 3, 3, 8), depth_multiplier=2, dilations=(2, 1)),
        weighted(
            "transpose_conv", "int8", (5, 3, 3, 4), strides=(2, 2), padding=((1, 1), (0, 1)), size=(12, 16)
        ),
        weighted("transpose_conv", "int8", (5, 3, 3, 4), strides=(2, 2), size=(14, 17)),
        weighted("fully_connected", "int8", (5, 4), keep_num_dims=True),
        one("max_pool_2d", "int8", filter=(3, 2), strides=(2, 1), padding=((2, 1), (0, 1))),
        one("strided_slice", begin=(0, 5, 0, 0), size=(1, 3, 8, 4), strides=(1, -2, 1, 1)),
        one("strided_slice", begin=(0, 5, 0, 0), size=(1, 1, 8, 4), shape=(8, 4)),
        one("split", "int8", 2, axis=2, sizes=(3, 5)),
        one("unpack", "int8", 8, axis=2),
        one("reverse_v2", axes=(1, 3)),
        one("softmax", axis=1, beta=0.5),
        one("mean", axes=(1, 2)),
        one("leaky_relu", alpha=0.25),
        one("relu_0_to_1"),
        one("squeeze", axes=(0,)),
    ],
)
def test_other_words_give_the_same_bytes(graph: Graph) -> None:
    same(graph)


@pytest.mark.parametrize("name", ["digits_cnn", "ds_cnn"])
def test_built_in_models_come_back_with_their_bytes_and_cycles(name: str) -> None:
    graph = npusim.load(name)
    before, after = (npusim.simulate(npusim.compile(each), seed=3) for each in (graph, read(written(graph))))
    assert before.outputs is not None
    assert after.outputs is not None
    np.testing.assert_array_equal(before.outputs[0], after.outputs[0], strict=True)
    assert before.cycles == after.cycles


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/nnapi_examples is not there")
def test_models_of_the_hal_come_back() -> None:
    written_count = 0
    for number, example in enumerate(examples()):
        if number % 16:
            continue
        try:
            graph = graph_of(model_of(example), GraphBuilder("m"))
            data = written(graph)
        except GraphError:
            continue
        again = read(data)
        written_count += 1
        assert [node.op for node in again.nodes] == [node.op for node in graph.nodes]
        assert [node.parameters for node in again.nodes] == [node.parameters for node in graph.nodes]
    assert written_count > 100


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (one("tan"), 'layer "y": NNAPI has no operation for tan'),
        (one("floor", "int8"), 'layer "y": tensor "x" is TENSOR_QUANT8_ASYMM_SIGNED, must be TENSOR_FLOAT32'),
        (
            one("topk_v2", k=2, results=2),
            "of equal elements NNAPI's TOPK_V2 has the last first, not the first",
        ),
        (one("mean", axes=(0, 1, 2, 3)), 'layer "y": NNAPI has no tensors without axes'),
        (one("relu", "int64"), 'layer "y": NNAPI has no tensors of int64'),
    ],
)
def test_what_nnapi_does_not_express_is_refused(graph: Graph, message: str) -> None:
    with pytest.raises(GraphError) as refusal:
        written(graph)
    assert message in str(refusal.value)


def test_all_layers_are_named_in_one_line() -> None:
    builder = GraphBuilder("net")
    x = builder.input("x", TensorType("float32", (2, 3)))
    for name, op in (("a", "tan"), ("b", "ceil"), ("c", "tan")):
        (x,) = builder.node(op, [x], [unshaped("float32")], name=name)
    with pytest.raises(GraphError) as refusal:
        written(builder.graph([x]))
    assert str(refusal.value) == (
        'layers "a", "c": NNAPI has no operation for tan; layer "b": NNAPI has no operation for ceil'
    )


def test_operations_that_are_written_are_of_the_table() -> None:
    ours = {op for row in OPERATIONS for op in row.operators}
    made = {node.op for op in ("conv_2d", "add") for node in growing(op, "int8", 1).nodes}
    assert made <= ours
    assert len(model(growing("add", "int8", 1)).operations) == 1


def test_the_command_writes_a_file_that_is_run(tmp_path: Path) -> None:
    file = tmp_path / "m.hal"
    done = CliRunner().invoke(app, ["convert", "digits_cnn", "-o", str(file)])
    assert done.exit_code == 0, done.output
    assert "digits_cnn as NN HAL, " in done.output
    assert npusim.run(file, timing_only=True).cycles == npusim.run("digits_cnn", timing_only=True).cycles
