"""Real numbers on the MAC array: its float mode gives the bytes that the host gives, and cycles as written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import TensorType
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.real_mac import RealConvolve
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.float_version import float_version
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import operator

MODES = ["mac_array.float16_columns=4", "mac_array.float32_columns=2"]
LANES = ["vector.float16_lanes=4", "vector.float32_lanes=2"]
WITH = npusim.hardware("edge-128", [*MODES, *LANES, "scratchpad.size_kib=32"])
WITHOUT = npusim.hardware("edge-128")
SAME = ((1, 1), (1, 1))


def layer(op: str, dtype: str, image: tuple[int, ...], weights: tuple[int, ...], **parameters: Any) -> Graph:
    """A graph of one operator with weights and bias."""
    rng = np.random.default_rng(1)
    channels = weights[-1] if op == "depthwise_conv_2d" else weights[0]
    builder = GraphBuilder(op)
    operands = [
        builder.input("x", TensorType(dtype, image)),
        builder.constant("w", rng.normal(size=weights).astype(dtype)),
        builder.constant("b", rng.normal(size=channels).astype(dtype)),
    ]
    kind = operator(op).parameters(**parameters)
    return builder.graph(builder.node(op, operands, [unshaped(dtype)], kind))


LAYERS: dict[str, tuple[Any, ...]] = {
    "strided": ("conv_2d", (2, 14, 13, 12), (40, 3, 3, 12), {"strides": (2, 1), "padding": SAME}),
    "clamped": ("conv_2d", (1, 9, 9, 5), (7, 3, 2, 5), {"activation": "relu6"}),
    "dilated": ("conv_2d", (1, 12, 12, 4), (6, 3, 3, 4), {"dilations": (2, 3)}),
    "grouped": ("conv_2d", (2, 9, 8, 12), (9, 3, 2, 4), {"padding": SAME, "activation": "relu"}),
    "groups of one": ("conv_2d", (1, 7, 8, 6), (12, 3, 3, 1), {"strides": (2, 2)}),
    "groups that are cut": ("conv_2d", (1, 20, 20, 32), (48, 3, 3, 16), {"padding": SAME}),
    "cut": ("conv_2d", (1, 64, 64, 16), (96, 1, 1, 16), {}),
    "depthwise": (
        "depthwise_conv_2d",
        (2, 14, 13, 12),
        (1, 3, 3, 24),
        {"padding": SAME, "depth_multiplier": 2},
    ),
    "product": ("fully_connected", (3, 200), (50, 200), {"activation": "relu"}),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_array_gives_the_bytes_of_the_host(name: str, dtype: str) -> None:
    op, image, weights, parameters = LAYERS[name]
    graph = layer(op, dtype, image, weights, **parameters)
    x = np.random.default_rng(2).normal(size=image).astype(dtype)
    fast = npusim.simulate(npusim.compile(graph, WITH), [x])
    slow = npusim.simulate(npusim.compile(graph, WITHOUT), [x])
    assert [layer.unit for layer in fast.layers] == ["mac"]
    assert [layer.unit for layer in slow.layers] == ["host"]
    assert fast.outputs[0].tobytes() == slow.outputs[0].tobytes()
    assert fast.cycles < slow.cycles
    assert fast.lower_bound.cycles + sum(fast.lost_cycles.values()) == fast.cycles


PRODUCTS: dict[str, tuple[Any, ...]] = {
    "scores": ((2, 3, 5, 20), (2, 3, 9, 20), {"adj_y": True}, ["mac"]),
    "shared keys": ((2, 3, 5, 20), (2, 1, 9, 20), {"adj_y": True}, ["mac"]),
    "values": ((3, 5, 9), (3, 9, 20), {}, ["dma", "mac"]),
    "both transposed": ((4, 9, 5), (1, 9, 20), {"adj_x": True}, ["dma", "dma", "mac"]),
    "one matrix": ((2, 40, 30), (30, 7), {}, ["dma", "mac"]),
    "cut by rows": ((600, 30), (40, 30), {"adj_y": True}, ["mac"]),
    "larger than half of the scratchpad": ((4, 90), (50, 90), {"adj_y": True}, None),
}
"""Shapes of two activations, parameters of their product, and the units that compute it on `WITH`; None: the host does
for float32, whose second matrix has 18,000 bytes of 32 KiB.
"""


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_the_array_multiplies_two_activations(name: str, dtype: str) -> None:
    *shapes, parameters, units = PRODUCTS[name]
    builder, rng = GraphBuilder(name), np.random.default_rng(3)
    values = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    operands = [builder.input(f"x{i}", TensorType(dtype, shape)) for i, shape in enumerate(shapes)]
    kind = operator("batch_matmul").parameters(**parameters)
    graph = builder.graph(builder.node("batch_matmul", operands, [unshaped(dtype)], kind))
    fast, slow = (npusim.simulate(npusim.compile(graph, hw), values) for hw in (WITH, WITHOUT))
    if units is None:
        units = ["host"] if dtype == "float32" else ["mac"]
    assert [layer.unit for layer in fast.layers] == units
    assert [layer.unit for layer in slow.layers] == ["host"]
    assert "mac_array.float32_columns" in slow.layers[0].reason
    assert fast.outputs[0].tobytes() == slow.outputs[0].tobytes()
    assert fast.lower_bound.cycles + sum(fast.lost_cycles.values()) == fast.cycles


def test_weights_of_a_fully_connected_layer_may_be_computed() -> None:
    builder, rng = GraphBuilder("computed"), np.random.default_rng(4)
    values = [rng.normal(size=shape).astype(np.float32) for shape in ((3, 40), (11, 40))]
    operands = [builder.input(f"x{i}", TensorType("float32", each.shape)) for i, each in enumerate(values)]
    operands.append(builder.constant("b", rng.normal(size=11).astype(np.float32)))
    kind = operator("fully_connected").parameters(activation="relu")
    graph = builder.graph(builder.node("fully_connected", operands, [unshaped("float32")], kind))
    fast, slow = (npusim.simulate(npusim.compile(graph, hw), values) for hw in (WITH, WITHOUT))
    assert [layer.unit for layer in (*fast.layers, *slow.layers)] == ["mac", "host"]
    assert fast.outputs[0].tobytes() == slow.outputs[0].tobytes()


def test_a_real_network_stays_on_the_npu() -> None:
    result = npusim.simulate(
        npusim.compile(float_version(npusim.load("ds_cnn"), "float32"), WITH), timing_only=True
    )
    assert {layer.unit for layer in result.layers} == {"mac", "vector", "none"}


def test_cycles_are_those_of_an_array_of_fewer_columns_and_narrower_ports() -> None:
    """The closed form of the array, whose RTL is that of the integer array: 16 x 2, 4 values of the map and 2 weights a
    cycle.
    """
    from npusim.isa.instructions.mac import Convolve

    narrow = npusim.hardware(
        "edge-128",
        [
            "mac_array.columns=2",
            f"mac_array.ifm_bytes_per_cycle={WITH.mac_array.ifm_bytes_per_cycle // 4}",
            f"mac_array.weight_bytes_per_cycle={WITH.mac_array.weight_bytes_per_cycle // 4}",
            f"mac_array.output_lanes={WITH.mac_array.output_lanes // 4}",
        ],
    )
    geometry = {
        "ifm_height": 9, "ifm_width": 8, "ifm_depth": 20, "ofm_height": 7, "ofm_width": 6, "ofm_depth": 10,
        "kernel_height": 3, "kernel_width": 3, "stride_height": 1, "stride_width": 1, "dilation_height": 1,
        "dilation_width": 1,
    }  # fmt: skip
    real, whole = RealConvolve(element=1, **geometry), Convolve(**geometry)
    assert real.cost(Context(WITH)).cycles == whole.cost(Context(narrow)).cycles


@pytest.mark.parametrize("element", ["float16", "float32"])
def test_a_mode_has_no_more_columns_than_the_array(element: str) -> None:
    with pytest.raises(
        NpusimError, match=rf"mac_array\.{element}_columns: 9 of 8 columns, at most all of them"
    ):
        npusim.hardware("edge-128", [f"mac_array.{element}_columns=9"])


def test_a_program_is_refused_by_a_machine_without_the_mode() -> None:
    program = npusim.compile(layer("fully_connected", "float32", (1, 8), (4, 8)), WITH)
    with pytest.raises(NpusimError, match=r"the machine has mac_array\.float32_columns = 0"):
        npusim.simulate(program, timing_only=True, hardware=WITHOUT)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_float_network_runs_whole_on_the_preset_with_float_units(dtype: str) -> None:
    """Of edge-128 the host computes all of it; the int8 network takes the same time on both."""
    net = npusim.load("ds_cnn")

    def timed(graph: Graph, name: str) -> npusim.RunResult:
        result = npusim.simulate(npusim.compile(graph, name), timing_only=True)
        assert isinstance(result, npusim.RunResult)
        return result

    floats = float_version(net, dtype)
    on_units, on_host = timed(floats, "edge-128-float"), timed(floats, "edge-128")
    assert "host" not in {layer.unit for layer in on_units.layers}
    assert {layer.unit for layer in on_host.layers if layer.cycles} == {"host"}
    assert on_units.latency_ms < on_host.latency_ms / 5
    assert timed(net, "edge-128").cycles == timed(net, "edge-128-float").cycles
