"""Operators that only move elements: on the NPU for every element type, byte by byte, in a bounded number of copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.isa.instructions.table import decode_all
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import infer, operator
from npusim.machine.system import execute
from npusim.scheduler import compile_graph

PRESET = hardware("edge-128")
TIGHT = change(PRESET, {"scratchpad.size_kib": 4, "scratchpad.banks": 1})
CODES = {"int8": Quantization((0.5,), (-7,)), "uint8": Quantization((0.5,), (7,))}

CASES: list[tuple[str, list[tuple[int, ...]], dict[str, Any], int]] = [
    # operator, shapes of the inputs, parameters, most copies
    ("transpose", [(2, 3, 4, 5, 2)], {"perm": [4, 2, 0, 3, 1]}, 4),
    ("slice", [(5, 6, 7)], {"begin": [1, 2, 0], "size": [3, 2, 7]}, 1),
    ("strided_slice", [(5, 6, 7)], {"begin": [4, 0, 6], "size": [3, 2, 4], "strides": [-2, 3, -2]}, 1),
    ("reverse_v2", [(3, 4, 5, 2)], {"axes": [1]}, 1),
    ("reverse_v2", [(3, 4, 5, 2)], {"axes": [3, 0]}, 1),
    ("tile", [(2, 3, 4)], {"multiples": [3, 1, 2]}, 1),
    ("tile", [(2, 3, 4, 5)], {"multiples": [2, 3, 2, 3]}, 24),
    ("broadcast_to", [(3, 1, 2)], {"shape": [2, 3, 4, 2]}, 1),
    ("fill", [()], {"shape": [4, 5]}, 1),
    ("pack", [(3, 4), (3, 4), (3, 4)], {"axis": 1}, 3),
    ("unpack", [(3, 4, 5)], {"axis": 1}, 4),
    ("split", [(3, 6, 2)], {"axis": 1, "sizes": [1, 2, 3]}, 3),
    ("concatenation", [(3, 1, 2), (3, 4, 2)], {"axis": 1}, 2),
    ("pad", [(2, 3, 4)], {"paddings": [[0, 1], [2, 0], [1, 1]]}, 9),
    ("mirror_pad", [(4, 5, 2)], {"paddings": [[2, 1], [3, 4], [0, 0]], "mode": "reflect"}, 9),
    ("mirror_pad", [(4, 5, 2)], {"paddings": [[4, 0], [0, 5], [1, 2]], "mode": "symmetric"}, 12),
    ("edge_pad", [(4, 5, 2)], {"paddings": [[2, 1], [3, 4], [0, 0]]}, 9),
    ("edge_pad", [(4, 5, 2)], {"paddings": [[7, 0], [0, 9], [1, 2]]}, 12),
    ("roll", [(4, 5, 2)], {"shifts": [1, 0, 1]}, 4),
    ("roll", [(4, 5, 2)], {"shifts": [-9, 12, 2]}, 4),
    ("depth_to_space", [(2, 3, 4, 12)], {"block_size": 2}, 2),
    ("space_to_depth", [(2, 4, 6, 3)], {"block_size": 2}, 2),
    ("batch_to_space_nd", [(12, 3, 4, 2)], {"block_shape": [2, 3], "crops": [[1, 2], [0, 5]]}, 18),
    ("space_to_batch_nd", [(2, 5, 4, 2)], {"block_shape": [2, 3], "paddings": [[1, 2], [0, 5]]}, 24),
    ("channel_shuffle", [(2, 3, 12)], {"groups": 3, "axis": 2}, 1),
]


def kind(dtype: str, shape: tuple[int, ...] = ()) -> TensorType:
    return TensorType(dtype, shape, CODES.get(dtype))


def graph(op: str, dtype: str, shapes: list[tuple[int, ...]], parameters: dict[str, Any]) -> Graph:
    builder = GraphBuilder(op)
    inputs = [builder.input(f"in{number}", kind(dtype, shape)) for number, shape in enumerate(shapes)]
    given = operator(op).parameters(**parameters)
    types = tuple(builder.type(each) for each in inputs)
    count = {"split": len(parameters.get("sizes", ())), "unpack": shapes[0][1] if op == "unpack" else 0}.get(
        op, 1
    )
    results = infer(Call(given, types, (unshaped(dtype),) * count, {}), op)
    assert results is not None
    return builder.graph(builder.node(op, inputs, [kind(dtype, shape) for shape in results], given))


def data(model: Graph, dtype: str) -> list[Any]:
    """No two elements are equal, as far as the type goes."""
    found = []
    for number in model.inputs:
        shape = model.tensors[number].type.shape
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape) + 3 * number + 1
        found.append((values % 3 == 1) if dtype == "bool" else values.astype(dtype))
    return found


@pytest.mark.cases(80)
@pytest.mark.parametrize("dtype", names())
@pytest.mark.parametrize(("op", "shapes", "parameters", "most"), CASES)
def test_moves_of_every_element_type(
    op: str, shapes: list[tuple[int, ...]], parameters: dict[str, Any], most: int, dtype: str
) -> None:
    model = graph(op, dtype, shapes, parameters)
    inputs = data(model, dtype)
    values = evaluate(model, inputs)
    for chip in (PRESET, TIGHT):
        program = compile_graph(model, chip)
        run = execute(program, inputs)  # no host functions: all of it runs on the NPU
        assert run.outputs is not None
        for found, number in zip(run.outputs, model.outputs, strict=True):
            assert found.tobytes() == values[number].tobytes()
            assert (found.dtype, found.shape) == (values[number].dtype, values[number].shape)
        assert {each.mnemonic for each in decode_all(program.code)} == {"dma.copy"}
        assert execute(program, data=False).cycles == run.cycles
    assert compile_graph(model, PRESET).instructions <= most


def test_copies_do_not_grow_with_a_border_or_a_block() -> None:
    wide = graph("mirror_pad", "int8", [(1, 60, 60, 3)], {"paddings": [[0, 0], [50, 50], [50, 50], [0, 0]]})
    assert compile_graph(wide, PRESET).instructions == 9
    blocks = graph(
        "space_to_batch_nd", "int8", [(1, 90, 90, 2)], {"block_shape": [31, 32], "paddings": [[3, 0], [4, 2]]}
    )
    assert compile_graph(blocks, PRESET).instructions <= 40


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [0, 3])
def test_inputs_of_other_scales_are_rescaled_at_once(dtype: str, axis: int) -> None:
    """A look-up and a copy for each of them, however many rows the joined axis lays apart."""
    builder = GraphBuilder("joined")
    shape = (1, 30, 30, 4)
    types = [TensorType(dtype, shape, Quantization((scale,), (5,))) for scale in (0.5, 0.25, 0.7)]
    inputs = [builder.input(f"in{number}", each) for number, each in enumerate(types)]
    given = operator("concatenation").parameters(axis=axis)
    model = builder.graph(
        builder.node("concatenation", inputs, [unshaped(dtype, types[0].quantization)], given)
    )
    arrays = [np.arange(3600).astype(dtype).reshape(shape) for _ in inputs]
    program = compile_graph(model, PRESET)
    run = execute(program, arrays)
    assert run.outputs is not None
    assert run.outputs[0].tobytes() == evaluate(model, arrays)[model.outputs[0]].tobytes()
    assert [each.mnemonic for each in decode_all(program.code)].count("vec.lookup") == 2
    assert program.instructions <= 16


EMPTY: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("transpose", [(2, 0, 3)], {"perm": [2, 0, 1]}),
    ("slice", [(5, 6)], {"begin": [1, 2], "size": [0, 3]}),
    ("strided_slice", [(5, 6)], {"begin": [4, 0], "size": [2, 0], "strides": [-1, 1]}),
    ("reverse_v2", [(2, 0)], {"axes": [0, 1]}),
    ("tile", [(2, 3)], {"multiples": [0, 2]}),
    ("tile", [(2, 0)], {"multiples": [3, 2]}),
    ("broadcast_to", [(1, 2)], {"shape": [0, 2]}),
    ("fill", [()], {"shape": [2, 0]}),
    ("pack", [(0, 4), (0, 4)], {"axis": 1}),
    ("unpack", [(3, 2, 0)], {"axis": 1}),
    ("split", [(3, 2)], {"axis": 1, "sizes": [0, 2]}),
    ("concatenation", [(3, 0), (3, 2), (3, 0)], {"axis": 1}),
    ("concatenation", [(0, 2), (0, 1)], {"axis": 1}),
    ("pad", [(0, 3)], {"paddings": [[1, 1], [0, 1]]}),
    ("mirror_pad", [(0, 3)], {"paddings": [[0, 0], [1, 2]], "mode": "reflect"}),
    ("edge_pad", [(0, 3)], {"paddings": [[0, 0], [1, 2]]}),
    ("roll", [(2, 0)], {"shifts": [1, 5]}),
    ("depth_to_space", [(0, 3, 4, 12)], {"block_size": 2}),
    ("space_to_depth", [(2, 0, 4, 3)], {"block_size": 2}),
    ("batch_to_space_nd", [(4, 3, 3, 1)], {"block_shape": [2, 2], "crops": [[3, 3], [0, 0]]}),
    ("batch_to_space_nd", [(0, 3, 3, 1)], {"block_shape": [2, 2], "crops": [[0, 1], [0, 0]]}),
    ("space_to_batch_nd", [(1, 0, 2, 1)], {"block_shape": [2, 2], "paddings": [[1, 1], [0, 0]]}),
    ("channel_shuffle", [(0, 6)], {"groups": 3, "axis": 1}),
]


@pytest.mark.parametrize(("op", "shapes", "parameters"), EMPTY)
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_tensors_without_elements(
    op: str, shapes: list[tuple[int, ...]], parameters: dict[str, Any], dtype: str
) -> None:
    model = graph(op, dtype, shapes, parameters)
    inputs = data(model, dtype)
    values = evaluate(model, inputs)
    program = compile_graph(model, PRESET)
    run = execute(program, inputs)
    assert run.outputs is not None
    for found, number in zip(run.outputs, model.outputs, strict=True):
        assert found.shape == values[number].shape
        assert found.tobytes() == values[number].tobytes()
