"""Small files that ask for much: each gets an answer, or one line before work is spent on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim import hal
from npusim.isa.base.errors import NpusimError
from npusim.kernels.graph.limits import MOST_AXES, MOST_OPERATIONS, MOST_WRITTEN_OUT

from ..hal.hal_models import Maker
from .tflite_builder import Builder, table

MOST_CPU_S = 15
"""Several times what each takes on an idle machine; without the limits they take from half a minute to for ever."""

MEMORIES = r"takes [\d,]+ bytes, all memories of edge-128 have 69,206,016"
WRITTEN_OUT = f"becomes more than {MOST_WRITTEN_OUT:,} operations with loops and branches written out"


def nnef(body: str, before: str = "", shape: str = "[1,4,8,8]") -> str:
    return (
        "version 1.0;\nextension KHR_enable_fragment_definitions, KHR_enable_operator_expressions;\n"
        f"{before}graph net(x) -> (y)\n{{\n x = external(shape={shape});\n{body}\n}}\n"
    )


def doubling(levels: int) -> str:
    """Fragments that each call the one before twice."""
    first = "fragment f0(a: tensor<scalar>) -> (r: tensor<scalar>) { m = a+a; r = m+m; }\n"
    return first + "".join(
        f"fragment f{n}(a: tensor<scalar>) -> (r: tensor<scalar>) {{ m = f{n - 1}(a); r = f{n - 1}(m); }}\n"
        for n in range(1, levels)
    )


DOCUMENTS = {
    "a stride of 100,000": (
        nnef(" w = variable(shape=[4,4,3,3],label='w'); y = deconv(x,w,stride=[100000,100000]);"),
        MEMORIES,
    ),
    "a window of 900 million": (
        nnef(" y = box(x,size=[30000,30000,1,1],padding=[(15000,15000),(15000,15000),(0,0),(0,0)]);"),
        MEMORIES,
    ),
    "fragments that double": (nnef(" y = f14(x);", doubling(15)), "expands to more than 16,384 operations"),
    "a long sum": (nnef(f" y = x{'+x' * 20_000};"), "expands to more than 16,384 operations"),
    "many axes": (
        nnef(f" y = unsqueeze(x,axes={list(range(MOST_AXES - 3))});"),
        f"has {MOST_AXES + 1} axes, may have {MOST_AXES}",
    ),
    "a long chain": (
        nnef(
            "\n".join(f" t{n} = relu({f't{n - 1}' if n else 'x'});" for n in range(MOST_OPERATIONS))
            + f" y = relu(t{MOST_OPERATIONS - 1});"
        ),
        "has more than 8,192 operations, the most that npusim compiles of a file with 0 bytes of weights",
    ),
}


def refused(run: Callable[[], object], text: str) -> None:
    begin = time.process_time()
    with pytest.raises(NpusimError, match=text) as fault:
        run()
    assert time.process_time() - begin < MOST_CPU_S
    assert len(str(fault.value)) <= 400
    assert "\n" not in str(fault.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_of_nnef(name: str, tmp_path: Path) -> None:
    text, said = DOCUMENTS[name]
    (tmp_path / "net.nnef").write_text(text)
    refused(lambda: npusim.run(tmp_path / "net.nnef", timing_only=True), said)


def onnx_files() -> dict[str, tuple[Any, str]]:
    """Models of ONNX by name, and what is said of each."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    node, info, real = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT

    def model(nodes: list[Any], shape: list[int], constants: Any = (), functions: Any = ()) -> Any:
        arrays = [onnx.numpy_helper.from_array(np.array(data), name) for name, data in constants]
        ends = [info("x", real, shape)], [onnx.helper.make_empty_tensor_value_info("y")]
        opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("f", 1)]
        graph = onnx.helper.make_graph(nodes, "g", *ends, arrays)
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))

    def calls(levels: int, *operations: Any) -> Any:
        """Functions whose nodes call the one before."""
        functions = []
        for n in range(levels):
            kind = ("Neg", "") if n == 0 else (f"f{n - 1}", "f")
            nodes = [node(kind[0], [a], [b], domain=kind[1]) for a, b in operations]
            opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("f", 1)]
            functions.append(onnx.helper.make_function("f", f"f{n}", ["a"], ["r"], nodes, opsets))
        return model([node(f"f{levels - 1}", ["x"], ["y"], domain="f")], [1, 8], (), functions)

    def loops(deep: int) -> Any:
        """Loops of 1,000 turns within each other."""
        inner = node("Add", ["s", "s"], ["so"])
        for _ in range(deep):
            ins = [info("i", onnx.TensorProto.INT64, []), info("c", onnx.TensorProto.BOOL, [])]
            outs = [onnx.helper.make_empty_tensor_value_info(name) for name in ("co", "so")]
            body = onnx.helper.make_graph(
                [node("Identity", ["c"], ["co"]), inner],
                "body",
                [*ins, onnx.helper.make_empty_tensor_value_info("s")],
                outs,
            )
            inner = node("Loop", ["n", "go", "s"], ["so"], body=body)
        outer = node("Loop", ["n", "go", "x"], ["y"], body=inner.attribute[0].g)
        return model([outer], [1, 8], [("n", np.int64(1000)), ("go", np.bool_(True))])

    last = [1, 1, 1, 50_000_000]
    return {
        "an input of 2**40": (model([node("Neg", ["x"], ["y"])], [1 << 40]), MEMORIES),
        "a resized axis": (
            model(
                [node("Resize", ["x", "", "", "s"], ["y"], mode="linear")],
                [1, 1, 2, 2],
                [("s", np.array(last, np.int64))],
            ),
            "axis 3 would have 50,000,000 elements",
        ),
        "functions that double": (
            calls(17, ("a", "m"), ("m", "r")),
            "has 131,072 nodes with its functions written out; npusim reads 16,4",
        ),
        "deep functions": (calls(200, ("a", "r")), "has functions within functions, more than 128 deep"),
        "loops in loops": (loops(4), WRITTEN_OUT),
        "many axes": (
            model([node("Reshape", ["x", "s"], ["y"])], [2], [("s", np.array([1] * 40 + [2], np.int64))]),
            f"has 41 axes, may have {MOST_AXES}",
        ),
    }


