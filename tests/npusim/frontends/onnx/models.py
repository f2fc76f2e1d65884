"""Small ONNX models of one node each, with inputs."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array

OPSET = 21

MICROSOFT = "com.microsoft"


class Single(NamedTuple):
    """A node: its operation ("domain::Name"), operands by place, attributes, how many outputs.

    operands: arrays are inputs of the graph, `Fixed` constants of it, None one that is left out.
    """

    operation: str
    operands: Sequence[Any]
    attributes: Mapping[str, Any]
    outputs: int = 1
    opset: int = OPSET

    @property
    def inputs(self) -> list[Array]:
        return [operand for operand in self.operands if isinstance(operand, np.ndarray)]

    @property
    def name(self) -> str:
        return self.operation.rpartition("::")[2]


class Fixed(NamedTuple):
    """A constant."""

    data: Array


def single(operation: str, *operands: Any, outputs: int = 1, opset: int = OPSET, **attributes: Any) -> Single:
    return Single(operation, operands, attributes, outputs, opset)


def fixed(*numbers: Any, of: str = "int64") -> Fixed:
    return Fixed(np.array(numbers, of))


def scalar(number: Any, of: str = "int64") -> Fixed:
    return Fixed(np.array(number, of))


def x(*shape: int, of: str = "float32", low: float = -3.0, high: float = 3.0) -> NDArray[Any]:
    """Numbers that are always the same for a shape and type."""
    chance = np.random.default_rng(zlib.crc32(repr((shape, of, low, high)).encode()))
    if of == "bool":
        return chance.integers(0, 2, shape).astype(bool)
    if np.dtype(of).kind in "iu":
        limits = np.iinfo(of)
        return chance.integers(max(int(low * 9), limits.min), min(int(high * 9), limits.max), shape).astype(
            of
        )
    return chance.uniform(low, high, shape).astype(of)


def w(*shape: int, of: str = "float32", low: float = -1.0, high: float = 1.0) -> Fixed:
    return Fixed(x(*shape, of=of, low=low, high=high))


def model_of(case: Single) -> Any:
    """Its ModelProto; outputs have no types, which readers infer."""
    from onnx import helper, numpy_helper

    domain, _, name = case.operation.rpartition("::")
    names, inputs, constants = [], [], []
    for place, operand in enumerate(case.operands):
        names.append("" if operand is None else f"in{place}")
        if isinstance(operand, Fixed):
            constants.append(numpy_helper.from_array(operand.data, f"in{place}"))
        elif operand is not None:
            kind = helper.np_dtype_to_tensor_dtype(operand.dtype)
            inputs.append(helper.make_tensor_value_info(f"in{place}", kind, operand.shape))
    outputs = [f"out{place}" for place in range(case.outputs)]
    node = helper.make_node(name, names, outputs, name="node", domain=domain, **case.attributes)
    graph = helper.make_graph(
        [node], "one", inputs, [helper.make_empty_tensor_value_info(name) for name in outputs]
    )
    graph.initializer.extend(constants)
    opsets = [helper.make_opsetid("", case.opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def written(folder: Path, model: Any, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path
