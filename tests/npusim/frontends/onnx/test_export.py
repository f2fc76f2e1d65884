"""Graphs as ONNX models: the checker takes them, ONNX Runtime gives what npusim gives, codes differ by one at most."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.frontends.onnx.export import caveat, written
from npusim.frontends.onnx.export.export_table import CONVERT
from npusim.isa.base.errors import GraphError, NpusimError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph import reference
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import operator

from ....litert.rows import ROWS as SAMPLES
from ....litert.rows import inputs_of, model
from ....litert.sample import values
from ....scheduler.growing import ROWS as GROWING
from ....scheduler.growing import graph as growing
from ....scheduler.growing import types_of

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed: pip install onnx")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: pip install onnxruntime")

CASES = Path(__file__).resolve().parents[5] / "shared" / "onnx" / "ops"
CODES = Quantization((1 / 16,), (3,))
IMAGE = (1, 6, 8, 4)
RECURRENT = ("lstm", "quantized_lstm", "unidirectional_sequence_lstm", "bidirectional_sequence_lstm", "rnn", "svdf",
             "quantized_16bit_lstm", "unidirectional_sequence_rnn", "bidirectional_sequence_rnn")  # fmt: skip
UNDEFINED = ("sqrt", "rsqrt", "log", "acosh", "atanh", "asin", "acos")
"""Where codes stand for numbers of which there is no function, everybody has others."""
REFUSED = (("cast", "float32"), ("div", "int8"), ("interpolate", "int8"))
OTHER_CODES = {"reduce_prod", "div", *UNDEFINED}


def by_runtime(data: bytes, inputs: Sequence[Array]) -> list[Array]:
    """What ONNX Runtime gives for a file that the checker takes, every node as it is written."""
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    found: list[Array] = session.run(None, dict(zip(names, inputs, strict=True)))
    return found


def drawn(graph: Graph, seed: int = 3) -> list[Array]:
    """Inputs at random; divisors are not zero and indices within their table."""
    rng = np.random.default_rng(seed)
    kinds = [graph.tensors[number].type for number in graph.inputs]
    inputs = [
        rng.uniform(-1, 1, kind.shape).astype(kind.dtype)
        if kind.real
        else values(rng, kind.dtype, kind.shape)
        for kind in kinds
    ]
    first = graph.nodes[0].op
    if first in ("div", "floor_div", "floor_mod"):
        inputs[1][inputs[1] == 0] = 1
    if first == "embedding_lookup":
        inputs[0] %= 30
    return inputs


def here(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    values = reference.evaluate(graph, inputs)
    return [values[number] for number in graph.outputs]


def agree(ours: Array, theirs: Array, codes: int) -> None:
    """Asserts that reals are close and whole numbers at most so many codes apart."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if ours.dtype.kind == "f":
        np.testing.assert_allclose(
            ours, theirs, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(theirs).max(initial=0)))
        )
    else:
        assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max(initial=0) <= codes


@pytest.mark.parametrize("op", GROWING)
def test_every_operator_is_written_or_refused_with_its_layer(op: str) -> None:
    for dtype in types_of(op):
        graph = growing(op, dtype, 2)
        if op not in CONVERT or (op, dtype) in REFUSED:
            with pytest.raises(GraphError, match=f'^layer "{op}_0": [^\n]+$'):
                written(graph)
            continue
        inputs = drawn(graph)
        if dtype == "int8" and op in OTHER_CODES:
            by_runtime(written(graph), inputs)
            continue
        for ours, theirs in zip(here(graph, inputs), by_runtime(written(graph), inputs), strict=True):
            agree(ours, theirs, codes=1)


def test_recurrent_operators_are_those_that_are_not_written() -> None:
    assert not set(RECURRENT) & set(CONVERT)


@pytest.mark.cases(40)
@pytest.mark.parametrize("code", [code for code, row in SAMPLES.items() if row.op in CONVERT])
def test_random_operators_agree_in_reals(code: str) -> None:
    row = SAMPLES[code]
    for seed in range(3):
        if "float32" not in row.dtypes:
            return
        graph = npusim_graph(model(code, "float32", seed))
        kinds = [graph.tensors[number].type for number in graph.inputs]
        inputs = inputs_of([(kind.dtype, kind.shape) for kind in kinds], seed)
        try:
            data = written(graph)
        except GraphError as refusal:
            assert code in ("CAST", "GATHER"), refusal  # noqa: PT017
            continue
        for ours, theirs in zip(here(graph, inputs), by_runtime(data, inputs), strict=True):
            agree(np.nan_to_num(ours), np.nan_to_num(theirs), codes=0)


