"""int16 activations on the NPU: where they run, what passes cost, and bytes of small programs worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npusim.frontends.tflite import reader as tflite
from npusim.isa.arithmetic.interpolated import logistic_table, logistic_words, tanh_words
from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.elementwise import NAMES, Binary
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.models.writer import ModelWriter, per_tensor
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions

EDGE = hardware("edge-128")
CONTEXTS = {name: Context(hardware(name)) for name in ("edge-128", "ethos-u55-128", "mobile-1024")}


def product(bias: int | None, activation: str = "none") -> Graph:
    """x [1, 2] int16 in halves times weights [[2, -3]] in quarters, plus a bias, in eighths."""
    writer = ModelWriter("product")
    x = writer.input("x", TensorType("int16", (1, 2), per_tensor(0.5, 0)))
    weights = writer.constant("w", np.array([[2, -3]], np.int8), per_tensor(0.25, 0))
    addend = None if bias is None else writer.constant("b", np.array([bias], np.int64), per_tensor(0.125, 0))
    result = writer.fully_connected(x, weights, addend, per_tensor(0.125, 0), activation=activation)
    return tflite.parse(writer.finish([result]), "product")


def outputs(graph: Graph, machine: Hardware, *values: int) -> list[int]:
    program = compile_graph(graph, machine)
    found = execute(program, [np.array([values], np.int16)], host_functions=host_functions(program)).outputs
    assert found is not None
    return found[0].ravel().tolist()


@pytest.mark.parametrize("passes", [0, 1, 2])
def test_a_product_by_hand_on_host_and_npu(passes: int) -> None:
    """The scale of a product is that of the output, so results are sums: 2 x 1000 - 3 x 200 = 1400."""
    machine = change(EDGE, {"mac_array.int16_passes": passes})
    assert outputs(product(None), machine, 1000, 200) == [1400]
    assert outputs(product(5), machine, 1000, 200) == [1405]
    assert outputs(product(-2000, "relu"), machine, 1000, 200) == [0]
    assert outputs(product(0, "relu6"), machine, 1000, 200) == [48]  # 6 / 0.125
    assert outputs(product(1 << 30), machine, 1000, 200) == [32767]


def test_a_machine_without_passes_says_what_would_bring_them() -> None:
    program: Program = compile_graph(product(5), change(EDGE, {"mac_array.int16_passes": 0}))
    [call] = program.host_calls
    assert "passes for int16 feature maps (mac_array.int16_passes); edge-128 has none" in call.reason


def window(**fields: int) -> dict[str, int]:
    ones = ("stride_height", "stride_width", "dilation_height", "dilation_width")
    return {
        **dict.fromkeys(ones, 1),
        "ifm_height": 6,
        "ifm_width": 6,
        "ifm_depth": 16,
        "ofm_height": 6,
        "ofm_width": 6,
        "ofm_depth": 16,
        "kernel_height": 3,
        "kernel_width": 3,
        "pad_top": 1,
        "pad_left": 1,
        "high": 127,
        "signed": 1,
        **fields,
    }


@pytest.mark.parametrize("machine", CONTEXTS)
@pytest.mark.parametrize("row", [Convolve, Depthwise])
def test_a_pass_costs_what_the_problem_of_8_bits_costs(machine: str, row: type[Convolve | Depthwise]) -> None:
    context, narrow = CONTEXTS[machine], row(**window())
    wide = replace(narrow, int16=1)
    once, twice = narrow.cost(context), wide.cost(context)
    assert (twice.cycles, twice.array_cycles) == (2 * once.cycles, 2 * once.array_cycles)
    assert twice.actions["mac_int8"] == 2 * once.actions["mac_int8"]
    assert twice.actions["requantise"] == 2 * once.actions["requantise"] == 2 * 6 * 6 * 16
    assert twice.actions["scratchpad_write_byte"] == 2 * 6 * 6 * 16
    assert wide.demand(context) == 2 * narrow.demand(context)


def test_a_sum_of_int16_takes_twice_the_cycles_of_lanes() -> None:
    """8 of start-up, then 100 elements in 13 groups of 8 lanes, 2 cycles each, in 2 passes."""
    total = Binary(
        function=NAMES.index("add"), rows=1, columns=100, a_column_stride=1, b_column_stride=1, format=1
    )
    cost = total.cost(Context(EDGE))
    assert cost.cycles == 8 + 13 * 2 * 2
    assert (cost.actions["scratchpad_read_byte"], cost.actions["scratchpad_write_byte"]) == (400, 200)


def test_logistic_and_tanh_are_within_a_ten_thousandth() -> None:
    steps = np.arange(-(1 << 17), 1 << 17, 37)
    exact = 1 / (1 + np.exp(-steps / 12288))
    assert np.abs(logistic_words(steps, logistic_table()) / 32768 - exact).max() < 1e-4
    assert np.abs(tanh_words(steps, logistic_table()) / 32768 - np.tanh(steps / 12288)).max() < 1e-4
