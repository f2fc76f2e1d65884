"""Random small float graphs beside ONNX Runtime: operations that keep a shape, joined in any way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from tests.examples import examples
from tests.npusim.frontends.onnx.models import written

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
helper = onnx.helper

SHAPE = (1, 4, 6, 6)

ONE = (
    "Relu",
    "Tanh",
    "Sigmoid",
    "Neg",
    "Abs",
    "Softmax",
    "HardSwish",
    "Transpose",
    "Conv",
    "MaxPool",
    "AveragePool",
)
TWO = ("Add", "Sub", "Mul", "Max", "Min", "Concat")


def attributes(name: str) -> dict[str, Any]:
    window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    own: dict[str, dict[str, Any]] = {
        "Transpose": {"perm": [0, 1, 3, 2]},
        "Conv": window,
        "MaxPool": window,
        "AveragePool": window,
        "Softmax": {"axis": 1},
        "Concat": {"axis": 1},
    }
    return own.get(name, {})


@st.composite
def graphs(draw: st.DrawFn) -> Any:
    """A model with one or two inputs, and up to eight nodes that read any values before them."""
    values, nodes, widths = ["a", "b"], [], {"a": 4, "b": 4}
    constants = [
        onnx.numpy_helper.from_array(
            np.linspace(-0.4, 0.5, 4 * depth * 9, dtype=np.float32).reshape(4, depth, 3, 3), f"w{depth}"
        )
        for depth in (4, 8)
    ]
    for number in range(draw(st.integers(1, 8))):
        name = draw(st.sampled_from((*ONE, *TWO)))
        narrow = [value for value in values if widths[value] == 4]
        operands = [
            draw(st.sampled_from(narrow if name in TWO else values)) for _ in range(1 + (name in TWO))
        ]
        width = widths[operands[0]]
        out = f"v{number}"
        extra = [f"w{width}"] if name == "Conv" else []
        nodes.append(helper.make_node(name, [*operands, *extra], [out], **attributes(name)))
        widths[out] = 4 if name == "Conv" else 8 if name == "Concat" else width
        values.append(out)
    outputs = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=2, unique=True))
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, SHAPE) for name in ("a", "b")],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@examples(40)
@given(graphs())
def test_same_as_onnxruntime(tmp_path_factory: pytest.TempPathFactory, model: Any) -> None:
    path = written(Path(tmp_path_factory.getbasetemp()), model, "random.onnx")
    chance = np.random.default_rng(5)
    inputs = {name: chance.uniform(-1, 1, SHAPE).astype(np.float32) for name in ("a", "b")}
    how = runtime.SessionOptions()
    how.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    how.log_severity_level = 4
    wanted = runtime.InferenceSession(str(path), how, providers=["CPUExecutionProvider"]).run(None, inputs)
    found = npusim.run(path, inputs=inputs).outputs
    assert found is not None
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)
