"""Small models of ONNX for the tests: nodes as lines of text, constants as arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

onnx = __import__("pytest").importorskip("onnx", reason="onnx is not installed: pip install 'npusim[onnx]'")

_LINE = re.compile(
    r"^\s*(?P<outputs>[\w, ]+?)\s*=\s*(?P<kind>[\w.]+)\((?P<inputs>[^)]*)\)\s*(?P<attributes>.*)$"
)


def model(
    text: str,
    constants: Mapping[str, Any],
    inputs: Mapping[str, tuple[str, Sequence[int]]],
    outputs: Sequence[str],
    *,
    opset: int = 21,
    four_bits: Sequence[str] = (),
) -> Any:
    """A model of lines `y, z = Split(x, sizes) axis=1`; the name of an input left out is _.

    four_bits: constants whose int8 or uint8 elements are stored as int4 or uint4.
    """
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [_node(line) for line in text.strip().splitlines()]
    initializers = []
    for name, value in constants.items():
        array = np.asarray(value)
        if name in four_bits:
            kind = kinds.INT4 if array.dtype == np.int8 else kinds.UINT4
            initializers.append(helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist()))
        else:
            initializers.append(
                onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            )
    graph = helper.make_graph(
        nodes,
        "small",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))
            for name, (dtype, shape) in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        initializers,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _node(line: str) -> Any:
    found = _LINE.match(line)
    assert found, line
    domain, _, operation = found["kind"].rpartition(".")
    names = [
        ["" if name.strip() == "_" else name.strip() for name in found[part].split(",")]
        for part in ("inputs", "outputs")
    ]
    attributes = dict(word.split("=", 1) for word in found["attributes"].split())
    values = {name: _value(word) for name, word in attributes.items()}
    return onnx.helper.make_node(
        operation,
        list(names[0]) if found["inputs"].strip() else [],
        names[1],
        domain={"ms": "com.microsoft"}.get(domain, domain),
        name=names[1][0],
        **values,
    )


def _value(word: str) -> Any:
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    if re.fullmatch(r"-?[\d.]+(e-?\d+)?", word):
        return float(word)
    if word.startswith("["):
        return [_value(item) for item in word[1:-1].split(",")]
    return word


def saved(proto: Any, folder: Path) -> Path:
    """The file of a model."""
    path = folder / "small.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def beside(proto: Any, inputs: Sequence[Any]) -> list[Any]:
    """What ONNX Runtime gives without optimisation."""
    runtime = __import__("pytest").importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return list(session.run(None, dict(zip(names, inputs, strict=True))))
