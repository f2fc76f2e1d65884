"""What the reader makes of files as a whole: data beside them, functions, graphs in nodes, and what it refuses."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.frontends.frontend import ModelWarning
from tests.npusim.frontends.onnx.models import model_of, single, written, x

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT


def model(
    nodes: list[Any], inputs: list[Any], outputs: list[str], *constants: Any, opset: int = 21, **more: Any
) -> Any:
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", inputs, results, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **more)


def value(name: str, *shape: Any, of: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, of, shape)


def constant(name: str, data: Any) -> Any:
    return onnx.numpy_helper.from_array(np.asarray(data), name)


def add(a: str, b: str, y: str, **more: Any) -> Any:
    return helper.make_node("Add", [a, b], [y], **more)


ONES = np.ones(3, np.float32)


def outputs(tmp_path: Path, made: Any, *inputs: Any, **more: Any) -> list[Any]:
    found = npusim.run(written(tmp_path, made), inputs=list(inputs), **more).outputs
    assert found is not None
    return [array.tolist() for array in found]


def refusal(tmp_path: Path, made: Any) -> str:
    path = written(tmp_path, made)
    with pytest.raises(npusim.NpusimError) as fault:
        npusim.load(path)
    return str(fault.value).removeprefix(f"{path}: ")


# Data in other files


def beside(location: str, length: int | None = 12, offset: int = 0) -> Any:
    tensor = onnx.TensorProto(name="w", dims=[3], data_type=FLOAT, data_location=1)
    for key, said in (("location", location), ("offset", offset), ("length", length)):
        if said is not None:
            tensor.external_data.add(key=key, value=str(said))
    return model([add("x", "w", "y")], [value("x", 3)], ["y"], tensor)


def test_data_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/w.bin").write_bytes(bytes(4) + np.array([1, 2, 3], np.float32).tobytes())
    assert outputs(tmp_path, beside("data/w.bin", offset=4), ONES) == [[2, 3, 4]]
    assert outputs(tmp_path, beside("data/w.bin", length=None, offset=4), ONES) == [[2, 3, 4]]


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "a/../../w.bin", "C:\\w.bin", ""])
def test_data_elsewhere_are_refused(tmp_path: Path, location: str) -> None:
    said = refusal(tmp_path, beside(location))
    assert said.endswith("must be a path within the folder of the model")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "w.bin").symlink_to(tmp_path / "secret")
    assert refusal(folder, beside("w.bin")) == (
        'constant "w": file "w.bin" leads out of the folder of the model'
    )


def test_missing_and_short_data(tmp_path: Path) -> None:
    assert refusal(tmp_path, beside("w.bin")) == 'constant "w": file "w.bin": no such file'
    (tmp_path / "w.bin").write_bytes(bytes(8))
    short = 'constant "w": bytes 0 to 12 are not in "w.bin", which has 8: it is cut off, or belongs to another model'
    assert refusal(tmp_path, beside("w.bin")) == short
    assert refusal(tmp_path, beside("w.bin", length=8)) == (
        'constant "w": 8 bytes of "w.bin" are given, its shape takes 12'
    )


def test_sparse_constants(tmp_path: Path) -> None:
    made = model([add("x", "w", "y")], [value("x", 3)], ["y"])
    sparse = helper.make_sparse_tensor(constant("w", ONES[:1] * 5), constant("i", np.array([2])), [3])
    made.graph.sparse_initializer.append(sparse)
    assert outputs(tmp_path, made, ONES) == [[1, 1, 6]]


# Functions and graphs within nodes


def test_functions_of_the_model(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 21)]
    twice = helper.make_function("own", "Twice", ["a"], ["b"], [add("a", "a", "b")], opsets)
    four = helper.make_function(
        "own",
        "Four",
        ["a"],
        ["b"],
        [helper.make_node("Twice", [s], [t], domain="own") for s, t in (("a", "m"), ("m", "b"))],
        [*opsets, helper.make_opsetid("own", 1)],
    )
    made = model([helper.make_node("Four", ["x"], ["y"], domain="own")], [value("x", 3)], ["y"])
    made.functions.extend([twice, four])
    made.opset_import.append(helper.make_opsetid("own", 1))
    assert outputs(tmp_path, made, ONES) == [[4, 4, 4]]
    made.functions[0].node[0].CopyFrom(helper.make_node("Four", ["a"], ["b"], domain="own"))
    assert refusal(tmp_path, made) == 'function "Four" calls itself, perhaps by way of others'


def test_operations_that_onnx_defines_by_others(tmp_path: Path) -> None:
    made = model([helper.make_node("HannWindow", ["n"], ["y"])], [], ["y"], constant("n", np.array(4)))
    np.testing.assert_allclose(outputs(tmp_path, made), [[0, 0.5, 1, 0.5]], atol=1e-6)


def branch(number: float) -> Any:
    node = add("x", "n", "b")
    return helper.make_graph([node], "branch", [], [value("b", 3)], [constant("n", ONES * number)])


def test_a_constant_condition_chooses_a_branch(tmp_path: Path) -> None:
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch(1), else_branch=branch(2))
    made = model([node], [value("x", 3)], ["y"], constant("c", np.array(False)))
    assert outputs(tmp_path, made, ONES) == [[3, 3, 3]]


@pytest.mark.parametrize(("condition", "wanted"), [(True, [2, 2, 2]), (False, [3, 3, 3])])
def test_a_condition_that_a_run_gives(tmp_path: Path, condition: bool, wanted: list[float]) -> None:
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch(1), else_branch=branch(2))
    made = model([node], [value("c", 1, of=onnx.TensorProto.BOOL), value("x", 3)], ["y"])
    assert outputs(tmp_path, made, np.array([condition]), ONES) == [wanted]


def loop(*constants: Any) -> Any:
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=FLOAT),
            add("s", "f", "t"),
            helper.make_node("Identity", ["t"], ["row"]),
            helper.make_node("Identity", ["c"], ["on"]),
        ],
        "body",
        [value("i", of=onnx.TensorProto.INT64), value("c", of=onnx.TensorProto.BOOL), value("s", 3)],
        [value("on", of=onnx.TensorProto.BOOL), value("t", 3), value("row", 3)],
    )
    node = helper.make_node("Loop", ["m", "", "x"], ["y", "rows"], body=body)
    return model([node], [value("x", 3)], ["y", "rows"], *constants)


def test_loops_are_written_out(tmp_path: Path) -> None:
    last, rows = outputs(tmp_path, loop(constant("m", np.array(3))), ONES)
    assert last == [4, 4, 4]
    assert rows == [[1, 1, 1], [2, 2, 2], [4, 4, 4]]


def test_loops_without_end_are_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, loop(constant("m", np.array(1 << 40))))
    assert said == 'node "y" (Loop): has more than 1024 iterations; npusim unrolls loops up to that'


def test_scans_go_through_an_axis(tmp_path: Path) -> None:
    body = helper.make_graph(
        [add("s", "r", "t"), helper.make_node("Identity", ["t"], ["o"])],
        "body",
        [value("s", 2), value("r", 2)],
        [value("t", 2), value("o", 2)],
    )
    node = helper.make_node(
        "Scan", ["s0", "x"], ["y", "rows"], body=body, num_scan_inputs=1, scan_input_directions=[1]
    )
    made = model([node], [value("x", 3, 2)], ["y", "rows"], constant("s0", np.zeros(2, np.float32)))
    last, rows = outputs(tmp_path, made, np.arange(6, dtype=np.float32).reshape(3, 2))
    assert last == [6, 9]
    assert rows == [[4, 5], [6, 8], [6, 9]]


# Graphs


def test_nodes_in_any_order(tmp_path: Path) -> None:
    made = model([add("m", "x", "y"), add("x", "x", "m")], [value("x", 3)], ["y"])
    assert outputs(tmp_path, made, ONES) == [[3, 3, 3]]


def test_constants_that_are_inputs_too_are_constants(tmp_path: Path) -> None:
    made = model([add("x", "w", "y")], [value("x", 3), value("w", 3)], ["y"], constant("w", ONES))
    assert outputs(tmp_path, made, ONES) == [[2, 2, 2]]


def test_an_input_that_is_transposed_keeps_its_name(tmp_path: Path) -> None:
    turned = helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])
    made = model([turned, add("t", "t", "y")], [value("x", 1, 2, 2, 3)], ["y"])
    graph = npusim.load(written(tmp_path, made))
    assert [graph.tensors[number].name for number in graph.inputs] == ["x"]


def test_inputs_that_nobody_reads_stay(tmp_path: Path) -> None:
    made = model([add("x", "x", "y")], [value("x", 3), value("z", 1)], ["y"])
    assert outputs(tmp_path, made, ONES, ONES[:1]) == [[2, 2, 2]]


def test_open_sizes_are_given(tmp_path: Path) -> None:
    made = model([add("x", "x", "y")], [value("x", "N", 3)], ["y"])
    assert outputs(tmp_path, made, ONES[None], sizes={"N": 1}) == [[[2, 2, 2]]]
    assert outputs(tmp_path, made, np.ones((2, 3), np.float32)) == [[[2, 2, 2], [2, 2, 2]]]
    with pytest.warns(ModelWarning, match=r"N = 1, which the file leaves open; --shape N=N gives another$"):
        assert npusim.run(written(tmp_path, made)).provenance.shapes == "N=1"
    made = model([add("x", "x", "y")], [value("x", 3, "N")], ["y"])
    assert "give --shape N=N" in refusal(tmp_path, made)


def test_a_size_below_0_is_open(tmp_path: Path) -> None:
    made = model([add("x", "x", "y")], [value("x", -1, 3)], ["y"])
    assert outputs(tmp_path, made, ONES[None]) == [[[2, 2, 2]]]
    made = model([add("x", "x", "y")], [value("x", 1, -3)], ["y"])
    assert "give --shape x=1,N" in refusal(tmp_path, made)


def test_inputs_that_are_given_settle_sizes(tmp_path: Path) -> None:
    made = model([add("x", "y", "z")], [value("x", "N", "M"), value("y", 2, "N", "M")], ["z"])
    x, y = np.ones((4, 3), np.float32), np.ones((2, 4, 3), np.float32)
    path = written(tmp_path, made)
    for inputs in ([x, y], {"x": x, "in1": y}):
        result = npusim.run(path, inputs=inputs)
        assert result.outputs[0].shape == (2, 4, 3)
        assert result.provenance.shapes == "x=4,3 y=2,4,3"
    with pytest.raises(npusim.NpusimError, match='input "y": N is 4, elsewhere 5'):
        npusim.run(path, inputs=[np.ones((5, 3), np.float32), y])
    with pytest.raises(npusim.NpusimError, match=r'"x": shape \[-1, -1\] in the graph, \[4\] was given'):
        npusim.run(path, inputs=[x[:, 0], y])
    np.savez(tmp_path / "in.npz", x=x, y=y)
    done = CliRunner().invoke(app, ["run", str(path), "--input", str(tmp_path / "in.npz")])
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")])
def test_a_size_with_a_name_is_learnt_from_any_input(tmp_path: Path, order: tuple[str, str]) -> None:
    shapes = {"x": ("N", 3), "y": (2, "N", 3)}
    made = model([add("x", "y", "z")], [value(name, *shapes[name]) for name in order], ["z"])
    for sizes in ({"y": (2, 4, 3)}, {"x": (4, 3)}, {"N": 4}, {"y": (2, 4, 3), "x": (4, 3), "N": 4}):
        graph = npusim.load(written(tmp_path, made), sizes)
        assert [graph.tensors[number].type.shape for number in graph.inputs] == [
            {"x": (4, 3), "y": (2, 4, 3)}[name] for name in order
        ]


@pytest.mark.parametrize("verb", ["run", "compile", "convert", "verify"])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["x=4,3", "y=2,5,3"], 'input "y": N is 5, elsewhere 4'),
        (["y=2,5,3", "N=4"], 'input "y": N is 5, elsewhere 4'),
        (["y=5,5,3"], 'input "y": shape [2, -1, 3] in the graph, [5, 5, 3] was given'),
        (["y=5,3"], 'input "y": shape [2, -1, 3] in the graph, [5, 3] was given'),
    ],
)
def test_sizes_that_contradict_each_other(tmp_path: Path, verb: str, options: list[str], text: str) -> None:
    made = model([add("x", "y", "z")], [value("x", "N", 3), value("y", 2, "N", 3)], ["z"])
    path = written(tmp_path, made)
    words = [verb, str(path), *(word for option in options for word in ("--shape", option))]
    target = {"compile": ["-o", str(tmp_path / "a.npu")], "convert": ["-o", str(tmp_path / "a.tflite")]}
    done = CliRunner().invoke(app, [*words, *target.get(verb, [])])
    assert (done.exit_code, done.output) == (2, f"npusim: {path}: {text}\n")


REFUSED: list[tuple[Any, str]] = [
    (
        model([add("y", "x", "m"), add("m", "x", "y")], [value("x", 3)], ["y"]),
        'value "y" is read, and nothing before writes it',
    ),
    (
        model([add("x", "x", "y"), add("x", "x", "y")], [value("x", 3)], ["y"]),
        'value "y" is written 2 times; every value has one writer',
    ),
    (
        model([add("x", "x", "y")], [value("x", 3)], ["y", "z"]),
        'value "z" is read, and nothing before writes it',
    ),
    (
        model([add("x", "x", "y")], [value("x", 3, of=onnx.TensorProto.BFLOAT16)], ["y"]),
        'input "x" has elements of type bfloat16, which npusim lacks',
    ),
    (
        model([add("x", "x", "y")], [value("x", 3, of=onnx.TensorProto.STRING)], ["y"]),
        'input "x" has elements of type string, which npusim lacks',
    ),
    (
        model([add("x", "x", "y")], [helper.make_tensor_sequence_value_info("x", FLOAT, [3])], ["y"]),
        'input "x" is sequence and no tensor; npusim has tensors alone',
    ),
    (
        model([helper.make_node("SequenceEmpty", [], ["y"])], [], ["y"]),
        'node "y" (SequenceEmpty): npusim does not have the operation; `npusim ops` lists all, '
        "npusim.register_operator adds your own; --unknown host times it once the file says type and shape of "
        '"y" (value_info)',
    ),
    (
        model([helper.make_node("Add", ["x", "x"], ["y"], domain="own")], [value("x", 3)], ["y"]),
        'node "y" (own.Add): npusim does not have the operation; `npusim ops` lists all, '
        "npusim.register_operator adds your own; --unknown host times it once the file says type and shape of "
        '"y" (value_info)',
    ),
    (
        model(
            [helper.make_node("FusedConv", ["x", "x"], ["y"], domain="com.microsoft", activation="Mish")],
            [value("x", 1, 1, 1, 1)],
            ["y"],
        ),
        "node \"y\" (com.microsoft.FusedConv): activation is 'Mish'; npusim has Relu, Sigmoid, Tanh, LeakyRelu, "
        "HardSigmoid, Clip",
    ),
    (
        model([helper.make_node("NonMaxSuppression", ["x", "x"], ["y"])], [value("x", 1, 1, 4)], ["y"]),
        'node "y" (NonMaxSuppression): how many boxes it keeps follows from data, and npusim knows all shapes before a '
        "run; let the model end with boxes and scores (onnx.utils.extract_model), and choose from these",
    ),
    (
        model([add("x", "x", "y")], [value("x", 3)], ["y"], opset=99),
        "has operations of version 99 (opset_import); npusim and the onnx that is installed read 7 to "
        f"{onnx.defs.onnx_opset_version()}",
    ),
    (
        model([helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x", 3), value("s", 1, of=7)], ["y"]),
        'node "y" (Reshape): input shape decides shapes or parameters, so it must be a constant, or follow from '
        "constants and shapes",
    ),
    (
        model([helper.make_node("Add", ["x"], ["y"])], [value("x", 3)], ["y"]),
        'node "y" (Add): has 1 inputs, must have 2: A B',
    ),
    (
        model([helper.make_node("Flatten", ["x"], ["y"], axis="one")], [value("x", 3)], ["y"]),
        "node \"y\" (Flatten): axis is 'one', must be a whole number",
    ),
]


@pytest.mark.parametrize(("made", "said"), REFUSED, ids=[text.partition(":")[0][-20:] for _, text in REFUSED])
def test_what_is_refused_and_why(tmp_path: Path, made: Any, said: str) -> None:
    assert refusal(tmp_path, made) == said


@pytest.mark.parametrize("data", [b"garbage", b"\x08\x0a" * 9, bytes(64)])
def test_garbage_is_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(npusim.NpusimError, match="is no ONNX model: ") as fault:
        npusim.load(path)
    assert len(str(fault.value).splitlines()) == 1


def test_a_file_without_suffix_is_recognised(tmp_path: Path) -> None:
    path = written(tmp_path, model_of(single("Relu", x(3))), "model")
    assert npusim.run(path, inputs=[ONES]).outputs is not None


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, model_of(single("Relu", x(3))))
    own = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "onnx":
            raise ImportError(name)
        return own(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        npusim.NpusimError,
        match=r"is an ONNX model; reading one needs onnx, .* not installed: pip install 'onnx>=",
    ):
        npusim.load(path)


def test_the_package_is_imported_when_a_file_is_read() -> None:
    code = "import sys; import npusim.frontends.onnx.operations.onnx_table; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