def npusim_graph(data: bytes) -> Graph:
    from npusim.frontends.tflite import reader

    return reader.parse(data, "m")


@pytest.mark.parametrize("name", ["digits_cnn", "ds_cnn"])
def test_networks_keep_images_with_their_channels_first(name: str) -> None:
    graph = npusim.load(name)
    data = written(graph)
    kinds = [node.op_type for node in onnx.load_from_string(data).graph.node]
    assert kinds.count("Transpose") <= 2
    assert kinds.count("Conv") == sum("conv" in node.op for node in graph.nodes)
    inputs = drawn(graph)
    for ours, theirs in zip(here(graph, inputs), by_runtime(data, inputs), strict=True):
        agree(ours, theirs, codes=4)


def residual(rescale: str) -> Graph:
    """A mean of an image's neighbourhoods, added to the image."""
    builder = GraphBuilder("net")
    x = builder.input("x", TensorType("int8", IMAGE, CODES))
    wide = unshaped("int8", Quantization((0.1875,), (-7,)))
    around = ((1, 1), (1, 1))
    pool = operator("average_pool_2d").parameters(filter=(3, 3), padding=around, rescale=rescale)
    (y,) = builder.node("average_pool_2d", [x], [unshaped("int8", CODES)], pool, name="c")
    how = operator("add").parameters(activation="none" if rescale == "fused" else "relu", rescale=rescale)
    return builder.graph(builder.node("add", [x, y], [wide], how, name="z"))


def test_what_is_rescaled_in_float32_keeps_its_codes() -> None:
    graph = residual("float32")
    inputs = drawn(graph)
    np.testing.assert_array_equal(here(graph, inputs)[0], by_runtime(written(graph), inputs)[0], strict=True)
    assert caveat(graph) == ""


def test_formulas_of_onnx_runtime_keep_their_codes() -> None:
    graph = residual("fused")
    inputs = drawn(graph)
    np.testing.assert_array_equal(here(graph, inputs)[0], by_runtime(written(graph), inputs)[0], strict=True)
    assert {node.domain for node in onnx.load_from_string(written(graph)).graph.node} == {"com.microsoft", ""}


