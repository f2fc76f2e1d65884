"""What ONNX Runtime computes for an ONNX file: every value of the graph, without rewrites of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from npusim.base import extras
from npusim.isa.base.errors import NpusimError, one_line
from npusim.isa.base.tensor import Array


class OnnxRuntimeError(NpusimError):
    """ONNX Runtime is not there, or does not take a model."""


def require() -> None:
    """Raise NpusimError with the package to install, if ONNX or its runtime is missing."""
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            raise extras.missing("verifying an ONNX model", "onnx")


class Session:
    """A file in ONNX Runtime on the CPU, one thread, graph optimizations disabled.

    quantized: the values that a QuantizeLinear gives: of floats, whatever computed them.

    Raises OnnxRuntimeError for a model that ONNX Runtime refuses, in its own words.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.quantized: frozenset[str] = frozenset()
        try:
            content, self.quantized = _with_every_value(path)
            self._session = _session(content, path.parent)
        except Exception:  # values of types that no array has
            self._session = None
        if self._session is None:
            try:
                self._session = _session(None, path)
            except Exception as fault:  # it has errors of many kinds
                raise OnnxRuntimeError(f"ONNX Runtime refuses the model: {one_line(fault)}") from None

    def run(self, inputs: Sequence[Array]) -> Mapping[str, Array]:
        """Return the values of the graph by name, inputs among them. Raises OnnxRuntimeError for a run that fails."""
        assert self._session is not None
        keys = [given.name for given in self._session.get_inputs()]
        feeds = dict(zip(keys, inputs, strict=True))
        names = [result.name for result in self._session.get_outputs()]
        try:
            arrays = self._session.run(None, feeds)
        except Exception as fault:
            reason = one_line(fault)
            raise OnnxRuntimeError(
                f"ONNX Runtime cannot run the model on these inputs (--input gives others): {reason}"
            ) from None
        values = zip(names, arrays, strict=True)
        return feeds | {name: value for name, value in values if isinstance(value, np.ndarray)}


@cache
def saturates() -> bool:
    """Return True if ONNX Runtime saturates 255 x 127 + 255 x 127 at 32767, as it does on x86 processors without VNNI.

    Their instruction for products of uint8 by int8 adds two of them in int16.
    """
    import onnx

    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "two products",
        [onnx.helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, [1, 2])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [1, 1])],
        [onnx.helper.make_tensor("b", onnx.TensorProto.INT8, [2, 1], [127, 127])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    (product,) = _session(model.SerializeToString(), Path()).run(None, {"a": np.full((1, 2), 255, np.uint8)})
    return bool(product.item() != 2 * 255 * 127)


def _session(content: bytes | None, path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if content is not None:  # where data lie beside the file
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(path.resolve()))
    return onnxruntime.InferenceSession(content or str(path), options, providers=["CPUExecutionProvider"])


_SMALL = 1024
"""Elements of a constant that may say shapes, axes or pads."""


def _with_every_value(path: Path) -> tuple[bytes, frozenset[str]]:
    """Return the file with every value of its graph as an output, and those that a QuantizeLinear gives.

    Small external constants are moved into the file, because ONNX Runtime infers shapes before it knows the folder.
    """
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        if onnx.external_data_helper.uses_external_data(tensor) and prod(tensor.dims) <= _SMALL:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(path.resolve().parent))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
    outputs = {value.name for value in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in outputs:
                outputs.add(name)
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    quantized = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    return model.SerializeToString(), frozenset(quantized)
