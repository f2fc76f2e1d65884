"""Operators along any axes on the machine: in bytes what the references give, on the NPU, whole or in tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.memory import Memory, commit
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.rows import Softmax
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import call_of
from npusim.kernels.lowering.work import Tile, TileAddresses, Work, Written
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator
from npusim.machine.system import execute
from npusim.scheduler import compile_graph

EDGE = hardware("edge-128")
TIGHT = change(EDGE, {"scratchpad.size_kib": 4, "scratchpad.banks": 1})

CODES = {"int8": Quantization((0.05,), (3,)), "uint8": Quantization((0.05,), (100,))}
FIXED = {
    "softmax": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0)},
    "log_softmax": {"int8": (1 / 16, 127)},
    "l2_normalization": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)},
}
SHAPE = (3, 5, 4, 6)
AXES = ([0], [1], [3], [0, 1], [0, 2], [1, 3], [0, 3], [0, 1, 2, 3], [0, 1, 3])


def on_npu(
    op: str,
    x: TensorType,
    output: TensorType,
    machines: tuple[Hardware, ...] = (EDGE, TIGHT),
    **parameters: Any,
) -> list[Program]:
    """Compile one operator, run it, and compare; all of it on the NPU."""
    builder = GraphBuilder("one")
    result = builder.node(op, [builder.input("x", x)], [output], operator(op).parameters(**parameters))
    graph = builder.graph(result)
    low, high = x.element.limits
    values = np.random.default_rng(5).integers(low, high, x.shape, endpoint=True).astype(x.numpy_dtype)
    [node] = graph.nodes
    call = call_of(graph, node)
    assert operator(op).broken_rule(call) is None
    [expected] = operator(op).reference(call, [values])
    programs = [compile_graph(graph, chosen) for chosen in machines]
    for chosen, program in zip(machines, programs, strict=True):
        assert not program.host_calls
        outputs = execute(program, [values]).outputs
        assert outputs is not None
        assert np.array_equal(outputs[0], expected), chosen.scratchpad.size_kib
    return programs


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("shape", "is_fused"), [((1, 1001), False), ((50, 300), True), ((3, 40000), True)])
def test_long_softmaxes_read_exponentials_from_a_table(
    dtype: str, shape: tuple[int, int], is_fused: bool
) -> None:
    """One row of a classifier does not: its table would take longer to arrive than the look-ups save."""
    scale, zero_point = FIXED["softmax"][dtype]
    output = TensorType(dtype, shape, Quantization((scale,), (zero_point,)))
    x = TensorType(dtype, shape, CODES[dtype])
    for program in on_npu("softmax", x, output, (EDGE, change(EDGE, {"scratchpad.size_kib": 128})), axis=1):
        rows = [row for row in decode_all(program.code) if isinstance(row, Softmax)]
        assert {row.fused for row in rows} == {int(is_fused)}
        assert sum(row.rows for row in rows) == shape[0]


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op in FIXED for dtype in FIXED[op]])
def test_functions_of_rows(op: str, dtype: str, axis: int) -> None:
    scale, zero_point = FIXED[op][dtype]
    output = TensorType(dtype, SHAPE, Quantization((scale,), (zero_point,)))
    on_npu(op, TensorType(dtype, SHAPE, CODES[dtype]), output, axis=axis)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("op", ["sum", "mean", "reduce_max", "reduce_min"])
def test_reductions(op: str, axes: list[int]) -> None:
    x = TensorType("int8", SHAPE, CODES["int8"])
    scaling = Quantization((0.2,), (-7,)) if op in ("sum", "mean") else x.quantization
    on_npu(op, x, unshaped("int8", scaling), axes=axes)


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("op", ["reduce_any", "reduce_all"])
def test_truths(op: str, axes: list[int]) -> None:
    on_npu(op, TensorType("bool", SHAPE), unshaped("bool"), axes=axes, keep_dims=True)


@pytest.mark.parametrize("positions", ["int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", ["arg_max", "arg_min"])
def test_positions(op: str, axis: int, positions: str) -> None:
    on_npu(op, TensorType("uint8", SHAPE, CODES["uint8"]), unshaped(positions), axis=axis)


@pytest.mark.parametrize("how", [{}, {"align_corners": True}, {"half_pixel_centers": True}], ids=str)
@pytest.mark.parametrize("op", ["resize_bilinear", "resize_nearest_neighbor"])
@pytest.mark.parametrize("size", [(11, 3), (2, 9), (1, 1)])
def test_resizes(op: str, size: tuple[int, int], how: dict[str, bool]) -> None:
    x = TensorType("int8", (2, 5, 4, 40), CODES["int8"])
    on_npu(op, x, TensorType("int8", (2, *size, 40), CODES["int8"]), size=size, **how)


@pytest.mark.parametrize("how", [{}, {"align_corners": True}, {"half_pixel_centers": True}], ids=str)
def test_uint8_between_pixels_as_in_float32(how: dict[str, bool]) -> None:
    """Every pair of sizes that has a way over the vector unit: codes at the ends of their range, and any others."""
    entry, rng, count = operator("resize_bilinear"), np.random.default_rng(3), 0
    for size in range(1, 12):
        for wanted in (1, 2, 3, 5, 6, 7, 9, 14, 15, 16):
            x = TensorType("uint8", (1, size, size + 1, 7), CODES["uint8"])
            ofm = TensorType("uint8", (1, wanted, wanted, 7), CODES["uint8"])
            call = Call(entry.parameters(size=(wanted, wanted), **how), (x,), (ofm,), {})
            lowering = entry.lowering(call, EDGE)
            if lowering is None:
                continue
            [work] = lowering.lower(call, EDGE)
            assert isinstance(work, Work)
            ends = rng.choice(np.array([0, 1, 127, 128, 254, 255], np.uint8), x.shape)
            values = np.where(rng.random(x.shape) < 0.5, ends, rng.integers(0, 256, x.shape)).astype(np.uint8)
            scratchpad = np.zeros(1 << 16, np.uint8)
            scratchpad[: values.size] = values.ravel()
            [(rows, needed)] = work.inputs
            begin = rows.begin(0, needed(0, wanted)[0])
            at = TileAddresses((begin,), (rows.row_bytes,), 0, (Written(8192, wanted * 7, 7),))
            [instruction] = work.instructions(Tile(0, wanted, 0, 7), at)
            commit(instruction.execute(Memory({Space.SCRATCHPAD: scratchpad})))
            [expected] = entry.reference(call, [values])
            assert np.array_equal(scratchpad[8192 : 8192 + expected.size], expected.ravel()), (size, wanted)
            count += 1
    assert count > 30


def test_what_no_tile_holds_runs_on_the_host() -> None:
    """Where a layer could not be cut: the elements of one result, or the rows of one window."""
    for op, shape, parameters in (
        ("mean", (1, 5000), {"axes": [1]}),
        ("reduce_max", (1, 5000), {"axes": [1]}),
        ("average_pool_2d", (1, 80, 80, 1), {"filter": (80, 80)}),
    ):
        builder = GraphBuilder("one")
        tensor = builder.input("x", TensorType("int8", shape, CODES["int8"]))
        result = builder.node(
            op, [tensor], [unshaped("int8", CODES["int8"])], operator(op).parameters(**parameters)
        )
        assert len(compile_graph(builder.graph(result), TIGHT).host_calls) == 1, op
        assert not compile_graph(builder.graph(result), EDGE).host_calls