@pytest.mark.parametrize("name", ["digits_cnn", "ds_cnn"])
def test_npusim_computes_what_onnx_runtime_does(name: str, tmp_path: Path) -> None:
    """The model read again rescales in float32: its codes are ONNX Runtime's, in about the cycles of the original."""
    graph, file = npusim.load(name), tmp_path / "m.onnx"
    file.write_bytes(written(graph))
    inputs = drawn(graph)
    again = npusim.run(file, inputs=inputs)
    assert again.outputs is not None
    for ours, theirs in zip(again.outputs, by_runtime(file.read_bytes(), inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    assert again.cycles == pytest.approx(npusim.run(name, timing_only=True).cycles, rel=0.05)


@pytest.mark.skipif(not CASES.is_dir(), reason="../shared/onnx is not there")
def test_models_of_onnx_come_back(tmp_path: Path) -> None:
    """Of the cases of single operators one in twenty: what is written of them gives what they give."""
    file, count, number = tmp_path / "m.onnx", 0, 0
    for path in sorted(CASES.glob("*.npz")):
        with np.load(path) as archive:
            for case in range(sum(name.endswith("_model") for name in archive.files)):
                number += 1
                if number % 20:
                    continue
                file.write_bytes(archive[f"c{case}_model"].tobytes())
                try:
                    data = written(npusim.load(file))
                except NpusimError:
                    continue
                taken = sum(name.startswith(f"c{case}_x") for name in archive.files)
                inputs = [archive[f"c{case}_x{place}"] for place in range(taken)]
                expected = by_runtime(file.read_bytes(), inputs)
                for ours, theirs in zip(by_runtime(data, inputs), expected, strict=True):
                    agree(np.nan_to_num(ours), np.nan_to_num(theirs), codes=0)
                count += 1
    assert count > 90


def test_other_rescales_are_said() -> None:
    assert caveat(residual("fixed_point")).startswith("2 of 2 layers requantize in fixed point here")


def test_names_of_inputs_and_outputs_stay() -> None:
    found = onnx.load_from_string(written(residual("float32"))).graph
    assert [each.name for each in found.input] == ["x"]
    assert [each.name for each in found.output] == ["z"]
    assert [size.dim_value for size in found.output[0].type.tensor_type.shape.dim] == list(IMAGE)


def test_an_input_may_be_an_output_and_an_output_twice() -> None:
    builder = GraphBuilder("net")
    x = builder.input("x", TensorType("float32", (2, 3)))
    (y,) = builder.node("relu", [x], [unshaped("float32")], name="y")
    graph = builder.graph([x, y, y])
    inputs = drawn(graph)
    for ours, theirs in zip(here(graph, inputs), by_runtime(written(graph), inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_equal_graphs_give_equal_bytes() -> None:
    assert written(residual("float32")) == written(residual("float32"))


def one(op: str, dtype: str = "float32", **parameters: Any) -> Graph:
    builder = GraphBuilder("net")
    codes = CODES if dtype == "int8" else None
    x = builder.input("x", TensorType(dtype, IMAGE, codes))
    how = operator(op).parameters(**parameters)
    return builder.graph(builder.node(op, [x], [unshaped(dtype, codes)], how, name="y"))


@pytest.mark.parametrize(
    "graph",
    [
        one("local_response_normalization", radius=1, bias=1.0, alpha=0.5, beta=0.75),
        one(
            "local_response_normalization",
            radius=2,
            bias=1.0,
            alpha=0.5,
            beta=0.75,
            last_left_out=True,
            axis=2,
        ),
        one("max_pool_2d", "int8", filter=(3, 2), strides=(2, 1), padding=((2, 1), (0, 1))),
        one("average_pool_2d", filter=(3, 3), padding=((2, 1), (1, 1)), counted=((2, 1), (1, 1))),
        one("strided_slice", begin=(0, 5, 0, 0), size=(1, 3, 8, 4), strides=(1, -2, 1, 1)),
        one("strided_slice", begin=(0, 5, 0, 0), size=(1, 1, 8, 4), shape=(8, 4)),
        one("mean", axes=(1, 2)),
        one("mean", axes=(1, 3)),
        one("softmax", axis=1, beta=0.5),
        one("clip", least=-0.25),
        one("clip", most=0.25),
        one("mirror_pad", paddings=((0, 0), (2, 3), (0, 1), (1, 1)), mode="symmetric"),
    ],
)
def test_parameters_keep_their_meaning(graph: Graph) -> None:
    inputs = drawn(graph)
    for ours, theirs in zip(here(graph, inputs), by_runtime(written(graph), inputs), strict=True):
        agree(ours, theirs, codes=0)


def test_all_layers_are_named_in_one_line() -> None:
    builder = GraphBuilder("net")
    x = builder.input("x", TensorType("float32", (2, 3)))
    for name in "ab":
        how = operator("softplus").parameters(threshold=2.0)
        (x,) = builder.node("softplus", [x], [unshaped("float32")], how, name=name)
    with pytest.raises(GraphError) as refusal:
        written(builder.graph([x]))
    assert str(refusal.value) == 'layers "a", "b": ONNX\'s Softplus has no threshold 2.0'


def test_states_are_refused() -> None:
    builder = GraphBuilder("net")
    x, kept = builder.input("x", TensorType("float32", (2,))), builder.state("s", TensorType("float32", (2,)))
    (y,) = builder.node("add", [x, kept], [unshaped("float32")], operator("add").parameters())
    builder.keep(kept, y)
    with pytest.raises(GraphError, match="has states, which ONNX does not have"):
        written(builder.graph([y]))


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        NpusimError, match=r"^ONNX needs onnx, onnxruntime, which are not installed: pip install"
    ):
        written(residual("float32"))


def test_the_command_says_what_changes(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    done = CliRunner().invoke(app, ["convert", "digits_cnn", "-o", str(file)])
    assert done.exit_code == 0, done.output
    assert "digits_cnn as ONNX, " in done.output
    assert "layers requantize in fixed point here and in float32 in ONNX" in " ".join(done.output.split())
    onnx.checker.check_model(str(file), full_check=True)