NAMES = (
    *("an input of 2**40", "a resized axis", "functions that double"),
    *("deep functions", "loops in loops", "many axes"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_files_of_onnx(name: str, tmp_path: Path) -> None:
    made, said = onnx_files()[name]
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    refused(lambda: npusim.run(tmp_path / "net.onnx"), said)


@pytest.mark.parametrize(
    ("operation", "constants"),
    [
        ("Transpose", ()),
        ("Tile", [("r", np.array([2, 1] * 9, np.int64))]),
        ("Expand", [("r", np.array([2] * 18, np.int64))]),
    ],
)
def test_moves_of_many_axes_are_left_to_the_host(operation: str, constants: Any, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    shape = [2] * 18 if operation == "Transpose" else [1, 2] * 9
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    node = onnx.helper.make_node(operation, ["x", *(name for name, _ in constants)], ["y"])
    arrays = [onnx.numpy_helper.from_array(data, name) for name, data in constants]
    end = onnx.helper.make_empty_tensor_value_info("y")
    graph = onnx.helper.make_graph([node], "g", [x], [end], arrays)
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    begin = time.process_time()
    result = npusim.run(
        tmp_path / "net.onnx", inputs=[np.arange(np.prod(shape), dtype=np.float32).reshape(shape)]
    )
    assert time.process_time() - begin < MOST_CPU_S
    assert result.layers[0].unit == "host"
    expected = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected = expected.T if operation == "Transpose" else np.broadcast_to(expected, [2] * 18)
    assert np.array_equal(result.outputs[0], expected)


def test_files_of_tensorflow_lite(tmp_path: Path) -> None:
    wide = Builder()
    x, y = wide.tensor("x", [1] * 40), wide.tensor("y", [1] * 40)
    wide.operator("RELU", [x], [y])
    (tmp_path / "wide.tflite").write_bytes(wide.file([x], [y]))
    refused(lambda: npusim.load(tmp_path / "wide.tflite"), "40 dimensions, may have 8")
    large = Builder()
    x, y = large.tensor("x", [1 << 30]), large.tensor("y", [1 << 30])
    large.operator("ADD", [x, x], [y], table("AddOptions"), version=2)
    (tmp_path / "large.tflite").write_bytes(large.file([x], [y]))
    refused(lambda: npusim.run(tmp_path / "large.tflite"), MEMORIES)


def test_models_of_the_hal(tmp_path: Path) -> None:
    maker, kind = Maker(), {"scale": 0.5}
    image = maker.input(hal.OperandType.TENSOR_QUANT8_ASYMM, [1 << 14, 1 << 14], **kind)
    result = maker.output(hal.OperandType.TENSOR_QUANT8_ASYMM, [1 << 14, 1 << 14], **kind)
    maker.operation(hal.OperationType.RELU, [image], [result])
    hal.save(maker.model(hal.HalVersion.V1_2), tmp_path / "large.hal")
    refused(lambda: npusim.run(tmp_path / "large.hal"), MEMORIES)


@pytest.mark.slow
def test_a_file_may_have_more_operations_for_its_weights(tmp_path: Path) -> None:
    """700 steps of an LSTM are 8,400 operations: as many as a small file may not have, but one with weights may."""
    onnx = pytest.importorskip("onnx")
    for units, fits in ((4, False), (32, True)):
        drawn = np.random.default_rng(0).normal(size=(2, 1, 4 * units, units)).astype(np.float32)
        weights = [onnx.numpy_helper.from_array(each, name) for each, name in zip(drawn, "wr", strict=True)]
        make, kind = onnx.helper, onnx.TensorProto.FLOAT
        graph = make.make_graph(
            [make.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=units)],
            "long",
            [make.make_tensor_value_info("x", kind, [700, 1, units])],
            [make.make_tensor_value_info("y", kind, [700, 1, 1, units])],
            weights,
        )
        path = tmp_path / f"{units}.onnx"
        onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
        if fits:
            assert len(npusim.load(path).nodes) > MOST_OPERATIONS
        else:
            with pytest.raises(NpusimError, match=r"has more than 8,\d{3} operations, .* bytes of weights"):
                npusim.load(path)
