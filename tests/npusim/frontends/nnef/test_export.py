"""Graphs as NNEF models: read again they give the same bytes in the same cycles, and the Khronos package reads them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.frontends.nnef import export
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import operator
from tests.npusim.frontends.nnef.bodies import IMAGE, bodies
from tests.npusim.frontends.nnef.models import folder

from ....scheduler.growing import ROWS as GROWING
from ....scheduler.growing import graph as growing
from ....scheduler.growing import types_of

CODES = Quantization((0.05,), (3,))
LAST = (1, 6, 8, 4)
"""An image with its channels last."""


def graph_of(
    op: str, shapes: Sequence[tuple[int, ...]], coded: bool, results: int = 1, **parameters: Any
) -> Graph:
    """A graph of one operator."""
    builder = GraphBuilder("net")
    kind = unshaped("int8", CODES) if coded else unshaped("float32")
    inputs = [
        builder.input(f"in{place}", TensorType(kind.dtype, shape, kind.quantization))
        for place, shape in enumerate(shapes)
    ]
    outputs = builder.node(op, inputs, [kind] * results, operator(op).parameters(**parameters), name="y")
    return builder.graph(outputs)


def same_after(graph: Graph, path: Path) -> None:
    """Asserts that the model written of a graph gives what the graph gives."""
    export.write(path, graph)
    ours = npusim.simulate(npusim.compile(graph), seed=7)
    read = npusim.load(path)
    theirs = npusim.simulate(npusim.compile(read), seed=7)
    assert ours.outputs is not None
    assert theirs.outputs is not None
    assert [t.name for t in (read.tensors[n] for n in read.inputs)] == [
        t.name for t in (graph.tensors[n] for n in graph.inputs)
    ]
    for one, other in zip(ours.outputs, theirs.outputs, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


ROWS: tuple[tuple[str, tuple[tuple[int, ...], ...], int, dict[str, Any]], ...] = (
    ("add", (LAST, (8, 4)), 1, {"activation": "relu6"}),
    ("mul", (LAST, (4,)), 1, {"activation": "relu"}),
    ("maximum", (LAST, LAST), 1, {}),
    ("average_pool_2d", (LAST,), 1, {"filter": (3, 2), "strides": (2, 1), "padding": ((1, 1), (0, 1))}),
    ("max_pool_2d", (LAST,), 1, {"filter": (2, 2), "strides": (2, 2), "activation": "relu"}),
    ("mean", (LAST,), 1, {"axes": (1, 2)}),
    ("mean", (LAST,), 1, {"axes": (1, 2), "keep_dims": True}),
    ("reduce_max", (LAST,), 1, {"axes": (3,)}),
    ("concatenation", (LAST, LAST), 1, {"axis": 3}),
    ("pack", ((3, 4), (3, 4)), 1, {"axis": 1}),
    ("split", (LAST,), 2, {"axis": 2, "sizes": (2, 6)}),
    ("strided_slice", (LAST,), 1, {"begin": (0, 1, 0, 2), "size": (1, 3, 4, 2), "strides": (1, 2, 2, 1)}),
    ("strided_slice", (LAST,), 1, {"begin": (0, 2, 0, 0), "size": (1, 1, 8, 4), "shape": (1, 8, 4)}),
    ("pad", (LAST,), 1, {"paddings": ((0, 0), (1, 2), (0, 1), (0, 0))}),
    ("mirror_pad", (LAST,), 1, {"paddings": ((0, 0), (1, 2), (0, 1), (0, 0)), "mode": "symmetric"}),
    ("transpose", (LAST,), 1, {"perm": (2, 0, 3, 1)}),
    ("tile", ((3, 4),), 1, {"multiples": (2, 3)}),
    ("batch_matmul", ((2, 3, 4), (2, 5, 4)), 1, {"adj_y": True}),
    ("resize_nearest_neighbor", (LAST,), 1, {"size": (12, 24)}),
    ("resize_bilinear", (LAST,), 1, {"size": (12, 16), "half_pixel_centers": True}),
    ("leaky_relu", (LAST,), 1, {"alpha": 0.25}),
    ("logistic", (LAST,), 1, {}),
    ("relu_n1_to_1", (LAST,), 1, {}),
    ("prelu", (LAST, (1, 1, 4)), 1, {}),
    ("atan", (LAST,), 1, {}),
    ("broadcast_to", ((6, 1, 4),), 1, {"shape": (2, 6, 8, 4)}),
    ("depth_to_space", (LAST,), 1, {"block_size": 2}),
    ("space_to_depth", (LAST,), 1, {"block_size": 2}),
    ("unpack", (LAST,), 8, {"axis": 2}),
)  # fmt: skip


@pytest.mark.cases(20)
@pytest.mark.parametrize(("op", "shapes", "results", "parameters"), ROWS)
@pytest.mark.parametrize("coded", [True, False])
def test_operators_come_back(
    op: str,
    shapes: tuple[tuple[int, ...], ...],
    results: int,
    parameters: dict[str, Any],
    coded: bool,
    tmp_path: Path,
) -> None:
    same_after(graph_of(op, shapes, coded, results, **parameters), tmp_path / "m")


REFUSED = {
    *("resize_bilinear", "resize_nearest_neighbor", "local_response_normalization", "clip"),
    ("squared_difference", "int8"),
}
"""What `growing` has otherwise than NNEF."""


@pytest.mark.parametrize("op", [op for op in GROWING if op in export.operators()])
def test_operators_of_every_type_come_back_or_are_refused(op: str, tmp_path: Path) -> None:
    for dtype in types_of(op):
        graph, file = growing(op, dtype, 2), tmp_path / f"{dtype}.tgz"
        if op in REFUSED or (op, dtype) in REFUSED:
            with pytest.raises(NpusimError, match=f'^layer "{op}_0": [^\n]+$'):
                export.written(graph)
            continue
        file.write_bytes(export.written(graph))
        again = npusim.load(file)
        for ours, theirs in zip(graph.outputs, again.outputs, strict=True):
            assert graph.tensors[ours].type == again.tensors[theirs].type


@pytest.mark.parametrize(
    ("op", "shapes", "parameters"),
    [
        ("clip", (LAST,), {"least": -0.5, "most": 0.25}),
        ("clip", (LAST,), {"most": 0.25}),
        ("l2_pool_2d", (LAST,), {"filter": (2, 2), "strides": (2, 2)}),
        ("local_response_normalization", (LAST,), {"radius": 1, "bias": 1.0, "alpha": 0.5, "beta": 0.5}),
        ("lp_normalization", (LAST,), {"axes": (1, 3), "p": 1}),
        ("batch_normalization", (LAST, (4,), (4,), (4,), (4,)), {}),
        ("squared_difference", (LAST, LAST), {}),
        ("add_n", (LAST, LAST, LAST), {}),
        ("transpose_conv", (LAST, (5, 3, 3, 4), (5,)), {"strides": (2, 2), "padding": ((1, 1), (0, 1))}),
        ("transpose_conv", (LAST, (5, 3, 3, 4), (5,)), {"strides": (2, 2), "size": (14, 17)}),
    ],
)
def test_operators_of_reals_come_back(
    op: str, shapes: tuple[tuple[int, ...], ...], parameters: dict[str, Any], tmp_path: Path
) -> None:
    """Sums of reals may differ in their last bits."""
    graph = graph_of(op, shapes, False, **parameters)
    path = tmp_path / "m"
    export.write(path, graph)
    ours, theirs = (
        npusim.simulate(npusim.compile(each), seed=7).outputs for each in (graph, npusim.load(path))
    )
    assert ours is not None
    assert theirs is not None
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)


def test_built_in_models_come_back_with_their_bytes_and_cycles(tmp_path: Path) -> None:
    for name in ("digits_cnn", "ds_cnn"):
        graph = npusim.load(name)
        path = tmp_path / f"{name}.tgz"
        export.write(path, graph)
        before, after = npusim.run(name, seed=2), npusim.run(path, seed=2)
        assert before.outputs is not None
        assert after.outputs is not None
        for one, other in zip(before.outputs, after.outputs, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
        assert after.cycles == before.cycles, name


def test_networks_of_documents_come_back(tmp_path: Path) -> None:
    generator = np.random.default_rng(8)
    for number, (body, shape, variables) in enumerate(bodies()):
        if shape != IMAGE or not body.startswith(("a = conv", "[a, c]")):
            continue
        arrays = {name: generator.standard_normal(extents, np.float32) for name, extents in variables.items()}
        path = folder(tmp_path / str(number), body, shape, arrays)
        export.write(tmp_path / f"again{number}", npusim.load(path))
        x = generator.standard_normal(shape, np.float32)
        runs = [npusim.run(each, inputs=[x]).outputs for each in (path, tmp_path / f"again{number}")]
        assert runs[0] is not None
        assert runs[1] is not None
        np.testing.assert_allclose(runs[0][0], runs[1][0], rtol=1e-5, atol=1e-6)


def test_the_command_writes_an_archive_that_is_run(tmp_path: Path) -> None:
    file = tmp_path / "m.tgz"
    done = CliRunner().invoke(app, ["convert", "digits_cnn", "--to", "nnef", "-o", str(file)])
    assert done.exit_code == 0, done.output
    assert "digits_cnn as NNEF" in done.output
    assert npusim.run(file, timing_only=True).cycles == npusim.run("digits_cnn", timing_only=True).cycles
    refused = CliRunner().invoke(app, ["convert", "digits_cnn", "--to", "caffe", "-o", str(file)])
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (graph_of("cumsum", ((3, 4),), False), 'layer "y": NNEF has no operation for cumsum'),
        (
            graph_of("resize_bilinear", (LAST,), False, size=(7, 8)),
            r"whole factors, not \[6, 8\] to \[7, 8\]",
        ),
        (graph_of("softmax", ((3, 4),), False, beta=2.0), "softmax has no beta"),
    ],
)
def test_what_nnef_does_not_express_is_refused(graph: Graph, message: str, tmp_path: Path) -> None:
    with pytest.raises(NpusimError, match=message):
        export.write(tmp_path / "m", graph)
    assert not (tmp_path / "m").exists()


@pytest.mark.skipif(
    importlib.util.find_spec("nnef") is None, reason="the Khronos package is not installed: pip install nnef"
)
def test_the_khronos_package_reads_what_is_written(tmp_path: Path) -> None:
    export.write(tmp_path / "m", npusim.load("digits_cnn"))
    code = (
        "import nnef, sys; g = nnef.load_graph(sys.argv[1]); nnef.infer_shapes(g); print(len(g.operations))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m")], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 10
