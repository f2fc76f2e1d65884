"""Products with weights quantized in blocks: bytes of the reference, traffic and cycles in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.isa.base.block_format import BlockFormat
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.instructions.block_mac import BlockProduct, block_mode
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.table import decode_all
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.table import operator

from ..examples import examples

BOTH = npusim.hardware("edge-128-float")
QUANTIZED = npusim.hardware("mobile-1024")
SCALES = {"int8": (0.05, -3), "uint8": (0.02, 100)}


def product(dtype: str, rows: int, inner: int, units: int, form: BlockFormat, bias: bool = True) -> Graph:
    """A graph of one product, of values whose results spread over the range of their type."""
    rng = np.random.default_rng(inner)
    builder = GraphBuilder("product")
    maps = Quantization((SCALES[dtype][0],), (SCALES[dtype][1],)) if dtype in SCALES else None
    results = Quantization((float(np.float32(0.002 * inner**0.5 * form.block)),), (5,)) if maps else None
    scale = "float32" if form.scale_bytes == 4 else "float16"
    operands = [
        builder.input("x", TensorType(dtype, (rows, inner), maps)),
        builder.constant("w", rng.integers(0, 256, (units, form.weight_bytes(inner)), np.uint8)),
        builder.constant("s", rng.uniform(0.001, 0.02, (units, form.blocks(inner))).astype(scale)),
        builder.constant("z", rng.integers(0, 256, (units, form.zero_point_bytes(inner)), np.uint8))
        if form.zero_points
        else None,
        builder.constant("b", rng.normal(size=units).astype("float32" if maps else dtype)) if bias else None,
    ]
    how = operator("block_product").parameters(inner=inner, block=form.block, bits=form.bits)
    return check(
        builder.graph(builder.node("block_product", operands, [unshaped(dtype, results)], how, name="p"))
    )


def values(graph: Graph) -> Any:
    kind = graph.tensors[graph.inputs[0]].type
    rng = np.random.default_rng(7)
    if kind.real:
        return rng.normal(size=kind.shape).astype(kind.dtype)
    return rng.integers(*kind.element.limits, kind.shape, endpoint=True).astype(kind.dtype)


@examples(25)
@given(
    dtype=st.sampled_from(["int8", "uint8", "float16", "float32"]),
    rows=st.integers(1, 5),
    inner=st.integers(1, 150),
    units=st.integers(1, 60),
    bits=st.sampled_from([2, 4, 8]),
    block=st.sampled_from([1, 16, 20, 32, 128]),
    scale=st.sampled_from([2, 4]),
    zeros=st.booleans(),
    bias=st.booleans(),
)
def test_the_array_gives_the_bytes_of_the_reference(
    dtype: str, rows: int, inner: int, units: int, bits: int, block: int, scale: int, zeros: bool, bias: bool
) -> None:
    graph = product(dtype, rows, inner, units, BlockFormat(bits, block, scale, zeros), bias)
    x = values(graph)
    program = npusim.compile(graph, BOTH)
    assert [layer.unit for layer in program.layers] == ["mac"]
    result = npusim.simulate(program, [x])
    assert result.outputs[0].tobytes() == evaluate(graph, [x])[graph.outputs[0]].tobytes()
    assert result.lower_bound.cycles + sum(result.lost_cycles.values()) == result.cycles


@pytest.mark.parametrize(("dtype", "hw"), [("int8", QUANTIZED), ("float16", BOTH)])
def test_weights_pass_memory_with_the_bits_that_they_have(dtype: str, hw: npusim.Hardware) -> None:
    form, inner, units = BlockFormat(4, 32, 2, True), 1024, 4000
    program = npusim.compile(product(dtype, 4, inner, units, form), hw)
    tiles = [each for each in decode_all(program.code) if isinstance(each, BlockProduct)]
    assert len(tiles) > 1
    # Of a channel 32 blocks with 16 bytes of weights, a float16 scale and half a byte of zero point; a float32 bias.
    channel = 32 * (16 + 2) + 16 + 4
    wanted = units * channel + (8 * len(tiles) if dtype == "int8" else 0)
    held = [sum(region.size_bytes for region in each.regions(Context(hw))[0][1:]) for each in tiles]
    assert sum(held) == wanted
    result = npusim.simulate(program, timing_only=True)
    size = 1 if dtype == "int8" else 2
    read = wanted + size * 4 * inner
    bursts = 64 * 2 * (len(tiles) + 4)  # of each row and load the first and the last, which are read whole
    assert 0 <= result.dram_bytes.read - read < bursts
    assert 0 <= result.dram_bytes.write - size * 4 * units < 4 * bursts
    assert result.cycles.total >= read / hw.dram_bytes_per_cycle


def test_a_pass_covers_no_more_than_a_block() -> None:
    form = BlockFormat(4, 16, 2, False)
    common: dict[str, Any] = {
        "element": 1, "rows": 100, "inner": 64, "columns": 32, "block": 16, "weight_bits": 1,
        "ifm_row_stride": 64, "ofm_row_stride": 32, "low": -128, "high": 127,
    }  # fmt: skip
    context = Context(QUANTIZED)  # 32 rows
    assert "row_halvings is 0; a pass must not cover more than a block of 16, so it may be 1 or more" in (
        BlockProduct(**common).misfits(context)
    )
    instruction = BlockProduct(**common, row_halvings=1)
    assert instruction.misfits(context) == []
    # 32 bytes a cycle hold 16 weights of 4 bits, and 2 bytes of scale for each 16 of them.
    assert block_mode(QUANTIZED.mac_array, "int8", form).weight_bytes_per_cycle == 32 * 8 * 16 // (
        16 * 4 + 16
    )
    cost = instruction.cost(context)
    # 16 rows of weights of 32 columns each enter in a cycle a row; then a pass for each of 4 blocks streams 100 rows.
    # The last vector leaves after the latency of 16 + 32 - 2, and the output stage has a cycle for each row.
    assert cost.cycles == 16 + 4 * 100 + (16 + 32 - 2) + 100
    assert cost.actions["mac_int8"] == 100 * 64 * 32
    assert cost.actions["vector_float32_multiply"] == 100 * 4 * 32
    assert cost.actions["accumulator_update"] == 2 * 100 * 4 * 32
    stored = 32 * 4 * (8 + 2)
    assert cost.actions["scratchpad_read_byte"] == 100 * 64 + stored + 32 * 4
    split = sum(instruction.split(context).values())
    assert split + -(-100 * 64 * 32 // 1024) == cost.cycles


def test_without_the_key_the_host_computes_and_says_which() -> None:
    graph = product("int8", 2, 64, 8, BlockFormat(4, 32, 2, False))
    layer = npusim.compile(graph, "edge-128").layers[0]
    assert layer.unit == "host"
    assert "mac_array.weight_blocks" in npusim.simulate(npusim.compile(graph, "edge-128")).layers[0].reason


def test_sizes_that_do_not_fit_are_refused() -> None:
    builder = GraphBuilder("wrong")
    x = builder.input("x", TensorType("float32", (2, 64)))
    weights = builder.constant("w", np.zeros((8, 31), np.uint8))
    scales = builder.constant("s", np.zeros((8, 2), np.float16))
    how = operator("block_product").parameters(inner=64, block=32, bits=4)
    graph = builder.graph(builder.node("block_product", [x, weights, scales], [unshaped("float32")], how))
    with pytest.raises(GraphError, match="weights are \\[units, bytes of whole blocks\\]"):
        npusim.compile(graph, BOTH)
