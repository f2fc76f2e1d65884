"""Elementwise operators on the machine: operands that repeat along any axes, every width of element, small memories."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.table import operator
from npusim.machine.system import execute
from npusim.models.writer import per_channel, per_tensor
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions

Shape = tuple[int, ...]


@cache
def machine(size_kib: int) -> Hardware:
    return change(hardware("edge-128"), {"scratchpad.size_kib": size_kib, "scratchpad.banks": 1})


def one_node(op: str, inputs: list[TensorType], output: TensorType, **parameters: object) -> Graph:
    tensors = (*(Tensor(f"x{number}", kind) for number, kind in enumerate(inputs)), Tensor("y", output))
    operands, result = tuple(range(len(inputs))), len(inputs)
    node = Node("node", op, operands, (result,), operator(op).parameters(**parameters))
    return Graph("net", tensors, (node,), operands, (result,))


def check(graph: Graph, seed: int, calls: int = 0) -> None:
    """The machine gives the bytes of the reference, with and without much room, and asks the host so many times."""
    rng = np.random.default_rng(seed)
    values: list[Array] = []
    for index in graph.inputs:
        kind = graph.tensors[index].type
        raw = rng.integers(0, 256, kind.size_bytes).astype(np.uint8)
        data = raw & 1 if kind.dtype == "bool" else raw
        values.append(data.view(kind.numpy_dtype).reshape(kind.shape))
    computed = evaluate(graph, values)
    expected = [computed[index] for index in graph.outputs]
    for size_kib in (256, 4):
        program = compile_graph(graph, machine(size_kib))
        assert len(program.host_calls) == calls
        outputs = execute(program, values, host_functions=host_functions(program)).outputs
        assert outputs is not None
        for found, wanted in zip(outputs, expected, strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            assert found.tobytes() == wanted.tobytes(), size_kib


def codes(shape: Shape, scale: float, zero_point: int = 3, dtype: str = "int8") -> TensorType:
    return TensorType(dtype, shape, per_tensor(scale, zero_point))


PATTERNS = [
    ((2, 3, 4, 5), (2, 1, 1, 5)),  # three runs: repetitions between two that are whole
    ((3, 1, 4, 1), (1, 5, 1, 6)),  # alternating: four runs
    ((2, 1, 3, 1, 4), (1, 5, 1, 6, 1)),  # five runs
    ((2, 1, 3, 1, 4, 1), (5, 1, 6, 1, 2)),  # six, of which one axis is not there
    ((7, 1), (1, 300)),
    ((), (4, 3)),
    ((1,), (1, 1)),
]


@pytest.mark.cases(12)
@pytest.mark.parametrize("op", ["add", "mul", "maximum", "less", "prelu", "squared_difference", "div"])
@pytest.mark.parametrize(("first", "second"), PATTERNS)
def test_any_broadcast(op: str, first: Shape, second: Shape) -> None:
    shape = np.broadcast_shapes(first, second)
    output = TensorType("bool", shape) if op == "less" else codes(shape, 0.9)
    for a, b in ((first, second), (second, first)):
        check(one_node(op, [codes(a, 0.05), codes(b, 0.07, -9)], output), seed=len(shape))


@pytest.mark.parametrize("op", ["logical_and", "logical_or", "equal"])
def test_truths(op: str) -> None:
    for first, second in PATTERNS:
        kinds = [TensorType("bool", first), TensorType("bool", second)]
        check(one_node(op, kinds, TensorType("bool", np.broadcast_shapes(first, second))), seed=1)


@pytest.mark.parametrize("dtype", ["int8", "bool", "int16", "float16", "int32", "float32", "int64"])
@pytest.mark.parametrize(
    ("condition", "first", "second"),
    [
        ((4, 5), (4, 5), (4, 5)),
        ((5,), (2, 1, 5), (3, 1)),
        ((2, 1, 1), (1, 3, 5), (2, 3, 1)),
        ((), (3, 4), (3, 4)),
    ],
)
def test_choices_of_every_width(dtype: str, condition: Shape, first: Shape, second: Shape) -> None:
    scaling = per_tensor(0.1, 3) if dtype == "int8" else None
    a, b = (TensorType(dtype, shape, scaling) for shape in (first, second))
    output = TensorType(dtype, np.broadcast_shapes(condition, first, second), scaling)
    check(one_node("select_v2", [TensorType("bool", condition), a, b], output), seed=2)


def test_a_condition_per_row() -> None:
    kind = TensorType("int32", (6, 2, 3))
    check(one_node("select", [TensorType("bool", (6,)), kind, kind], kind), seed=3)


@pytest.mark.parametrize(
    "scales", [(0.5, 0.25, 0.3), (0.001, 0.0011, 0.001), (1e-20, 3.0, 1.5), (1.0, 1.0, 1.0)]
)
@pytest.mark.parametrize("op", ["equal", "greater", "maximum", "minimum", "select"])
def test_by_value(op: str, scales: tuple[float, float, float]) -> None:
    for dtype in ("int8", "uint8"):
        a, b, output = (
            codes((3, 50), scale, zero, dtype) for scale, zero in zip(scales, (3, 7, 0), strict=True)
        )
        truths = TensorType("bool", (3, 50))
        inputs = [truths, a, b] if op == "select" else [a, b]
        check(one_node(op, inputs, truths if op in ("equal", "greater") else output, by_value=True), seed=4)


@pytest.mark.parametrize("target", ["int8", "uint8", "bool", "int16", "float16", "int32", "float32"])
@pytest.mark.parametrize("source", ["int8", "uint8", "bool"])
def test_casts_of_bytes(source: str, target: str) -> None:
    for saturating in (False, True):
        graph = one_node(
            "cast", [TensorType(source, (7, 9))], TensorType(target, (7, 9)), saturating=saturating
        )
        check(graph, seed=5)


def test_casts_of_wider_elements_to_their_own_type_copy() -> None:
    check(one_node("cast", [TensorType("float32", (7, 9))], TensorType("float32", (7, 9))), seed=6)
    check(one_node("cast", [TensorType("int16", (7, 9))], TensorType("uint16", (7, 9))), seed=6)


@pytest.mark.parametrize("target", ["float32", "float16"])
def test_dequantize_by_tables(target: str) -> None:
    check(one_node("dequantize", [codes((5, 321), 0.3)], TensorType(target, (5, 321))), seed=7)
    for axis in (0, 1, 2):
        kind = TensorType("int8", (2, 3, 4), per_channel(np.arange(1, (2, 3, 4)[axis] + 1) / 8, axis))
        check(one_node("dequantize", [kind], TensorType(target, (2, 3, 4))), seed=8)


def test_too_many_runs_are_for_the_host() -> None:
    first, second = (9, 1, 9, 1, 2, 1, 3), (1, 2, 1, 2, 1, 2, 1)
    output = codes(np.broadcast_shapes(first, second), 0.9)
    check(one_node("add", [codes(first, 0.1), codes(second, 0.1)], output), seed=9, calls=1)
