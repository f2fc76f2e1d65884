"""Values of different scopes that have one name: branches, bodies and functions, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import FormatError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
make, FLOAT, BOOL = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
STANDARD = make.make_opsetid("", 17)


def _value(name: str, kind: int = FLOAT, shape: tuple[int, ...] = (4,)) -> Any:
    return make.make_tensor_value_info(name, kind, shape)


def _constant(name: str, *numbers: float) -> Any:
    return onnx.numpy_helper.from_array(np.array(numbers, np.float32), name)


def _branch(operation: str) -> Any:
    nodes = [make.make_node(operation, ["x", "k"], ["t"]), make.make_node("Relu", ["t"], ["out"])]
    return make.make_graph(nodes, operation, [], [_value("out")], [_constant("k", 1, 2, 3, 4)])


def _if(result: str, operation: str) -> Any:
    branches = {"then_branch": _branch(operation), "else_branch": _branch("Mul")}
    return make.make_node("If", ["c"], [result], **branches)


def _loop(source: str, result: str, operation: str) -> Any:
    nodes = [
        make.make_node("Identity", ["going"], ["go"]),
        make.make_node(operation, ["v", "x"], ["t"]),
        make.make_node("Relu", ["t"], ["out"]),
    ]
    inputs = [_value("i", onnx.TensorProto.INT64, ()), _value("going", BOOL, ()), _value("v")]
    body = make.make_graph(nodes, operation, inputs, [_value("go", BOOL, ()), _value("out")])
    return make.make_node("Loop", ["turns", "", source], [result], body=body)


def _function(name: str, *nodes: Any) -> Any:
    return make.make_function("my", name, ["a"], ["r"], nodes, [STANDARD, make.make_opsetid("my", 1)])


FUNCTIONS = (
    _function("F", make.make_node("Abs", ["a"], ["t"]), make.make_node("Neg", ["t"], ["r"])),
    _function(
        "G", make.make_node("F", ["a"], ["t"], domain="my"), make.make_node("F", ["t"], ["r"], domain="my")
    ),
)

CASES = {
    "branches, twice": [_if("y0", "Add"), _if("y1", "Sub"), make.make_node("Add", ["y0", "y1"], ["y"])],
    "a name that is defined later outside": [
        _if("y0", "Add"),
        make.make_node("Neg", ["y0"], ["t"]),
        make.make_node("Add", ["t", "x"], ["y"]),
    ],
    "bodies of loops": [_loop("x", "a", "Add"), _loop("a", "t", "Sub"), make.make_node("Neg", ["t"], ["y"])],
    "functions in functions": [
        make.make_node("G", ["x"], ["t"], domain="my"),
        make.make_node("F", ["t"], ["r"], domain="my"),
        make.make_node("Add", ["r", "t"], ["y"]),
    ],
}


def _saved(path: Path, nodes: list[Any], *constants: Any) -> Path:
    turns = onnx.numpy_helper.from_array(np.array(3), "turns")
    inputs = [_value("x"), _value("c", BOOL, ())]
    graph = make.make_graph(nodes, "scopes", inputs, [_value("y")], [turns, *constants])
    opsets = [STANDARD, make.make_opsetid("my", 1)]
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=8, functions=FUNCTIONS), path)
    return path


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_scopes_may_use_one_name(case: str, chosen: bool, tmp_path: Path) -> None:
    path = _saved(tmp_path / "scopes.onnx", CASES[case])
    onnx.checker.check_model(onnx.load(path), full_check=True)
    given = {"x": np.array([1.5, -2, 0.25, -0.5], np.float32), "c": np.array(chosen)}
    (wanted,) = onnxruntime.InferenceSession(path).run(None, given)
    (found,) = npusim.run(path, inputs=given).outputs
    assert np.array_equal(found, wanted)


def test_a_constant_may_be_there_twice_if_it_is_the_same(tmp_path: Path) -> None:
    """The checker refuses such files, ONNX Runtime takes them; with different values it depends on their order."""
    nodes = [make.make_node("Add", ["x", "k"], ["y"])]
    twice = [_constant("k", 1, 2, 3, 4)] * 2
    given = {"x": np.ones(4, np.float32), "c": np.array(True)}
    path = _saved(tmp_path / "same.onnx", nodes, *twice)
    (wanted,) = onnxruntime.InferenceSession(path).run(None, given)
    assert np.array_equal(npusim.run(path, inputs=given).outputs[0], wanted)
    path = _saved(tmp_path / "other.onnx", nodes, twice[0], _constant("k", 1, 2, 3, 5))
    with pytest.raises(FormatError, match='constant "k": is there twice, with different values'):
        npusim.load(path)
