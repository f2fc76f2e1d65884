"""Integer LSTM layers on the NPU: products on the MAC array, steps on the vector unit, the bytes of the references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from npusim.isa.arithmetic.words import logistic_of_words, tanh_of_words
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.cell import LstmCell
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.table import decode_all
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operator.fixed_point import FixedPoint
from npusim.kernels.table import operator
from npusim.scheduler import compile_graph

from ..examples import examples
from ..random_graphs import Pick
from .test_random_graphs import check, graphs, machines

EDGE = hardware("edge-128")


@pytest.mark.parametrize("integer_bits", range(9))
def test_functions_of_all_words(integer_bits: int) -> None:
    """Of the instruction and of the references, which share nothing."""
    words, fixed = np.arange(-(1 << 15), 1 << 15), FixedPoint(16)
    assert np.array_equal(logistic_of_words(integer_bits), fixed.logistic(words, integer_bits))
    assert np.array_equal(tanh_of_words(integer_bits), fixed.tanh(words, integer_bits))


class Cell:
    """Operands of an integer cell; only input and states are no constants."""

    def __init__(self, name: str, seed: int, positions: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder(name)
        self.operands: list[int | None] = [None] * positions

    def put(self, position: int, dtype: str, shape: tuple[int, ...], scale: float = 0.0, **of: Any) -> None:
        """A constant of numbers up to `most`, or an input."""
        zero_point = of.get("zero_point", 0)
        scaling = Quantization((float(np.float32(scale)),), (zero_point,)) if scale else None
        kind, name = TensorType(dtype, shape, scaling), f"t{position}"
        if of.get("constant", True):
            most = of.get("most", 127)
            low = 0 if dtype == "uint8" else -most
            data: Array = self.rng.integers(low, most + 1, shape).astype(dtype)
            self.operands[position] = self.builder.tensor(name, kind, data)
        else:
            self.operands[position] = self.builder.open_input(name, kind)

    def graph(self, op: str, outputs: list[int], **parameters: Any) -> Graph:
        types = [unshaped(kind.dtype, kind.quantization) for kind in map(self.type, outputs)]
        found = self.builder.node(
            op, self.operands, types, operator(op).parameters(**parameters), name="lstm"
        )
        return self.builder.graph(found)

    def type(self, position: int) -> TensorType:
        number = self.operands[position]
        assert number is not None
        return self.builder.type(number)


def quantized_lstm(pick: Pick) -> Graph:
    """One step, or with another operator a sequence: with or without projection, input gate, clips."""
    steps = pick(0, 4)
    batch, inputs, cells = pick(1, 3), pick(1, 20), pick(1, 20)
    projected = pick(0, 1)
    outputs = pick(1, 9) if projected else cells
    cell = Cell("random", pick(0, 2**20), 24)
    time_major = bool(pick(0, 1))
    sequence = (steps, batch, inputs) if time_major else (batch, steps, inputs)
    shape = sequence if steps else (batch, inputs)
    cell.put(0, "int8", shape, 1 / 64, zero_point=pick(-128, 127), constant=False)
    for gate in range(pick(0, 1), 4):
        cell.put(1 + gate, "int8", (cells, inputs), 1 / pick(60, 300))
        cell.put(5 + gate, "int8", (cells, outputs), 1 / pick(60, 300))
        cell.put(12 + gate, "int32", (cells,), most=4000)
    if projected:
        cell.put(16, "int8", (outputs, cells), 1 / 120)
        if pick(0, 1):
            cell.put(17, "int32", (outputs,), most=500)
    cell.put(18, "int8", (batch, outputs), 1 / 50, zero_point=pick(-20, 20), constant=False)
    cell.put(19, "int16", (batch, cells), 2.0 ** -pick(9, 15), constant=False)
    hidden = [[1 / 300, 0]] * 4 + [[1 / pick(100, 130), pick(-20, 20)]]
    chosen: dict[str, Any] = {"intermediates": hidden, "cell_clip": (0.0, 0.5)[pick(0, 1)]}
    if projected:
        chosen["proj_clip"] = (0.0, 0.5)[pick(0, 1)]
    if not steps:
        return cell.graph("quantized_lstm", [18, 19, 18], **chosen)
    return cell.graph("unidirectional_sequence_lstm", [18], **chosen, time_major=time_major)


def quantized_16bit_lstm(pick: Pick) -> Graph:
    batch, inputs, outputs = pick(1, 3), pick(1, 20), pick(1, 20)
    cell = Cell("random", pick(0, 2**20), 15)
    weights = {"scale": 1 / pick(50, 200), "zero_point": pick(0, 255), "most": 255}
    cell.put(0, "uint8", (batch, inputs), 1 / 128, zero_point=128, constant=False)
    for gate in range(4):
        cell.put(1 + gate, "uint8", (outputs, inputs), **weights)
        cell.put(5 + gate, "uint8", (outputs, outputs), **weights)
        cell.put(9 + gate, "int32", (outputs,), most=3000)
    cell.put(13, "int16", (batch, outputs), 2.0**-11, constant=False)
    cell.put(14, "uint8", (batch, outputs), 1 / 128, zero_point=128, constant=False)
    return cell.graph("quantized_16bit_lstm", [13, 14])


@pytest.mark.slow
@given(graphs(quantized_lstm), machines((2, 3, 4, 6, 16, 64)))
@examples(60)
def test_cells_and_sequences(graph: Graph, chosen: object) -> None:
    program = compile_graph(graph, EDGE)
    assert not program.host_calls
    check(graph, chosen)  # type: ignore[arg-type]


@pytest.mark.slow
@given(graphs(quantized_16bit_lstm), machines((2, 3, 4, 6, 16, 64)))
@examples(40)
def test_cells_of_16_bits(graph: Graph, chosen: object) -> None:
    assert not compile_graph(graph, EDGE).host_calls
    check(graph, chosen)  # type: ignore[arg-type]


def test_the_inputs_of_all_steps_are_one_product() -> None:
    """4 steps of 3 rows: a product with all inputs, then one with the state and a step of the cells each."""
    picks = iter((4, 3, 10, 8, 0, 0, 1))
    graph = quantized_lstm(lambda low, high: next(picks, low))
    code = decode_all(compile_graph(graph, EDGE).code)
    products = [each for each in code if isinstance(each, Convolve)]
    assert {(each.ofm_height, each.ifm_depth) for each in products} == {(12, 10), (3, 8)}
    assert {(each.ofm_height, each.wide) for each in products} == {(12, 1), (3, 2)}
    assert [(each.rows, each.cells) for each in code if isinstance(each, LstmCell)] == [(3, 8)] * 4


def test_a_step_of_a_sequence_is_faster_than_a_call_of_the_host() -> None:
    """5 + 20 microseconds for a call alone; a step of 8 cells takes its two products and less than 200 cycles."""
    step = LstmCell(
        rows=1, cells=8, sums_stride=64, added=1, state_integer_bits=4, multiplier=1 << 30, signed=1
    )
    cost = step.cost(Context(EDGE))
    vector = EDGE.vector
    # a lane for each cell: exponential and reciprocal of 4 gates and the state, three products
    assert cost.cycles == vector.startup_cycles + 10 * vector.exp_cycles + 3 * vector.mul_cycles
    assert cost.actions["scratchpad_read_byte"] == 8 * (2 * 4 + 4 * 4 + 2)
    assert cost.actions["scratchpad_write_byte"] == 8 * (2 + 1)
    assert step.unit is Unit.VECTOR
    assert cost.cycles < 25 * EDGE.clock_mhz


def test_a_cell_that_needs_the_host_stays_whole() -> None:
    """With weights that are an input nothing is taken apart; with peepholes neither."""
    for extra in (9, None):
        cell = Cell("lstm", 0, 24)
        cell.put(0, "int8", (1, 3), 1 / 64, constant=False)
        for gate in range(4):
            cell.put(1 + gate, "int8", (4, 3), 1 / 100, constant=extra is not None or gate > 0)
            cell.put(5 + gate, "int8", (4, 4), 1 / 100)
            cell.put(12 + gate, "int32", (4,))
        if extra is not None:
            for position in (9, 10, 11):
                cell.put(position, "int16", (4,), 2.0**-15)
        cell.put(18, "int8", (1, 4), 1 / 50, constant=False)
        cell.put(19, "int16", (1, 4), 2.0**-11, constant=False)
        graph = cell.graph("quantized_lstm", [18, 19, 18], intermediates=[[1, 0]] * 4 + [[1 / 128, 0]])
        [call] = compile_graph(graph, EDGE).host_calls
        assert call.op == "quantized_lstm"
